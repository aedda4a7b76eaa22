"""The client of the Open Inference Protocol from the package index, unchanged, and a service of ours.

The package comes into a virtual environment in the build folder; where the package index cannot be reached the test
is skipped with a line that says so.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages
import serving

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
PEER = pathlib.Path(__file__).with_name('triton_peer.py')


class TritonClientTest(unittest.TestCase):
    def test_sixteen_clients_over_http_and_grpc(self):
        python = packages.interpreter('triton', ['tritonclient[http,grpc]==2.73.0'],
                                      'tritonclient.http, tritonclient.grpc, numpy')
        if python is None:
            self.skipTest('tritonclient could not be installed here')
        model = SOURCE_DIR / 'examples' / 'digits.harp'
        with tempfile.TemporaryDirectory() as folder:
            weights = os.path.join(folder, 'digits.safetensors')
            subprocess.run([BINARY_DIR / 'harmonics', 'train', model, '--epochs', '1', '--threads', '1',
                            '--checkpoint', weights, '--output', 'quiet'], check=True, capture_output=True,
                           timeout=120)
            for mode in ([], ['--parts', '2', '--processes']):
                with self.subTest(mode=mode):
                    self.check(python, [BINARY_DIR / 'harmonics', 'run', model, '--weights', weights, '--threads', '1',
                                        '--max-wait', '5', '--listen', '127.0.0.1:0', '--listen-grpc', '127.0.0.1:0',
                                        *mode])

    def check(self, python, words):
        service = serving.start(words)
        self.addCleanup(service.process.kill)
        ports = [service.port('http'), service.port('grpc')]
        service.wait_for('^ready: ')
        answer = subprocess.run([python, PEER, *map(str, ports)], capture_output=True, text=True, timeout=200)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        found = json.loads(answer.stdout)
        self.assertEqual((found['http_different'], found['grpc_different'], found['same']), (0, 0, True), found)
        for refusal in found['refusals']:
            self.assertIn('takes the shape [rows, 64]', refusal)
        service.process.send_signal(signal.SIGTERM)
        code, said = service.end()
        self.assertEqual(code, 0, said)


if __name__ == '__main__':
    unittest.main()
