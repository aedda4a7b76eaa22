"""Replicas with unlike shares: what one process learns that takes the same shares one after another."""

import json
import unittest

import program


class SharesTest(program.CliTest):
    def digits(self, *flags):
        """The report of a run on the digits, which has no running statistics."""
        result = self.call('train', program.EXAMPLES / 'digits.harp', '--output', 'json', '--epochs', '1',
                           '--threads', '1', '--clip', '1', *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_same(self, report, expected, *about):
        for key in ('weights_digest', 'steps', 'test_loss', 'test_accuracy'):
            self.assertEqual(report[key], expected[key], (key, *about))

    def test_given_shares_learn_what_one_process_learns(self):
        for shares in ('3,1', '0,1/5:1,1/30:2,1'):
            alone = self.digits('--shares', shares)
            self.assertEqual(alone['shares'], shares)
            for flags in ((), ('--parts', '2', '--processes', '--transport', 'tcp')):
                together = self.digits('--replicas', '2', '--shares', shares, *flags)
                self.assertEqual(together['shares'], shares)
                self.assert_same(together, alone, shares, flags)
        self.assertNotIn('shares', self.digits('--replicas', '2'))

    def test_measured_shares_are_reported_and_can_be_learnt_again(self):
        together = self.digits('--replicas', '2', '--shares', 'auto', '--processes', '--slowdown', '1,30')
        changes = together['shares'].split('/')
        self.assertEqual(changes[0], '1,1')  # until something is known
        self.assertGreater(len(changes), 1, together['shares'])
        fast, slow = map(int, changes[-1].split(':')[1].split(','))
        self.assertGreater(fast, slow)
        self.assert_same(self.digits('--shares', together['shares']), together, together['shares'])

    def test_wrong_shares_are_said_in_a_line(self):
        for flags, texts in (
                (('--shares', '3,x'), ("'x' is no weight",)),
                (('--shares', '0,0'), ('nobody computes anything',)),
                (('--shares', '3,1/2,1'), ('does not say from which step on',))):
            self.assert_fails(self.call('train', self.net, *flags), *texts, code=2)
        for flags, texts in (
                (('--shares', 'auto'), ('give --replicas N',)),
                (('--shares', '3,1', '--replicas', '3'), ('3,1 are for 2 replicas, there are 3',)),
                (('--shares', 'auto', '--replicas', '2', '--parts', '2', '--processes'), ('leave out --parts',)),
                (('--replicas', '2', '--processes', '--slowdown', '2'), ('1 factors for 2 replicas',))):
            self.assert_fails(self.call('train', self.net, *flags), *texts)
        self.assert_fails(self.call('train', self.net, '--slowdown', '2'), 'add --processes', code=2)
        self.assert_fails(self.call('train', self.net, '--processes', '--slowdown', '0.5'), "'0.5' is no factor", code=2)


if __name__ == '__main__':
    unittest.main()
