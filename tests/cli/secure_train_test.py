"""`--secure --proof` of train, run and stage: the same weights, and chains that `harmonics verify` accepts."""

import array
import csv
import hashlib
import json
import os
import signal
import unittest
from concurrent.futures import ThreadPoolExecutor

import program
from processes_test import children_of
from resume_test import Metrics


def change_a_weight(path):
    """Changes the first weight of a checkpoint and mends its checksum; gives the new one."""
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], 'little')
    tensors = json.loads(content[8:header])
    at = header + next(tensor['data_offsets'][0] for name, tensor in sorted(tensors.items())
                       if name.startswith('model.') and name.endswith('.weight'))
    content[at] ^= 1
    place = content.index(tensors['__metadata__']['sha256'].encode())
    content[place:place + 64] = b'0' * 64
    digest = hashlib.sha256(content).hexdigest()
    content[place:place + 64] = digest.encode()
    path.write_bytes(content)
    return digest


class SecureTrainTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.keys = self.folder / 'keys'
        self.two = ('--parts', '2', '--micro-batches', '2')

    def secure(self, *arguments, chain='run.chain'):
        return ('--secure', '--proof', chain, '--keys', self.keys, *arguments)

    def verified(self, *chains):
        return json.loads(self.done('verify', *(chains or ('run.chain',)), '--keys', self.keys,
                                    '--output', 'json'))

    def transports(self):
        parts = json.loads(self.done('doctor', '--output', 'json'))['parts']
        built = {part['name'] for part in parts if part['built']}
        return ['shm', 'tcp'] + [name for name in ('grpc', 'flight') if name in built]

    def test_training_is_signed_and_verified(self):
        plain = self.train(*self.two)
        report = self.train(*self.two, *self.secure())
        self.assertEqual(report['weights_digest'], plain['weights_digest'])
        self.assertEqual(report['chain'], 'run.chain')
        self.assertEqual(len(report['proof'].splitlines()), 2)
        self.done('verify', 'run.chain', '--keys', self.keys, '--line', report['proof'])
        fields = report['proof'].splitlines()[0].split(':')
        fields[-3] = '1'
        other = ':'.join(fields)
        self.assert_fails(self.call('verify', 'run.chain', '--keys', self.keys, '--line', other), 'fork')
        text = self.done('verify', 'run.chain', '--keys', self.keys, '--explain')
        self.assertIn('verified: ', text)
        self.assertIn('gradient(s)', text)
        self.assertNotIn('proof', plain)
        # The key was made, evidence is not overwritten, and strangers are not believed.
        self.assertEqual(len(list(self.keys.glob('*.key'))), 1)
        self.assert_fails(self.call('train', self.net, *self.two, *self.secure(), '--output', 'json'),
                          'exists already')
        self.done('keys', 'new', 'carol', '--keys', self.folder / 'others')
        stranger = self.call('verify', 'run.chain', '--keys', self.folder / 'others')
        self.assertEqual(stranger.returncode, 1)
        self.assertIn('signers unknown', stranger.stdout)

    def test_one_part_and_a_changed_chain(self):
        self.train(*self.secure())
        self.assertGreater(self.verified()['links'], 0)
        tensors = self.folder / 'tensors'
        nowhere = self.call('verify', 'run.chain', '--keys', self.keys, '--tensors', tensors)
        self.assert_fails(nowhere, 'is no folder of tensors')
        tensors.mkdir()
        self.done('verify', 'run.chain', '--keys', self.keys, '--tensors', tensors)
        chain = self.folder / 'run.chain'
        content = bytearray(chain.read_bytes())
        content[len(content) // 2] ^= 1
        chain.write_bytes(content)
        self.assert_fails(self.call('verify', 'run.chain', '--keys', self.keys), 'custody')

    def test_tensors_at_hand_are_compared_with_the_chain(self):
        self.train('--checkpoint', 'weights')
        self.done('run', self.net, '--weights', 'weights', '--batch-size', '64', '--out',
                  'prediction=csv:out.csv', *self.secure())
        with open(self.folder / 'out.csv') as file:
            values = array.array('f', (float(value) for row in csv.reader(file) for value in row))
        self.assertEqual(len(values), 64 * 4)
        tensors = self.folder / 'tensors'
        tensors.mkdir()
        # One leaf of a tree as in RFC 6962 is its own root.
        tensor = tensors / hashlib.sha256(b'\0' + values.tobytes()).hexdigest()
        tensor.write_bytes(values.tobytes())
        verify = ('verify', 'run.chain', '--keys', self.keys, '--tensors', tensors)
        self.assertEqual(json.loads(self.done(*verify, '--output', 'json'))['tensors_checked'], 1)
        values[7] += 1
        tensor.write_bytes(values.tobytes())
        self.assert_fails(self.call(*verify), 'altered tensor')

    def test_every_transport_gives_one_chain_of_all_parts(self):
        plain = self.train(*self.two)
        for name in self.transports():
            with self.subTest(name):
                chain = f'{name}.chain'
                extra = ('--compress',) if name == 'tcp' else ()
                report = self.train(*self.two, '--processes', '--transport', name, *extra,
                                    *self.secure(chain=chain))
                self.assertEqual(report['weights_digest'], plain['weights_digest'])
                self.assertEqual(len(report['proof'].splitlines()), 2)
                found = self.verified(chain)
                self.assertTrue(found['signers_known'])
                self.assertGreater(found['boundaries'][0]['gradients'], 0)
        self.assertEqual([file for file in self.names() if '.part' in file], [])

    def test_a_resumed_run_goes_on_in_its_chain(self):
        for extra in ((), ('--processes',)):
            with self.subTest(extra):
                whole = self.train(*self.two)
                chain = f'{len(extra)}.chain'
                saved = self.folder / f'point{len(extra)}'
                once = (*self.two, *extra, '--checkpoint', saved, *self.secure(chain=chain))
                self.train(*once, '--epochs', '1')
                before = self.verified(chain)
                report = self.train(*once, '--resume')
                self.assertEqual(report['weights_digest'], whole['weights_digest'])
                after = self.verified(chain)
                self.assertEqual(after['run'], before['run'])
                self.assertGreater(after['links'], before['links'])

    def test_weights_that_were_changed_do_not_go_on(self):
        for extra in ((), ('--processes',)):
            with self.subTest(extra):
                chain, saved = f'{len(extra)}.chain', self.folder / f'point{len(extra)}'
                once = (*extra, '--micro-batches', '2', '--checkpoint', saved, *self.secure(chain=chain))
                self.train(*once, '--parts', '2', '--epochs', '1')
                if extra:
                    stage = json.loads(saved.read_text())['latest']['stages'][1]
                    digest = change_a_weight(self.folder / stage['file'])
                    saved.write_text(saved.read_text().replace(stage['sha256'], digest))
                else:
                    change_a_weight(saved)
                for parts in ('2', '1'):
                    result = self.call('train', self.net, *once, '--parts', parts, '--resume')
                    self.assert_fails(result, 'wrong weights', 'signed at step 6', 'another checkpoint')

    def test_a_chain_is_that_of_one_model(self):
        data = ('--data', 'point=csv:points.csv?columns=0-3', '--data', 'label=csv:points.csv?columns=4')
        points = (self.folder / 'points.csv').read_text()
        for name, flags in {'whole': (), 'cut': self.two, 'apart': (*self.two, '--processes')}.items():
            with self.subTest(name):
                chain, saved = f'{name}.chain', self.folder / name
                self.train(*flags, '--seed', '3', '--checkpoint', saved, *self.secure(chain=chain))
                verify = ('verify', chain, '--keys', self.keys, '--graph', self.net, '--output', 'json')
                cut = ('--seed', '3', '--batch-size', '8', '--test-split', '0.25', '--micro-batches',
                       '2' if flags else '1')
                found = json.loads(self.done(*verify, '--weights', saved, *data, *cut))
                self.assertEqual(found['compared']['weights_step'], found['compared']['last_step'])
                self.assertGreater(found['data_checked'], 18)
                self.assertEqual(len(found['stages'][0]['graph']), 64)
                self.assertIn('point', [data['producer'] for data in found['stages'][0]['data']])
                self.assertEqual(found['stages'][0]['weights']['last']['step'], 18)
                explained = self.done('verify', chain, '--keys', self.keys, '--explain')
                self.assertIn(found['stages'][0]['weights']['last']['root'], explained)
                self.assertIn(found['stages'][0]['graph'][:16], self.done('verify', chain, '--keys', self.keys))
                # Without the graph the checkpoint says whose weights are whose.
                self.done('verify', chain, '--keys', self.keys, '--weights', saved)
                other = self.write('other.harp', self.net.read_text().replace('linear(8)', 'linear(9)'))
                self.assert_fails(self.call('verify', chain, '--keys', self.keys, '--graph', other),
                                  'another run', 'other.harp')
                # One number of one row, which every epoch has seen.
                self.write('points.csv', '9' + points)
                self.assert_fails(self.call(*verify, *data, *cut), 'wrong input', "'point'")
                self.write('points.csv', points)
                self.assert_fails(self.call(*verify, *data), 'wrong input')  # another seed
                self.done(*verify, *data, *cut, '--shuffle')
                self.assert_fails(self.call(*verify, *data, *cut, '--no-shuffle'), 'wrong input')
                file = saved
                if name == 'apart':
                    stage = json.loads(saved.read_text())['latest']['stages'][1]
                    file = self.folder / stage['file']
                    saved.write_text(saved.read_text().replace(stage['sha256'], change_a_weight(file)))
                else:
                    change_a_weight(file)
                self.assert_fails(self.call(*verify, '--weights', saved), 'wrong weights')

    def test_a_killed_part_leaves_one_history(self):
        # More lines than a pipe holds, so that the run waits here and cannot end before the kill.
        common = (*self.two, '--epochs', '120')
        whole = self.train(*common)
        metrics = Metrics(self.folder / 'metrics.pipe')
        self.addCleanup(metrics.close)
        run = self.start('train', self.net, *common, '--processes', '--transport', 'tcp', '--checkpoint',
                         'point', '--checkpoint-every', '40', '--metrics', metrics.path, '--output',
                         'json', *self.secure())
        metrics.wait_for_step(90)
        writer = os.open(metrics.path, os.O_WRONLY)
        self.addCleanup(os.close, writer)
        os.kill(children_of(run)[0], signal.SIGKILL)
        with ThreadPoolExecutor(1) as reader:
            last = reader.submit(metrics.wait_for_step, 120 * 6)
            output, error = run.communicate(timeout=program.TIMEOUT_S)
            os.write(writer, b'{"step": 720}\n')
            last.result()
        self.assertEqual(run.returncode, 0, error)
        self.assertIn('start again from', error)
        self.assertEqual(json.loads(output)['weights_digest'], whole['weights_digest'])
        self.assertTrue(self.verified()['signers_known'])

    def test_cpu_and_opencl_together(self):
        devices = json.loads(self.done('devices', '--output', 'json'))['devices']
        if not any(device['kind'] == 'opencl' for device in devices):
            self.skipTest('no OpenCL platform answers')
        self.write('deploy.yml', 'strict: true\npartitions:\n  - {backend: cpu}\n  - {backend: fpga}\n')
        report = self.train('--deploy', 'deploy.yml', '--micro-batches', '2', *self.secure())
        self.assertEqual(report['parts'], 2)
        self.assertTrue(self.verified()['signers_known'])

    def test_inference_is_signed(self):
        self.train('--checkpoint', 'weights')
        plain = self.done('run', self.net, '--weights', 'weights', '--out', 'prediction=csv:plain.csv')
        self.assertNotIn('custody', plain)
        for parts in ('1', '2'):
            chain = f'{parts}.chain'
            self.done('run', self.net, '--weights', 'weights', '--parts', parts, '--out',
                      'prediction=csv:signed.csv', *self.secure(chain=chain))
            self.assertEqual((self.folder / 'signed.csv').read_text(),
                             (self.folder / 'plain.csv').read_text())
            self.assertGreater(self.verified(chain)['links'], 0)

    def test_stages_by_hand_have_keys_of_their_own(self):
        place = f'tcp://127.0.0.1:{program.reserved_port()}'
        for name in ('alice', 'bob'):
            self.done('keys', 'new', name, '--keys', self.keys)
        parts = [self.start('stage', self.net, *self.two, '--part', str(i), '--meet', place, '--output',
                            'json', *self.secure('--key', name, chain=f'{i}.chain'))
                 for i, name in enumerate(('alice', 'bob'))]
        for part in parts:
            output, error = part.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(part.returncode, 0, error)
            self.assertEqual(len(json.loads(output)['proof'].splitlines()), 1)
        self.assertEqual({stage['signer'] for stage in self.verified('0.chain', '1.chain')['stages']},
                         {'alice', 'bob'})
        alone = self.call('verify', '0.chain', '--keys', self.keys)
        self.assert_fails(alone, 'truncated chain')

    def test_replicas_are_signed_and_verified(self):
        two = ('--replicas', '2', '--reduction', 'chain')
        plain = self.train(*two)
        for more in ((), ('--processes',), ('--processes', '--transport', 'tcp')):
            chain = f'run{len(more)}.chain'
            report = self.train(*two, *more, *self.secure(chain=chain))
            self.assertEqual(report['weights_digest'], plain['weights_digest'], more)
            self.assertEqual(len(report['proof'].splitlines()), 4)
            verified = self.verified(chain)
            self.assertEqual(sorted(stage['stage'] for stage in verified['stages']),
                             sorted(f'quadrant_0#{replica}{what}' for replica in (0, 1) for what in ('', '/output', '/sums')))
            self.done('verify', chain, '--keys', self.keys, '--line', report['proof'])
        self.assertFalse([name for name in self.names() if '.part' in name])
        self.assert_fails(self.call('train', self.net, *two, *self.secure(chain='run0.chain')), 'exists already')

    def test_replicas_that_go_on_begin_another_chain(self):
        two = ('--replicas', '2', '--processes', '--checkpoint', 'c')
        plain = self.train('--replicas', '2', '--epochs', '3')
        self.train(*two, '--epochs', '2', *self.secure())
        report = self.train(*two, '--epochs', '3', '--resume', *self.secure())
        self.assertEqual(report['weights_digest'], plain['weights_digest'])
        self.verified()
        self.verified('run.chain.aside1')

    def test_what_cannot_be_secure_says_so(self):
        for more in (('--parts', '2'), ('--processes', '--elastic')):
            self.assert_fails(self.call('train', self.net, '--replicas', '2', '--secure', '--keys', self.keys, *more),
                              'secure replicas are whole')
        self.assert_fails(self.call('train', self.net, '--secure', '--key', 'nobody', '--keys', self.keys),
                          'harmonics keys new nobody')
        self.assert_fails(self.call('train', self.net, '--proof', 'x.chain'), '--secure', code=2)
        self.assert_fails(self.call('run', self.net, '--weights', 'x', '--secure=no'), 'zk', code=2)


if __name__ == '__main__':
    unittest.main()
