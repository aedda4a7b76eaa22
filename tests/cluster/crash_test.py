"""kill -9 of server, worker, supervisor, guardian and client at random points under load.

Every task appends one line to a file of its own when it runs to its end, so that what really happened
can be compared with what the cluster says, and has processes that hide: they hold locks of the device
and of the task, which the next attempt finds taken if one of them lives. HARMONICS_SOAK=1 runs 500
points, otherwise a slice. HARMONICS_SEED repeats a run. Every kill is at a step of a task that is
drawn, too.
"""

import collections
import os
import pathlib
import random
import signal
import subprocess
import unittest

from cluster import HARMONICS, ClusterTest, environment

POINTS = 500 if os.environ.get('HARMONICS_SOAK') else 12
SEED = int(os.environ.get('HARMONICS_SEED', random.SystemRandom().randrange(1 << 32)))
# Long where a slow machine must not end it, short where its end is the point.
LEASE_S = 60
SHORT_LEASE_S = 4


class CrashBase(ClusterTest):
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

    def recorded(self, field, worker='*'):
        found = []
        for record in self.state.glob(f'workers/{worker}/attempts/*/state'):
            try:
                found.append(int(record.read_bytes().split(b'\0')[field]))
            except (OSError, ValueError, IndexError):
                pass
        return found

    def supervisors(self, worker='*'):
        """Pids of the supervisors that run now."""
        return self.recorded(1, worker)

    def guardians(self, worker='*'):
        return self.recorded(5, worker)

    def hiding(self, lock, clash):
        """Takes the lock, and starts processes that hold it and hide: no parent, no environment, their
        own session. If an earlier attempt still has it, `clash` is run."""
        hidden = 'env -i setsid sleep 1000 >/dev/null 2>&1 3>&-'
        return (f'exec 8>> {lock}; flock -n 8 || {clash}; ({hidden} &); {hidden} & '
                f'(setsid env -i sh -c "sleep 1000; true" >/dev/null 2>&1 3>&- &); ')


