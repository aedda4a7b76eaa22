"""`--reproducible`: the same weights and rows for every instruction set, number of threads, parts, processes and device."""

import json
import os
import unittest
from unittest import mock

import program

LINES = open('/proc/cpuinfo').read() if os.path.exists('/proc/cpuinfo') else ''
SETS = ['scalar'] + [name for name, flag in (('avx2', ' avx2 '), ('avx512', ' avx512f ')) if flag in LINES and ' fma ' in LINES]


def on(name):
    """What runs inside computes with these kernels."""
    return mock.patch.dict(os.environ, HARMONICS_EXACT=name)


class ReproducibleTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.keys = self.folder / 'keys'

    def digest(self, name, *arguments):
        with on(name):
            return self.train('--reproducible', '--optimizer', 'adamw', '--weight-decay', '0.01', '--clip', '0.5',
                              '--schedule', 'cosine', '--micro-batches', '2', *arguments)['weights_digest']

    def test_one_digest_over_processes_threads_and_sets(self):
        digests = {self.digest(SETS[0])}
        digests.add(self.digest(SETS[-1], '--threads', '2'))
        digests.add(self.digest(SETS[-1], '--parts', '3', '--threads', '1'))
        digests.add(self.digest(SETS[0], '--parts', '2', '--processes', '--transport', 'tcp'))
        digests.add(self.digest(SETS[min(1, len(SETS) - 1)], '--parts', '2', '--processes', '--threads', '2'))
        self.assertEqual(len(digests), 1, digests)

    def on_opencl(self):
        told = json.loads(self.done('devices', '--output', 'json'))
        if not any(device['kind'] == 'opencl' for device in told['devices']):
            self.skipTest('no OpenCL platform answers')
        return ('--backend', 'fpga')

    def test_an_opencl_device_gives_the_same_digest(self):
        device, expected = self.on_opencl(), self.digest(SETS[-1])
        self.assertEqual(self.digest(SETS[-1], *device), expected)
        self.assertEqual(self.digest(SETS[-1], *device, '--parts', '2', '--processes'), expected)
        self.write('mixed.yml', 'strict: true\npartitions:\n  - {backend: cpu}\n  - {backend: fpga}\n')
        self.assertEqual(self.digest(SETS[0], '--deploy', 'mixed.yml'), expected)
        self.digest(SETS[0], *device, '--checkpoint', 'net.safetensors')
        rows = set()
        for backend in ('fpga', 'cpu'):
            self.done('run', self.net, '--weights', 'net.safetensors', '--reproducible', '--backend', backend, '--out',
                      f'prediction=csv:{backend}.csv')
            rows.add((self.folder / f'{backend}.csv').read_text())
        self.assertEqual(len(rows), 1)

    def test_lenet_on_an_opencl_device_gives_the_same_digest(self):
        rows = (program.EXAMPLES / 'data' / 'digits.csv').read_text().splitlines(keepends=True)
        self.write('digits.csv', ''.join(rows[:129]))
        self.net = self.write('lenet.harp', (program.EXAMPLES / 'lenet.harp').read_text().replace('data/', ''))
        settings = ('--reproducible', '--epochs', '1')
        device, expected = self.on_opencl(), self.train(*settings)['weights_digest']
        self.assertEqual(self.train(*settings, *device)['weights_digest'], expected)

    def test_rows_are_the_same(self):
        self.digest(SETS[0], '--checkpoint', 'net.safetensors')
        rows = set()
        for name in SETS:
            with on(name):
                self.done('run', self.net, '--weights', 'net.safetensors', '--reproducible', '--out',
                          f'prediction=csv:{name}.csv')
            rows.add((self.folder / f'{name}.csv').read_text())
        self.assertEqual(len(rows), 1)

    def test_a_stage_by_hand_gives_the_same(self):
        settings = ('--micro-batches', '2', '--epochs', '1')
        with on(SETS[0]):
            self.done('stage', self.net, '--parts', '1', '--part', '0', '--reproducible', *settings, '--checkpoint', 'run')
        with on(SETS[-1]):
            told = self.train('--checkpoint', 'run', '--resume', *settings)
            self.assertEqual(told['weights_digest'], self.train('--reproducible', *settings)['weights_digest'])
            # The checkpoint says how it was computed; --no-reproducible goes on otherwise, and says so.
            other = self.call('train', self.net, '--checkpoint', 'run', '--resume', *settings, '--no-reproducible')
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn('reproducible is false as given', other.stderr + other.stdout)

    def secure(self, name, *arguments):
        with on(name):
            return self.train('--secure', '--sign-layers', '--sign-weights-every', '1', '--proof', 'run.chain', '--keys',
                              self.keys, *arguments)

    def recomputed(self, name, *arguments):
        with on(name):
            return json.loads(self.done('verify', 'run.chain', '--keys', self.keys, '--graph', self.net, '--recompute',
                                        'all', '--output', 'json', *arguments))['compared']['recomputed']

    def test_another_instruction_set_computes_a_chain_again(self):
        self.secure(SETS[0], '--reproducible', '--parts', '3')
        for name in SETS:  # the chain says in which arithmetic
            self.assertEqual(self.recomputed(name)['steps'], 18)

    def test_parts_in_processes_are_computed_again(self):
        self.secure(SETS[-1], '--reproducible', '--parts', '2', '--processes')
        self.assertEqual(self.recomputed(SETS[0])['steps'], 18)

    def test_a_run_goes_on_as_it_began(self):
        whole = self.digest(SETS[0])
        self.digest(SETS[0], '--epochs', '1', '--checkpoint', 'run')
        with on(SETS[-1]):
            resumed = self.train('--checkpoint', 'run', '--resume', '--epochs', '3')
        # The course of the rate follows the epochs of the first call: only the arithmetic is looked at.
        again = self.digest(SETS[0], '--epochs', '1', '--checkpoint', 'other')
        self.assertNotEqual(again, whole)
        with on(SETS[0]):
            other = self.train('--checkpoint', 'other', '--resume', '--epochs', '3')
        self.assertEqual(resumed['weights_digest'], other['weights_digest'])

    def test_what_it_cannot_do_is_an_error(self):
        self.assert_fails(self.call('train', self.net, '--reproducible', '--precision', 'bf16'), 'in full precision, not in bf16')
        self.assert_fails(self.call('train', self.net, '--reproducible', '--replicas', '2'), 'has no replicas')
        self.assert_fails(self.call('train', self.net, '--reproducible', '--recompute', '2'), 'leave --recompute or')
        with on('mmx'):
            self.assert_fails(self.call('train', self.net, '--reproducible'), 'HARMONICS_EXACT=mmx', 'it runs: scalar')
        unknown = self.write('lstm.harp', 'harmonic unknown { producer x {3, 2}; producer y {3, 3}; layer cell lstm(3);\n'
                             'consumer out {3, 3}; cycle { x -> cell -> out; cell <-(mse)- y; } }\n')
        data = ('--bind', 'x=synthetic:?size=4&shape=3x2', '--bind', 'y=synthetic:?size=4&shape=3x3')
        self.assert_fails(self.call('train', unknown, '--reproducible', *data), "layer 'cell' (lstm) has no reproducible form")


if __name__ == '__main__':
    unittest.main()
