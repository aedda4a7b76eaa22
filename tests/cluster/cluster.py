"""What the tests of the cluster share: a server and workers as real processes in a scratch folder."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
HARMONICS = BINARY_DIR / 'harmonics'
sys.path.insert(0, str(SOURCE_DIR / 'tools'))

from attempt_mark import kill_marked  # noqa: E402

# Generous: the machine may be busy with other tests.
TIMEOUT_S = 120


def environment(state_home):
    """The tests' own folders of state and keys, and no server or token that the caller may have."""
    variables = dict(os.environ, XDG_STATE_HOME=str(state_home), OMP_NUM_THREADS='1',
                     XDG_CONFIG_HOME=str(pathlib.Path(state_home) / 'config'))
    for name in ('HARMONICS_SCHEDULER', 'HARMONICS_TLS', 'HARMONICS_TOKEN_FILE', 'NO_COLOR'):
        variables.pop(name, None)
    return variables


def kill_tasks(folder):
    """Ends whatever tasks of this scratch folder left running."""
    for identity in folder.glob('**/identity'):
        kill_marked(identity.read_text())


class ClusterTest(unittest.TestCase):
    """Every test has a fresh state folder; all that it starts is killed at its end."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix='harmonics-cluster-', ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.addCleanup(kill_tasks, self.folder)
        self.port = 0
        self.output = {}

    @property
    def state(self):
        return self.folder / 'harmonics'

    def start(self, *arguments):
        """Starts `harmonics …`; killed at the end of the test if it still runs."""
        log = open(self.folder / f'output-{len(self.output)}', 'w+')
        self.addCleanup(log.close)
        process = subprocess.Popen([str(HARMONICS), *map(str, arguments)], stdout=log, stderr=log,
                                   cwd=self.folder, env=environment(self.folder))
        self.output[process] = pathlib.Path(log.name)
        self.addCleanup(self.kill, process)
        return process

    @staticmethod
    def kill(process, how=signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(how)
        process.wait(timeout=TIMEOUT_S)

    def mark_of(self, name):
        identity = self.folder / f'machine-{name}' / 'workers' / f'id-{name}' / 'identity'
        return f'HARMONICS_ATTEMPT_MARK={identity.read_text()}'.encode()

    @staticmethod
    def processes(mark, program=''):
        """Pids of a worker's tasks that run `program`, found by the worker's mark."""
        found = []
        for process in pathlib.Path('/proc').glob('[0-9]*'):
            try:
                if mark in (process / 'environ').read_bytes() and \
                        os.readlink(process / 'exe').endswith(program):
                    found.append(int(process.name))
            except OSError:
                pass
        return found

    def supervisors(self, name):
        found = []
        for record in (self.folder / f'machine-{name}').glob('workers/*/attempts/*/state'):
            try:
                found.append(int(record.read_bytes().split(b'\0')[1]))
            except (OSError, ValueError, IndexError):
                pass
        return found

    @staticmethod
    def kill_pids(pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def printed(self, process):
        return self.output[process].read_text()

    def until(self, done, what='it'):
        """Waits for `done()` to be true, and gives what it gave."""
        end = time.monotonic() + TIMEOUT_S
        pause = None
        while time.monotonic() < end:
            answer = done()
            if answer:
                return answer
            # A moment for the others; not what is waited for.
            pause = subprocess.run(['true'], check=True)
        self.fail(f'waited too long for {what} ({pause})')

    def start_server(self, *arguments, port=None):
        server = self.start('server', '--port', self.port if port is None else port, *arguments)
        line = self.until(lambda: re.search(r'listening on \S+?:(\d+),', self.printed(server))
                          or self.ended(server), 'the server')
        self.port = int(line.group(1))
        return server

    def ended(self, process):
        if process.poll() is not None:
            self.fail(f'ended with {process.returncode}: {self.printed(process)}')

    def start_worker(self, *arguments, gpus=2):
        lists = []
        if gpus > 0:
            lists = ['--gpus', ','.join(map(str, range(gpus))), '--models', ','.join(['T4'] * gpus),
                     '--memories', ','.join(['16384'] * gpus)]
        before = len(self.ready_workers())
        worker = self.start('worker', *self.access(), *lists, *arguments)
        self.until(lambda: len(self.ready_workers()) > before or self.ended(worker), 'the worker')
        return worker

    @staticmethod
    def free_port():
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            return free.getsockname()[1]

    def access(self):
        return ['--scheduler', f'localhost:{self.port}']

    def ready_workers(self):
        return [worker for worker in self.json('workers') if worker['state'] == 'ready']

    def call(self, command, *arguments, **options):
        """Runs `harmonics COMMAND --scheduler … …` to its end."""
        return subprocess.run([str(HARMONICS), command, *self.access(), *map(str, arguments)],
                              capture_output=True, text=True, timeout=TIMEOUT_S, cwd=self.folder,
                              env=environment(self.folder), **options)

    def done(self, command, *arguments):
        """The standard output of a call that must succeed."""
        result = self.call(command, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def json(self, command, *arguments):
        return json.loads(self.done(command, *arguments, '--output', 'json'))

    def submit(self, *command, flags=(), name='test', gpus=0):
        """Hands in a task; its id."""
        return int(self.done('submit', '--output', 'quiet', '--name', name, '--gpus', gpus, *flags,
                             '--', *command))

    def script(self, text, **options):
        return self.submit('sh', '-c', text, **options)

    def task(self, task):
        return self.json('task', task)

    def state_of(self, task):
        return self.task(task)['state']

    def wait(self, *tasks):
        """Until they have ended; how they did."""
        result = self.call('wait', *tasks, '--timeout', TIMEOUT_S, '--output', 'json')
        ends = json.loads(result.stdout)
        self.assertTrue(ends['ended'], result.stdout + result.stderr)
        self.assertEqual(result.returncode, 0 if sum(ends.values()) == ends['succeeded'] + 1 else 1)
        return ends

    def until_state(self, task, state):
        self.until(lambda: self.state_of(task) == state, f'task {task} to be {state}')

    def until_launched(self, task):
        self.until(lambda: any(member['launched'] for member in self.task(task)['members']),
                   f'task {task} to run')

    def assert_fails(self, result, *texts, code=1):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)

    def with_token(self, url):
        """A request to the server's page that shows the token of its state folder."""
        token = (self.state / 'token').read_text().strip()
        return urllib.request.Request(url, headers={'Authorization': f'Bearer {token}'})

    def release(self, name='go'):
        """Lets scripts go on that wait for the file."""
        (self.folder / name).touch()

    def held(self, name='go', then=''):
        """A script that waits for `release`."""
        return f'while [ ! -e {self.folder / name} ]; do sleep 0.02; done; {then}'
