"""`harmonics stage --plan` where hosts take turns at a stage: the weights of one process with as many micro-batches."""

import json
import unittest

import program

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


if __name__ == '__main__':
    unittest.main()
