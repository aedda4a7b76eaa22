"""Servers, workers and machines that stay away for longer than a lease or a hold, and workers without room.

Every task holds a lock of its own while one of its processes lives, so that two attempts at once are
seen. HARMONICS_SOAK=1 runs 500 rounds, otherwise a slice (HARMONICS_CAMPAIGN_ROUNDS: as many). HARMONICS_SEED repeats a
run.
"""

import collections
import os
import random
import subprocess
import time
import unittest

from cluster import TIMEOUT_S, kill_marked
from crash_test import CrashBase

ROUNDS = int(os.environ.get('HARMONICS_CAMPAIGN_ROUNDS', 500 if os.environ.get('HARMONICS_SOAK') else 6))
SEED = int(os.environ.get('HARMONICS_SEED', random.SystemRandom().randrange(1 << 32)))
LEASE_S = 2
HOLD_S = 5


class Away(CrashBase):
    CASES = ('server for a lease', 'server for a hold', 'worker for a lease', 'worker for a hold',
             'machine', 'no room')

    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.tasks = []
        self.server = self.serve()
        self.mounted = {}
        self.workers = {}
        for name in ('a', 'b'):
            (self.folder / name).mkdir(mode=0o700)
            mount = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4m,mode=700', 'none',
                                    self.folder / name], capture_output=True, timeout=TIMEOUT_S)
            self.mounted[name] = mount.returncode == 0
            if self.mounted[name]:
                self.addCleanup(subprocess.run, ['umount', '--lazy', self.folder / name],
                                timeout=TIMEOUT_S)
            self.workers[name] = self.work(name)

    def serve(self):
        return self.start_server('--hold', HOLD_S, lease_s=LEASE_S)

    def work(self, name):
        return self.start('worker', *self.access(), '--id', name, '--state-dir', self.folder / name,
                          '--token-file', self.state / 'token', '--gpus', '0,1', '--models', 'T4,T4',
                          '--memories', '16384,16384', '--log-mb', 1, '--keep-mb', 1)

    def worker_folder(self, name):
        return self.folder / name / 'workers' / f'id-{name}'

    def view(self, name):
        return next((one for one in self.json('workers') if one['name'] == name), None)

    def submit_some(self):
        for _ in range(self.chance.randrange(2, 5)):
            seconds = self.chance.choice([0, 0.2, 1, 3])
            script = (f'exec 8> {self.runs}/task-$HARMONICS_TASK_ID; flock -n 8 || '
                      f'echo task $HARMONICS_TASK_ID >> {self.runs}/clashes; '
                      f'if [ -n "$CUDA_VISIBLE_DEVICES" ]; then '
                      f'exec 9> {self.runs}/device-$HARMONICS_WORKER-$CUDA_VISIBLE_DEVICES; '
                      f'flock -n 9 || echo device of $HARMONICS_TASK_ID >> {self.runs}/clashes; fi; '
                      + self.counted(f'sleep {seconds};'))
            wish = self.chance.choice(['continue', 'continue', 'stop'])
            self.tasks.append(self.script(script, gpus=self.chance.randrange(0, 2), flags=(
                '--max-losses', 'unlimited', '--on-disconnect', wish)))

    def pass_time(self, seconds):
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end, 'the time to pass')

    def kill_machine(self, name):
        """All at once, as a machine that loses its power: nobody is left to tell."""
        self.kill(self.workers[name])
        for record in self.worker_folder(name).glob('attempts/*/state'):
            try:
                os.kill(int(record.read_bytes().split(b'\0')[1]), 9)
            except (OSError, ValueError, IndexError):
                pass
        kill_marked((self.worker_folder(name) / 'identity').read_text())

    def until_without_tasks(self, name):
        self.until(lambda: self.view(name)['tasks'] == [], f'the tasks of {name} to be given up')

    def fill(self, name):
        if not self.mounted[name]:
            for part in ('attempts', 'spare'):
                (self.worker_folder(name) / part).chmod(0o500)
            return
        with open(self.folder / name / 'filler', 'wb', buffering=0) as file:
            try:
                while True:
                    file.write(b'x' * 4096)
            except OSError:
                pass

    def make_room(self, name):
        if self.mounted[name]:
            (self.folder / name / 'filler').unlink()
            return
        for part in ('attempts', 'spare'):
            (self.worker_folder(name) / part).chmod(0o700)

    def strike(self, case, name):
        if case.startswith('server'):
            self.kill(self.server)
            self.pass_time(LEASE_S + 1 if case.endswith('lease') else HOLD_S + 1)
            self.server = self.serve()
        elif case == 'no room':
            self.until(lambda: self.view(name) and self.view(name)['state'] == 'ready', name)
            self.fill(name)
            self.submit_some()
            # Seen as unable, or the other one had time for all.
            self.until(lambda: self.view(name)['state'] == 'unable'
                       or all(self.state_of(task) == 'succeeded' for task in self.tasks[-2:]), 'its rest')
            self.make_room(name)
        else:
            self.until(lambda: self.view(name), name)
            self.kill_machine(name) if case == 'machine' else self.kill(self.workers[name])
            if case.endswith('lease'):
                self.until(lambda: self.view(name)['state'] == 'expired', 'the end of its lease')
            else:
                self.until_without_tasks(name)
            self.workers[name] = self.work(name)

    def test_whoever_stays_away_costs_no_task_and_runs_none_twice(self):
        print(f'seed {SEED}, {ROUNDS} rounds', flush=True)
        cases = collections.Counter()
        order = list(self.CASES)
        for number in range(ROUNDS):
            if number % len(order) == 0:
                self.chance.shuffle(order)
            case, name = order[number % len(order)], self.chance.choice(['a', 'b'])
            cases[case] += 1
            self.submit_some()
            self.strike(case, name)
        print(', '.join(f'{case} {count}' for case, count in sorted(cases.items())), flush=True)
        print('tasks:', len(self.tasks), flush=True)
        self.check()

    def check(self):
        for start in range(0, len(self.tasks), 100):
            some = self.tasks[start:start + 100]
            self.assertEqual(self.wait(*some)['succeeded'], len(some))
        views = {view['id']: view for view in self.json('tasks', '--limit', 100_000)}
        for task in self.tasks:
            starts = [line.split()[1] for line in self.lines(task, 'start')]
            self.assertEqual(len(starts), len(set(starts)), f'task {task}: an attempt began twice')
            self.assertEqual(views[task]['failures'], 0)
            ends = self.lines(task, 'end')
            self.assertEqual(ends.count(f'end {views[task]["attempts"]}'), 1, f'task {task}: {ends}')
        clashes = self.runs / 'clashes'
        self.assertFalse(clashes.exists(), clashes.exists() and clashes.read_text())
        self.until(lambda: [worker['tasks'] for worker in self.json('workers')] == [[], []],
                   'all devices to be free')


if __name__ == '__main__':
    unittest.main()
