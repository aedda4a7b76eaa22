"""harmonics keys and harmonics verify."""

import json
import unittest

import program


class CustodyTest(program.CliTest):
    def keys(self):
        return self.folder / 'keys'

    def test_keys_are_made_once_and_shown(self):
        text = self.done('keys', 'new', 'alice', '--keys', self.keys())
        secret = self.keys() / 'alice.key'
        self.assertEqual(secret.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.keys().stat().st_mode & 0o777, 0o700)
        digits = (self.keys() / 'alice.pub').read_text().split()[1]
        self.assertIn(digits, text)
        self.assertNotIn(secret.read_text().split()[1], text)
        self.assert_fails(self.call('keys', 'new', 'alice', '--keys', self.keys()), 'exists already')
        self.done('keys', 'new', 'bob', '--keys', self.keys())
        (self.keys() / 'bob.key').unlink()
        shown = json.loads(self.done('keys', 'show', '--keys', self.keys(), '--output', 'json'))
        self.assertEqual([(key['name'], key['own']) for key in shown['keys']],
                         [('alice', True), ('bob', False)])
        self.assertEqual(shown['keys'][0]['key'], digits)
        self.assertEqual(self.done('keys', 'show', '--keys', self.keys(), '--output', 'quiet'),
                         'alice\nbob\n')
        self.assertIn('2 key(s)', self.done('keys', 'show', '--keys', self.keys()))

    def test_names_that_are_no_file_names_are_wrong_usage(self):
        result = self.call('keys', 'new', '../alice', '--keys', self.keys())
        self.assertEqual(result.returncode, 2)
        self.assertIn('cannot name a key', result.stderr)
        self.assertFalse(self.keys().exists())

    def test_what_is_no_chain_is_an_error(self):
        path = self.write('x.chain', 'no chain')
        self.assert_fails(self.call('verify', path, '--keys', self.keys()), 'x.chain', 'malformed chain')
        path = self.write('y.chain', 'HMCHAIN1')
        self.assert_fails(self.call('verify', path, '--keys', self.keys()), 'truncated chain')
        self.assert_fails(self.call('verify', 'absent.chain', '--keys', self.keys()), 'absent.chain')


if __name__ == '__main__':
    unittest.main()
