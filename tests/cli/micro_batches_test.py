"""`harmonics train --micro-batches auto`: a number that was measured, said, kept, and that alone decides the bits."""

import json
import unittest

import program

SAID = r'(?m)^(\d+) micro-batch(es)? of \d+ rows: 1 makes \d+ samples/s(, \d+ \d+)*$'


class AutoMicroBatchesTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.write('points.csv', program.points(200))

    def report(self, *words):
        result = self.call('train', self.net, '--epochs', '2', '--batch-size', '16', '--output', 'json', *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout), result.stderr

    def test_the_number_is_said_and_makes_the_bits(self):
        report, said = self.report('--parts', '2', '--micro-batches', 'auto')
        self.assertRegex(said, SAID)
        chosen = report['micro_batches']
        self.assertTrue(said.startswith(f'{chosen} micro-batch'), said)
        self.assertIn(chosen, (1, 2, 4, 8, 16))
        given, said = self.report('--parts', '2', '--micro-batches', str(chosen))
        self.assertEqual(said, '')
        self.assertEqual(given['weights_digest'], report['weights_digest'])
        self.assertEqual(given['micro_batches'], chosen)

    def test_processes_are_told_it(self):
        report, said = self.report('--parts', '2', '--processes', '--micro-batches', 'auto')
        self.assertRegex(said, SAID)
        given, _ = self.report('--micro-batches', str(report['micro_batches']))
        self.assertEqual(given['weights_digest'], report['weights_digest'])

    def test_one_part_has_one(self):
        report, said = self.report('--micro-batches', 'auto')
        self.assertEqual((report['micro_batches'], said), (1, '1 micro-batch of 16 rows\n'))

    def test_a_file_may_say_it(self):
        text = self.net.read_text()
        self.assertIn('train {', text)
        self.net.write_text(text.replace('train {', 'train { micro_batches = auto; ', 1))
        self.assertRegex(self.report('--parts', '2')[1], SAID)

    def test_going_on_keeps_what_was_measured(self):
        whole, _ = self.report('--parts', '2', '--micro-batches', '4')
        self.done('train', self.net, '--epochs', '1', '--batch-size', '16', '--parts', '2', '--micro-batches', '4',
                  '--checkpoint', 'run.safetensors')
        report, said = self.report('--parts', '2', '--micro-batches', 'auto', '--checkpoint', 'run.safetensors',
                                   '--resume')
        self.assertIn('micro_batches 4', said)
        self.assertNotRegex(said, SAID)
        self.assertEqual((report['micro_batches'], report['weights_digest']), (4, whole['weights_digest']))

    def test_what_cannot_measure_asks_for_a_number(self):
        self.assert_fails(self.call('stage', self.net, '--part', '0', '--parts', '2', '--meet', 'tcp://127.0.0.1:1',
                                    '--micro-batches', 'auto'), 'all parts must cut a batch alike', 'give a number')
        result = self.call('train', self.net, '--micro-batches', 'many')
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("'many' is not a whole number from 1 to 65536", result.stderr)


if __name__ == '__main__':
    unittest.main()
