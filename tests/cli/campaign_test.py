"""A campaign against runs in several processes: parts are killed, stopped, interrupted at any moment, started
in any order, and visited by strangers. Whatever happens, the run ends with the weights that it would have had,
or with the exit code of the signal and a checkpoint from which it comes to them."""

import json
import os
import random
import signal
import socket
import subprocess
import threading
import unittest

import program
from processes_test import children_of, is_alive
from resume_test import Metrics

SEED = int(os.environ.get('HARMONICS_CAMPAIGN_SEED', '4711'))
ROUNDS = int(os.environ.get('HARMONICS_CAMPAIGN_ROUNDS', '500' if os.environ.get('HARMONICS_SOAK') else '5'))
EPOCHS = 4
STEPS = 24
STRANGERS = 40


class Crowd:
    """Connections that say nothing and come back whenever they are turned away."""

    def __init__(self, port):
        self._port = port
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._knock) for _ in range(STRANGERS)]
        for thread in self._threads:
            thread.start()

    def _knock(self):
        while not self._over.is_set():
            try:
                with socket.create_connection(('127.0.0.1', self._port), timeout=1) as stranger:
                    stranger.settimeout(0.2)
                    while not self._over.is_set():
                        try:
                            if not stranger.recv(1):
                                break
                        except TimeoutError:
                            continue
            except OSError:
                self._over.wait(0.02)

    def leave(self):
        self._over.set()
        for thread in self._threads:
            thread.join()


class CampaignTest(program.CliTest):
    common = ('--epochs', EPOCHS, '--lr', '0.01', '--clip', '1')

    def setUp(self):
        super().setUp()
        parts = json.loads(self.done('doctor', '--output', 'json'))['parts']
        built = {part['name'] for part in parts if part['built']}
        self.transports = ['shm', 'tcp'] + [name for name in ('grpc', 'flight') if name in built]
        self.digests = {}

    def expected(self, *shape):
        """The digest of the same run in one process."""
        if shape not in self.digests:
            self.digests[shape] = self.train(*self.common, *shape)['weights_digest']
        return self.digests[shape]

    def shape_of(self, chance):
        """What a run in processes adds to one in a single process: replicas count for the weights, parts do not."""
        if chance.random() < 0.5:
            return (), ('--parts', chance.choice(['2', '3']))
        replicas = ('--replicas', '3', '--reduction', chance.choice(['chain', 'tree', 'ring']))
        return replicas, replicas

    def start_run(self, chance, words, transport=None):
        metrics = Metrics(self.folder / f'{self.name}.pipe')
        process = self.start('train', self.net, '--processes', *self.common, *words, '--transport',
                             transport or chance.choice(self.transports), '--metrics', metrics.path, '--checkpoint',
                             self.folder / self.name, '--checkpoint-every', '3', '--output', 'json')
        return process, metrics

    def finish(self, process, metrics):
        output, error = process.communicate(timeout=program.TIMEOUT_S)
        metrics.close()
        return output, error

    def goes_on(self, weighs, words):
        """A run that was broken off comes to the same weights."""
        report = self.train('--processes', *self.common, *words, '--checkpoint', self.folder / self.name, '--resume')
        self.assertEqual(report['weights_digest'], self.expected(*weighs))

    def round_kill(self, chance):
        weighs, words = self.shape_of(chance)
        process, metrics = self.start_run(chance, words)
        metrics.wait_for_step(chance.randint(1, STEPS - 4))
        os.kill(chance.choice(children_of(process)), signal.SIGKILL)
        output, error = self.finish(process, metrics)
        self.assertEqual(process.returncode, 0, error)
        self.assertEqual(json.loads(output)['weights_digest'], self.expected(*weighs))

    def round_signal(self, chance):
        weighs, words = self.shape_of(chance)
        process, metrics = self.start_run(chance, words)
        try:
            process.wait(timeout=chance.choice([0.05, 1, 3]) * chance.random())
        except subprocess.TimeoutExpired:
            pass
        children = children_of(process) if process.poll() is None else []
        number = chance.choice([signal.SIGINT, signal.SIGTERM])
        process.send_signal(number)
        output, error = self.finish(process, metrics)
        if process.returncode == 0:  # it was done before
            self.assertEqual(json.loads(output)['weights_digest'], self.expected(*weighs))
            return
        # In its first milliseconds the front itself has no handler: then the signal ends it as usual.
        self.assertIn(process.returncode, (128 + number, -number), error)
        if process.returncode > 0:
            self.assertIn('interrupted', error)
        self.assertFalse(any(map(is_alive, children)))
        self.goes_on(weighs, words)

    def round_hang(self, chance):
        weighs, words = self.shape_of(chance)
        process, metrics = self.start_run(chance, words, transport='tcp')
        metrics.wait_for_step(chance.randint(1, STEPS // 2))
        children = children_of(process)
        os.kill(chance.choice(children), signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        _, error = self.finish(process, metrics)
        self.assertEqual(process.returncode, 143, error)
        self.assertFalse(any(map(is_alive, children)))
        self.goes_on(weighs, words)

    def round_order(self, chance):
        weighs, _ = self.shape_of(chance)
        if not weighs:
            weighs = ('--replicas', '3', '--reduction', 'ring')
        transport = chance.choice(self.transports)
        places = [word for _ in range(3)
                  for word in ('--replica-place', f'{transport}://127.0.0.1:{program.reserved_port()}/replicas')]
        ranks = chance.sample(range(3), 3)
        stages = [self.start('stage', self.net, '--part', '0', *self.common, *weighs, '--replica', rank, *places,
                             '--output', 'json') for rank in ranks]
        for stage in stages:
            output, error = stage.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(stage.returncode, 0, error)
            self.assertEqual(json.loads(output)['weights_digest'], self.expected(*weighs))

    def round_crowd(self, chance):
        port = program.reserved_port()
        saved = self.folder / self.name
        stages = [self.start('stage', self.net, '--parts', '2', '--part', part, *self.common, '--meet',
                             f'tcp://127.0.0.1:{port}', '--token-file', self.write_token(), '--checkpoint', saved,
                             '--whole-digest', '--output', 'json') for part in chance.sample((0, 1), 2)]
        crowd = Crowd(port)
        try:
            for stage in stages:
                output, error = stage.communicate(timeout=program.TIMEOUT_S)
                self.assertEqual(stage.returncode, 0, error)
                self.assertEqual(json.loads(output)['weights_digest'], self.expected())
                self.assertLess(len(error), 20_000)
        finally:
            crowd.leave()

    def test_whatever_happens_the_weights_are_the_same(self):
        kinds = (self.round_kill, self.round_signal, self.round_hang, self.round_order, self.round_crowd)
        for number in range(ROUNDS):
            strike = kinds[number % len(kinds)]
            self.name = f'run{number}'
            with self.subTest(seed=SEED, round=number, kind=strike.__name__):
                strike(random.Random(f'{SEED}/{number}'))


if __name__ == '__main__':
    unittest.main()