class Crash(CrashBase):
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

    def test_nothing_of_an_attempt_lives_when_the_next_starts(self):
        self.start_server()
        for mode in ([], ['--cgroup', 'none']):
            name = f'w{len(mode)}'
            worker = self.start_worker('--id', name, *mode)
            for victims in ('supervisor', 'guardian', 'supervisor guardian', 'worker supervisor',
                            'worker guardian'):
                with self.subTest(mode=mode, victims=victims):
                    lock = f'{self.runs}/lock-{victims.replace(" ", "-")}-{len(mode)}'
                    task = self.script(self.hiding(lock, 'exit 9') + 'echo ready; '
                                       '[ $HARMONICS_ATTEMPT = 1 ] && sleep 1000; true', gpus=1)
                    self.until(lambda: self.done('logs', task) == 'ready\n', 'it to run')
                    folder = f'id-{name}'
                    pids = [pid for victim in victims.split() if victim != 'worker' for pid in
                            (self.guardians if victim == 'guardian' else self.supervisors)(folder)]
                    self.assertTrue(pids)
                    if 'worker' in victims:
                        self.kill(worker)
                    self.kill_pids(pids)
                    if 'worker' in victims:
                        worker = self.start_worker('--id', name, *mode)
                    self.assertEqual(self.wait(task)['succeeded'], 1, self.task(task))
                    view = self.task(task)
                    self.assertEqual((view['attempts'], view['losses']), (2, 1))
            self.kill(worker)
            self.done('drain', name)

    def test_another_worker_does_not_run_it_beside_what_the_lost_one_left(self):
        self.start_server(lease_s=SHORT_LEASE_S)
        worker = self.start_worker('--id', 'a', '--cgroup', 'none')
        task = self.script(self.hiding(f'{self.runs}/lock', 'exit 9') + 'echo ready; '
                           '[ $HARMONICS_ATTEMPT = 1 ] && sleep 1000; true',
                           flags=('--on-disconnect', 'stop'))
        self.until(lambda: self.done('logs', task) == 'ready\n', 'it to run')
        self.start_worker('--id', 'b')
        self.kill(worker)
        self.kill_pids(self.supervisors('id-a'))
        self.assertEqual(self.wait(task)['succeeded'], 1, self.task(task))
        self.assertEqual(self.task(task)['attempts'], 2)

    def lose(self, task, attempt):
        """Kills the supervisor of an attempt once the task runs."""
        self.until(lambda: len(self.lines(task, 'start')) == attempt, f'attempt {attempt}')
        record = self.until(lambda: next(self.state.glob(f'workers/*/attempts/{task}.{attempt}/state'),
                                         None), 'its supervisor')
        os.kill(int(record.read_bytes().split(b'\0')[1]), signal.SIGKILL)

    def test_losses_have_a_limit_that_is_told(self):
        self.start_server()
        self.start_worker()
        limited = self.script(self.counted('sleep 1000;'), flags=('--retries', 1000, '--max-losses', 2))
        for attempt in (1, 2):
            self.lose(limited, attempt)
        self.assertEqual(self.wait(limited)['failed'], 1)
        view = self.task(limited)
        self.assertEqual((view['attempts'], view['failures'], view['losses']), (2, 0, 2))
        self.assertEqual(view['spec']['max_losses'], 2)
        self.assertIn('it was lost 2 times, its limit', view['end']['message'])
        self.assertIn('2 (0 failed, 2 lost, 0 preempted)', self.done('task', limited))
        self.assertIn('it was lost 2 times, its limit', self.done('why', limited))
        endless = self.script(self.counted('[ $HARMONICS_ATTEMPT = 7 ] || sleep 1000;'),
                              flags=('--max-losses', 'unlimited'))
        for attempt in range(1, 7):
            self.lose(endless, attempt)
        self.assertEqual(self.wait(endless)['succeeded'], 1)
        self.assertEqual(self.task(endless)['losses'], 6)

    def test_tasks_of_a_lost_lease_stop_by_themselves_and_run_again(self):
        server = self.start_server(lease_s=SHORT_LEASE_S)
        worker = self.start_worker('--id', 'w')
        task = self.script(self.counted('echo $$; ' + self.held()), flags=('--on-disconnect', 'stop'))
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

    def pid_of(self, task):
        """Of a task that prints it first."""
        return int(self.until(lambda: self.done('logs', task).strip(), 'the pid'))

    def until_gone(self, pid):
        self.until(lambda: not pathlib.Path(f'/proc/{pid}').exists(), 'its end')

    def test_a_server_that_was_away_for_longer_than_a_lease(self):
        server = self.start_server(lease_s=SHORT_LEASE_S)
        self.start_worker('--id', 'w')
        # By the one that stops it is known that the lease is over.
        clock = self.script('echo $$; ' + self.held(), flags=('--on-disconnect', 'stop'))
        task = self.script(self.counted('echo $$; ' + self.held()), gpus=1)
        for one in (clock, task):
            self.until_launched(one)
        ticking, pid = self.pid_of(clock), self.pid_of(task)
        self.kill(server)
        self.until_gone(ticking)
        self.assertTrue(pathlib.Path(f'/proc/{pid}').exists(), 'it goes on')
        self.start_server(lease_s=SHORT_LEASE_S)
        self.until(lambda: self.ready_workers(), 'the worker')
        self.assertTrue(pathlib.Path(f'/proc/{pid}').exists(), 'it still goes on')
        self.release()
        self.assertEqual(self.wait(task, clock)['succeeded'], 2)
        self.assertEqual(self.lines(task, 'start'), ['start 1 0 w'])
        view = self.task(task)
        self.assertEqual((view['attempts'], view['losses']), (1, 0))
        self.assertEqual(self.task(clock)['attempts'], 2)

    def test_a_worker_that_is_away_keeps_its_task_until_the_hold_is_over(self):
        self.start_server('--hold', 10, lease_s=3)
        away = self.start_worker('--id', 'away')
        task = self.script(self.counted('echo $$; [ $HARMONICS_ATTEMPT = 1 ] && ' + self.held()), gpus=1)
        self.until_launched(task)
        pid = self.pid_of(task)
        self.start_worker('--id', 'other')
        # The worker alone: its task goes on, and nobody else starts it when the lease is over.
        self.kill(away)
        self.until(lambda: 'expired' in {one['state'] for one in self.json('workers')}, 'its lease')
        self.assertTrue(pathlib.Path(f'/proc/{pid}').exists())
        why = self.done('why', task)
        self.assertIn("Worker 'away' has been silent", why)
        self.assertIn('is given up in', why)
        away = self.start_worker('--id', 'away')
        self.assertEqual((self.state_of(task), self.task(task)['attempts']), ('active', 1))
        # For good: when the hold is over its supervisor has ended it, and another takes it.
        self.kill(away)
        self.until_gone(pid)
        self.assertEqual(self.wait(task)['succeeded'], 1)
        view = self.task(task)
        self.assertEqual((view['attempts'], view['losses']), (2, 1))
        self.assertEqual([member['worker'] for member in view['members']], ['other'])
        self.assertEqual(len(self.lines(task, 'end')), 1)


