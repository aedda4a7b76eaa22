"""SIGINT and SIGTERM to what waits, loads or trains: it ends soon, says so and leaves with 130 or 143."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

import program
from processes_test import children_of, is_alive
from resume_test import Metrics

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Far below the deadlines of ten minutes after which the waits here would end by themselves.
SOON_S = 60


def listens(port):
    """Whether somebody listens at that port of loopback."""
    wanted = f'0100007F:{port:04X}'
    for line in pathlib.Path('/proc/net/tcp').read_text().splitlines()[1:]:
        words = line.split()
        if words[1] == wanted and words[3] == '0A':
            return True
    return False


class SignalsTest(program.CliTest):
    def wait_until(self, happened, process):
        while not happened():
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(timeout=0.01)

    def end_with(self, process, number):
        """Sends the signal and checks how the process goes; its standard output and error."""
        process.send_signal(number)
        began = time.monotonic()
        output, error = process.communicate(timeout=SOON_S)
        self.assertEqual(process.returncode, 128 + number, error)
        self.assertIn(f'{number.name}: ending; a second signal ends at once', error)
        self.assertIn('interrupted', error)
        self.assertNotIn('harmonics: ', error)
        return output, error, time.monotonic() - began

    def start_stage(self, part, port, *arguments):
        return self.start('stage', self.net, '--parts', '2', '--part', part, '--epochs', '100000', '--meet',
                          f'tcp://127.0.0.1:{port}', '--first-contact', '600', '--output', 'json', *arguments)

    def start_metered(self, *arguments):
        metrics = Metrics(self.folder / 'metrics.pipe')
        self.addCleanup(metrics.close)
        return self.start(*arguments, '--metrics', metrics.path, '--output', 'json'), metrics

    def test_a_stage_that_waits_for_another(self):
        for number in SIGNALS:
            with self.subTest(number.name):
                port = program.reserved_port()
                stage = self.start_stage(0, port)
                self.wait_until(lambda: listens(port), stage)
                output, error, _ = self.end_with(stage, number)
                self.assertEqual(output, '')
                self.assertIn("the peer did not come when this end was asked to stop", error)

    def test_a_replica_that_waits_for_others(self):
        for reduction in ('tree', 'ring'):
            with self.subTest(reduction):
                ports = [program.reserved_port() for _ in range(3)]
                places = [word for port in ports
                          for word in ('--replica-place', f'tcp://127.0.0.1:{port}/replicas')]
                stages = [self.start('stage', self.net, '--part', '0', '--epochs', '100000', '--replicas', '3',
                                     '--reduction', reduction, '--replica', rank, *places, '--first-contact',
                                     '600') for rank in (0, 1)]
                self.wait_until(lambda: listens(ports[0]), stages[0])
                for stage in stages:
                    self.end_with(stage, signal.SIGTERM)

    def test_while_the_model_is_read(self):
        """A pipe that nobody writes to: reading the model never ends."""
        model = self.folder / 'slow.harp'
        os.mkfifo(model)
        weights = self.write('weights', '')
        commands = {'train': ('train', model), 'run': ('run', model, '--weights', weights),
                    'stage': ('stage', model, '--parts', '2', '--part', '0', '--meet', 'tcp://127.0.0.1:1')}
        processes = {name: self.start(*words) for name, words in commands.items()}
        for number, (name, process) in enumerate(processes.items()):
            with self.subTest(name):
                # From then on the program that reads it holds signals back until it can answer them.
                program_file = pathlib.Path(f'/proc/{process.pid}/exe')
                self.wait_until(lambda: program_file.resolve().name == 'harmonics-torch', process)
                self.end_with(process, SIGNALS[number % 2])

    def test_parts_that_load(self):
        for number, words in ((signal.SIGTERM, ('--parts', '3', '--transport', 'tcp')),
                              (signal.SIGINT, ('--replicas', '3', '--reduction', 'ring', '--transport', 'tcp'))):
            with self.subTest(number.name):
                process = self.start('train', self.net, '--processes', '--epochs', '100000', *words)
                self.wait_until(lambda: children_of(process), process)
                children = children_of(process)
                output, error, _ = self.end_with(process, number)
                self.assertEqual(output, '')
                self.assertIn('nothing was saved', error)
                self.assertFalse(any(map(is_alive, children)))

    def test_replicas_in_training(self):
        process, metrics = self.start_metered('train', self.net, '--processes', '--replicas', '3', '--reduction',
                                              'tree', '--transport', 'tcp', '--epochs', '100000', '--checkpoint',
                                              self.folder / 'saved')
        metrics.wait_for_step(2)
        output, error, _ = self.end_with(process, signal.SIGTERM)
        self.assertTrue(json.loads(output)['interrupted'])
        self.assertIn('--resume goes on', error)

    def test_a_part_that_hangs_does_not_keep_the_others(self):
        process, metrics = self.start_metered('train', self.net, '--processes', '--parts', '3', '--transport', 'tcp',
                                              '--epochs', '100000')
        metrics.wait_for_step(2)
        children = children_of(process)
        os.kill(children[1], signal.SIGSTOP)
        _, error, _ = self.end_with(process, signal.SIGTERM)
        self.assertIn('did not all end', error)
        self.assertFalse(any(map(is_alive, children)))

    def test_a_stage_whose_neighbour_hangs(self):
        port = program.reserved_port()
        metrics = Metrics(self.folder / 'metrics.pipe')
        self.addCleanup(metrics.close)
        first = self.start_stage(0, port)
        second = self.start_stage(1, port, '--metrics', metrics.path)
        metrics.wait_for_step(2)
        second.send_signal(signal.SIGSTOP)
        self.addCleanup(second.send_signal, signal.SIGCONT)
        _, error, _ = self.end_with(first, signal.SIGINT)
        self.assertIn('asked to stop (SIGINT)', error)

    def test_one_stage_of_two_takes_the_other_along(self):
        port = program.reserved_port()
        metrics = Metrics(self.folder / 'metrics.pipe')
        self.addCleanup(metrics.close)
        saved = ('--checkpoint', self.folder / 'run')
        first = self.start_stage(0, port, *saved)
        second = self.start_stage(1, port, '--metrics', metrics.path, *saved)
        metrics.wait_for_step(2)
        _, error, _ = self.end_with(first, signal.SIGINT)
        self.assertIn('--resume goes on', error)
        output, error = second.communicate(timeout=SOON_S)
        self.assertTrue(json.loads(output)['interrupted'], error)

    def test_run_leaves_no_output_behind(self):
        self.train('--checkpoint', 'weights', '--epochs', '1')
        bare = self.write('bare.harp', program.GRAPH + program.TRAIN)
        before = self.names()
        process = self.start('run', bare, '--weights', 'weights', '--bind', 'point=synthetic:?size=2000000000&shape=4',
                             '--out', 'prediction=csv:out.csv')
        self.wait_until(lambda: self.names() != before, process)
        output, error, _ = self.end_with(process, signal.SIGINT)
        self.assertEqual(output, '')
        self.assertIn('no output was written', error)
        self.assertEqual(self.names(), before)


if __name__ == '__main__':
    unittest.main()
