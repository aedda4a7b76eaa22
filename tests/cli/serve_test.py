"""`harmonics run --listen`: a model that answers requests, alone and in company, over one process and several."""

import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import unittest
import unittest.mock

import program
import serving
from processes_test import children_of, is_alive

MODES = [(), ('--parts', '2'), ('--parts', '2', '--processes', '--transport', 'tcp')]
CLIENTS = 16


class ServeCase(program.CliTest):
    weights = None  # the same for all tests

    def setUp(self):
        super().setUp()
        if ServeCase.weights is None:
            self.train('--epochs', '1', '--checkpoint', 'weights.safetensors')
            ServeCase.weights = (self.folder / 'weights.safetensors').read_bytes()
        (self.folder / 'weights.safetensors').write_bytes(ServeCase.weights)
        chance = random.Random(11)
        self.rows = [[chance.uniform(-2, 2) for _ in range(4)] for _ in range(40)]

    def words(self, *more):
        return ('run', self.net, '--weights', 'weights.safetensors', '--listen', '127.0.0.1:0', *more)

    def serve(self, *more):
        """A service that is ready, and its port."""
        service = serving.Service(self.start(*self.words(*more)))
        port = service.port()
        service.wait_for('^ready: ')
        return service, port

    def finish(self, service, number=signal.SIGTERM):
        """Ends it as it should end; what it said."""
        children = children_of(service.process)
        service.process.send_signal(number)
        code, said = service.end()
        self.assertEqual(code, 0, said)
        self.assertFalse(any(map(is_alive, children)))
        return said

    def alone(self, port):
        """The answer to each row when nobody else asks."""
        client = serving.Client(port)
        answers = [client.infer('quadrant', 'point', [row]) for row in self.rows]
        client.close()
        self.assertEqual({status for status, _ in answers}, {200}, answers[0])
        return [answer for _, answer in answers]


class AnswersTest(ServeCase):
    def test_every_way_to_compute_gives_the_same_bits(self):
        self.write('asked.csv', '\n'.join(','.join(map(repr, [*row, 0])) for row in self.rows) + '\n')
        self.done('run', self.net, '--weights', 'weights.safetensors', '--bind', 'point=csv:asked.csv?columns=0-3',
                  '--bind', 'label=csv:asked.csv?columns=4', '--out', 'prediction=csv:rows.csv')
        expected = [list(map(float, line.split(',')))
                    for line in (self.folder / 'rows.csv').read_text().splitlines()]
        first = None
        for mode in MODES:
            with self.subTest(mode=mode):
                service, port = self.serve(*mode)
                answers = self.alone(port)
                first = first or answers
                self.assertEqual(answers, first)
                for answer, row in zip(answers, expected):
                    for ours, theirs in zip(struct.unpack('<4f', answer), row):
                        self.assertAlmostEqual(ours, theirs, places=5)
                self.finish(service)

    def test_sixteen_clients_get_what_each_gets_alone(self):
        for mode in (MODES[0], MODES[2]):
            with self.subTest(mode=mode):
                service, port = self.serve(*mode, '--max-wait', '20')
                alone = self.alone(port)

                def ask(number):
                    chance = random.Random(number)
                    client = serving.Client(port)
                    for _ in range(10):
                        count = chance.randint(1, 3)
                        first = chance.randrange(len(self.rows) - count)
                        answer = client.infer('quadrant', 'point', self.rows[first:first + count])
                        if answer != (200, b''.join(alone[first:first + count])):
                            return answer
                    client.close()
                    return None

                with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                    self.assertEqual(list(pool.map(ask, range(CLIENTS))), [None] * CLIENTS)
                said = self.finish(service)
                requests, batches = map(int, service_figures(said))
                self.assertEqual(requests, len(self.rows) + CLIENTS * 10)
                self.assertLess(batches, requests - CLIENTS, said)

    def test_json_and_metadata(self):
        service, port = self.serve()
        client = serving.Client(port)
        status, _, body = client.ask('GET', '/v2/models/quadrant')
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(body)['inputs'], [{'name': 'point', 'datatype': 'FP32', 'shape': [-1, 4]}])
        self.assertEqual(json.loads(body)['outputs'], [{'name': 'prediction', 'datatype': 'FP32', 'shape': [-1, 4]}])
        request = {'id': 'x', 'inputs': [{'name': 'point', 'shape': [1, 4], 'datatype': 'FP32',
                                          'data': [self.rows[0]]}]}
        status, _, body = client.ask('POST', '/v2/models/quadrant/infer', json.dumps(request))
        self.assertEqual(status, 200, body)
        answer = json.loads(body)
        self.assertEqual(answer['id'], 'x')
        numbers = struct.pack('<4f', *answer['outputs'][0]['data'])
        self.assertEqual(numbers, client.infer('quadrant', 'point', [self.rows[0]])[1])
        status, _, body = client.ask('GET', '/metrics')
        self.assertIn('harmonics_serve_requests_total{model="quadrant",outcome="answered"} 2\n', body.decode())
        client.close()
        self.finish(service)


