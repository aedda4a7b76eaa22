"""The seed's four commands as they are written, and the built-in trainer behind a task."""

import json
import re
import subprocess
import unittest

from cluster import HARMONICS, SOURCE_DIR, TIMEOUT_S, ClusterTest, environment


SAMPLE = '''{
  "name": "ResNet50 Training",
  "required_gpus": 2,
  "min_gpu_memory": 8192,
  "params": {
    "model": "resnet50",
    "dataset": "imagenet",
    "batch_size": "64",
    "learning_rate": "0.001",
    "epochs": "90",
    "optimizer": "sgd",
    "momentum": "0.9",
    "weight_decay": "0.0001"
  }
}
'''
DEFAULTS = {'server': {'--port': '50051', '--policy': 'balanced'},
            'worker': {'--scheduler': 'localhost:50051', '--addr': 'localhost:0'},
            'submit': {'--scheduler': 'localhost:50051', '--gpus': '1', '--memory': '4096'},
            'monitor': {'--scheduler': 'localhost:50051', '--refresh': '1'}}


class Text(unittest.TestCase):
    def test_the_sample_is_the_seeds(self):
        self.assertEqual((SOURCE_DIR / 'examples' / 'sample_task.json').read_bytes(), SAMPLE.encode())

    def test_defaults_are_the_seeds(self):
        for command, defaults in DEFAULTS.items():
            text = subprocess.run([str(HARMONICS), command, '--help'], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=True).stdout
            for flag, value in defaults.items():
                self.assertRegex(text, rf'(?m)^  {flag} \S+\s.*\({re.escape(value)}\)$')


