"""harmonics quantize, run --secure=zk and verify: inference that proves itself."""

import json
import os
import unittest

import program

DIGITS = program.EXAMPLES / 'digits.harp'


class ProvenTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.keys = self.folder / 'keys'
        self.done('keys', 'new', 'alice', '--keys', self.keys)

    def quantized(self):
        self.done('train', DIGITS, '--checkpoint', 'digits.safetensors', '--epochs', '10', '--threads', '1')
        return json.loads(self.done('quantize', DIGITS, '--weights', 'digits.safetensors',
                                    '--out', 'digits.int8', '--output', 'json'))

    def test_digits_in_three_parts_are_proven(self):
        report = self.quantized()
        self.assertEqual(report['layers'], 3)
        self.assertGreater(report['float_accuracy'], 0.93)
        self.assertGreater(report['int8_accuracy'], report['float_accuracy'] - 0.01)
        plain = json.loads(self.done('run', DIGITS, '--weights', 'digits.int8', '--output', 'json'))
        proven = json.loads(self.done('run', DIGITS, '--weights', 'digits.int8', '--parts', '3',
                                      '--batch-size', '512', '--secure=zk', '--proof', 'run.chain',
                                      '--keys', self.keys, '--output', 'json'))
        self.assertEqual(proven['accuracy'], plain['accuracy'])
        text = self.done('verify', 'run.chain', '--keys', self.keys, '--explain')
        self.assertIn('verified: 12 hand-over(s) over 3 boundaries', text)
        self.assertIn('12 zero-knowledge proof(s) hold', text)
        self.assertIn('--[hidden1@1]--> part1: 4 activation(s), first 512x256', text)
        self.check_verdicts()

    def check_verdicts(self):
        unknown = self.call('verify', 'run.chain', '--keys', self.folder / 'nobody')
        self.assertEqual(unknown.returncode, 1)
        self.assertIn('consistent, signers unknown', unknown.stdout)
        self.done('verify', 'run.chain', '--keys', self.folder / 'nobody', '--allow-unknown')
        # Another key under the signer's name.
        self.done('keys', 'new', 'alice', '--keys', self.folder / 'other')
        self.assert_fails(self.call('verify', 'run.chain', '--keys', self.folder / 'other',
                                    '--allow-unknown'), 're-signed chain')
        chain = (self.folder / 'run.chain').read_bytes()
        (self.folder / 'cut.chain').write_bytes(chain[:-200])
        self.assert_fails(self.call('verify', 'cut.chain', '--keys', self.keys), 'truncated chain')
        middle = len(chain) // 2
        (self.folder / 'bad.chain').write_bytes(
            chain[:middle] + bytes([chain[middle] ^ 1]) + chain[middle + 1:])
        self.assert_fails(self.call('verify', 'bad.chain', '--keys', self.keys), 'malformed chain')
        report = json.loads(self.done('verify', 'run.chain', '--keys', self.keys, '--output', 'json'))
        self.assertTrue(report['signers_known'])
        self.assertEqual(report['proofs_checked'], 12)
        self.assert_fails(self.call('run', DIGITS, '--weights', 'digits.int8', '--secure=zk', '--proof',
                                    'run.chain', '--keys', self.keys), 'exists already')

    def cut_model(self, name, rows):
        """The example with the first rows of its data, all of them for testing."""
        data = (program.EXAMPLES / 'data' / 'digits.csv').read_text().splitlines()
        self.write('cut.csv', '\n'.join(data[:rows]) + '\n')
        text = (program.EXAMPLES / name).read_text().replace('csv:data/digits.csv', 'csv:cut.csv')
        return self.write(f'cut_{name}', text.replace('test_split = 0.2;', ''))

    def proven_whole(self, name, rows):
        """Proves the rows in batches of 16 and gives plain report, proven report and what verify says."""
        model = self.cut_model(name, rows)
        plain = json.loads(self.done('run', model, '--weights', 'net.int8', '--output', 'json'))
        proven = json.loads(self.done('run', model, '--weights', 'net.int8', '--batch-size', '16',
                                      '--secure=network', '--proof', 'whole.chain', '--keys', self.keys,
                                      '--output', 'json'))
        self.assertEqual(proven['accuracy'], plain['accuracy'])
        return json.loads(self.done('verify', 'whole.chain', '--keys', self.keys, '--output', 'json'))

    def test_digits_are_proven_whole(self):
        self.quantized()
        (self.folder / 'digits.int8').rename(self.folder / 'net.int8')
        report = self.proven_whole('digits.harp', 32)
        self.assertEqual(report['proofs_checked'], 2)
        self.assertIn('--[output@output]--> output: 2 activation(s), first 16x10',
                      self.done('verify', 'whole.chain', '--keys', self.keys, '--explain'))
        chain = (self.folder / 'whole.chain').read_bytes()
        for at in range(len(chain) // 7, len(chain), len(chain) // 7):
            (self.folder / 'bad.chain').write_bytes(chain[:at] + bytes([chain[at] ^ 1]) + chain[at + 1:])
            self.assert_fails(self.call('verify', 'bad.chain', '--keys', self.keys))
        self.assert_fails(self.call('run', DIGITS, '--weights', 'net.int8', '--secure=network', '--parts', '4',
                                    '--proof', 'x.chain', '--keys', self.keys),
                          'has none of the layers that can be proven')
        self.assert_fails(self.call('run', DIGITS, '--weights', 'net.int8', '--secure=network', '--batch-size',
                                    '1000', '--proof', 'x.chain', '--keys', self.keys), 'prove fewer at once')

    def test_parts_in_processes_prove_to_each_other(self):
        self.quantized()
        model = self.cut_model('digits.harp', 32)
        run = ('run', model, '--weights', 'digits.int8', '--batch-size', '16', '--output', 'json')
        plain = json.loads(self.done(*run, '--out', 'prediction=csv:plain.csv'))
        self.write('proofs.yml', 'secure: true\nproofs: true\npartitions:\n  - backend: cpu\n  - backend: cpu\n')
        threads = json.loads(self.done(*run, '--deploy', 'proofs.yml', '--out', 'prediction=csv:deployed.csv'))
        self.assertEqual(threads['accuracy'], plain['accuracy'])
        for mode, parts, transport in (('network', 2, 'tcp'), ('network', 3, 'shm'), ('zk', 3, 'tcp')):
            with self.subTest(mode=mode, parts=parts, transport=transport):
                chain = f'{mode}{parts}.chain'
                proven = json.loads(self.done(*run, '--parts', parts, '--processes', '--transport', transport,
                                              f'--secure={mode}', '--proof', chain, '--keys', self.keys,
                                              '--out', f'prediction=csv:{mode}{parts}.csv'))
                self.assertEqual(proven['accuracy'], plain['accuracy'])
                self.assertEqual((self.folder / f'{mode}{parts}.csv').read_bytes(),
                                 (self.folder / 'plain.csv').read_bytes())
                report = json.loads(self.done('verify', chain, '--keys', self.keys, '--output', 'json'))
                self.assertEqual(report['proofs_checked'], 2 * parts)
        self.assertEqual((self.folder / 'deployed.csv').read_bytes(), (self.folder / 'plain.csv').read_bytes())
        self.assert_fails(self.call(*run, '--parts', '2', '--processes', '--secure=zk', '--proof', 'x.chain',
                                    '--keys', self.keys), 'leave --parts out or set it to 3')
        self.assert_fails(self.call(*run, '--processes'), 'which runs in one process unless')
        refused = self.call('stage', model, '--parts', '2', '--part', '0', '--secure=zk')
        self.assertEqual(refused.returncode, 2)
        self.assertIn('training is not proven', refused.stderr)

    def test_lenet_is_proven_whole(self):
        lenet = program.EXAMPLES / 'lenet.harp'
        self.done('train', lenet, '--checkpoint', 'lenet.safetensors', '--epochs', '2', '--threads', '1')
        report = json.loads(self.done('quantize', lenet, '--weights', 'lenet.safetensors', '--out', 'net.int8',
                                      '--output', 'json'))
        self.assertEqual(report['layers'], 4)
        self.assertGreater(report['agreement'], 0.97)
        self.assertEqual(self.proven_whole('lenet.harp', 2)['proofs_checked'], 1)

    def test_what_cannot_be_proven_is_an_error(self):
        self.quantized()
        self.assert_fails(self.call('run', DIGITS, '--weights', 'digits.safetensors', '--secure=zk',
                                    '--proof', 'x.chain', '--keys', self.keys), 'float weights')
        self.assert_fails(self.call('run', DIGITS, '--weights', 'digits.int8', '--parts', '2'), '--parts')
        self.assert_fails(self.call('run', DIGITS, '--weights', 'digits.int8', '--secure=zk',
                                    '--keys', self.keys), '--proof')
        self.assert_fails(self.call('run', DIGITS, '--weights', 'digits.int8', '--secure=zk', '--proof',
                                    'x.chain', '--keys', self.keys, '--key', 'nobody'),
                          'harmonics keys new nobody')
        self.assertFalse(os.path.exists(self.folder / 'x.chain'))
        self.assert_fails(self.call('quantize', self.net, '--weights', 'digits.safetensors',
                                    '--out', 'x.int8'))
        self.assert_fails(self.call('quantize', DIGITS, '--out', 'x.int8'), 'names no weights')

    def test_the_weights_that_a_file_names_are_taken(self):
        self.quantized()
        named = self.write('named.harp', DIGITS.read_text().replace('csv:', f'csv:{DIGITS.parent}/') +
                           'weights { file = "digits.safetensors"; }\n')
        self.done('quantize', named, '--out', 'named.int8')
        self.assertEqual((self.folder / 'named.int8').read_bytes(), (self.folder / 'digits.int8').read_bytes())


if __name__ == '__main__':
    unittest.main()
