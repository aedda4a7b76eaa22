"""What tests and benches of `harmonics run --listen` share: a service that is up, and plain requests to it."""

import http.client
import json
import queue
import re
import struct
import subprocess
import threading

TIMEOUT_S = 120


class Service:
    """A running service: what it said on standard error, and where it listens."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        self._heard = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self):
        for line in self.process.stderr:
            self.lines.append(line)
            self._heard.put(line)
        self._heard.put(None)

    def wait_for(self, pattern):
        """The match of the next line that has `pattern`."""
        while True:
            line = self._heard.get(timeout=TIMEOUT_S)
            if line is None:
                raise AssertionError('the service ended: ' + ''.join(self.lines))
            found = re.search(pattern, line)
            if found:
                return found

    def port(self, scheme='http'):
        return int(self.wait_for(rf' on {scheme}://\S*:(\d+)').group(1))

    def end(self):
        """Waits for its end: the exit code and all that it said."""
        self.process.wait(timeout=TIMEOUT_S)
        self._listener.join(timeout=TIMEOUT_S)
        return self.process.returncode, ''.join(self.lines)


def start(words, **options):
    return Service(subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                    text=True, **options))


class Client:
    """One connection."""

    def __init__(self, port, token=None, context=None):
        self.headers = {'Authorization': f'Bearer {token}'} if token else {}
        kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
        more = {'context': context} if context else {}
        self.connection = kind('127.0.0.1', port, timeout=TIMEOUT_S, **more)

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and body."""
        self.connection.request(method, path, body, {**self.headers, **(headers or {})})
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def close(self):
        self.connection.close()

    def infer(self, model, name, rows):
        """Status and, of a request that was answered, the bytes of the first output; else the error."""
        data = b''.join(struct.pack(f'<{len(row)}f', *row) for row in rows)
        text = json.dumps({'inputs': [{'name': name, 'shape': [len(rows), len(rows[0])], 'datatype': 'FP32',
                                       'parameters': {'binary_data_size': len(data)}}],
                           'parameters': {'binary_data_output': True}}).encode()
        status, headers, body = self.ask('POST', f'/v2/models/{model}/infer', text + data,
                                         {'Inference-Header-Content-Length': str(len(text))})
        if status != 200:
            return status, json.loads(body)['error']
        return status, body[int(headers['Inference-Header-Content-Length']):]
