"""Tasks that run as another user than their worker's (worker --task-user). Needs root."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import unittest

from cluster import HARMONICS, SOURCE_DIR, TIMEOUT_S, ClusterTest, environment, kill_tasks

# Accounts that every Debian has, neither of them with rights.
USER, OTHER = 'nobody', 'daemon'


@unittest.skipUnless(os.geteuid() == 0, 'only root can run tasks as another user')
class TaskUser(ClusterTest):
    def setUp(self):
        super().setUp()
        # The scratch folder is root's alone; this one is for tasks to pass through.
        self.open = pathlib.Path(tempfile.mkdtemp(prefix='harmonics-open-'))
        self.open.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.open, ignore_errors=True)
        tokens = self.folder / 'tokens'
        tokens.write_text(''.join(f'submit {user} {user[0] * 32}\n' for user in (USER, OTHER, 'stranger')))
        self.server = self.start_server('--tokens', tokens)
        self.uid = pwd.getpwnam(USER).pw_uid

    def start_user_worker(self, user=USER, *arguments):
        return self.start_worker('--id', 'w', '--task-user', user, '--task-dir', self.open, *arguments)

    def flags_of(self, user):
        token = self.folder / f'{user}.token'
        token.write_text(user[0] * 32)
        token.chmod(0o600)
        return ['--token-file', token]

    def gate(self):
        return f'while [ ! -e {self.open}/go ]; do sleep 0.02; done; '

    def open_gate(self):
        (self.open / 'go').touch()

    def refused_worker(self, *arguments, **options):
        answer = subprocess.run([str(HARMONICS), 'worker', *self.access(), *map(str, arguments)],
                                capture_output=True, text=True, timeout=TIMEOUT_S, cwd=self.folder,
                                env=environment(self.folder), **options)
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        return answer.stderr

    def test_who_it_is_and_what_it_cannot_read(self):
        worker = self.start_user_worker()
        self.assertIn('tasks run as nobody\n', self.printed(worker))
        task = self.script('id -u; id -g; echo $HOME $USER $LOGNAME; pwd; '
                           f'cat {self.state}/token {self.folder}/tokens || echo no-token; '
                           f'ls {self.state} {self.state}/workers/id-w || echo no-state; '
                           f'ls {self.open}/harmonics-* || echo no-list; '
                           f'echo ${{XDG_STATE_HOME-unset}}; grep -c . /proc/$PPID/environ || echo no-worker')
        self.assertEqual(self.wait(task)['succeeded'], 1, self.task(task))
        account = pwd.getpwnam(USER)
        lines = self.done('logs', task).splitlines()
        self.assertEqual(lines[:3], [str(self.uid), str(account.pw_gid), f'{account.pw_dir} {USER} {USER}'])
        self.assertEqual(pathlib.Path(lines[3]).parent.parent, self.open)
        self.assertEqual(lines[4:], ['no-token', 'no-state', 'no-list', 'unset', 'no-worker'])
        self.until(lambda: not pathlib.Path(lines[3]).exists(), 'its folder to go')

    def test_output_progress_artifacts_and_files(self):
        worker = self.start_user_worker()
        project = self.folder / 'project'
        project.mkdir()
        (project / 'run.sh').write_text(
            '#!/bin/sh\necho one; echo two >&2; echo \'{"progress": 0.5}\' >&$HARMONICS_PROGRESS_FD\n'
            f'mkdir out; id -u > out/id; ln -s {self.state}/token out/token; ln -s {self.state} state\n'
            f'{self.gate()}\n')
        (project / 'run.sh').chmod(0o700)
        task = int(subprocess.run(
            [str(HARMONICS), 'submit', *self.access(), '--output', 'quiet', '--name', 'x', '--gpus', '0',
             '--artifact', 'out', '--artifact', 'state/token', '--upload', 'run.sh', '--', './run.sh'],
            capture_output=True, text=True, check=True, cwd=project, env=environment(self.folder)).stdout)
        self.until(lambda: (self.task(task)['progress'] or {}).get('progress') == 0.5, 'progress')
        # The worker finds it again.
        self.kill(worker)
        self.start_user_worker()
        self.open_gate()
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(self.task(task)['attempts'], 1)
        self.assertEqual(self.done('logs', task), 'one\n')
        self.assertEqual(self.done('logs', task, '--stream', 'err'), 'two\n')
        self.assertEqual([one['path'] for one in self.json('artifacts', task)], ['out/id'])
        self.done('artifacts', task, '--to', 'fetched')
        self.assertEqual((self.folder / 'fetched/out/id').read_text(), f'{self.uid}\n')
        self.assertIn("'out/token' is no regular file", self.task(task)['end']['message'])

    def test_cancel_time_limit_and_a_killed_supervisor(self):
        self.start_user_worker()
        stubborn = 'trap "" TERM; setsid sleep 1000 & echo $! $$; wait; sleep 1000'

        def pids(task):
            return [int(pid) for pid in self.until(lambda: self.done('logs', task).split(), 'its pids')]

        def until_gone(found):
            self.until(lambda: not any(pathlib.Path(f'/proc/{pid}').exists() for pid in found), 'their end')
        task = self.script(stubborn)
        found = pids(task)
        self.done('cancel', task)
        self.assertEqual(self.wait(task)['cancelled'], 1)
        until_gone(found)
        limited = self.script(stubborn, flags=['--timeout', 1])
        found = pids(limited)
        self.assertEqual(self.wait(limited)['failed'], 1)
        until_gone(found)
        self.assertIn('time limit', self.task(limited)['end']['message'])
        lost = self.script(stubborn, flags=['--max-losses', 1])
        found = pids(lost)
        supervisor = int(pathlib.Path(f'/proc/{found[1]}/stat').read_text().rsplit(')')[1].split()[1])
        self.assertEqual(pathlib.Path(f'/proc/{supervisor}/comm').read_text(), 'harm-supervise\n')
        os.kill(supervisor, signal.SIGKILL)
        self.assertEqual(self.wait(lost)['failed'], 1)
        until_gone(found)

    def test_each_task_runs_as_its_owner(self):
        worker = self.start_user_worker('owner')
        self.assertIn('tasks run as their owners\n', self.printed(worker))
        kept = self.script(f'echo secret > mine; chmod 644 mine; pwd; {self.gate()}', flags=self.flags_of(USER))
        place = self.until(lambda: self.done('logs', kept).strip(), 'its folder')
        reader = self.script(f'id -un; cat {place}/mine || echo closed; kill -9 {os.getpid()} || echo no-kill',
                             flags=self.flags_of(OTHER))
        self.assertEqual(self.wait(reader)['succeeded'], 1)
        self.assertEqual(self.done('logs', reader), f'{OTHER}\nclosed\nno-kill\n')
        self.open_gate()
        self.assertEqual(self.wait(kept)['succeeded'], 1)
        stranger = self.script('true', flags=self.flags_of('stranger'))
        self.assertEqual(self.wait(stranger)['failed'], 1)
        self.assertIn("no account 'stranger' to run tasks as", self.task(stranger)['end']['message'])
        # The server's own token here is root's.
        own = self.script('true')
        self.assertEqual(self.wait(own)['failed'], 1)
        self.assertIn('root', self.task(own)['end']['message'])

    def test_what_cannot_be_is_said_at_the_start(self):
        self.assertIn("--task-user no-such: this machine has no account 'no-such'",
                      self.refused_worker('--task-user', 'no-such'))
        self.assertIn("no task is run as 'root'", self.refused_worker('--task-user', 'root'))
        self.assertIn(f"cannot be entered by '{USER}'",
                      self.refused_worker('--task-user', USER, '--task-dir', self.folder))
        loose = self.open / 'token'
        loose.write_text((self.state / 'token').read_text())
        loose.chmod(0o604)
        self.assertIn('is open to other users', self.refused_worker('--task-user', USER, '--token-file', loose))
        # Without the privilege: as that user, in a folder of its own.
        home = self.open / 'home'
        home.mkdir(mode=0o700)
        os.chown(home, self.uid, -1)
        answer = subprocess.run([str(HARMONICS), 'worker', *self.access(), '--task-user', OTHER,
                                 '--state-dir', str(home / 'state')],
                                capture_output=True, text=True, timeout=TIMEOUT_S, cwd='/', user=self.uid,
                                env=dict(os.environ, HOME=str(home), XDG_CONFIG_HOME=str(home)))
        if 'Permission denied' in answer.stderr:
            self.skipTest(f'{USER} cannot run {HARMONICS}')
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn('it lacks CAP_SETUID', answer.stderr)

    def test_stages_go_to_workers_whose_tasks_can_read_the_key(self):
        self.kill(self.server)
        made = subprocess.run([str(HARMONICS), 'server', '--init', 'tls'], cwd=self.folder,
                              capture_output=True, text=True, env=environment(self.folder))
        self.assertEqual(made.returncode, 0, made.stderr)
        self.start_server('--tls', 'tls')
        worker = self.start('worker', *self.access(), '--tls', 'tls', '--task-user', USER,
                            '--task-dir', self.open)
        self.until(lambda: json.loads(self.done('workers', '--tls', 'tls', '--output', 'json'))
                   or self.ended(worker), 'the worker')
        command = ('submit', '--tls', 'tls', '--pipeline', SOURCE_DIR / 'examples/digits.harp',
                   '--stages', 1, '--retries', 0, '--epochs', 1)
        refused = self.call(*command)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn('runs no stages: ', refused.stderr)
        answer = self.call(*command, '--wait-for-machines')
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn('runs no stages: ', answer.stderr)
        task = int(answer.stdout.split()[-1])
        why = json.loads(self.done('why', '--tls', 'tls', task, '--output', 'json'))
        self.assertEqual(why['reason'], 'impossible')
        self.assertIn('runs no stages: ', why['text'])
        self.assertIn('--task-user', why['text'])
        workers = json.loads(self.done('workers', '--tls', 'tls', '--output', 'json'))
        self.assertEqual([one['stages'] for one in workers], [False])
        self.start('worker', *self.access(), '--tls', 'tls', '--id', 'own', '--state-dir', self.folder / 'own',
                   '--token-file', self.state / 'token')
        self.done('wait', '--tls', 'tls', task, '--timeout', 120)
        view = json.loads(self.done('task', '--tls', 'tls', task, '--output', 'json'))
        self.assertEqual([member['worker'] for member in view['members']], ['own'])
        plain = self.call('submit', '--tls', 'tls', '--name', 'x', '--gpus', 0, '--wait', '--', 'true')
        self.assertEqual(plain.returncode, 0, plain.stderr)

    @unittest.skipUnless(shutil.which('setpriv'), 'setpriv (util-linux) is not there')
    def test_a_worker_with_capabilities_and_no_more(self):
        home = self.open / 'home'
        home.mkdir(mode=0o700)
        (home / 'token').write_text((self.state / 'token').read_text())
        (home / 'token').chmod(0o600)
        for path in (home, home / 'token'):
            os.chown(path, self.uid, -1)
        place = self.open / 'place'
        place.mkdir()
        os.chown(place, self.uid, -1)
        capabilities = '+setuid,+setgid,+chown,+kill'
        log = open(self.folder / 'worker-output', 'w+')
        self.addCleanup(log.close)
        worker = subprocess.Popen(
            ['setpriv', f'--reuid={self.uid}', '--regid', str(pwd.getpwnam(USER).pw_gid), '--clear-groups',
             '--inh-caps', capabilities, '--ambient-caps', capabilities, str(HARMONICS), 'worker',
             *self.access(), '--state-dir', str(home / 'state'), '--token-file', str(home / 'token'),
             '--task-user', OTHER, '--task-dir', str(place)],
            stdout=log, stderr=log, cwd='/', env=dict(os.environ, HOME=str(home), XDG_CONFIG_HOME=str(home)))
        self.addCleanup(self.kill, worker)
        self.addCleanup(kill_tasks, home)
        said = self.folder / 'worker-output'
        self.until(lambda: self.ready_workers() or worker.poll() is not None, 'the worker')
        if 'Permission denied' in said.read_text():
            self.skipTest(f'{USER} cannot run {HARMONICS}')
        task = self.script('id -un; grep -c "^Cap[^B].*0000000000000000" /proc/self/status; mkdir out; '
                           f'id -u > out/id; chmod 700 out; pwd; cat {home}/token || echo closed',
                           flags=['--artifact', 'out'])
        self.assertEqual(self.wait(task)['succeeded'], 1, said.read_text())
        user, empty, folder, token = self.done('logs', task).splitlines()
        self.assertEqual((user, empty, token), (OTHER, '4', 'closed'))
        self.done('artifacts', task, '--to', 'fetched')
        self.assertEqual((self.folder / 'fetched/out/id').read_text(), f'{pwd.getpwnam(OTHER).pw_uid}\n')
        self.until(lambda: not pathlib.Path(folder).exists(), 'its folder to go')
        endless = self.script('trap "" TERM; echo x; sleep 1000; sleep 1000')
        self.until(lambda: self.done('logs', endless), 'its word')
        self.done('cancel', endless)
        self.assertEqual(self.wait(endless)['cancelled'], 1)

    def test_without_the_flag_nothing_changes(self):
        self.start_worker('--id', 'w')
        task = self.script('id -u; pwd; echo $XDG_STATE_HOME; grep NoNewPrivs /proc/self/status')
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(self.done('logs', task).splitlines(),
                         ['0', str(self.state / 'workers/id-w/attempts' / f'{task}.1'), str(self.folder),
                          'NoNewPrivs:\t0'])


if __name__ == '__main__':
    if os.geteuid() != 0:
        print('skipped: only root can run tasks as another user')
    unittest.main()
