"""Settings of server, workers and clients that few clusters need."""

import re
import subprocess
import unittest

import cluster


class SettingsTest(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_server()

    def test_submit_can_wait_for_the_end(self):
        self.start_worker(gpus=0)
        good = self.call('submit', '--gpus', 0, '--wait', '--', 'true')
        self.assertEqual((good.returncode, good.stdout, good.stderr),
                         (0, 'submitted task 1\n', 'task 1 succeeded\n'))
        failed = self.call('submit', '--gpus', 0, '--wait', '--', 'sh', '-c', 'exit 3')
        self.assert_fails(failed, 'task 2 failed (exit code 3): see', "'harmonics logs 2 --stream err'")
        some = self.call('submit', '--gpus', 0, '--wait', '--array', 2, '--', 'sh', '-c',
                         'exit $HARMONICS_ARRAY_INDEX')
        self.assert_fails(some, '1 of 2 failed or were cancelled')
        quiet = self.call('submit', '--gpus', 0, '--wait', '--output', 'quiet', '--', 'false')
        self.assertEqual((quiet.returncode, quiet.stdout, quiet.stderr), (1, '5\n', ''))

    def test_a_task_that_failed_counts_as_failed(self):
        self.start_worker(gpus=0)
        task = self.script('exit 3', flags=['--retries', 0])
        self.assertEqual(self.wait(task)['failed'], 1)
        self.assertEqual(self.task(task)['failures'], 1)
        self.assertIn('attempts    1 (1 failed, 0 lost, 0 preempted)', self.done('task', task))

    def test_a_task_that_waits_after_a_failure_says_where_to_look(self):
        self.start_worker(gpus=0)
        task = self.script('exit 3', flags=['--retries', 100])
        said = rf"Attempt \d+ failed; .* 'harmonics logs {task} --stream err' has what it said"
        self.until(lambda: re.search(said, self.done('why', task)), 'a pause between attempts')
        self.done('cancel', task)

    def test_a_worker_says_that_no_server_answers_and_that_one_does(self):
        self.kill(self.server)
        worker = self.start('worker', *self.access(), '--id', 'patient')
        self.until(lambda: 'no session with' in self.printed(worker), 'the warning')
        self.start_server()
        self.until(lambda: 'patient is connected to' in self.printed(worker), 'the end of it')
        self.assertEqual(self.printed(worker).count('no session with'), 1)

    def test_limits_of_a_user(self):
        self.start_worker(gpus=0)
        user = self.task(self.script('true'))['user']
        self.done('quota', user, '--active', 1, '--waiting', 2)
        tasks = [self.script(self.held()) for _ in range(2)]
        self.until_launched(tasks[0])
        self.assertEqual(self.json('why', tasks[1])['reason'], 'quota')
        self.script(self.held())
        self.assert_fails(self.call('submit', '--gpus', 0, '--', 'true'), '2')
        self.release()

    def test_a_dead_worker_is_forgotten_and_its_task_runs_elsewhere(self):
        worker = self.start_worker('--id', 'doomed', gpus=1)
        task = self.script(self.held(), gpus=1, flags=['--retries', 1])
        self.until_launched(task)
        self.kill(worker)
        cluster.kill_tasks(self.folder)
        self.done('drain', 'doomed', '--forget')
        self.assertNotIn('doomed', [each['name'] for each in self.json('workers')])
        self.start_worker('--id', 'fresh', gpus=1)
        self.release()
        self.assertEqual(self.wait(task)['succeeded'], 1)

    def test_what_a_worker_keeps_is_bounded(self):
        self.start_worker('--log-mb', 1, '--artifact-mb', 1, '--keep-mb', 8, gpus=0)
        task = self.script('head -c 3000000 /dev/zero | tr "\\0" x; echo; echo the end')
        self.assertEqual(self.wait(task)['succeeded'], 1)
        kept = self.done('logs', task)
        self.assertTrue(kept.endswith('the end\n'))
        self.assertLess(len(kept), 2_200_000)

    def test_a_cgroup_folder_that_is_none_is_an_error(self):
        worker = self.start('worker', *self.access(), '--cgroup', self.folder)
        self.assertNotEqual(worker.wait(timeout=cluster.TIMEOUT_S), 0)
        self.assertIn(str(self.folder), self.printed(worker))

    def test_certificates_name_every_host_of_the_server(self):
        folder = self.folder / 'certificates'
        made = subprocess.run([str(cluster.HARMONICS), 'server', '--init', str(folder), '--init-host',
                               'head.example', '--init-host', '192.0.2.7'], capture_output=True, text=True,
                              timeout=cluster.TIMEOUT_S, env=cluster.environment(self.folder), check=True)
        self.assertIn('--tls', made.stdout)
        text = subprocess.run(['openssl', 'x509', '-in', str(folder / 'server.pem'), '-noout', '-ext',
                               'subjectAltName'], capture_output=True, text=True,
                              timeout=cluster.TIMEOUT_S, check=True).stdout
        self.assertIn('head.example', text)
        self.assertIn('192.0.2.7', text)


if __name__ == '__main__':
    unittest.main()
