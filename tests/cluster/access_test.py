"""Who gets in, how they find the door, and who is kept out."""

import datetime
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import unittest
import urllib.request

from cluster import HARMONICS, TIMEOUT_S, ClusterTest, environment


class AccessTest(ClusterTest):
    def harmonics(self, *arguments, **variables):
        return subprocess.run([str(HARMONICS), *map(str, arguments)], capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S, cwd=self.folder, env=dict(environment(self.folder), **variables))

    def init(self, *arguments):
        made = self.harmonics('server', '--init', 'tls', *arguments)
        self.assertEqual(made.returncode, 0, made.stderr)
        return made.stdout

    def config(self):
        """Where the client file lies."""
        folder = self.folder / 'config' / 'harmonics'
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def as_user(self, name, command, *arguments):
        return self.call(command, '--tls', f'tls/users/{name}', *arguments)

    @staticmethod
    def mode(path):
        return stat.S_IMODE(os.stat(path).st_mode)


class Finding(AccessTest):
    def test_variables_say_what_flags_would_and_flags_win(self):
        self.init()
        self.start_server('--tls', 'tls')
        variables = {'HARMONICS_SCHEDULER': f'localhost:{self.port}', 'HARMONICS_TLS': 'tls'}
        self.assertEqual(self.harmonics('tasks', '--output', 'json', **variables).stdout, '[]\n')
        by_token = self.harmonics('submit', '--gpus', 0, '--', 'true', **variables,
                                  HARMONICS_TOKEN_FILE='tls/view.token')
        self.assert_fails(by_token, "role 'submit'")
        other = self.free_port()
        flag = self.harmonics('tasks', '--scheduler', f'localhost:{other}', '--patience', 0, **variables)
        self.assert_fails(flag, f'no server answers at localhost:{other}')
        worker = subprocess.Popen([str(HARMONICS), 'worker'], cwd=self.folder, stderr=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, env=dict(environment(self.folder), **variables))
        self.addCleanup(self.kill, worker)
        self.until(lambda: '"ready"' in self.harmonics('workers', '--output', 'json', **variables).stdout, 'it')

    def test_a_users_folder_is_all_that_a_client_needs(self):
        self.port = self.free_port()
        self.init('--init-host', 'localhost', '--init-user', 'ann', '--port', self.port)
        self.start_server('--tls', 'tls')
        # With --tls, or as the user's own folder, as --init says.
        for name in 'users/ann', 'hosts/localhost':
            file = self.folder / 'tls' / name / 'client.yml'
            self.assertIn(f'scheduler: "localhost:{self.port}"', file.read_text())
        self.assertEqual(self.harmonics('tasks', '--tls', 'tls/users/ann', '--output', 'json').stdout, '[]\n')
        self.start('worker', '--tls', 'tls/hosts/localhost', '--id', 'one')
        self.until(lambda: 'one' in self.harmonics('workers', '--tls', 'tls/users/ann', '--output', 'quiet').stdout, 'it')
        shutil.rmtree(self.config())
        shutil.copytree(self.folder / 'tls' / 'users' / 'ann', self.config(), dirs_exist_ok=True)
        file = self.config() / 'client.yml'
        task = self.harmonics('submit', '--gpus', 0, '--output', 'quiet', '--', 'true')
        self.assertEqual(task.returncode, 0, task.stderr)
        self.assertIn('user        ann\n', self.harmonics('task', task.stdout.strip()).stdout)
        # The file's certificates are those of its own server; another one has others.
        self.port = 0
        self.start_server('--state-dir', 'plain')
        elsewhere = self.harmonics('tasks', '--output', 'json', HARMONICS_TOKEN_FILE='plain/token',
                                   HARMONICS_SCHEDULER=f'localhost:{self.port}')
        self.assertEqual(elsewhere.stdout, '[]\n', elsewhere.stderr)
        unknown = self.harmonics('tasks', '--patience', 0, '--scheduler', f'localhost:{self.port}', '--state-dir', 'none')
        self.assert_fails(unknown, f"'{file}' is of localhost:", f'--tls {file.parent}')
        file.write_text('shceduler: x:1\n')
        self.assert_fails(self.harmonics('tasks'), 'client.yml:1', "did you mean 'scheduler'?")

    def test_tls_on_one_side_only_is_said(self):
        self.init()
        server = self.start_server('--tls', 'tls')
        told = (f'the server at localhost:{self.port} speaks TLS', '--tls FOLDER', 'HARMONICS_TLS')
        refused = self.call('tasks', '--token-file', 'tls/admin.token')
        self.assert_fails(refused, *told)
        self.assertNotIn('no server answers', refused.stderr)
        worker = self.start('worker', *self.access(), '--token-file', 'tls/worker.token')
        self.until(lambda: told[0] in self.printed(worker), 'the line')
        self.kill(server)
        self.start_server('--state-dir', 'plain')
        self.assert_fails(self.call('tasks', '--tls', 'tls'), 'does not speak TLS: leave out --tls')

    def test_a_folder_is_used_with_the_token_that_it_has(self):
        self.init()
        self.start_server('--tls', 'tls')
        for role, code in (('submit', 0), ('view', 1)):
            folder = self.folder / role
            folder.mkdir()
            for name in ('ca.pem', 'client.pem', 'client.key', f'{role}.token'):
                shutil.copy(self.folder / 'tls' / name, folder / name)
            self.done('tasks', '--tls', folder)
            handed_in = self.call('submit', '--tls', folder, '--gpus', 0, '--', 'true')
            self.assertEqual(handed_in.returncode, code, handed_in.stderr)
        (self.folder / 'none').mkdir()
        self.assert_fails(self.call('tasks', '--tls', 'none'), "no token in 'none'", 'submit.token')

    def test_a_sixth_machine_joins_while_the_server_runs(self):
        self.init('--init-host', 'localhost')
        self.start_server('--tls', 'tls')
        said = self.init('--init-host', 'gpu-6.example', '--init-days', 30)
        self.assertIn("machine 'gpu-6.example': copy 'tls/hosts/gpu-6.example' there", said)
        until = datetime.date.fromisoformat(re.search(r'good until (\d{4}-\d\d-\d\d)', said).group(1))
        self.assertAlmostEqual((until - datetime.date.today()).days, 30, delta=1)
        self.start('worker', *self.access(), '--tls', 'tls/hosts/gpu-6.example', '--id', 'six')
        self.until(lambda: [one['name'] for one in self.json('workers', '--tls', 'tls')
                            if one['state'] == 'ready'] == ['six'], 'the sixth')
        task = self.done('submit', '--tls', 'tls', '--gpus', 0, '--wait', '--output', 'quiet', '--', 'echo', 'hi')
        self.assertEqual(self.done('logs', '--tls', 'tls', int(task)), 'hi\n')
        again = self.harmonics('server', '--init', 'tls', '--init-host', 'gpu-6.example')
        self.assert_fails(again, 'never overwritten', '--revoke gpu-6.example')
        self.assert_fails(self.harmonics('server', '--init-user', 'ann'), 'need --init FOLDER')

    def test_a_worker_without_what_its_door_shows_is_told_so(self):
        self.init()
        folder = self.folder / 'half'
        folder.mkdir()
        for name in ('ca.pem', 'worker.pem', 'worker.key', 'worker.token'):
            shutil.copy(self.folder / 'tls' / name, folder / name)
        self.assert_fails(self.harmonics('worker', '--tls', 'half'), 'peer.pem', 'peers.pem', 'copy')


