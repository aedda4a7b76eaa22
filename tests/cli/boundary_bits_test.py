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
        words = ('train', DIGITS, '--epochs', '5', '--parts', '3', '--output', 'json')
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