class Campaign(CrashBase):
    """Kills drawn over victims and steps of a task, while clients hand in more."""

    VICTIMS = ('server', 'worker', 'supervisor', 'guardian', 'worker and supervisor', 'client')
    STEPS = ('submitting', 'accepted', 'starting', 'running', 'ending', 'restarting')

    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.acknowledged = []
        self.server = self.start_server()
        self.workers = {name: self.start_worker('--id', name, *self.mode(name)) for name in 'ab'}

    @staticmethod
    def mode(name):
        """One worker keeps its tasks in cgroups (where it may), the other never does."""
        return ['--cgroup', 'none'] if name == 'b' else []

    def load(self, pause):
        """Counts itself, and holds its device and its task by locks that go with its last process."""
        lock = f'{self.runs}/device-$HARMONICS_WORKER-$CUDA_VISIBLE_DEVICES'
        taken = f'if [ -n "$CUDA_VISIBLE_DEVICES" ]; then exec 9> {lock}; flock -n 9 || ' \
                f'echo $HARMONICS_TASK_ID >> {self.runs}/clashes; fi; '
        taken += self.hiding(f'{self.runs}/task-$HARMONICS_TASK_ID',
                             f'echo task $HARMONICS_TASK_ID >> {self.runs}/clashes')
        return (taken + f'echo >> {self.runs}/starts; ' + self.counted(pause)
                + f'; echo >> {self.runs}/ends')

    def size(self, name):
        path = self.runs / name
        return path.stat().st_size if path.exists() else 0

    def submit_some(self):
        clients = []
        for _ in range(self.chance.randrange(1, 4)):
            pause = self.chance.choice(['', 'sleep 0.05;', 'sleep 0.3;'])
            command = [str(HARMONICS), 'submit', *self.access(), '--output', 'quiet', '--name', 'load',
                       '--max-losses', 'unlimited', '--gpus', str(self.chance.randrange(0, 2)), '--', 'sh', '-c', self.load(pause)]
            clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                            text=True, env=environment(self.folder)))
            self.addCleanup(self.kill, clients[-1])
        return clients

    def hear(self, clients):
        for client in clients:
            answer, _ = client.communicate(timeout=60)
            if client.returncode == 0:
                self.acknowledged.append(int(answer))

    def until_step(self, step, clients):
        starts, ends = self.size('starts'), self.size('ends')
        if step in ('submitting', 'restarting'):
            for _ in range(self.chance.randrange(8)):
                subprocess.run(['true'], check=True)
            return
        before = len(self.acknowledged)
        self.hear(clients)
        clients.clear()
        if step == 'accepted' or len(self.acknowledged) == before:
            return
        if step == 'starting':
            self.until(lambda: self.supervisors() or self.size('starts') > starts, 'a start')
        elif step == 'running':
            self.until(lambda: self.size('starts') > starts, 'a task to run')
        else:
            self.until(lambda: self.size('ends') > ends, 'a task to end')

    def strike(self, victim, clients):
        if victim == 'server':
            self.kill(self.server)
        elif victim.startswith('worker'):
            name = self.chance.choice(['a', 'b'])
            self.kill(self.workers[name])
            if victim == 'worker and supervisor':
                self.kill_pids(self.supervisors(f'id-{name}'))
            self.workers[name] = self.start('worker', *self.access(), '--gpus', '0,1', '--models',
                                            'T4,T4', '--memories', '16384,16384', '--id', name,
                                            *self.mode(name))
        elif victim == 'supervisor':
            self.kill_pids(self.supervisors()[:1])
        elif victim == 'guardian':
            self.kill_pids(self.guardians()[:1])
        else:
            watcher = self.start('wait', *self.access(), *self.acknowledged[-1:] or [1])
            for client in (*clients[:1], watcher):
                self.kill(client)

    def test_kills_at_random_points_under_load(self):
        print(f'seed {SEED}, {POINTS} points', flush=True)
        spread = collections.Counter()
        for _ in range(POINTS):
            victim, step = self.chance.choice(self.VICTIMS), self.chance.choice(self.STEPS)
            spread[victim, step] += 1
            clients = self.submit_some()
            self.until_step(step, clients)
            self.strike(victim, clients)
            if victim == 'server' and step == 'restarting':
                # Once more while it reads back what it knew.
                self.kill(self.start('server', '--port', self.port, '--lease', LEASE_S))
            if victim == 'worker' and step == 'restarting':
                self.strike(victim, clients)
            if victim == 'server':
                self.server = self.start_server()
            self.hear(clients)
        for victim in self.VICTIMS:
            print(f'{victim:>22}:', ', '.join(f'{step} {spread[victim, step]}' for step in self.STEPS),
                  flush=True)
        print('acknowledged:', len(self.acknowledged), flush=True)
        self.check()

    def check(self):
        tasks = self.acknowledged
        self.assertGreater(len(tasks), 0)
        for start in range(0, len(tasks), 100):
            some = tasks[start:start + 100]
            if self.wait(*some)['succeeded'] != len(some):
                views = [self.task(task) for task in some]
                self.fail([view for view in views if view['state'] != 'succeeded'])
        views = {view['id']: view for view in self.json('tasks', '--limit', 100_000)}
        for task in tasks:
            starts = self.lines(task, 'start')
            # No attempt starts twice, and the one that counts ran to its end once.
            attempts = [line.split()[1] for line in starts]
            self.assertEqual(len(attempts), len(set(attempts)), f'task {task}: {starts}')
            ends = self.lines(task, 'end')
            self.assertEqual(ends.count(f'end {views[task]["attempts"]}'), 1, f'task {task}: {ends}')
        self.assertFalse((self.runs / 'clashes').exists(), 'a device in two live leases, or a task beside itself')
        # Also those whose client was killed before it could read the answer come to an end.
        self.wait(*[task for task in views if task not in set(tasks)][:100] or tasks[:1])
        self.until(lambda: [worker['tasks'] for worker in self.json('workers')] == [[], []],
                   'all devices to be free')


if __name__ == '__main__':
    unittest.main()
