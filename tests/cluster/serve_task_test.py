"""A language model served by a task of the cluster: its address stands in `harmonics task`."""

import json
import os
import pathlib
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'text'))
from cluster import BINARY_DIR, TIMEOUT_S, ClusterTest
from small_llama import write_small_llama


class ServeTask(ClusterTest):
    def setUp(self):
        super().setUp()
        before = os.environ['PATH']
        self.addCleanup(os.environ.__setitem__, 'PATH', before)
        os.environ['PATH'] = f'{BINARY_DIR}:{before}'  # where a worker finds harmonics

    def address(self, task):
        progress = self.task(task).get('progress') or {}
        return (json.loads(progress) if isinstance(progress, str) else progress).get('address')

    def test_a_model_is_served_until_the_task_is_cancelled(self):
        model = write_small_llama(self.folder / 'small')
        self.start_server()
        self.start_worker('--id', 'w')
        task = int(self.done('submit', '--output', 'quiet', '--serve', model, '--', '--name', 'small', '--sequences', '2'))
        self.until(lambda: self.address(task), 'the address of the service')
        address = self.address(task)
        self.assertIn(address, self.done('task', task))
        request = urllib.request.Request(address + '/v1/completions',
                                         json.dumps({'prompt': 'abc', 'max_tokens': 5, 'model': 'small'}).encode())
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            self.assertEqual(json.load(answer)['usage']['completion_tokens'], 5)
        self.done('cancel', task)
        self.until_state(task, 'cancelled')


if __name__ == '__main__':
    unittest.main()