class Seed(ClusterTest):
    def setUp(self):
        super().setUp()
        self.server = self.start('server', '--port=0', '--policy=balanced')
        self.port = int(self.until(lambda: self.printed(self.server).partition('127.0.0.1:')[2]
                                   .partition(',')[0], 'the server'))
        self.scheduler = f'--scheduler=localhost:{self.port}'
        for count in (1, 2):
            self.start('worker', self.scheduler, '--gpus=0,1', '--models=RTX3090,RTX3090',
                       '--memories=24576,24576', '--addr=localhost:0')
            self.until(lambda wanted=count: len(self.ready_workers()) == wanted, 'the workers')

    def harmonics(self, *arguments):
        return subprocess.run([str(HARMONICS), *arguments], capture_output=True, text=True,
                              timeout=TIMEOUT_S, cwd=SOURCE_DIR, env=environment(self.folder))

    def train(self, **params):
        """Runs a task without a command to its end; the task."""
        flags = [word for pair in params.items() for word in ('--param', '='.join(pair))]
        task = int(self.done('submit', '--output', 'quiet', '--name', 'train', '--gpus', 1, *flags))
        self.wait(task)
        return task

    def test_the_four_commands(self):
        submitted = self.harmonics('submit', self.scheduler, '--name=ResNet50 Training', '--gpus=2',
                                   '--memory=8192')
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        self.assertIn('trains the shipped digits model', submitted.stderr)
        self.assertEqual(submitted.stdout, 'submitted task 1\n')
        watched = self.harmonics('monitor', self.scheduler, '--worker=worker-1', '--refresh=1')
        self.assertIn('worker-1', watched.stdout)
        self.assertEqual(self.wait(1)['succeeded'], 1)
        self.assertIn('progress', self.done('logs', 1, '--stream', 'metrics'))
        self.assertRegex(self.done('logs', 1), r'accuracy')

    def test_the_sample_with_strict_data_says_what_is_missing(self):
        submitted = self.harmonics('submit', self.scheduler, '--config=examples/sample_task.json',
                                   '--strict-data')
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        self.assertEqual(self.wait(1)['failed'], 1)
        self.assertIn('synthetic:imagenet', self.done('logs', 1, '--stream', 'err'))

    def test_the_sample_trains_as_it_is(self):
        # Word for word as 'submit --help' shows it, on workers without any data.
        submitted = self.harmonics('submit', self.scheduler, '--config=examples/sample_task.json')
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        # A ResNet-50 on a processor that may be busy.
        subprocess.run([str(HARMONICS), 'wait', self.scheduler, '1', '--timeout', '600'], timeout=660,
                       check=False, env=environment(self.folder))
        said = self.done('logs', 1)
        self.assertEqual(self.state_of(1), 'succeeded', said + self.done('logs', 1, '--stream', 'err'))
        self.assertIn("the data set 'imagenet' is not on this worker: training on 16 made-up samples of "
                      'its shape instead, batch_size 8 in place of 64, epochs 2 in place of 90', said)
        self.assertIn('trained resnet50', said)
        self.assertEqual(self.losses(1), 2)

    def losses(self, task):
        """How many epochs reported a finite loss."""
        lines = [json.loads(line) for line in self.done('logs', task, '--stream', 'metrics').splitlines()]
        epochs = {line['epoch'] for line in lines if line.get('loss', float('nan')) < 100}
        return len(epochs)

    def test_data_that_is_not_there_is_made_up_for_the_zoo_alone(self):
        task = self.train(model='lenet', dataset='mnist', epochs='1')
        self.assertEqual(self.state_of(task), 'succeeded', self.done('logs', task, '--stream', 'err'))
        said = self.done('logs', task)
        self.assertIn("the data set 'mnist' is not on this worker: training on 16 made-up samples", said)
        self.assertNotIn('in place of', said)
        for params in ({'model': 'lenet', 'dataset': 'my-photos'}, {'dataset': 'mnist'},
                       {'model': 'lenet', 'dataset': 'mnist', 'strict_data': 'true'}):
            self.assertEqual(self.state_of(self.train(**params)), 'failed', params)

    def test_the_sample_trains_when_it_is_given_data(self):
        # All of the sample but the size of the data, the batches and how long: a processor is slow.
        sample = json.loads((SOURCE_DIR / 'examples' / 'sample_task.json').read_text())
        sample['params'].update(dataset='synthetic:imagenet', synthetic_size='2', batch_size='2',
                                epochs='1')
        sample['required_gpus'] = 1
        config = self.folder / 'sample.json'
        config.write_text(json.dumps(sample))
        task = int(self.done('submit', '--output', 'quiet', '--config', config))
        self.assertEqual(self.wait(task)['succeeded'], 1, self.done('logs', task, '--stream', 'err'))
        self.assertIn('trained resnet50', self.done('logs', task))

    def test_parameters_are_honoured(self):
        task = self.train(model=str(SOURCE_DIR / 'examples' / 'digits.harp'), batch_size='64',
                          learning_rate='0.05', epochs='2', optimizer='sgd', momentum='0.9',
                          weight_decay='0.0001')
        said = self.done('logs', task, '--stream', 'err')
        for flag in ('--batch-size 64', '--lr 0.05', '--epochs 2', '--optimizer sgd', '--momentum 0.9',
                     '--weight-decay 0.0001'):
            self.assertIn(flag, said)
        self.assertEqual(self.state_of(task), 'succeeded')

    def test_two_devices_of_one_worker_train_two_replicas(self):
        task = int(self.done('submit', '--output', 'quiet', '--name', 'two', '--gpus', 2, '--param',
                             'epochs=2'))
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertIn('--replicas 2', self.done('logs', task, '--stream', 'err'))
        self.assertIn('2 replicas', self.done('logs', task))

    def test_two_workers_train_one_model(self):
        task = int(self.done('submit', '--output', 'quiet', '--name', 'both', '--gpus', 1, '--gang', 2,
                             '--retries', 2, '--param', 'epochs=20'))
        self.until(lambda: self.task(task)['attempts'] > 0, 'its start')
        watched = self.start('logs', *self.access(), '-f', task, '--stream', 'metrics')
        self.assertEqual(self.wait(task)['succeeded'], 1, self.done('logs', task, '--stream', 'err'))
        self.assertEqual(watched.wait(timeout=TIMEOUT_S), 0)
        self.assertIn('"test_accuracy"', self.printed(watched))
        said = [self.done('logs', task, '--rank', rank) for rank in (0, 1)]
        # Both have the same weights in the end, and they have learnt something.
        digests = [re.search(r'[0-9a-f]{64}', text).group() for text in said]
        self.assertEqual(digests[0], digests[1])
        self.assertGreater(float(re.search(r'test\s.*accuracy ([\d.]+) %', said[0]).group(1)), 90)
        for rank in (0, 1):
            lines = self.done('logs', task, '--rank', rank, '--stream', 'metrics').splitlines()
            self.assertEqual(json.loads(lines[-1])['progress'], 1)
        # One process with as many micro-batches learns the very same.
        alone = self.harmonics('train', 'examples/digits.harp', '--epochs', '20', '--micro-batches', '2',
                               '--output', 'json')
        self.assertEqual(json.loads(alone.stdout)['weights_digest'], digests[0])

    def test_a_network_of_the_zoo_trains_on_made_up_data(self):
        task = self.train(model='lenet', dataset='synthetic:mnist', epochs='1', synthetic_size='32')
        self.assertEqual(self.state_of(task), 'succeeded', self.done('logs', task, '--stream', 'err'))

    def test_wrong_parameters_say_what_there_is(self):
        for params, text in (({'model': 'alexnet2'}, 'zoo'), ({'optimizer': 'lbfgs'}, 'lbfgs'),
                             ({'dataset': 'synthetic:unicorns'}, 'imagenet')):
            task = self.train(**params)
            self.assertEqual(self.state_of(task), 'failed')
            self.assertIn(text, self.done('logs', task, '--stream', 'err'))

    def test_parameters_that_there_are_not_are_errors_at_once(self):
        refused = self.call('submit', '--name', 'x', '--param', 'lerning-rate=0.1')
        self.assert_fails(refused, "the built-in trainer has no 'lerning_rate'; did you mean "
                          "'learning_rate'?", 'batch_size')
        refused = self.call('submit', '--name', 'x', '--param', 'a-b=1', '--param', 'a_b=2', '--', 'true')
        self.assert_fails(refused, "'a-b' and 'a_b' are both HARMONICS_PARAM_A_B")
        own = self.submit('sh', '-c', 'test $HARMONICS_PARAM_COLOUR = blue',
                          flags=['--param', 'colour=blue'])
        self.assertEqual(self.wait(own)['succeeded'], 1)


if __name__ == '__main__':
    unittest.main()
