"""Named axes on the command line: --axis of graph show, graph parts, train, stage, run, profile and plan."""

import json
import random
import unittest

import program

TAGGER = """
harmonic tagger {
  axis T <= 16;
  producer ids {T} int64;
  producer tags {T} int64;
  layer embed embedding(rows=20, width=8);
  layer mix attention(heads=2);
  layer head linear(4);
  consumer out;
  cycle {
    ids -> embed -> mix -> head -> out;
    head <-(cross_entropy)- tags;
  }
}
data { ids = "csv:words.csv?columns=0-5"; tags = "csv:words.csv?columns=6-11"; }
train { epochs = 2; batch_size = 8; threads = 1; }
"""


class AxesTest(program.CliTest):
    def setUp(self):
        super().setUp()
        chance = random.Random(3)
        lines = [','.join([str(chance.randrange(20)) for _ in range(6)] + [str(chance.randrange(4)) for _ in range(6)])
                 for _ in range(40)]
        self.write('words.csv', '\n'.join(lines) + '\n')
        self.net = self.write('tagger.harp', TAGGER)

    def test_show_names_the_axis_or_takes_its_length(self):
        table = self.done('graph', 'show', self.net)
        self.assertRegex(table, r'(?m)^axis +T <= 16$')
        self.assertRegex(table, r'(?m)^producer +ids int64 \{T\}$')
        self.assertRegex(table, r'(?m)^mix +attention +\{T, 8\} ')
        self.assertIn(' with T = 16', table)
        fixed = self.done('graph', 'show', self.net, '--axis', 'T=5')
        self.assertRegex(fixed, r'(?m)^mix +attention +\{5, 8\} ')
        self.assertNotIn('axis', fixed)
        whole = json.loads(self.done('graph', 'show', self.net, '--output', 'json'))
        self.assertEqual(whole['axes'], [{'name': 'T', 'ceiling': 16, 'value': 16}])
        self.assertEqual(whole['producers'][0]['named_shape'], '{T}')
        self.assertEqual((whole['layers'][1]['output'], whole['layers'][1]['named_output']), ([16, 8], '{T, 8}'))
        short = json.loads(self.done('graph', 'show', self.net, '--axis', 'T=5', '--output', 'json'))
        self.assertLess(short['flops'], whole['flops'])

    def test_parts_carry_the_axis(self):
        table = self.done('graph', 'parts', self.net, '--parts', '2', '--axis', 'T=4')
        self.assertIn('float32 {T, 8}', table)
        listed = json.loads(self.done('graph', 'parts', self.net, '--axis', 'T=4', '--output', 'json'))
        self.assertEqual(listed['boundaries'][0]['shape'][0], 4)

    def test_wrong_axes_are_errors(self):
        self.assert_fails(self.call('graph', 'show', self.net, '--axis', 't=4'), "the axis 't'", 'there are: T')
        self.assert_fails(self.call('graph', 'show', self.net, '--axis', 'T=17'), 'is 1 to 16, not 17')
        self.assert_fails(self.call('graph', 'show', self.net, '--axis', 'T'), 'not of the form T=128', code=2)
        self.assert_fails(self.call('graph', 'show', self.net, '--axis', 'T=0'), 'whole number', code=2)
        self.assert_fails(self.call('graph', 'show', self.net, '--axis', 'T=4', '--axis', 'T=5'), 'given twice', code=2)
        self.assert_fails(self.call('train', self.net, '--axis', 'T=5'), "'ids'", '{5}', '{6}')
        self.assert_fails(self.call('stage', self.net, '--parts', '2', '--part', '0', '--axis', 'T=99'),
                          'is 1 to 16, not 99')

    def test_train_and_run_take_the_length_of_the_data(self):
        free = self.train('--checkpoint', 'free.safetensors')
        fixed = self.train('--axis', 'T=6')
        cut = self.train('--parts', '3')
        apart = self.train('--parts', '2', '--processes', '--axis', 'T=6')
        self.assertEqual({report['weights_digest'] for report in (fixed, cut, apart)}, {free['weights_digest']})
        whole = self.done('run', self.net, '--weights', 'free.safetensors', '--output', 'quiet')
        self.assertEqual(self.done('run', self.net, '--weights', 'free.safetensors', '--axis', 'T=6', '--parts', '2',
                                   '--output', 'quiet'), whole)

    def test_profile_and_plan_take_a_length(self):
        self.done('profile', self.net, '--axis', 'T=4', '--repeats', '1', '--warmup', '0', '--type', 'here',
                  '--mem-mb', '1000', '--bw-mbps', '1000')
        self.write('devices.yml', 'here:\n- one\n- two\n')
        self.done('plan', self.net, '--axis', 'T=4', '--out-dir', 'parts')
        text = min((self.folder / 'parts').glob('stage-*.harp')).read_text()
        self.assertIn('axis T = 4 <= 16;', text)


if __name__ == '__main__':
    unittest.main()