def service_figures(said):
    return re.search(r'served quadrant: (\d+) requests with \d+ rows in (\d+) batches', said).groups()


class RefusalTest(ServeCase):
    def test_bad_requests_are_refused_and_the_service_goes_on(self):
        service, port = self.serve()
        client = serving.Client(port)

        def refused(body, text, status=400, path='/v2/models/quadrant/infer', headers=None):
            got, _, said = client.ask('POST', path, body, headers)
            self.assertEqual(got, status, said)
            self.assertIn(text, json.loads(said)['error'])

        def request(**changes):
            tensor = {'name': 'point', 'shape': [1, 4], 'datatype': 'FP32', 'data': [1, 2, 3, 4], **changes}
            return json.dumps({'inputs': [tensor]})

        refused('hello', 'not valid JSON')
        refused('{}', 'inputs')
        refused('{"inputs": []}', "lacks input 'point'")
        refused(request(name='points'), "input 'point'")
        refused(request(shape=[1, 5], data=[1, 2, 3, 4, 5]), 'takes the shape [rows, 4]')
        refused(request(shape=[9, 4], data=[0] * 36), '1 to 8 rows, this one has 9')
        refused(request(datatype='FP64'), 'takes float32')
        refused(request(data=[1, 2, 3]), 'its data has 3')
        refused(request(), "no model 'other'", 404, '/v2/models/other/infer')
        refused(request(), '2000', 400, headers={'Inference-Header-Content-Length': '2000'})
        whole = request().encode()
        refused(whole[:-9], 'not valid JSON')
        status, _, said = client.ask('POST', '/v2/models/quadrant/infer', b'x' * (2 << 20))
        self.assertEqual(status, 413, said)
        client.close()
        client = serving.Client(port)
        self.assertEqual(client.infer('quadrant', 'point', [self.rows[0]])[0], 200)
        for broken in (b'\0' * 100, b'GET / HTTP/9.9\r\n\r\n', b'POST /v2 HTTP/1.1\r\nContent-Length: 9\r\n\r\nab'):
            with socket.create_connection(('127.0.0.1', port)) as line:
                line.sendall(broken)
        self.assertEqual(client.infer('quadrant', 'point', [self.rows[0]])[0], 200)
        client.close()
        self.finish(service)

    def test_flags_and_addresses_that_make_no_sense(self):
        def usage(text, *words):
            result = self.call('run', self.net, '--weights', 'weights.safetensors', *words)
            self.assert_fails(result, text, code=2)
            return result.stderr

        said = usage('--token-file FILE', '--listen', '0.0.0.0:0')
        self.assertEqual(said.count('\n'), 1, said)
        usage('--token-file FILE', '--listen-grpc', '0.0.0.0:0')
        usage('is no address to listen on', '--listen', '8000')
        usage('too easily guessed', '--listen', '0.0.0.0:0', '--token-file', self.write_token('secret\n'))
        usage('go together', '--listen', '127.0.0.1:0', '--tls-key', 'key.pem')
        usage('needs --listen', '--max-wait', '5')
        usage('needs --listen', '--token-file', 'x')
        usage('whoever asks gets the outputs', '--listen', '127.0.0.1:0', '--out', 'prediction=csv:x.csv')
        usage('--tls-certificate and --tls-key as well', '--listen', '127.0.0.1:0', '--tls-authority', 'ca.pem')
        for words in (('--requests',), ('--feed', 'tcp://127.0.0.1:1')):
            self.assert_fails(self.call('stage', self.net, '--part', '0', *words), 'needs --infer', code=2)
        self.assert_fails(self.call('stage', self.net, '--part', '0', '--infer', '--feed', 'tcp://127.0.0.1:1'),
                          'needs --requests', code=2)
        with socket.create_server(('127.0.0.1', 0)) as taken:
            result = self.call('run', self.net, '--weights', 'weights.safetensors', '--listen',
                               f'127.0.0.1:{taken.getsockname()[1]}')
        self.assert_fails(result, 'cannot listen on 127.0.0.1')

    def test_overload_is_refused_and_nothing_is_lost(self):
        with unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='200'):
            service, port = self.serve('--batch-size', '1', '--queue', '2')
        statuses = []

        def ask(number):
            client = serving.Client(port)
            for _ in range(4):
                status, _, body = client.ask('POST', '/v2/models/quadrant/infer', json.dumps({'inputs': [
                    {'name': 'point', 'shape': [1, 4], 'datatype': 'FP32', 'data': self.rows[number]}]}))
                statuses.append(status)
            client.close()

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(ask, range(CLIENTS)))
        self.assertEqual(len(statuses), CLIENTS * 4)
        self.assertEqual(set(statuses), {200, 503})
        said = self.finish(service)
        self.assertIn(f'{statuses.count(503)} refused, 0 expired, 0 failed', said)

    def test_a_request_has_a_deadline(self):
        with unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='200'):
            service, port = self.serve('--batch-size', '1', '--request-deadline', '1', '--queue', '64')
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            answers = list(pool.map(lambda row: ask_once(port, row), self.rows))
        self.assertIn(504, answers)
        self.assertLessEqual(set(answers), {200, 503, 504})
        self.finish(service)


