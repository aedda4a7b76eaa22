"""`--boundary-bits` and `--gradient-bits`: the same numbers in one process and in several, answers that stay good, and
one line for what makes no sense."""

import json
import unittest

import program
from stream_test import StreamCase

DIGITS = program.EXAMPLES / 'digits.harp'


class BoundaryBitsTest(StreamCase):
    def test_threads_and_processes_agree(self):
        cut = ('--parts', '3')
        bits = ('--boundary-bits', '8', '--boundary-bits', 'narrow@2=16')
        here = self.run_report(*cut, *bits)
        rows = self.out.read_text()
        self.assertNotEqual(rows, self.rows)
        self.assertEqual(rows.count('\n'), self.rows.count('\n'))
        for transport in ('shm', 'tcp'):
            with self.subTest(transport):
                report = self.run_report(*cut, *bits, '--processes', '--transport', transport)
                self.assertEqual(self.out.read_text(), rows)
                self.assertEqual([stage['bytes_sent'] for stage in report['stages']],
                                 [stage['bytes_sent'] for stage in here['stages']])
        exact = self.run_report(*cut, '--boundary-bits', '32')
        self.assertEqual(self.out.read_text(), self.rows)
        self.assertLess(here['stages'][0]['bytes_sent'], exact['stages'][0]['bytes_sent'])

    def test_training_agrees_too(self):
        bits = ('--parts', '2', '--boundary-bits', '8', '--gradient-bits', '4', '--epochs', '2')
        here = self.train(*bits)
        self.assertNotEqual(here['weights_digest'], self.train('--parts', '2', '--epochs', '2')['weights_digest'])
        apart = self.train(*bits, '--processes', '--transport', 'tcp', '--compress')
        self.assertEqual(apart['weights_digest'], here['weights_digest'])
        signed = self.train(*bits, '--secure', '--keys', 'keys', '--proof', 'run.chain')
        self.assertEqual(signed['weights_digest'], here['weights_digest'])
        self.done('verify', 'run.chain', '--keys', 'keys')

    def test_digits_learn_as_well(self):
        words = ('train', DIGITS, '--epochs', '20', '--parts', '3', '--output', 'json')
        exact = json.loads(self.done(*words))
        for bits in (('--boundary-bits', '8'), ('--boundary-bits', '8', '--gradient-bits', '8')):
            packed = json.loads(self.done(*words, *bits))
            self.assertNotEqual(packed['weights_digest'], exact['weights_digest'])
            self.assertGreater(packed['test_accuracy'], exact['test_accuracy'] - 0.005, bits)

    def test_ends_that_disagree(self):
        port = program.reserved_port()
        stages = [self.start('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--parts', '2', '--part',
                             part, '--meet', f'tcp://127.0.0.1:{port}', '--boundary-bits', bits)
                  for part, bits in enumerate(('8', '4'))]
        for stage in stages:
            _, error = stage.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(stage.returncode, 1, error)
            self.assertRegex(error, r"boundary 'drop@1': activations have 8 bits in part 'quadrant_0' and 4 in part "
                                    r"'quadrant_1'; give both ends the same")

    def plan(self, mbps, *more):
        self.write('models.yml', 'quadrant:\n  layers: 5\n  mem_MB: [1, 1, 1, 1, 1]\n  parameters_in: 4\n'
                                 '  parameters_out: [16, 16, 16, 8, 4]\n')
        self.write('device_types.yml', f'box:\n  bw_Mbps: {mbps}\n  mem_MB: 100\n  pack_Mbps: 10000\n  model_profiles:\n'
                                       '    quadrant:\n    - batch_size: 8\n      dtype: torch.float32\n'
                                       '      time_s: [0.01, 0.01, 0.01, 0.01, 0.01]\n')
        self.write('devices.yml', 'box: [desk, shelf]\n')
        text = self.done('plan', self.net, '--model-name', 'quadrant', '--output', 'json', *more)
        self.write('plan.json', text)
        return json.loads(text)

    def test_a_plan_says_the_bits(self):
        exact = self.plan(0.05)
        self.assertNotIn('boundary_bits', exact['stages'][0])
        auto = ('--boundary-bits', 'auto', '--boundary-tolerance', '0.005')
        # The same link, and one that is fast enough.
        planned = self.plan(0.05, *auto)
        self.assertEqual([stage['boundary_bits'] for stage in planned['stages']], [8, None])
        self.assertLess(planned['period_s'], planned['exact_period_s'])
        self.run_report('--plan', 'plan.json')
        rows = self.out.read_text()
        self.assertNotEqual(rows, self.rows)
        first = planned['stages'][0]['layers'][1]
        self.run_report('--plan', 'plan.json', '--processes', '--transport', 'tcp')
        self.assertEqual(self.out.read_text(), rows)
        self.write('cut.yml', f'- desk: [1, {first}]\n- shelf: [{first + 1}, 5]\n')
        self.run_report('--plan', 'cut.yml', '--boundary-bits', '8')
        self.assertEqual(self.out.read_text(), rows)
        self.run_report('--plan', 'plan.json', '--boundary-bits', '32')
        self.assertEqual(self.out.read_text(), self.rows)
        table = self.done('plan', self.net, '--model-name', 'quadrant', *auto)
        self.assertRegex(table, r'exact boundaries would take [0-9.]+ ms; values are off by at most 0\.0039')
        fast = self.plan(1000, *auto)
        self.assertEqual([stage['boundary_bits'] for stage in fast['stages']][:-1], [32] * (len(fast['stages']) - 1))
        for words, text in [(('--boundary-bits', '7'), 'neither auto nor 32, 16, 8 or 4'),
                            (('--boundary-bits', '8', '--boundary-tolerance', '0.1'), 'needs --boundary-bits auto'),
                            (('--boundary-tolerance', '0.1'), 'needs --boundary-bits auto'),
                            (('--boundary-bits', 'auto', '--boundary-tolerance', '2'), 'no share from 0 to 1')]:
            result = self.call('plan', self.net, *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)

    def test_bits_that_do_not_fit(self):
        for words, text in [(('--boundary-bits', '12'), 'with N 32, 16, 8 or 4'),
                            (('--boundary-bits', '=8'), 'BOUNDARY=N'),
                            (('--boundary-bits', 'drop@1=x'), 'BOUNDARY=N'),
                            (('--boundary-bits', '8', '--boundary-bits', '4'), 'is given twice for all boundaries'),
                            (('--gradient-bits', '8'), 'gradient-bits')]:
            result = self.call(*self.words('--parts', '2', *words))
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)
        self.assert_fails(self.call(*self.words('--parts', '2', '--boundary-bits', 'nobody@1=8')),
                          'there is no such boundary; there are: drop@1')
        self.assert_fails(self.call(*self.words('--boundary-bits', '8')), 'there is one part only')
        self.assert_fails(self.call('train', self.net, '--gradient-bits', '8'), 'there is one part only')
        stage = ('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--parts', '2', '--part', '0')
        self.assert_fails(self.call(*stage, '--boundary', 'tcp://127.0.0.1:1/drop@1?bits=7'),
                          "bits is 32, 16, 8 or 4, not '7'")
        result = self.call(*stage, '--meet', 'tcp://127.0.0.1:1', '--gradient-bits', '8')
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn('is for training', result.stderr)


if __name__ == '__main__':
    unittest.main()
