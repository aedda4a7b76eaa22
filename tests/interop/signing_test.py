"""Signatures and statements of ours are taken by the tools of others, and theirs by ours; what was changed is refused.

model-signing (OpenSSF), in-toto, in-toto-attestation and securesystemslib come from the package index into the build
folder; where it cannot be reached the test is skipped with a line that says so."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages

HARMONICS = pathlib.Path(os.environ['HARMONICS_BINARY_DIR']) / 'harmonics'
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
DIGITS = SOURCE_DIR / 'examples' / 'digits.harp'
PACKAGES = ['model-signing==1.1.1', 'pyOpenSSL', 'in-toto==3.1.0', 'in-toto-attestation==0.9.3', 'securesystemslib==1.6.0']


class SigningTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.python = packages.interpreter('signing', PACKAGES, 'model_signing, OpenSSL, in_toto, in_toto_attestation')
        if cls.python is None:
            raise unittest.SkipTest('model-signing and in-toto are not there')
        cls.home = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.home.name)
        cls.keys = cls.folder / 'keys'
        cls.peer = subprocess.Popen([cls.python, pathlib.Path(__file__).parent / 'signing_peer.py'], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.done('keys', 'new', 'release', '--kind', 'p256', '--keys', cls.keys)
        cls.done('keys', 'new', 'alice', '--keys', cls.keys)
        cls.done('train', DIGITS, '--epochs', '1', '--parts', '2', '--secure', '--proof', cls.folder / 'run.chain',
                 '--keys', cls.keys, '--checkpoint', cls.folder / 'net.safetensors', '--output', 'quiet')

    @classmethod
    def tearDownClass(cls):
        cls.peer.stdin.close()
        cls.peer.wait(timeout=60)
        cls.peer.stdout.close()
        cls.home.cleanup()

    @classmethod
    def call(cls, *arguments):
        return subprocess.run([HARMONICS, *map(str, arguments)], capture_output=True, text=True, timeout=200)

    @classmethod
    def done(cls, *arguments):
        result = cls.call(*arguments)
        if result.returncode != 0:
            raise AssertionError(f'{arguments}: {result.stdout}{result.stderr}')
        return result.stdout

    def refused(self, words, *arguments):
        result = self.call(*arguments)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(words, result.stderr)

    @classmethod
    def ask(cls, *question):
        cls.peer.stdin.write(json.dumps([str(word) for word in question]) + '\n')
        cls.peer.stdin.flush()
        return json.loads(cls.peer.stdout.readline())

    def accepts(self, *question):
        answer = self.ask(*question)
        self.assertTrue(answer['good'], answer['value'])
        return answer['value']

    def refuses(self, *question):
        answer = self.ask(*question)
        self.assertFalse(answer['good'], answer['value'])
        return answer['value']

    def model(self, name):
        folder = self.folder / name
        (folder / 'shards').mkdir(parents=True)
        shutil.copy(self.folder / 'net.safetensors', folder / 'net.safetensors')
        (folder / 'shards' / '0.bin').write_bytes(bytes(range(256)) * 8)
        (folder / 'shards' / 'a.b').write_text('order of names')
        (folder / '.gitignore').write_text('nobody signs this')
        return folder

    def flip(self, path, at=100):
        content = bytearray(path.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)

    def test_their_program_takes_our_signature(self):
        model = self.model('ours')
        self.done('sign', model, '--key', 'release', '--keys', self.keys, '--ignore', 'notes')
        public = self.keys / 'release.pub.pem'
        command = [self.python, '-m', 'model_signing', 'verify', 'key', model, '--signature', model / 'model.sig',
                   '--public_key', public]
        good = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        self.assertIn('Verification succeeded', good.stdout + good.stderr)
        self.done('verify', model / 'model.sig', '--keys', self.keys)
        self.flip(model / 'net.safetensors', 9000)
        bad = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertNotEqual(bad.returncode, 0)
        self.assertRegex(bad.stdout + bad.stderr, 'Hash mismatch for .*net.safetensors')
        self.refused('altered model', 'verify', model / 'model.sig', '--keys', self.keys)

    def test_one_checkpoint_is_signed_and_taken(self):
        weights = self.folder / 'alone.safetensors'
        shutil.copy(self.folder / 'net.safetensors', weights)
        signature = self.folder / 'alone.safetensors.sig'
        told = json.loads(self.done('sign', weights, '--key', self.keys / 'release.pem', '--output', 'json'))
        self.assertEqual(told['signature'], str(signature))
        public = self.keys / 'release.pub.pem'
        self.accepts('verify_model', weights, signature, public)
        found = json.loads(self.done('verify', signature, '--public-key', public, '--output', 'json'))
        self.assertEqual(found['key'], told['key'])
        self.assertEqual([file['name'] for file in found['files']], ['.'])
        self.flip(weights)
        self.assertIn('Hash mismatch', self.refuses('verify_model', weights, signature, public))
        self.refused('altered model', 'verify', signature, '--public-key', public)

    def test_we_take_theirs(self):
        model = self.model('theirs')
        for curve, number in (('prime256v1', 1), ('secp384r1', 2), ('secp521r1', 3)):
            key = self.folder / f'{curve}.pem'
            public = self.folder / f'{curve}.pub.pem'
            subprocess.run(['openssl', 'ecparam', '-name', curve, '-genkey', '-noout', '-out', key], check=True)
            subprocess.run(['openssl', 'ec', '-in', key, '-pubout', '-out', public], check=True, capture_output=True)
            signature = self.folder / f'theirs{number}.sig'
            self.accepts('sign_model', model, signature, key)
            verify = ('verify', signature, '--model', model, '--public-key', public)
            self.assertIn('3 file(s)', self.done(*verify))
            self.flip(model / 'shards' / '0.bin')
            self.refused("'shards/0.bin'", *verify)
            self.flip(model / 'shards' / '0.bin')
            self.done(*verify)
        # Signed by another key than the one that is given.
        self.refused('substituted key', 'verify', self.folder / 'theirs1.sig', '--model', model, '--public-key',
                     self.folder / 'secp384r1.pub.pem')

    def test_both_refuse_the_same_changes(self):
        public = self.keys / 'release.pub.pem'

        def add(model):
            (model / 'extra').write_text('x')

        def remove(model):
            (model / 'shards' / '0.bin').unlink()

        def rename(model):
            (model / 'shards' / '0.bin').rename(model / 'shards' / '1.bin')

        def bundle(change):
            def edit(model):
                content = json.loads((model / 'model.sig').read_text())
                change(content)
                (model / 'model.sig').write_text(json.dumps(content))
            return edit

        def payload(old, new):
            def change(content):
                text = base64.b64decode(content['dsseEnvelope']['payload'])
                self.assertIn(old, text)
                content['dsseEnvelope']['payload'] = base64.b64encode(text.replace(old, new, 1)).decode()
            return bundle(change)

        def sig(content):
            raw = bytearray(base64.b64decode(content['dsseEnvelope']['signatures'][0]['sig']))
            raw[-1] ^= 1
            content['dsseEnvelope']['signatures'][0]['sig'] = base64.b64encode(raw).decode()

        changes = {
            'a file more': add, 'a file less': remove, 'a file renamed': rename,
            'a file cut': lambda model: (model / 'shards' / 'a.b').write_text('order of name'),
            'two files swapped': lambda model: (shutil.copy(model / 'shards' / 'a.b', model / 'shards' / '0.bin')),
            'another name signed': payload(b'0.bin', b'1.bin'),
            'another digest signed': payload(b'"sha256":', b'"sha266":'),
            'another predicate': payload(b'signature/v1.0', b'signature/v9.9'),
            'the signature changed': bundle(sig),
            'no signatures': bundle(lambda content: content['dsseEnvelope'].update(signatures=[])),
            'another bundle': bundle(lambda content: content.update(mediaType='application/json')),
            'another key named': bundle(lambda content: content['verificationMaterial']['publicKey'].update(hint='0' * 64)),
        }
        for number, (name, change) in enumerate(changes.items()):
            with self.subTest(name):
                model = self.model(f'changed{number}')
                self.done('sign', model, '--key', 'release', '--keys', self.keys, '--output', 'quiet')
                self.accepts('verify_model', model, model / 'model.sig', public)
                change(model)
                self.refuses('verify_model', model, model / 'model.sig', public)
                self.refused('custody: ', 'verify', model / 'model.sig', '--public-key', public)

    def exported(self):
        out = self.folder / 'run.intoto.jsonl'
        if not out.exists():
            self.done('custody', 'export', self.folder / 'run.chain', '--out', out, '--key', 'alice', '--keys',
                      self.keys, '--weights', self.folder / 'net.safetensors', '--graph', DIGITS)
        return out

    def alice(self):
        return (self.keys / 'alice.pub').read_text().split()[1]

    def test_in_toto_takes_our_statements(self):
        out = self.exported()
        lines = out.read_text().splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            told = self.accepts('verify_line', line, self.alice())
            self.assertEqual(told['type'], 'https://slsa.dev/provenance/v1')
            self.assertIn('alice', told['builder'])
            self.assertEqual(told['subjects'][0], 'net.safetensors')
        self.assertIn('data of image', self.accepts('verify_line', lines[0], self.alice())['made_from'])
        other = json.loads(self.done('keys', 'show', '--keys', self.keys, '--output', 'json'))['keys']
        self.assertEqual([key['name'] for key in other], ['alice'])
        self.refuses('verify_line', lines[0], '00' * 32)
        envelope = json.loads(lines[0])
        text = bytearray(base64.b64decode(envelope['payload']))
        text[-3] ^= 1
        envelope['payload'] = base64.b64encode(text).decode()
        self.refuses('verify_line', json.dumps(envelope), self.alice())

    def test_statements_are_verified_and_become_the_chain_again(self):
        out = self.exported()
        chain = self.done('verify', self.folder / 'run.chain', '--keys', self.keys, '--output', 'json')
        self.assertEqual(self.done('verify', out, '--keys', self.keys, '--output', 'json'), chain)
        back = self.folder / 'back.chain'
        self.done('custody', 'import', out, '--out', back, '--keys', self.keys)
        self.assertEqual(self.done('verify', back, '--keys', self.keys, '--output', 'json'), chain)
        self.refused('exists already', 'custody', 'import', out, '--out', back, '--keys', self.keys)
        self.done('verify', out, '--keys', self.keys, '--model', self.folder / 'net.safetensors')
        self.refused('altered model', 'verify', out, '--keys', self.keys, '--model', DIGITS)
        # Also beside a graph and weights, where libtorch reads them.
        self.done('verify', out, '--keys', self.keys, '--graph', DIGITS, '--weights', self.folder / 'net.safetensors')
        strangers = self.folder / 'strangers'
        self.done('keys', 'new', 'bob', '--keys', strangers)
        self.refused('substituted key', 'verify', out, '--keys', strangers)
        unknown = self.call('custody', 'export', self.folder / 'run.chain', '--out', self.folder / 'no', '--keys', strangers)
        self.assertIn('not in the roster', unknown.stderr)
        self.done('custody', 'export', self.folder / 'run.chain', '--out', self.folder / 'unknown.jsonl', '--keys',
                  strangers, '--allow-unknown')

    def test_changed_statements_are_refused(self):
        lines = self.exported().read_text().splitlines()

        def payload(old, new):
            envelope = json.loads(lines[0])
            text = base64.b64decode(envelope['payload'])
            self.assertIn(old, text)
            envelope['payload'] = base64.b64encode(text.replace(old, new, 1)).decode()
            return json.dumps(envelope)

        def envelope(**members):
            return json.dumps({**json.loads(lines[0]), **members})

        swapped = json.loads(lines[1])['signatures']
        changes = {
            'a subject': [payload(b'net.safetensors', b'not.safetensors'), lines[1]],
            'a builder': [payload(b'signer:alice', b'signer:carol'), lines[1]],
            'a count': [payload(b'"heads":', b'"heads":1'), lines[1]],
            'the data': [payload(b'data of image', b'data of noise'), lines[1]],
            'the records': [payload(b'SE1DSEFJTj', b'SE1DSEFJTk'), lines[1]],
            'the type of the payload': [envelope(payloadType='application/json'), lines[1]],
            'no signature': [envelope(signatures=[]), lines[1]],
            'the signature of another line': [envelope(signatures=swapped), lines[1]],
            'a line less': [lines[0]],
            'a line twice': [lines[0], lines[0], lines[1]],
            'half a line': [lines[0][:-20], lines[1]],
            'no statements': ['{"payloadType": ""}'],
        }
        for name, changed in changes.items():
            with self.subTest(name):
                path = self.folder / 'changed.jsonl'
                path.write_text('\n'.join(changed) + '\n')
                self.refused('custody: ', 'verify', path, '--keys', self.keys)

    def test_statements_of_others_are_taken(self):
        weights = self.folder / 'net.safetensors'
        digest = subprocess.run(['sha256sum', weights], capture_output=True, text=True, check=True).stdout.split()[0]
        payload = json.dumps({'_type': 'https://in-toto.io/Statement/v1', 'predicateType': 'https://example.org/review',
                              'subject': [{'name': 'net', 'digest': {'sha256': digest}}], 'predicate': {'fine': True}})
        theirs = self.accepts('sign_statement', payload)
        keys = self.folder / 'reviewers'
        keys.mkdir()
        (keys / 'reviewer.pub').write_text(f'harmonics-ed25519-public {theirs["key"]}\n')
        path = self.folder / 'review.json'
        path.write_text(theirs['envelope'])
        text = self.done('verify', path, '--keys', keys, '--model', weights)
        self.assertIn("'reviewer' signed a statement 'https://example.org/review' of net", text)
        self.refused('altered model', 'verify', path, '--keys', keys, '--model', DIGITS)
        self.refused('substituted key', 'verify', path, '--keys', self.keys)

    def test_a_picture_shows_who_did_what(self):
        svg = self.folder / 'run.svg'
        self.done('custody', 'show', self.folder / 'run.chain', '--keys', self.keys, '--out', svg, '--step', '3')
        self.assertIn('Step 3, hand-over by hand-over', svg.read_text())
        self.assertEqual(self.done('custody', 'show', self.exported(), '--keys', self.keys, '--step', '3'),
                         svg.read_text())
        self.refused('there is no step', 'custody', 'show', self.folder / 'run.chain', '--keys', self.keys, '--step', '9999')


if __name__ == '__main__':
    unittest.main()
