"""harmonics alloc: workers come and go on a batch system. Slurm is Debian's where it is installed; PBS is a stand-in."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from cluster import HARMONICS, SOURCE_DIR, TIMEOUT_S, ClusterTest, environment

sys.path.insert(0, str(SOURCE_DIR / 'tests'))
from reserved_port import reserved_port  # noqa: E402

SOAK = os.environ.get('HARMONICS_SOAK') == '1'

# A batch system of one machine: qsub starts a job at once, qstat lists those that live, qdel ends one.
PBS = {
    'qsub': '''
        import os, subprocess, sys
        words = sys.argv[1:]
        name, output = words[words.index('-N') + 1], words[words.index('-o') + 1]
        if 'broken' in words:
            sys.exit('qsub: Unknown queue')
        with open(output, 'w') as log:
            job = subprocess.Popen(['sh', '-c', sys.stdin.read()], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                   start_new_session=True, env={**os.environ, 'NCPUS': '2'})
        with open(f'{FOLDER}/{job.pid}', 'w') as file:
            file.write(name)
        with open(f'{FOLDER}/asked', 'a') as file:
            file.write(' '.join(words) + '\\n')
        print(f'{job.pid}.pbs')
    ''',
    'qstat': '''
        import os, pwd
        user = pwd.getpwuid(os.getuid()).pw_name
        for pid in sorted(os.listdir(FOLDER)):
            if not pid.isdigit():
                continue
            try:
                with open(f'/proc/{pid}/stat') as file:
                    if file.read().rsplit(')', 1)[1].split()[0] == 'Z':
                        continue
            except OSError:
                continue
            print(f'Job Id: {pid}.pbs\\n    Job_Name = {open(f"{FOLDER}/{pid}").read()}\\n'
                  f'    Job_Owner = {user}@here\\n    job_state = R\\n    Variable_List = A=1,\\n\\tB=2\\n')
    ''',
    'qdel': '''
        import os, signal, sys
        pid = int(sys.argv[1].split('.')[0])
        try:
            os.killpg(pid, signal.SIGTERM)
        except ProcessLookupError:
            sys.exit(f'qdel: Unknown Job Id {pid}')
    ''',
}


class AllocTest(ClusterTest):
    """A server, and what all batch systems share."""

    kind = ''

    def setUp(self):
        super().setUp()
        self.path = os.environ['PATH']
        self.start_server()

    def environment(self):
        return {**environment(self.folder), 'PATH': self.path}

    def alloc(self, *arguments, flags=()):
        """Starts `harmonics alloc`; its events are read with `events`."""
        log = open(self.folder / f'alloc-{len(self.output)}', 'w+')
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [str(HARMONICS), 'alloc', self.kind, *self.access(), '--output', 'json', '--period', '0.3s',
             *map(str, arguments), '--', *flags], stdout=log, stderr=log, cwd=self.folder, env=self.environment())
        self.output[process] = pathlib.Path(log.name)
        self.addCleanup(self.kill, process)
        return process

    def run_alloc(self, *arguments, path=None):
        return subprocess.run([str(HARMONICS), 'alloc', self.kind, *self.access(), *map(str, arguments)],
                              capture_output=True, text=True, timeout=TIMEOUT_S, cwd=self.folder,
                              env={**self.environment(), 'PATH': path or self.path})

    def events(self, process, kind):
        found = [json.loads(line) for line in self.printed(process).splitlines() if line.startswith('{')]
        return [event for event in found if event['event'] == kind]

    def names(self):
        return sorted(worker['name'] for worker in self.ready_workers())

    def let_go(self):
        """Nothing is left of an allocator's workers."""
        result = self.run_alloc('--down', '--period', '0.3s')
        self.assertEqual(result.returncode, 0, result.stderr)


