"""Training by a plan, also where hosts take turns at a stage: the weights of one process with as many micro-batches."""

import json
import os
import signal
import unittest

import program
from processes_test import children_of
from resume_test import Metrics

PLAN = '- a: [1, 2, 2]\n- b: [1, 2, 1]\n- c: [3, 5]\n'
SETTINGS = ('--epochs', '2', '--micro-batches', '4', '--clip', '0.5')


class CopiesTrainTest(program.CliTest):
    def start_all(self, *more):
        self.write('plan.yml', PLAN)
        self.write('hosts.yml', ''.join(f'{host}: 127.0.0.1:{program.reserved_port()}\n' for host in 'abc'))
        return [self.start('stage', self.net, '--plan', 'plan.yml', '--hosts', 'hosts.yml', '--output', 'json',
                           *SETTINGS, *more, *own)
                for own in (('--part', '0', '--copy', '0'), ('--part', '0', '--copy', '1'), ('--part', '1',))]

    def test_copies_learn_what_one_process_learns(self):
        self.net.write_text(self.net.read_text().replace('batch_norm', 'layer_norm'))
        alone = self.train(*SETTINGS)
        reports = []
        for stage in self.start_all('--checkpoint', 'run', '--whole-digest'):
            output, error = stage.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(stage.returncode, 0, error)
            reports.append(json.loads(output))
        for report in reports:
            for key in ('weights_digest', 'steps', 'train_loss', 'test_loss', 'test_accuracy'):
                self.assertEqual(report[key], alone[key], key)

    def test_running_statistics_need_one_host(self):
        for stage in self.start_all('--restarts', '0', '--first-contact', '20')[:2]:
            _, error = stage.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(stage.returncode, 1, error)
            self.assertIn("layer 'norm' keeps running statistics", error)


class PlannedTrainTest(program.CliTest):
    """`harmonics train --plan`: one command starts every part, and every copy of one."""

    def setUp(self):
        super().setUp()
        self.net.write_text(self.net.read_text().replace('batch_norm', 'layer_norm'))
        self.write('plan.yml', PLAN)
        self.alone = self.train(*SETTINGS)

    def assert_same(self, report):
        for key in ('weights_digest', 'steps', 'train_loss', 'test_loss', 'test_accuracy'):
            self.assertEqual(report[key], self.alone[key], key)

    def test_copies_in_processes_learn_what_one_process_learns(self):
        for transport in ('shm', 'tcp'):
            report = self.train('--plan', 'plan.yml', '--processes', '--transport', transport, *SETTINGS)
            self.assert_same(report)
            self.assertEqual(report['parts'], 2)

    def test_threads_learn_the_same_and_say_that_nobody_takes_turns(self):
        result = self.call('train', self.net, '--plan', 'plan.yml', '--output', 'json', *SETTINGS)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_same(json.loads(result.stdout))
        self.assertIn('part 0 is planned for 2 hosts that take turns (a, b)', result.stderr)

    def test_a_copy_that_dies_is_started_again(self):
        metrics = Metrics(self.folder / 'metrics.pipe')
        self.addCleanup(metrics.close)
        process = self.start('train', self.net, '--plan', 'plan.yml', '--processes', '--checkpoint', 'run',
                             '--checkpoint-every', '2', '--metrics', metrics.path, '--output', 'json', *SETTINGS)
        metrics.wait_for_step(3)
        os.kill(children_of(process)[1], signal.SIGKILL)
        output, error = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 0, error)
        self.assertIn('part 0 of 2, copy 1 (b) was killed by signal 9', error)
        self.assert_same(json.loads(output))

    def test_a_report_says_for_what_it_was_made(self):
        stages = [{'hosts': ['a'], 'layers': [1, 3], 'period_s': 0.5}, {'hosts': ['b'], 'layers': [4, 5], 'period_s': 0.5}]
        self.write('plan.json', json.dumps({'model': 'quadrant', 'batch_size': 8, 'stages': stages}))
        result = self.call('train', self.net, '--plan', 'plan.json', '--output', 'json', *SETTINGS)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_same(json.loads(result.stdout))
        self.assertIn('planned for 8 rows at a time, micro-batches of this run have 2', result.stderr)
        self.write('plan.json', json.dumps({'model': 'digits', 'batch_size': 8, 'stages': stages}))
        self.assert_fails(self.call('train', self.net, '--plan', 'plan.json'), "is a plan for model 'digits'")
        self.write('short.yml', '- a: [1, 3]\n- b: [4, 9]\n')
        self.assert_fails(self.call('train', self.net, '--plan', 'short.yml'), "'short.yml': ")

    def test_wrong_combinations_are_said_in_a_line(self):
        for flags, text in ((('--secure',), '--secure'), (('--replicas', '2'), '--replicas')):
            self.assert_fails(self.call('train', self.net, '--plan', 'plan.yml', '--processes', *flags),
                              'part 0 to a, b, who take turns at it', text)
        self.assert_fails(self.call('train', self.net, '--plan', 'plan.yml', '--parts', '2'), 'leave out --parts', code=2)
        self.assert_fails(self.call('train', self.net, '--plan', 'plan.yml', '--deploy', 'cpu,cpu'), '--plan')


if __name__ == '__main__':
    unittest.main()