class Keeping(AccessTest):
    def test_nobody_else_passes_for_the_server(self):
        self.init('--init-user', 'eve', '--init-host', 'localhost')
        for role, folder in (('client', 'tls/users/eve'), ('worker', 'tls/hosts/localhost'), ('peer', 'tls')):
            fake = self.folder / f'fake-{role}'
            fake.mkdir()
            for name, source in (('ca.pem', self.folder / 'tls' / 'ca.pem'),
                                 ('server.pem', self.folder / folder / f'{role}.pem'),
                                 ('server.key', self.folder / folder / f'{role}.key'),
                                 ('tokens', self.folder / 'tls' / 'tokens')):
                shutil.copy(source, fake / name)
            self.port = 0
            impostor = self.start_server('--tls', fake, '--state-dir', f'state-{role}')
            result = self.call('tasks', '--tls', 'tls')
            self.assert_fails(result, "do not accept each other's certificates")
            self.kill(impostor)

    def test_who_is_revoked_stays_outside_and_others_do_not(self):
        self.init('--init-user', 'ann', '--init-user', 'bob', '--init-host', 'localhost')
        self.start_server('--tls', 'tls')
        ann = self.folder / 'ann'
        shutil.copytree(self.folder / 'tls' / 'users' / 'ann', ann)
        self.done('tasks', '--tls', ann)
        worker = self.folder / 'gpu'
        shutil.copytree(self.folder / 'tls' / 'hosts' / 'localhost', worker)
        self.init('--revoke', 'ann', '--revoke', 'localhost')
        refused = self.call('tasks', '--tls', ann, '--patience', 0)
        self.assert_fails(refused, "do not accept each other's certificates", 'revoked')
        late = self.start('worker', *self.access(), '--tls', worker)
        self.until(lambda: "do not accept each other's certificates" in self.printed(late), 'the refusal')
        self.assertEqual(self.as_user('bob', 'tasks').returncode, 0)
        # With another certificate the token alone is good for nothing either.
        def token_is_gone():
            answer = self.call('tasks', '--tls', 'tls', '--token-file', ann / 'submit.token')
            return 'does not know this token' in answer.stderr
        self.until(token_is_gone, 'the list of tokens to be read again')
        # Clients heed the list that they have, too.
        self.init('--revoke', 'server')
        self.assert_fails(self.call('tasks', '--tls', 'tls', '--patience', 0), 'certificates')

    def test_a_certificate_and_a_token_are_of_one_user(self):
        self.init('--init-user', 'ann', '--init-user', 'bob:view', '--init-host', 'localhost')
        self.start_server('--tls', 'tls')
        mixed = self.as_user('ann', 'tasks', '--token-file', 'tls/users/bob/view.token')
        self.assert_fails(mixed, "certificate is of user 'ann' and the token of 'bob'")
        posing = self.folder / 'posing'
        shutil.copytree(self.folder / 'tls', posing)
        for kind in ('pem', 'key'):
            shutil.copy(posing / f'worker.{kind}', posing / f'client.{kind}')
        self.assert_fails(self.call('tasks', '--tls', posing), "this certificate is a worker's")
        for kind in ('pem', 'key'):
            shutil.copy(posing / 'users' / 'ann' / f'client.{kind}', posing / f'worker.{kind}')
        result = self.harmonics('worker', *self.access(), '--tls', posing)
        self.assert_fails(result, "this certificate is for 'user/ann', not for a worker")

    def tokens(self, *roles):
        lines = []
        for role in roles:
            (self.folder / f'{role}.token').write_text(role[0] * 32)
            (self.folder / f'{role}.token').chmod(0o600)
            lines.append(f'{role} {role}-user {role[0] * 32}\n')
        (self.folder / 'tokens').write_text(''.join(lines))
        return self.folder / 'tokens'

    def as_role(self, role, command, *arguments):
        return self.call(command, '--token-file', self.folder / f'{role}.token', *arguments)

    def test_a_user_cannot_push_others_aside(self):
        server = self.start_server('--tokens', self.tokens('submit', 'admin'))
        self.start_worker(gpus=1)
        held = self.script(self.held(), gpus=1)
        self.until_launched(held)
        pushed = self.as_role('submit', 'submit', '--priority', 1, '--', 'true')
        self.assert_fails(pushed, "priority 1 is above 0, the most that 'submit-user' may ask for")
        self.assertEqual(self.as_role('submit', 'submit', '--priority', -1, '--', 'true').returncode, 0)
        self.assertEqual(self.task(held)['preemptions'], 0)
        self.assertEqual(self.as_role('admin', 'submit', '--priority', 1, '--', 'true').returncode, 0)
        self.release()
        self.kill(server)
        self.start_server('--tokens', self.folder / 'tokens', '--max-priority', 5)
        self.assertEqual(self.as_role('submit', 'submit', '--priority', 5, '--', 'true').returncode, 0)
        self.assert_fails(self.as_role('submit', 'submit', '--priority', 6, '--', 'true'), 'above 5')

    def test_who_only_looks_does_not_see_the_environment_of_others(self):
        self.start_server('--tokens', self.tokens('submit', 'view', 'admin'))
        task = self.as_role('submit', 'submit', '--gpus', 0, '--env', 'PASSWORD=tops3cret', '--output', 'quiet',
                            '--', 'true').stdout.strip()
        for command in (('task', task), ('tasks', '--output', 'json'), ('task', task, '--output', 'json')):
            seen = self.as_role('view', *command)
            self.assertEqual(seen.returncode, 0, seen.stderr)
            self.assertNotIn('tops3cret', seen.stdout)
        self.assertIn('(hidden)', self.as_role('view', 'task', task).stdout)
        for role in ('submit', 'admin'):
            self.assertIn('tops3cret', self.as_role(role, 'task', task).stdout)

    def test_what_is_kept_is_the_owners_alone(self):
        self.port = self.free_port()
        # A worker that comes first makes the folders above its own.
        worker = self.start('worker', *self.access())
        self.until(lambda: 'waiting until there is one' in self.printed(worker), 'the line')
        self.start_server()
        self.until(self.ready_workers, 'the worker')
        for folder in (self.state, self.state / 'workers', self.state / 'workers' / 'slot-1'):
            self.assertEqual(self.mode(folder), 0o700, folder)
        for file in self.state.glob('cluster.sqlite*'):
            self.assertEqual(self.mode(file), 0o600, file)


