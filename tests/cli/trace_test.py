"""harmonics trace, over what a run really kept and over files that are wrong."""

import json
import os
import unittest
import unittest.mock
import xml.etree.ElementTree

import program


class TraceTest(program.CliTest):
    def keep(self, name):
        """Trains and keeps a trace of its passes."""
        with unittest.mock.patch.dict(os.environ, HARMONICS_PASS_TRACE=str(self.folder / name)):
            self.done('train', self.net, '--epochs', 1, '--micro-batches', 2, '--output', 'quiet')

    def test_a_run_is_summed_up_drawn_and_given_to_perfetto(self):
        self.keep('passes-task-1.1-10.jsonl')
        (self.folder / 'passes-task-1.1-9.jsonl').write_text(
            (self.folder / 'passes-task-1.1-10.jsonl').read_text())
        steps = 6  # 48 of 64 rows in batches of 8
        report = json.loads(self.done('trace', self.folder, '--output', 'json'))
        self.assertEqual([stage['stage'] for stage in report['stages']],
                         ['passes-task-1.1-9', 'passes-task-1.1-10'])
        for stage in report['stages']:
            self.assertEqual((stage['forward'], stage['backward']), (2 * steps, 2 * steps))
            self.assertTrue(0 < stage['busy'] <= 1, stage)
        picture = self.folder / 'two.svg'
        table = self.done('trace', self.folder, '--steps', '3-4', '-o', picture)
        self.assertRegex(table, r'(?m)^passes-task-1\.1-9 +4 .* %$')
        drawn = xml.etree.ElementTree.parse(picture).getroot()
        titles = [title.text for title in drawn.iter('{http://www.w3.org/2000/svg}title')]
        self.assertEqual(len(titles), 2 * 2 * 2 * 2)
        self.assertTrue(all(text.startswith(('step 3,', 'step 4,')) for text in titles))
        out = self.folder / 'perfetto.json'
        self.done('trace', self.folder, '-o', out, '--output', 'quiet')
        events = json.loads(out.read_text())['traceEvents']
        self.assertEqual(sum(event['ph'] == 'X' for event in events), 2 * 4 * steps)
        self.assertEqual(min(event['ts'] for event in events if event['ph'] == 'X'), 0)

    def test_what_is_wrong_is_named(self):
        path = self.folder / 'bad.jsonl'
        good = '{"pass": "forward", "step": 7, "micro_batch": 0, "begin": 1.0, "end": 2.0}\n'
        path.write_text(good + 'not json\n')
        self.assert_fails(self.call('trace', path), 'bad.jsonl:2: this is no line of a trace of passes')
        path.write_text(good + '{"pass": "sideways", "step": 1, "micro_batch": 0, "begin": 1, "end": 2}\n')
        self.assert_fails(self.call('trace', path), "'sideways' is neither forward nor backward")
        # A killed process leaves its last line unfinished.
        path.write_text(good + '{"pass": "forw')
        self.assertIn('bad', self.done('trace', path))
        self.assert_fails(self.call('trace', path, '--steps', '8-9'), 'the trace has steps 7 to 7')
        self.assert_fails(self.call('trace', path, '-o', 'x.png'), 'ends neither in .svg nor in .json', code=2)
        (self.folder / 'empty').mkdir()
        self.assert_fails(self.call('trace', self.folder / 'empty'), 'holds no trace')


if __name__ == '__main__':
    unittest.main()
