"""The first minutes on a fresh account: nobody is told to wait, everybody finds the server."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import BINARY_DIR, SOURCE_DIR, TIMEOUT_S, ClusterTest, environment, kill_tasks

BLOCK = re.compile(r'^```sh\n(harmonics server &\n.*?)^```', re.MULTILINE | re.DOTALL)


def may_unshare():
    done = subprocess.run(['unshare', '--net', '--pid', '--fork', 'true'], capture_output=True,
                          check=False, timeout=20) if shutil.which('unshare') else None
    return done is not None and done.returncode == 0


class FirstUse(ClusterTest):
    @unittest.skipUnless(may_unshare(), 'name spaces are not permitted here')
    def test_the_block_of_the_readme_pasted_as_one(self):
        block = BLOCK.search((SOURCE_DIR / 'README.md').read_text()).group(1)
        for words in ('harmonics worker', 'submit', '--wait', 'harmonics logs 1'):
            self.assertIn(words, block)
        home = Path(tempfile.mkdtemp(prefix='home-', dir=self.folder))
        variables = {'HOME': str(home), 'PATH': f'{BINARY_DIR}:{os.environ["PATH"]}', 'LANG': 'C'}
        # The name space has no other use of the port, and ends all that the block leaves running.
        done = subprocess.run(['unshare', '--net', '--pid', '--fork', '--kill-child', 'bash', '-e', '-c',
                               'ip link set lo up\n' + block], cwd=home, env=variables, text=True,
                              capture_output=True, timeout=TIMEOUT_S, check=False)
        self.addCleanup(kill_tasks, home)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stderr, '(?m)^harmonics: ')
        self.assertIn('submitted task 1\n', done.stdout)
        self.assertRegex(done.stdout, r'(?m)^on device [01]$')

    def test_whoever_comes_before_the_server_waits_for_it_and_says_so_once(self):
        self.port = self.free_port()
        client = self.start('submit', *self.access(), '--gpus', 0, '--wait', '--patience', TIMEOUT_S, '--',
                            'echo', 'hello')
        worker = self.start('worker', *self.access())
        for process, how_long in ((client, f'waiting up to {TIMEOUT_S} s for one'),
                                  (worker, 'waiting until there is one')):
            said = f"no server has made the token '{self.state / 'token'}' yet: {how_long}\n"
            self.until(lambda one=process, text=said: text in self.printed(one), 'the line')
        self.start_server()
        self.assertEqual(client.wait(timeout=TIMEOUT_S), 0, self.printed(client))
        self.assertEqual(self.printed(client).count('no server'), 1)
        self.assertIn('task 1 succeeded', self.printed(client))
        self.assertEqual(self.done('logs', 1), 'hello\n')

    def test_a_server_that_is_not_up_yet_is_waited_for(self):
        server = self.start_server()
        self.kill(server, signal.SIGTERM)
        client = self.start('tasks', *self.access(), '--patience', TIMEOUT_S, '--output', 'json')
        said = f'no server answers at localhost:{self.port} yet: waiting up to {TIMEOUT_S} s for one\n'
        self.until(lambda: self.printed(client) == said, 'the line')
        self.start_server()
        self.assertEqual(client.wait(timeout=TIMEOUT_S), 0, self.printed(client))
        self.assertEqual(self.printed(client), said + '[]\n')

    def test_without_a_server_every_command_says_that_there_is_none(self):
        self.port = self.free_port()
        for command in (['tasks'], ['submit', '--', 'true'], ['logs', 1], ['wait', 1], ['monitor'],
                        ['cancel', 1], ['workers'], ['why', 1], ['artifacts', 1]):
            with self.subTest(command):
                result = self.call(command[0], '--patience', 0, *command[1:])
                self.assert_fails(result, f'no server was found for localhost:{self.port}',
                                  "'harmonics server'", '--token-file')
        waited = self.call('tasks', '--patience', 0.2)
        self.assert_fails(waited, 'waiting up to 0.2 s', 'no server was found')

    def test_a_worker_that_waits_ends_on_a_signal(self):
        self.port = self.free_port()
        worker = self.start('worker', *self.access())
        self.until(lambda: 'waiting until there is one' in self.printed(worker), 'the line')
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(timeout=TIMEOUT_S), 0, self.printed(worker))

    def test_who_stops_waiting_is_told_that_the_task_goes_on(self):
        self.start_server()
        self.start_worker()
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            client = self.start('submit', *self.access(), '--gpus', 0, '--wait', '--', 'sleep', '600')
            task = self.until(lambda one=client: re.search(r'submitted task (\d+)', self.printed(one)), 'it').group(1)
            self.kill(client, number)
            self.assertEqual(client.returncode, code)
            self.assertIn(f"task {task} goes on: 'harmonics wait {task}' waits again", self.printed(client))
            self.until(lambda one=task: self.state_of(one) == 'active', 'its start')
            self.done('cancel', task)

    def test_the_server_says_what_to_do_next(self):
        server = self.start_server()
        self.until(lambda: 'stop it:' in self.printed(server), 'the last line')
        said = dict(re.findall(r'(?m)^([a-z ]+): +(harmonics .+)$', self.printed(server)))
        self.assertEqual(list(said), ['add this machine to it', 'hand in a task', 'watch it'])
        variables = dict(environment(self.folder), PATH=f'{BINARY_DIR}:{os.environ["PATH"]}')
        self.start(*said['add this machine to it'].split()[1:])
        handed = subprocess.run(['sh', '-c', said['hand in a task']], env=variables, cwd=self.folder, text=True,
                                capture_output=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual((handed.returncode, handed.stdout), (0, 'submitted task 1\n'), handed.stderr)
        self.assertEqual(self.done('logs', 1), 'hello\n')
        watched = subprocess.run(['sh', '-c', said['watch it']], env=variables, cwd=self.folder, text=True,
                                 capture_output=True, timeout=TIMEOUT_S, check=False)
        self.assertIn('1 of 1 workers connected', watched.stdout)


if __name__ == '__main__':
    unittest.main()