class AccessTest(ServeCase):
    def test_a_token_is_needed_beyond_loopback(self):
        token = '81b2c4f97d0e5a3688d1f0c2'
        service = serving.Service(self.start(
            'run', self.net, '--weights', 'weights.safetensors', '--listen', '0.0.0.0:0', '--token-file',
            self.write_token(token + '\n')))
        port = service.port()
        service.wait_for('^ready: ')
        self.assertEqual(ask_once(port, self.rows[0]), 401)
        self.assertEqual(ask_once(port, self.rows[0], token='f' * 24), 401)
        self.assertEqual(ask_once(port, self.rows[0], token=token), 200)
        wait_until_ready(port)
        self.assertIn('without TLS', self.finish(service))

    @unittest.skipIf(shutil.which('openssl') is None, 'the program openssl is not installed')
    def test_tls(self):
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ed25519', '-nodes', '-days', '1', '-subj', '/CN=here',
                        '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', 'key.pem', '-out', 'cert.pem'],
                       cwd=self.folder, check=True, capture_output=True)
        service = serving.Service(self.start(*self.words('--tls-certificate', 'cert.pem', '--tls-key', 'key.pem')))
        port = service.port('https')
        service.wait_for('^ready: ')
        context = ssl.create_default_context(cafile=self.folder / 'cert.pem')
        client = serving.Client(port, context=context)
        answers = {client.infer('quadrant', 'point', [self.rows[0]] * 8) for _ in range(3)}
        self.assertEqual(len(answers), 1)
        self.assertEqual(answers.pop()[0], 200)
        client.close()
        with self.assertRaises(ssl.SSLError):
            serving.Client(port, context=ssl.create_default_context()).ask('GET', '/v2')
        with socket.create_connection(('127.0.0.1', port)) as plain:
            plain.sendall(b'GET /v2 HTTP/1.1\r\n\r\n')
            plain.settimeout(serving.TIMEOUT_S)
            self.assertNotIn(b'HTTP', plain.recv(4096))
        self.finish(service)


class SurvivalTest(ServeCase):
    def test_parts_that_die_are_replaced_and_every_request_is_answered(self):
        service, port = self.serve('--parts', '2', '--processes')
        alone = self.alone(port)
        answers = []

        def ask(number):
            client = serving.Client(port)
            for i in range(60):
                row = (number * 7 + i) % len(self.rows)
                answers.append((row, *client.infer('quadrant', 'point', [self.rows[row]])))
            client.close()

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask, number) for number in range(4)]
            for victim in range(2):
                os.kill(children_of(service.process)[victim], signal.SIGKILL)
                service.wait_for('all parts start again from batch')
                wait_until_ready(port)
            for one in asking:
                one.result(timeout=serving.TIMEOUT_S)
        self.assertEqual(len(answers), 240)
        for row, status, answer in answers:
            self.assertIn(status, (200, 503), answer)
            if status == 200:
                self.assertEqual(answer, alone[row])
        self.finish(service)

    def test_a_signal_finishes_what_is_under_way_and_refuses_the_rest(self):
        for mode in (MODES[0], MODES[2]):
            with self.subTest(mode=mode), unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='200'):
                service, port = self.serve(*mode, '--batch-size', '1', '--queue', '64')
                with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                    asking = [pool.submit(ask_once, port, row) for row in self.rows[:CLIENTS]]
                    watcher = serving.Client(port)
                    while not waiting_rows(watcher):
                        pass
                    watcher.close()
                    children = children_of(service.process)
                    service.process.send_signal(signal.SIGINT)
                    statuses = []
                    for one in asking:
                        try:
                            statuses.append(one.result(timeout=serving.TIMEOUT_S))
                        except ConnectionError:  # it came when the door was closed
                            statuses.append(503)
                code, said = service.end()
                self.assertEqual(code, 0, said)
                self.assertLessEqual(set(statuses), {200, 503})
                self.assertIn(200, statuses)
                self.assertIn('0 expired, 0 failed', said)
                self.assertFalse(any(map(is_alive, children)))


def ask_once(port, row, **access):
    """The status of the answer, over a connection of its own."""
    client = serving.Client(port, **access)
    try:
        return client.infer('quadrant', 'point', [row])[0]
    finally:
        client.close()


def waiting_rows(client):
    page = client.ask('GET', '/metrics')[2].decode()
    return int(next(line for line in page.splitlines() if line.startswith('harmonics_serve_waiting_rows')).split()[-1])


def wait_until_ready(port):
    client = serving.Client(port)
    while client.ask('GET', '/v2/health/ready')[0] != 200:
        pass
    client.close()


if __name__ == '__main__':
    unittest.main()
