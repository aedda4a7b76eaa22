"""harmonics up: workers on hosts over SSH. The hosts are this machine, behind an sshd of the test's own."""

import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import unittest

from cluster import HARMONICS, SOURCE_DIR, TIMEOUT_S, ClusterTest, environment

sys.path.insert(0, str(SOURCE_DIR / 'tests'))
from reserved_port import reserved_port  # noqa: E402

SSHD = '/usr/sbin/sshd'
# Where there is no sshd, a program that does what ssh would: runs the words after the host here.
STAND_IN = '#!/bin/sh\nwhile [ "$1" != sh ]; do [ "$1" = unreachable ] && { echo "no route to host" >&2; exit 255; }; shift; done\nexec "$@"\n'


class UpTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.start_server()
        self.hosts = self.folder / 'hosts.txt'
        self.real = os.geteuid() == 0 and os.path.exists(SSHD)
        self.ssh, self.host, self.others = self.start_sshd() if self.real else self.stand_in()
        self.addCleanup(self.kill_workers)

    def start_sshd(self):
        folder = self.folder / 'ssh'
        folder.mkdir(mode=0o700)
        for name in ('host', 'user'):
            subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', folder / name], check=True, timeout=60)
        port = reserved_port()
        shutil.copy(folder / 'user.pub', folder / 'authorized_keys')
        pathlib.Path('/run/sshd').mkdir(exist_ok=True)
        (folder / 'config').write_text(
            f'Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\n'
            f'StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\n'
            f'SetEnv XDG_STATE_HOME={self.folder}/there XDG_CONFIG_HOME={self.folder}/there OMP_NUM_THREADS=1 MOTD=1\n')
        log = open(folder / 'log', 'w')
        self.addCleanup(log.close)
        daemon = subprocess.Popen([SSHD, '-D', '-e', '-f', folder / 'config'], stderr=log)
        self.addCleanup(self.kill, daemon)
        self.until(lambda: 'Server listening' in (folder / 'log').read_text(), 'sshd')
        user = pwd.getpwuid(os.geteuid()).pw_name
        ssh = f'ssh -i {folder}/user -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR -F none'
        return ssh, f'{user}@127.0.0.1:{port}', f'127.0.0.1:{reserved_port()}'

    def stand_in(self):
        print('a stand-in plays ssh: there is no sshd here, or this is not root')
        program = self.folder / 'ssh-stand-in'
        program.write_text(STAND_IN)
        program.chmod(0o755)
        (self.folder / 'there').mkdir()
        return f'env XDG_STATE_HOME={self.folder}/there {program}', '127.0.0.1', 'unreachable'

    @property
    def there(self):
        return self.folder / 'there' / 'harmonics'

    def kill_workers(self):
        for file in self.there.glob('up/*.pid'):
            self.kill_pids([int(file.read_text())])

    def up(self, *arguments, hosts=None, program=HARMONICS):
        """Its exit code, and what it says of each host."""
        if hosts is not None:
            self.hosts.write_text(hosts)
        result = subprocess.run(
            [str(HARMONICS), 'up', str(self.hosts), *self.access(), '--ssh', self.ssh, '--program', str(program), '--output', 'json',
             *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=self.folder,
            env=environment(self.folder))
        self.assertTrue(result.stdout.startswith('['), result.stderr)
        return result.returncode, {host['worker']: host for host in json.loads(result.stdout)}

    def states(self, *arguments, code=0, **options):
        answer, hosts = self.up(*arguments, **options)
        self.assertEqual(answer, code, hosts)
        return {name: host['state'] for name, host in hosts.items()}

    def test_up_twice_changes_nothing_and_down_ends_it(self):
        three = (f'# machines\n{self.host} --id one --gpus 0,1 --models T4,T4 --memories 16384,16384\n\n'
                 f'{self.host} --id two --cpus 3  # no device\n{self.host} --id three\n')
        self.assertEqual(self.states('--status', hosts=three, code=1), dict.fromkeys(('one', 'two', 'three'), 'absent'))
        self.assertEqual(self.states('--parallel', 2), dict.fromkeys(('one', 'two', 'three'), 'started'))
        workers = {worker['name']: worker for worker in self.ready_workers()}
        self.assertEqual(len(workers['one']['devices']), 2)
        self.assertEqual(workers['two']['cpus'], 3)
        files = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in self.there.glob('up/**/*')
                 if file.is_file() and file.suffix != '.lock'}
        self.assertIn(self.there / 'up' / 'one' / 'token', files)
        self.assertEqual((self.there / 'up' / 'one' / 'token').stat().st_mode & 0o077, 0)
        self.assertEqual(self.states(), dict.fromkeys(('one', 'two', 'three'), 'running'))
        self.assertEqual(files, {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files})
        self.assertEqual(self.states('--status'), dict.fromkeys(('one', 'two', 'three'), 'running'))
        self.assertEqual(self.wait(self.script('true'))['succeeded'], 1)
        # Other flags are said, not obeyed behind one's back.
        self.assertEqual(self.states(hosts=three.replace('--cpus 3', '--cpus 2'), code=1)['two'], 'differs')
        self.assertEqual(self.states('--down', hosts=three), dict.fromkeys(('one', 'two', 'three'), 'stopped'))
        self.assertEqual(self.states('--down'), dict.fromkeys(('one', 'two', 'three'), 'absent'))
        self.assertEqual(self.ready_workers(), [])
        self.assertEqual(self.states(), dict.fromkeys(('one', 'two', 'three'), 'started'))
        self.assertEqual(len(self.ready_workers()), 3)  # none is left drained

    def test_a_busy_worker_is_not_ended(self):
        self.assertEqual(self.states(hosts=f'{self.host} --id busy\n'), {'busy': 'started'})
        task = self.script(self.held())
        self.until_launched(task)
        code, hosts = self.up('--down', '--timeout', 2)
        self.assertEqual((code, hosts['busy']['state']), (1, 'busy'))
        self.assertIn('it still has 1 tasks', hosts['busy']['problem'])
        self.assertEqual(self.states('--down', '--force'), {'busy': 'stopped'})
        self.release()
        self.assertEqual(self.states(), {'busy': 'started'})  # and finds its task again
        self.assertEqual(self.wait(task)['succeeded'], 1)

    def test_each_host_says_what_is_wrong_with_it(self):
        code, hosts = self.up('--timeout', 10, hosts=f'{self.host} --id good\n{self.others} --id far\n'
                                                     f'{self.host} --id wrong --gpus nonsense\n')
        self.assertEqual(code, 1)
        self.assertEqual({name: host['state'] for name, host in hosts.items()},
                         {'good': 'started', 'far': 'failed', 'wrong': 'failed'})
        self.assertRegex(hosts['far']['problem'], 'refused|no route')
        self.assertIn('--gpus', hosts['wrong']['problem'])
        code, hosts = self.up(program='/nonexistent/harmonics', hosts=f'{self.host} --id none\n')
        self.assertEqual(hosts['none']['state'], 'missing')
        self.assertIn('--program', hosts['none']['problem'])
        code, hosts = self.up('--as-seen', f'localhost:{reserved_port()}', '--timeout', 3, hosts=f'{self.host} --id lost\n')
        self.assertIn('does not hear of it', hosts['lost']['problem'])

    def test_files_that_are_wrong(self):
        cases = {
            '': 'there is no host in it',
            'a\na\n': "hosts.txt:2: there is another worker 'a'",
            '-oProxyCommand=x\n': 'is no host',
            'a:0\n': "':0' is no port",
            'b --scheduler x:1\n': "--scheduler is given by 'harmonics up' itself",
            "b --id 'x\n": 'a quote has no partner',
        }
        for text, problem in cases.items():
            with self.subTest(text):
                self.hosts.write_text(text)
                result = self.call('up', self.hosts)
                self.assert_fails(result, problem)
        self.hosts.write_text('a\n')
        self.assert_fails(self.call('up', self.hosts, '--ssh', 'no-such-ssh'), "there is no 'no-such-ssh' in PATH")

    def test_certificates_go_along(self):
        folder = self.folder / 'certificates'
        self.kill(next(iter(self.output)))
        subprocess.run([str(HARMONICS), 'server', '--init', str(folder), '--init-host', 'localhost', '--init-host', '127.0.0.1'],
                       check=True, timeout=TIMEOUT_S, env=environment(self.folder), stdout=subprocess.DEVNULL)
        self.start_server('--tls', folder, port=0)
        code, hosts = self.up('--tls', folder, hosts=f'{self.host} --id sealed\n')
        self.assertEqual((code, hosts['sealed']['state'], hosts['sealed']['server']), (0, 'started', 'ready'), hosts)
        self.hosts.write_text('elsewhere\n')
        self.assert_fails(self.call('up', self.hosts, '--tls', folder), "there are no certificates of 'elsewhere'")


if __name__ == '__main__':
    unittest.main()