class Crowds(AccessTest):
    def start_limited(self, soft, hard):
        """A server that may open so many files."""
        own = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limit = hard if own == resource.RLIM_INFINITY else min(hard, own)
        log = open(self.folder / 'limited', 'w+')
        self.addCleanup(log.close)
        server = subprocess.Popen(['prlimit', f'--nofile={soft}:{limit}', str(HARMONICS), 'server', '--port', '0'],
                                  stdout=log, stderr=log, cwd=self.folder, env=environment(self.folder))
        self.output[server] = self.folder / 'limited'
        self.addCleanup(self.kill, server)
        line = self.until(lambda: re.search(r'listening on \S+?:(\d+),', self.printed(server)), 'the server')
        self.port = int(line.group(1))
        return server, limit

    def strangers(self, count):
        made = []
        for _ in range(count):
            made.append(socket.create_connection(('127.0.0.1', self.port), timeout=TIMEOUT_S))
            self.addCleanup(made[-1].close)
        return made

    @staticmethod
    def heard_out(connection):
        """Until the server has cut it."""
        try:
            while connection.recv(1024):
                pass
        except ConnectionError:
            pass

    def test_the_soft_limit_of_descriptors_is_raised(self):
        server, hard = self.start_limited(512, 5000)
        with open(f'/proc/{server.pid}/limits') as limits:
            self.assertEqual(int(re.search(r'Max open files +(\d+)', limits.read()).group(1)), hard)

    def test_strangers_are_few_and_soon_gone_and_clients_get_in(self):
        server, _ = self.start_limited(512, 512)
        self.assertIn('may open 512 files', self.printed(server))
        crowd = self.strangers(60)
        self.assertEqual(self.json('tasks'), [])
        # A sixteenth of 512 may wait; the oldest goes first.
        self.heard_out(crowd[0])
        self.until(lambda: 'have shown no token yet: the oldest are cut' in self.printed(server), 'the line')
        worker = self.start('worker', *self.access())
        self.until(self.ready_workers, 'the worker')
        # The youngest is cut too, once its time is over; who has shown a token stays.
        self.heard_out(crowd[-1])
        self.assertEqual(len(self.ready_workers()), 1)
        self.assertNotIn('no session', self.printed(worker))

    def test_the_ceiling_is_said(self):
        server, _ = self.start_limited(100, 100)
        self.until(lambda: self.strangers(1) and 'the ceiling of 100 open files is reached' in self.printed(server),
                   'the line')

    def test_slow_readers_of_metrics_hold_up_nobody(self):
        server = self.start_server('--http', 0)
        page = self.until(lambda: re.search(r'metrics on (http://\S+)', self.printed(server)), 'the page').group(1)
        port = int(re.search(r':(\d+)/', page).group(1))
        slow = []
        for _ in range(8):
            slow.append(socket.create_connection(('127.0.0.1', port), timeout=TIMEOUT_S))
            self.addCleanup(slow[-1].close)
            slow[-1].sendall(b'GET /metrics HTTP/1.1\r\nX: ')
        with urllib.request.urlopen(self.with_token(page), timeout=4) as answer:
            self.assertIn('harmonics_workers ', answer.read().decode())


if __name__ == '__main__':
    unittest.main()
