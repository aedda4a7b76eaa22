"""Replicas with unlike shares, and replicas that die and come back: what one process learns that takes the same shares
one after another."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

import program
from processes_test import children_of

SEED = int(os.environ.get('HARMONICS_CAMPAIGN_SEED', '1931'))
KILLS = 50 if os.environ.get('HARMONICS_SOAK') else 2
STEPS_PER_EPOCH = 45


class ReplicasTest(program.CliTest):
    """Runs on the digits, whose model has no running statistics."""

    def digits(self, *flags, epochs=1):
        result = self.call('train', program.EXAMPLES / 'digits.harp', '--output', 'json', '--epochs', epochs,
                           '--threads', '1', '--clip', '1', *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_same(self, report, expected, *about):
        for key in ('weights_digest', 'steps', 'test_loss', 'test_accuracy'):
            self.assertEqual(report[key], expected[key], (key, *about))


class SharesTest(ReplicasTest):
    def test_given_shares_learn_what_one_process_learns(self):
        for shares in ('3,1', '0,1/5:1,1/30:2,1'):
            alone = self.digits('--shares', shares)
            self.assertEqual(alone['shares'], shares)
            for flags in ((), ('--parts', '2', '--processes', '--transport', 'tcp')):
                together = self.digits('--replicas', '2', '--shares', shares, *flags)
                self.assertEqual(together['shares'], shares)
                self.assert_same(together, alone, shares, flags)
        self.assertNotIn('shares', self.digits('--replicas', '2'))

    def test_a_stage_that_is_the_whole_takes_shares_too(self):
        flags = ('--epochs', '1', '--threads', '1', '--clip', '1', '--shares', '3,1', '--output', 'json')
        stage = json.loads(self.done('stage', program.EXAMPLES / 'digits.harp', '--parts', '1', '--part', '0', *flags))
        self.assert_same(stage, self.digits('--shares', '3,1'))

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


class ElasticTest(ReplicasTest):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.runs = 0

    def start_run(self, *flags):
        """A run of slow replicas whose words go to files."""
        self.runs += 1
        self.metrics = self.folder / f'metrics{self.runs}'
        self.words = self.folder / f'words{self.runs}'
        with open(self.words, 'w', encoding='utf-8') as words:
            return self.start('train', program.EXAMPLES / 'digits.harp', '--output', 'json', '--threads', '1', '--clip', '1',
                              '--processes', '--elastic', '--metrics', self.metrics, *flags, stderr=words)

    def await_text(self, path, text, count, process):
        """Waits until a file holds a text so often, or the run is over."""
        end = time.monotonic() + program.TIMEOUT_S
        while not path.exists() or path.read_text().count(text) < count:
            self.assertLess(time.monotonic(), end, f'no {text!r} in {path.name}')
            try:
                process.wait(timeout=0.02)
                return
            except subprocess.TimeoutExpired:
                pass

    def kill_one(self, process):
        alive = children_of(process) if process.poll() is None else []
        if alive:
            os.kill(self.chance.choice(alive), signal.SIGKILL)

    def finish(self, process, epochs, *flags):
        """The report, which one process comes to as well that is given the same shares."""
        output, _ = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 0, self.words.read_text())
        report = json.loads(output)
        self.assertEqual(report['steps'], epochs * STEPS_PER_EPOCH)
        alone = self.digits('--shares', report['shares'], *flags, epochs=epochs)
        self.assert_same(report, alone, report['shares'])
        return report

    def test_a_replica_that_dies_costs_a_step(self):
        process = self.start_run('--epochs', '2', '--replicas', '3', '--slowdown', '4,4,4', '--restarts', '0',
                                 '--transport', 'tcp')
        self.await_text(self.metrics, '"step"', 5, process)
        self.kill_one(process)
        report = self.finish(process, 2)
        first, last = report['shares'].split('/')
        self.assertEqual(first, '1,1,1')
        self.assertEqual(sorted(last.split(':')[1]), [',', ',', '0', '1', '1'])
        self.assertIn('was killed by signal 9 (Killed): the others go on without it', self.words.read_text())

    def test_a_replica_comes_back(self):
        process = self.start_run('--epochs', '12', '--replicas', '2', '--slowdown', '25,25', '--checkpoint', 'c')
        self.await_text(self.metrics, '"step"', 5, process)
        self.kill_one(process)
        self.await_text(self.words, 'is back', 1, process)
        report = self.finish(process, 12)
        changes = [change.split(':')[-1] for change in report['shares'].split('/')]
        self.assertEqual((changes[0], changes[-1]), ('1,1', '1,1'), report['shares'])
        self.assertIn(changes[1], ('1,0', '0,1'))
        self.assertEqual(report['checkpoint'], 'c')

    def test_random_kills(self):
        kills = 0
        while kills < KILLS:
            shares = self.chance.choice(['equal', 'auto', '2,1,1'])
            process = self.start_run('--epochs', '6', '--replicas', '3', '--slowdown', '12,12,24', '--shares', shares,
                                     '--transport', self.chance.choice(['shm', 'tcp']), '--restarts', '100')
            self.await_text(self.metrics, '"step"', self.chance.randint(1, 60), process)
            for _ in range(min(KILLS - kills, self.chance.randint(1, 3))):
                if process.poll() is None:
                    self.kill_one(process)
                    kills += 1
                seen = self.words.read_text().count('is back')
                if self.chance.random() < 0.7:
                    self.await_text(self.words, 'is back', seen + 1, process)
            with self.subTest(shares=shares, kills=kills, seed=SEED):
                self.finish(process, 6)

    def test_what_cannot_be_elastic_is_said_in_a_line(self):
        for flags, text, code in (
                (('--elastic',), 'add --processes', 2),
                (('--elastic', '--processes'), 'give --replicas N', 1),
                (('--elastic', '--processes', '--replicas', '2', '--parts', '2'), 'leave out --parts', 1),
                (('--elastic', '--processes', '--replicas', '2', '--shares', '1,1/4:2,1'), 'give shares such as 3,1', 1)):
            self.assert_fails(self.call('train', self.net, *flags), text, code=code)


if __name__ == '__main__':
    unittest.main()
