"""What is wrong is said clearly, and nothing is lost by it."""

import json
import os
import re
import shutil
import socket
import subprocess
import unittest

from cluster import BINARY_DIR, HARMONICS, TIMEOUT_S, ClusterTest, environment


def http2_frames(size, token):
    """A Submit call as HTTP/2 sends it, whose message claims and has `size` bytes."""
    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, 'big') + bytes([kind, flags]) + stream.to_bytes(4, 'big') + payload

    def header(name, value):  # a literal that is not indexed, without Huffman
        return b'\x00' + bytes([len(name)]) + name + bytes([len(value)]) + value

    block = b''.join(header(name, value) for name, value in (
        (b':method', b'POST'), (b':scheme', b'http'), (b':path', b'/harmonics.cluster.v1.Cluster/Submit'),
        (b':authority', b'localhost'), (b'te', b'trailers'), (b'content-type', b'application/grpc'),
        (b'authorization', b'Bearer ' + token.encode())))
    message = b'\x00' + size.to_bytes(4, 'big') + b'\x0a' * size
    data = b''.join(frame(0, 0, 1, message[at:at + 16384]) for at in range(0, len(message), 16384))
    return (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b'') + frame(1, 4, 1, block)
            + data + frame(0, 1, 1, b''))


class BadInput(ClusterTest):
    def harmonics(self, *arguments):
        return subprocess.run([str(HARMONICS), *map(str, arguments)], capture_output=True, text=True,
                              timeout=TIMEOUT_S, cwd=self.folder, env=environment(self.folder))

    def task_file(self, text):
        path = self.folder / 'task.json'
        path.write_text(text)
        return path

    def test_wrong_flags(self):
        cases = {
            'server --port 70000': "'70000' is not a whole number from 0 to 65535",
            'server --port -1': "'-1' is not a whole number",
            'server --polcy simple': "did you mean '--policy'?",
            'submit --gpus -1': "'-1' is not a whole number",
            'submit --env COLOUR': "'COLOUR' is not of the form KEY=VALUE",
            'task': 'ID is required',
            'task one': "'one' is not a whole number",
            'logs 1 --stream both': 'both',
            'monitor --refresh -1': "'-1' is not a number of seconds",
            'drain': 'WORKER is required',
            'quota --gpus 1': 'USER: say whose limits are to be set',
            'cancel --name x': "has no flag '--name'",
            'submit --gpu 0 -- echo hi': "has no flag '--gpu'; did you mean '--gpus'?",
            'submit --nam=x -- echo --gpu': "has no flag '--nam'; did you mean '--name'?",
            'submit python3 -c pass': "put '--' before the program",
            'submit --name a python3 --gpu': "put '--' before the program",
        }
        for line, text in cases.items():
            with self.subTest(line):
                self.assert_fails(self.harmonics(*line.split()), text, code=2)

    def test_servers_that_do_not_start(self):
        self.assert_fails(self.harmonics('server', '--port', 0, '--policy', 'fairest'), 'fairest',
                          'balanced')
        self.assert_fails(self.harmonics('server', '--port', 0, '--host', '0.0.0.0'), 'TLS',
                          '--insecure')
        self.assert_fails(self.harmonics('server', '--port', 0, '--store', '/no/such/folder/file'),
                          '/no/such/folder')
        self.assert_fails(self.harmonics('server', '--port', 0, '--tls', 'nowhere'),
                          "no certificates in 'nowhere'", 'harmonics server --init nowhere')
        tokens = self.folder / 'tokens'
        tokens.write_text('king arthur 0123456789abcdef\n')
        self.assert_fails(self.harmonics('server', '--port', 0, '--tokens', tokens), 'tokens:1',
                          "unknown role 'king'")

    def test_the_units_find_what_was_installed_and_their_users(self):
        place = self.folder / 'prefix'
        subprocess.run(['cmake', '--install', BINARY_DIR, '--component', 'units', '--prefix', place], check=True,
                       capture_output=True, timeout=TIMEOUT_S)
        share = place / 'share' / 'harmonics'
        units = {unit.stem: unit.read_text() for unit in (share / 'systemd').glob('*.service')}
        self.assertEqual(sorted(units), ['harmonics-server', 'harmonics-worker'])
        made = re.findall(r'(?m)^u +(\S+)', (share / 'sysusers.d' / 'harmonics.conf').read_text())
        users = []
        for name, text in units.items():
            line = next(line for line in text.splitlines() if line.startswith('ExecStart='))
            program, command, *words = line.partition('=')[2].split()
            self.assertEqual(program, f'{place}/bin/harmonics')
            self.assertEqual(f'harmonics-{command}', name)
            known = self.harmonics(command, '--help').stdout
            for flag in (word for word in words if word.startswith('--')):
                self.assertIn(f'{flag} ', known)
            users += re.findall(r'(?m)^User=(\S+)', text)
            self.assertIn(f'{users[-1]}: /etc/harmonics/{command}', text)
            self.assertRegex((share / 'tmpfiles.d' / 'harmonics.conf').read_text(),
                             rf'(?m)^d +/etc/harmonics/{command} +0700 {users[-1]} ')
        self.assertEqual(len(set(users)), 2, 'server and worker are apart')
        # With it, tasks are somebody else again; the rest is the unit's own line.
        instead = (share / 'systemd' / 'harmonics-worker.service.d' / 'task-user.conf').read_text()
        flags = re.search(r' --task-user (\S+) --task-dir (\S+)\n', instead)
        users.append(flags.group(1))
        self.assertEqual(sorted(users), sorted(made))
        self.assertEqual(len(set(users)), 3)
        own = next(line for line in units['harmonics-worker'].splitlines() if line.startswith('ExecStart='))
        self.assertIn(f'ExecStart=\n{own}{flags.group(0)}', instead)
        self.assertIn(f'CacheDirectory={flags.group(2).removeprefix("/var/cache/")}\n', instead)
        self.assertIn('KillMode=process', units['harmonics-worker'], 'tasks outlive the worker')
        self.assertRegex(units['harmonics-server'], r'(?m)^LimitNOFILE=\d{5,}$')

    def test_second_server_on_one_state_folder_or_port(self):
        self.start_server()
        self.assert_fails(self.harmonics('server', '--port', 0), 'another server', '--state-dir')
        self.assert_fails(self.harmonics('server', '--port', self.port, '--state-dir', 'other'),
                          f'cannot listen on 127.0.0.1:{self.port}')
        taken = self.harmonics('server', '--port', self.port, '--state-dir', 'other').stderr
        self.assertEqual(taken.count('\n'), 1, 'gRPC has nothing to add')

    def test_no_server(self):
        self.port = self.free_port()
        self.state.mkdir(mode=0o700)
        token = self.state / 'token'
        self.assert_fails(self.call('tasks', '--patience', 0), 'no server was found', 'token', 'first start')
        token.write_text('0' * 64)
        token.chmod(0o600)
        self.assert_fails(self.call('tasks', '--patience', 0), 'no server answers', 'harmonics server')
        for address in ('localhost', 'localhost:', 'localhost:abc', ':50051'):
            self.assert_fails(self.harmonics('tasks', '--scheduler', address),
                              f"'{address}' is not of the form HOST:PORT")
        token.chmod(0o644)
        self.assert_fails(self.call('tasks'), 'open to other users')

    def test_task_files(self):
        self.start_server()
        cases = {
            '{': 'task.json',
            '[]': 'a task is an object',
            '{"name": "x", "required_gpu": 1}': "did you mean 'required_gpus'?",
            '{"name": "x", "gpus": 1}': "did you mean 'required_gpus'?",
            '{"name": "x", "required_gpus": -1}': 'must not be negative',
            '{"name": "x", "required_gpus": "two"}': 'must be a whole number',
            '{"name": "x", "params": {"lr": 0.1}}': 'write "0.1"',
            '{"name": "x", "depends_on": [77]}': '77',
            '{"required_gpus": 1}': 'name',
            json.dumps({'name': 'x', 'env': {'BIG': 'x' * 100_000}}): '100000 bytes',
        }
        for text, message in cases.items():
            with self.subTest(text[:60]):
                self.assert_fails(self.call('submit', '--config', self.task_file(text)), message)
        file = self.task_file('{"name": "x"}')
        self.assert_fails(self.call('submit', file), f'did you mean --config {file}?')
        self.assert_fails(self.call('submit', 'net.harp'), 'did you mean --pipeline net.harp?')
        self.assertEqual(self.json('tasks'), [])

    def test_unknown_tasks_and_workers(self):
        self.start_server()
        for command in ('task', 'why', 'logs', 'cancel', 'wait'):
            self.assert_fails(self.call(command, 99), '99')
        self.assert_fails(self.call('drain', 'nobody'), 'nobody')
        self.assert_fails(self.call('monitor', '--worker', 'nobody'), 'nobody')

    def test_workers_that_are_refused(self):
        self.start_server()
        self.assert_fails(self.harmonics('worker', *self.access(), '--gpus', '0,1', '--models', 'A',
                                         '--memories', '1,2'), '--gpus names 2 device(s), --models 1')
        self.assert_fails(self.harmonics('worker', *self.access(), '--gpus', '0'),
                          '--gpus names 1 device(s), --models 0 and --memories 0')
        self.assert_fails(self.harmonics('worker', *self.access(), '--gpus', '0', '--models', 'A',
                                         '--memories', '-5'), "'-5' is not a number of MB")
        self.start_worker('--id', 'w')
        # The name is taken by a worker that lives elsewhere, with another folder.
        other = self.folder / 'other'
        result = self.harmonics('worker', *self.access(), '--id', 'w', '--state-dir', other,
                                '--token-file', self.state / 'token')
        self.assert_fails(result, 'refuses this worker', "'w'")
        self.assertEqual(self.wait(self.script('true'))['succeeded'], 1)

    def test_a_user_who_asks_too_often_is_told_to_slow_down(self):
        self.start_server('--rate', 1)
        self.done('tasks')
        crowd = [self.start('tasks', *self.access()) for _ in range(30)]
        ends = [client.wait(timeout=TIMEOUT_S) for client in crowd]
        self.assertIn(1, ends)
        refused = next(client for client, end in zip(crowd, ends) if end == 1)
        self.assertIn('more than 1 request within a second', self.printed(refused))
        self.until(lambda: self.call('tasks').returncode == 0, 'the next second')

    def test_wrong_token(self):
        self.start_server()
        wrong = self.folder / 'wrong'
        wrong.write_text('f' * 64)
        wrong.chmod(0o600)
        for command in (['tasks'], ['submit', '--name', 'x', '--', 'true'], ['worker']):
            result = self.harmonics(*command[:1], *self.access(), '--token-file', wrong, *command[1:])
            self.assert_fails(result, 'does not know this token')
        self.assertEqual(self.json('tasks'), [])

    def test_roles(self):
        tokens = self.folder / 'tokens'
        lines = []
        for role in ('submit', 'view', 'admin', 'worker'):
            token = (role[0] * 32)
            lines.append(f'{role} {role}-user {token}')
            path = self.folder / f'{role}.token'
            path.write_text(token)
            path.chmod(0o600)
        tokens.write_text('\n'.join(lines) + '\n')
        self.start_server('--tokens', tokens)
        self.start_worker('--token-file', self.folder / 'worker.token')
        mine = self.script(self.held())

        def as_role(role, command, *arguments):
            return self.call(command, '--token-file', self.folder / f'{role}.token', *arguments)

        self.assert_fails(as_role('submit', 'cancel', mine), 'an admin may cancel it')
        self.assert_fails(as_role('submit', 'task', mine), f'no task {mine}')
        self.assertEqual(as_role('view', 'task', mine).returncode, 0)
        self.assert_fails(as_role('view', 'submit', '--name', 'x', '--', 'true'), "role 'submit'")
        self.assert_fails(as_role('submit', 'drain', 'worker-1'), "role 'admin'")
        self.assert_fails(as_role('worker', 'tasks'), "role 'view'")
        theirs = as_role('submit', 'submit', '--name', 'x', '--gpus', 0, '--output', 'quiet', '--',
                         'true')
        self.assertEqual(as_role('submit', 'wait', theirs.stdout.strip()).returncode, 0)
        self.assertEqual(as_role('admin', 'cancel', mine).returncode, 0)
        self.assertEqual(self.wait(mine)['cancelled'], 1)

    def test_tls_and_its_tokens(self):
        made = self.harmonics('server', '--init', 'tls')
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assert_fails(self.harmonics('server', '--init', 'tls'), 'never overwritten')
        self.assertEqual(os.stat(self.folder / 'tls' / 'ca.key').st_mode & 0o777, 0o600)
        self.start_server('--tls', 'tls')
        self.assert_fails(self.call('tasks', '--token-file', 'tls/admin.token'), 'speaks TLS')
        self.start('worker', *self.access(), '--tls', 'tls')
        secure = ('--tls', 'tls')
        self.until(lambda: self.json('workers', *secure), 'the worker')
        task = int(self.done('submit', *secure, '--output', 'quiet', '--name', 'x', '--gpus', 0, '--',
                             'echo', 'hello'))
        self.done('wait', *secure, task)
        self.assertEqual(self.done('logs', *secure, task), 'hello\n')

    def test_an_expired_certificate_is_refused(self):
        self.assertEqual(self.harmonics('server', '--init', 'tls').returncode, 0)
        tls = self.folder / 'tls'
        old = self.folder / 'old'
        shutil.copytree(tls, old)
        # The same authority, but a client's certificate whose day is over.
        request = subprocess.run(['openssl', 'req', '-new', '-key', old / 'client.key', '-subj',
                                  '/CN=client'], capture_output=True, check=True, timeout=TIMEOUT_S)
        subprocess.run(['openssl', 'x509', '-req', '-CA', tls / 'ca.pem', '-CAkey', tls / 'ca.key',
                        '-CAcreateserial', '-days', '-1', '-out', old / 'client.pem'],
                       input=request.stdout, capture_output=True, check=True, timeout=TIMEOUT_S)
        self.start_server('--tls', 'tls')
        refused = self.call('tasks', '--tls', 'old')
        self.assert_fails(refused, f'localhost:{self.port}')
        self.assertEqual(self.json('tasks', '--tls', 'tls'), [])

    def test_messages_that_are_too_long_are_refused(self):
        self.start_server()
        big = self.folder / 'big.json'
        big.write_text(json.dumps({'name': 'x', 'params': {f'k{i}': 'v' * 60_000 for i in range(400)}}))
        self.assert_fails(self.call('submit', '--config', big), 'big.json')
        # Around the client's own checks: 20 MB in one frame of gRPC.
        connection = http2_frames(20 << 20, (self.state / 'token').read_text().strip())
        with socket.create_connection(('127.0.0.1', self.port), timeout=TIMEOUT_S) as door:
            try:
                door.sendall(connection)
                door.shutdown(socket.SHUT_WR)
                while door.recv(65536):
                    pass
            except OSError:
                pass  # cut by the server
        self.assertEqual(self.json('tasks'), [])

    def test_a_client_that_goes_away_midway_costs_nothing(self):
        self.start_server()
        self.start_worker()
        held = self.script('echo one; ' + self.held())
        self.until_launched(held)
        followers = [self.start('logs', *self.access(), '-f', held) for _ in range(3)]
        waiters = [self.start('wait', *self.access(), held) for _ in range(3)]
        for follower in followers:
            self.until(lambda one=follower: self.printed(one) == 'one\n', 'the first line')
        for client in followers + waiters:
            self.kill(client)
        # Half a request, then nothing more.
        token = (self.state / 'token').read_text().strip()
        with socket.create_connection(('127.0.0.1', self.port), timeout=TIMEOUT_S) as door:
            door.sendall(http2_frames(5000, token)[:400])
        self.assertEqual(self.wait(self.script('true'))['succeeded'], 1)
        self.release()
        self.assertEqual(self.wait(held)['succeeded'], 1)
        self.assertEqual(len(self.json('tasks')), 2)

    def test_garbage_on_the_port_hurts_nobody(self):
        self.start_server()
        for garbage in (b'GET / HTTP/1.0\r\n\r\n', os.urandom(4096), b''):
            with socket.create_connection(('127.0.0.1', self.port), timeout=TIMEOUT_S) as connection:
                connection.sendall(garbage)
        self.start_worker()
        self.assertEqual(self.wait(self.script('true'))['succeeded'], 1)

    def test_what_cannot_start_says_why(self):
        self.start_server()
        self.start_worker()
        task = self.submit('no-such-program')
        self.assertEqual(self.wait(task)['failed'], 1)
        self.assertIn("no program 'no-such-program'", self.task(task)['end']['message'])


if __name__ == '__main__':
    unittest.main()