class PbsTest(AllocTest):
    kind = 'pbs'

    def setUp(self):
        super().setUp()
        folder, programs = self.folder / 'pbs', self.folder / 'programs'
        folder.mkdir()
        programs.mkdir()
        for name, text in PBS.items():
            file = programs / name
            file.write_text(f'#!{sys.executable}\nFOLDER = {str(folder)!r}\n{textwrap.dedent(text)}')
            file.chmod(0o755)
        self.path = f'{programs}:{os.environ["PATH"]}'
        self.addCleanup(self.end_jobs, folder)
        self.jobs = folder

    @staticmethod
    def end_jobs(folder):
        for file in folder.glob('[0-9]*'):
            try:
                os.killpg(int(file.name), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_workers_come_and_go(self):
        allocator = self.alloc('--max-workers', 3, '--idle', '1s', flags=['-q', 'gpu'])
        tasks = [self.script('sleep 0.2') for _ in range(12)]
        self.assertEqual(self.wait(*tasks)['succeeded'], 12)
        self.assertLessEqual(len(self.events(allocator, 'started')), 3)
        self.assertIn('-q gpu', (self.jobs / 'asked').read_text())
        self.until(lambda: not self.ready_workers(), 'the workers to go')
        self.until(lambda: len(self.events(allocator, 'ended')) == len(self.events(allocator, 'started')), 'all to end')
        # They come back under their names, do not stay drained, and what was printed before can be read again.
        again = self.script('echo again')
        self.assertEqual(self.wait(again)['succeeded'], 1)
        self.assertEqual(self.done('logs', again), 'again\n')
        # What a job gives is what a worker has.
        self.assertEqual({worker['cpus'] for worker in self.json('workers')}, {2})

    def test_a_restart_finds_its_jobs(self):
        first = self.alloc('--max-workers', 2, '--name', 'left')
        held = [self.script(self.held()) for _ in range(8)]
        self.until(lambda: self.names() == ['left-1', 'left-2'], 'two workers')
        self.kill(first)
        second = self.alloc('--max-workers', 2, '--name', 'left', '--idle', '1s')
        self.release()
        self.assertEqual(self.wait(*held)['succeeded'], 8)
        self.until(lambda: len(self.events(second, 'ended')) == 2, 'both to be let go')
        self.assertEqual(self.events(second, 'started'), [])

    def test_a_job_that_dies_loses_no_task(self):
        allocator = self.alloc('--max-workers', 1)
        task = self.script(self.held())
        self.until_launched(task)
        job = self.events(allocator, 'started')[0]['job']
        os.killpg(int(job.split('.')[0]), signal.SIGKILL)
        self.kill_pids(self.processes(b'HARMONICS_ATTEMPT_MARK=' + next(
            self.state.glob('workers/id-harmonics-1/identity')).read_bytes()))
        self.until(lambda: self.events(allocator, 'lost'), 'it to be missed')
        self.release()
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(self.task(task)['losses'], 1)
        self.let_go_after(allocator)

    def let_go_after(self, allocator):
        self.kill(allocator, signal.SIGINT)
        self.assertEqual(allocator.returncode, 0)
        self.let_go()
        self.assertEqual(self.ready_workers(), [])

    def test_what_cannot_be_helped_starts_nothing(self):
        allocator = self.alloc('--max-workers', 4, '--idle', '1s')
        first = self.script('true')
        self.wait(first)
        large = self.submit('true', flags=['--cpus', 64, '--wait-for-machines'])
        self.until(lambda: self.events(allocator, 'ended'), 'the first to go')
        after = self.script('true')
        self.wait(after)
        self.assertLessEqual(len(self.events(allocator, 'started')), 2)
        self.assertEqual(self.state_of(large), 'pending')

    def test_refusals(self):
        self.assertIn("there is no 'qsub' in PATH", self.run_alloc(path='/nonexistent').stderr)
        self.assertIn("'2x' is no duration", self.run_alloc('--idle', '2x').stderr)
        self.assertIn('is no name for workers', self.run_alloc('--name', 'a/b').stderr)
        self.assertIn("--id is given by 'harmonics alloc' itself", self.run_alloc('--worker-flags', '--id x').stderr)
        script = self.run_alloc('--dry-run', '--worker-flags', '--keep-mb 7 --log-mb 2').stdout
        self.assertIn(f'--scheduler localhost:{self.port} ', script)
        self.assertIn(' --keep-mb 7 --log-mb 2', script)
        self.assertIn('${NCPUS:+--cpus $NCPUS}', script)
        broken = self.alloc('--max-workers', 1, flags=['-q', 'broken'])
        self.script('true')
        self.until(lambda: 'qsub: Unknown queue' in self.printed(broken), 'the refusal')
        # One allocator of a name at a time.
        self.assertIn('another alloc uses', self.run_alloc('--max-workers', '1').stderr)
        self.assertIsNone(broken.poll())
        # A server that goes is waited for by one that watches; one that starts gives up after its patience.
        self.kill(next(iter(self.output)))
        self.assert_fails(self.run_alloc('--name', 'late', '--patience', '0.5'), f'localhost:{self.port}')
        self.assertIsNone(broken.poll())

    def test_who_is_no_admin_is_told_so(self):
        tokens = self.folder / 'tokens'
        tokens.write_text(f'submit ann {"a" * 32}\n')
        self.kill(next(iter(self.output)))
        self.start_server('--tokens', tokens)
        mine = self.folder / 'ann.token'
        mine.write_text('a' * 32)
        mine.chmod(0o600)
        process = self.alloc('--token-file', mine, '--max-workers', 1)
        self.call('submit', '--token-file', mine, '--gpus', '0', '--', 'true')
        self.until(lambda: process.poll() is not None, 'the refusal')
        self.assertEqual(process.returncode, 1)
        self.assertIn('needs a token of the role admin', self.printed(process))


class IdleWorkerTest(ClusterTest):
    def test_a_worker_ends_when_it_was_idle(self):
        self.start_server()
        worker = self.start_worker('--idle', '1.5', gpus=0)
        task = self.script('sleep 2')
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.until(lambda: worker.poll() is not None, 'its end')
        self.assertEqual(worker.returncode, 0, self.printed(worker))


def slurm_is_here():
    return os.geteuid() == 0 and all(shutil.which(name, path='/usr/sbin:/usr/bin') for name in (
        'slurmctld', 'slurmd', 'sbatch', 'squeue', 'scancel', 'munged', 'mungekey'))


@unittest.skipUnless(slurm_is_here(), 'needs root and slurmctld, slurmd, slurm-client, munge (scripts/setup.sh --dev)')
class SlurmTest(AllocTest):
    """Three nodes of Slurm on this machine, with folders, ports and a key of the test's own."""

    kind = 'slurm'
    nodes = 3

    def setUp(self):
        super().setUp()
        self.slurm = self.folder / 'slurm'
        self.slurm.mkdir()
        self.folder.chmod(0o755)
        self.daemons = {}
        socket = self.slurm / 'munge.socket'
        key = self.slurm / 'munge.key'
        subprocess.run(['mungekey', '--create', '--keyfile', key], check=True, timeout=60)
        self.daemon('munged', '/usr/sbin/munged', '--foreground', '--force', '--socket', socket, '--key-file', key,
                    '--log-file', self.slurm / 'munge.log', '--pid-file', self.slurm / 'munge.pid',
                    '--seed-file', self.slurm / 'munge.seed', '--num-threads', 2)
        self.until(socket.exists, 'munged')
        ports = [reserved_port() for _ in range(self.nodes + 1)]
        conf = self.slurm / 'slurm.conf'
        conf.write_text(textwrap.dedent(f'''
            ClusterName=test
            SlurmctldHost={os.uname().nodename}(127.0.0.1)
            SlurmctldPort={ports[0]}
            SlurmUser=root
            SlurmdUser=root
            AuthType=auth/munge
            AuthInfo=socket={socket}
            CredType=cred/munge
            StateSaveLocation={self.slurm}/ctld
            SlurmdSpoolDir={self.slurm}/%n
            SlurmctldPidFile={self.slurm}/ctld.pid
            SlurmdPidFile={self.slurm}/%n.pid
            SlurmctldLogFile={self.slurm}/ctld.log
            SlurmdLogFile={self.slurm}/%n.log
            ProctrackType=proctrack/linuxproc
            TaskPlugin=task/none
            SelectType=select/cons_tres
            SelectTypeParameters=CR_Core
            SchedulerType=sched/builtin
            SchedulerParameters=batch_sched_delay=1
            ReturnToService=2
            SlurmdTimeout=10
            KillWait=5
            MailProg=/bin/true
            SlurmdParameters=config_overrides
            MpiDefault=none
            SwitchType=switch/none
            ''') + ''.join(f'NodeName=n{i} NodeHostname={os.uname().nodename} NodeAddr=127.0.0.1 Port={ports[i]} CPUs=2 '
                           'State=UNKNOWN\n' for i in range(1, self.nodes + 1)) +
            f'PartitionName=work Nodes=n[1-{self.nodes}] Default=YES MaxTime=INFINITE State=UP\n')
        os.environ['SLURM_CONF'] = str(conf)
        self.addCleanup(os.environ.pop, 'SLURM_CONF', None)
        self.addCleanup(self.end_slurm)
        (self.slurm / 'ctld').mkdir()
        self.daemon('ctld', '/usr/sbin/slurmctld', '-D', '-i', '-f', conf)
        for i in range(1, self.nodes + 1):
            self.start_node(i)
        self.until(lambda: subprocess.run(['sinfo', '--noheader', '--format', '%T %D'], capture_output=True, text=True,
                                          timeout=60).stdout.split() == ['idle', str(self.nodes)], 'Slurm')

    def daemon(self, name, *words):
        log = open(self.slurm / f'{name}.out', 'a')
        self.addCleanup(log.close)
        self.daemons[name] = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)
        self.addCleanup(self.kill, self.daemons[name])

    def start_node(self, i):
        (self.slurm / f'n{i}').mkdir(exist_ok=True)
        self.daemon(f'n{i}', '/usr/sbin/slurmd', '-D', '-N', f'n{i}', '-f', self.slurm / 'slurm.conf')

    def end_slurm(self):
        """Jobs outlive slurmd: what they are is known by Slurm's folder."""
        subprocess.run(['scancel', '--quiet', '--user', 'root'], timeout=60, capture_output=True)
        self.kill_pids([pid for pid in map(int, filter(str.isdigit, os.listdir('/proc'))) if self.is_mine(pid)])

    def is_mine(self, pid):
        try:
            command = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().decode(errors='replace')
            variables = pathlib.Path(f'/proc/{pid}/environ').read_bytes()
        except OSError:
            return False
        own = str(self.slurm).encode() in variables and pid not in {os.getpid(), os.getppid()}
        return own and ('slurmstepd' in command or 'worker' in command or 'slurm_script' in command)

    def squeue(self):
        return subprocess.run(['squeue', '--noheader', '--format', '%j %T'], capture_output=True, text=True,
                              timeout=60, check=True).stdout.split('\n')[:-1]

    def test_workers_come_at_demand_and_go(self):
        allocator = self.alloc('--max-workers', self.nodes, '--idle', '2s', flags=['--partition', 'work', '--cpus-per-task', '2'])
        self.until(lambda: self.events(allocator, 'watching'), 'the allocator')
        count = 500 if SOAK else 60
        began = time.monotonic()
        array = self.submit('true', flags=['--array', count])
        self.until(self.ready_workers, 'a worker')
        took = time.monotonic() - began
        print(f'the first worker came {took:.1f} s after the submit')
        ends = self.wait_long(array)
        self.assertEqual(ends['succeeded'], count)
        self.assertLessEqual(took, 10)
        self.until(lambda: not self.ready_workers(), 'the workers to go')
        self.until(lambda: not self.squeue(), 'the jobs to go')
        self.assertLessEqual(len({event['worker'] for event in self.events(allocator, 'started')}), self.nodes)

    def test_a_node_that_dies_loses_nothing(self):
        allocator = self.alloc('--max-workers', self.nodes, flags=['--cpus-per-task', '2'])
        count = 500 if SOAK else 60
        array = self.submit('sh', '-c', 'sleep 0.5', flags=['--array', count])
        busy = self.until(lambda: [worker['name'] for worker in self.ready_workers() if worker['tasks']], 'a worker with tasks')[0]
        # The node goes with all that ran there: its daemon, the step, the worker, the tasks.
        node = subprocess.run(['squeue', '--noheader', '--name', busy, '--format', '%N'], capture_output=True, text=True,
                              timeout=60, check=True).stdout.strip()
        self.assertIn(node, self.daemons)
        self.kill(self.daemons[node])
        self.kill_pids([pid for pid in map(int, filter(str.isdigit, os.listdir('/proc')))
                        if self.is_mine(pid) and self.on_node(pid, node)])
        self.until(lambda: [event['worker'] for event in self.events(allocator, 'lost')] == [busy], 'it to be missed')
        self.assertEqual(self.wait_long(array)['succeeded'], count)
        self.kill(allocator, signal.SIGINT)
        self.let_go()

    def wait_long(self, task):
        """A busy machine takes its time for many tasks."""
        for _ in range(5):
            ends = json.loads(self.call('wait', task, '--timeout', TIMEOUT_S // 2, '--output', 'json').stdout)
            if ends['ended']:
                break
        return ends

    @staticmethod
    def on_node(pid, node):
        try:
            return f'SLURMD_NODENAME={node}'.encode() in pathlib.Path(f'/proc/{pid}/environ').read_bytes()
        except OSError:
            return False


if __name__ == '__main__':
    if not slurm_is_here():
        print('Slurm is left out: slurmctld, slurmd, slurm-client and munge are not all installed, or this is not root')
    unittest.main()
