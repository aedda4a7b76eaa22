"""kill -9 of server, worker, supervisor and client at random points under load.

Every task appends one line to a file of its own when it runs to its end, so that what really happened
can be compared with what the cluster says. HARMONICS_SOAK=1 runs 300 points, otherwise a slice.
HARMONICS_SEED repeats a run.
"""

import collections
import os
import pathlib
import random
import signal
import subprocess
import unittest

from cluster import HARMONICS, ClusterTest, environment

POINTS = 300 if os.environ.get('HARMONICS_SOAK') else 12
SEED = int(os.environ.get('HARMONICS_SEED', random.SystemRandom().randrange(1 << 32)))
# Long where a slow machine must not end it, short where its end is the point.
LEASE_S = 60
SHORT_LEASE_S = 4


class Crash(ClusterTest):
    def setUp(self):
        super().setUp()
        self.runs = self.folder / 'runs'
        self.runs.mkdir()

    def start_server(self, *arguments, port=None, lease_s=LEASE_S):
        return super().start_server('--lease', lease_s, *arguments, port=port)

    def counted(self, extra=''):
        """A script that notes each start and each end of the task."""
        mark = f'{self.runs}/$HARMONICS_TASK_ID'
        return (f'echo start $HARMONICS_ATTEMPT $CUDA_VISIBLE_DEVICES $HARMONICS_WORKER >> {mark}; '
                f'{extra} echo end $HARMONICS_ATTEMPT >> {mark}')

    def lines(self, task, word):
        path = self.runs / str(task)
        return [line for line in path.read_text().splitlines() if line.startswith(word)] \
            if path.exists() else []

    def supervisors(self):
        """Pids of the supervisors that run now."""
        found = []
        for record in self.state.glob('workers/*/attempts/*/state'):
            try:
                found.append(int(record.read_bytes().split(b'\0')[1]))
            except (OSError, ValueError, IndexError):
                pass
        return found

    def test_a_killed_server_loses_nothing_it_acknowledged(self):
        server = self.start_server()
        tasks = [self.script('true') for _ in range(20)]
        self.kill(server)
        self.start_server()
        self.start_worker()
        self.assertEqual(self.wait(*tasks)['succeeded'], 20)

    def test_running_tasks_survive_server_and_worker(self):
        server = self.start_server()
        worker = self.start_worker('--id', 'w')
        task = self.script(self.counted(self.held()), gpus=1)
        self.until_launched(task)
        self.kill(server)
        self.kill(worker)
        self.start_server()
        self.start_worker('--id', 'w')
        self.release()
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(len(self.lines(task, 'start')), 1)
        self.assertEqual(self.task(task)['attempts'], 1)

    def test_a_task_that_ends_while_the_worker_is_away_is_counted_once(self):
        self.start_server()
        worker = self.start_worker('--id', 'w')
        task = self.script(self.counted(self.held()))
        self.until_launched(task)
        self.kill(worker)
        self.release()
        self.until(lambda: self.lines(task, 'end'), 'its end')
        self.start_worker('--id', 'w')
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(self.task(task)['attempts'], 1)

    def test_a_killed_supervisor_ends_the_attempt_once_as_lost(self):
        self.start_server()
        self.start_worker()
        task = self.script(self.counted('[ $HARMONICS_ATTEMPT = 1 ] && sleep 1000;'))
        self.until_launched(task)
        os.kill(self.supervisors()[0], signal.SIGKILL)
        self.assertEqual(self.wait(task)['succeeded'], 1)
        view = self.task(task)
        self.assertEqual((view['attempts'], view['losses']), (2, 1))
        self.assertEqual(len(self.lines(task, 'end')), 1)

    def test_tasks_of_a_lost_lease_stop_by_themselves_and_run_again(self):
        server = self.start_server(lease_s=SHORT_LEASE_S)
        worker = self.start_worker('--id', 'w')
        task = self.script(self.counted('echo $$; ' + self.held()))
        self.until_launched(task)
        pid = int(self.until(lambda: self.done('logs', task).strip(), 'the pid'))
        # Both are gone: the supervisor alone keeps the promise.
        self.kill(server)
        self.kill(worker)
        self.until(lambda: not pathlib.Path(f'/proc/{pid}').exists(), 'the end of the lease')
        self.start_server(lease_s=SHORT_LEASE_S)
        self.start_worker('--id', 'w')
        self.release()
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(len(self.lines(task, 'start')), 2)
        self.assertEqual(len(self.lines(task, 'end')), 1)

    def test_a_server_that_was_away_for_longer_than_a_lease(self):
        server = self.start_server(lease_s=SHORT_LEASE_S)
        self.start_worker('--id', 'w')
        task = self.script('echo $$; ' + self.held())
        self.until_launched(task)
        pid = int(self.until(lambda: self.done('logs', task).strip(), 'the pid'))
        self.kill(server)
        self.until(lambda: not pathlib.Path(f'/proc/{pid}').exists(), 'the end of the lease')
        self.release()
        self.start_server(lease_s=SHORT_LEASE_S)
        self.assertEqual(self.wait(task)['succeeded'], 1)

    def submit_some(self, chance, acknowledged):
        """A few clients at once; some are killed before they could read the answer."""
        clients = []
        for _ in range(chance.randrange(1, 4)):
            pause = chance.choice(['', 'sleep 0.05;', 'sleep 0.3;'])
            command = [str(HARMONICS), 'submit', *self.access(), '--output', 'quiet', '--name', 'load',
                       '--gpus', str(chance.randrange(0, 2)), '--', 'sh', '-c', self.counted(pause)]
            clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                            text=True, env=environment(self.folder)))
        if chance.random() < 0.2:
            clients[0].kill()
        for client in clients:
            answer, _ = client.communicate(timeout=60)
            if client.returncode == 0:
                acknowledged.append(int(answer))

    def test_kills_at_random_points_under_load(self):
        chance = random.Random(SEED)
        print(f'seed {SEED}, {POINTS} points', flush=True)
        server = self.start_server()
        workers = {name: self.start_worker('--id', name) for name in ('a', 'b')}
        acknowledged, killed = [], collections.Counter()
        for _ in range(POINTS):
            self.submit_some(chance, acknowledged)
            what = chance.choice(['server', 'a', 'b', 'supervisor'])
            killed[what] += 1
            if what == 'server':
                self.kill(server)
                server = self.start_server()
            elif what == 'supervisor':
                for pid in self.supervisors()[:1]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            else:
                self.kill(workers[what])
                workers[what] = self.start('worker', *self.access(), '--gpus', '0,1', '--models',
                                           'T4,T4', '--memories', '16384,16384', '--id', what)
        print('killed:', dict(killed), 'acknowledged:', len(acknowledged), flush=True)
        self.assertGreater(len(acknowledged), 0)
        self.assertEqual(self.wait(*acknowledged)['succeeded'], len(acknowledged))
        for task in acknowledged:
            starts = self.lines(task, 'start')
            # No attempt starts twice, and the one that counts ran to its end once.
            attempts = [line.split()[1] for line in starts]
            self.assertEqual(len(attempts), len(set(attempts)), f'task {task}: {starts}')
            view = self.task(task)
            self.assertIn(f'end {view["attempts"]}', self.lines(task, 'end'), f'task {task}')
        self.assertEqual([worker['tasks'] for worker in self.json('workers')], [[], []])


if __name__ == '__main__':
    unittest.main()
