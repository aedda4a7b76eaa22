"""Checkpoints of `harmonics train` under kill -9, Ctrl-C and restarts, with real processes.

A test that wants to strike at a certain step gives the program a named pipe as its metrics file: every
step arrives there as a line, so nothing has to be waited for by the clock.
"""

import array
import fcntl
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import termios
import unittest

import program

SEED = 20260


class Metrics:
    """The reading end of a named pipe that a program writes its metrics to."""

    def __init__(self, path):
        if not path.exists():
            os.mkfifo(path)
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._text = b''

    def next(self):
        """The next line, or None when the program has closed its end."""
        while b'\n' not in self._text:
            if not select.select([self._descriptor], [], [], program.TIMEOUT_S)[0]:
                raise AssertionError('no metrics came')
            chunk = os.read(self._descriptor, 4096)
            if not chunk:
                return None
            self._text += chunk
        line, self._text = self._text.split(b'\n', 1)
        return json.loads(line)

    def wait_for_step(self, wanted):
        """Reads on until that step has been done; gives the number of the step that has."""
        while True:
            line = self.next()
            if line is None:
                raise AssertionError(f'the program ended before step {wanted}')
            if line.get('step', 0) >= wanted:
                return line['step']

    def close(self):
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class ResumeTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.common = ('--epochs', '6', '--schedule', 'cosine', '--lr', '0.01', '--clip', '1')

    def start_training(self, *arguments):
        """A training run and its metrics."""
        metrics = Metrics(self.folder / 'metrics.pipe')
        self.addCleanup(metrics.close)
        process = self.start('train', self.net, '--metrics', metrics.path, '--output', 'json',
                             *arguments)
        return process, metrics

    def kill_at(self, step, *arguments):
        process, metrics = self.start_training(*arguments)
        metrics.wait_for_step(step)
        process.kill()
        process.communicate(timeout=program.TIMEOUT_S)
        metrics.close()
        self.assertEqual(process.returncode, -signal.SIGKILL)

    def test_killed_and_resumed_is_the_same_run(self):
        whole = self.train(*self.common)
        for parts_before, parts_after in (('1', '1'), ('3', '3'), ('1', '4'), ('2', '1')):
            with self.subTest(before=parts_before, after=parts_after):
                (self.folder / 'c').unlink(missing_ok=True)
                flags = (*self.common, '--checkpoint', 'c', '--checkpoint-every',
                         str(self.chance.randint(1, 3)))
                self.kill_at(self.chance.randint(4, 28), *flags, '--parts', parts_before)
                resumed = self.train(*flags, '--resume', '--parts', parts_after)
                self.assertFalse(resumed['was_complete'])
                for key in ('weights_digest', 'train_loss', 'train_accuracy', 'test_loss', 'steps',
                            'epochs'):
                    self.assertEqual(resumed[key], whole[key], key)

    def test_killed_again_and_again_while_saving(self):
        """A checkpoint after every step of a larger net: most of the time goes into saving."""
        text = program.GRAPH + program.DATA + program.TRAIN
        self.net = self.write('net.harp', text.replace('linear(16)', 'linear(2000)')
                              .replace('linear(8)', 'linear(250)'))
        flags = ('--epochs', '40', '--checkpoint', 'c', '--resume')
        whole = self.train('--epochs', '40')
        reached = 0
        for _ in range(20):
            process, metrics = self.start_training(*flags, '--checkpoint-every', '1')
            step = metrics.wait_for_step(1)  # comes only if the checkpoint could be read
            # The step before the last one that was reported had been saved.
            self.assertGreaterEqual(step, reached)
            try:
                process.wait(timeout=self.chance.uniform(0.0, 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(process.returncode, -signal.SIGKILL)
            while (line := metrics.next()) is not None:
                step = line.get('step', step)
            metrics.close()
            reached = step
            if step > 1:
                self.assertIn('c', self.names())
        resumed = self.train(*flags)
        self.assertFalse(resumed['was_complete'])
        self.assertEqual(resumed['weights_digest'], whole['weights_digest'])
        self.assertEqual([name for name in self.names() if '.part-' in name], [])

    def test_a_run_that_replaces_another_says_so(self):
        first = self.call('train', self.net, '--checkpoint', 'c')
        self.assertNotIn('earlier run', first.stderr)
        second = self.call('train', self.net, '--checkpoint', 'c')
        self.assertIn("'c' is of an earlier run and will be replaced: --resume goes on", second.stderr)
        third = self.call('train', self.net, '--checkpoint', 'c', '--resume')
        self.assertNotIn('earlier run', third.stderr)

    def test_leftovers_of_a_killed_save_are_removed(self):
        ended = subprocess.Popen(['true'])
        ended.communicate(timeout=program.TIMEOUT_S)
        self.write(f'c.part-{ended.pid}', 'half a checkpoint')
        foreign = self.write('d.part-x', 'not ours')
        self.train('--checkpoint', 'c')
        self.assertEqual([name for name in self.names() if '.part-' in name], [foreign.name])

    def test_signals_save_and_end(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                (self.folder / 'c').unlink(missing_ok=True)
                process, metrics = self.start_training('--epochs', '1000000', '--checkpoint', 'c')
                metrics.wait_for_step(3)
                process.send_signal(number)
                output, error = process.communicate(timeout=program.TIMEOUT_S)
                metrics.close()
                self.assertEqual(process.returncode, 128 + number)
                report = json.loads(output)
                self.assertTrue(report['interrupted'])
                self.assertGreaterEqual(report['steps'], 3)
                self.assertIsNotNone(report['train_loss'])
                self.assertIn("interrupted: 'c' holds the run", error)
                again = self.train('--checkpoint', 'c', '--resume', '--epochs',
                                   str(report['epochs'] + 2))
                self.assertFalse(again['was_complete'])
                self.assertGreater(again['steps'], report['steps'])
                self.assertEqual(again['steps'] % 6, 0)

    def test_interrupted_and_resumed_is_the_same_run(self):
        flags = (*self.common, '--checkpoint', 'c')
        whole = self.train(*self.common)
        process, metrics = self.start_training(*flags)
        metrics.wait_for_step(2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=program.TIMEOUT_S)
        resumed = self.train(*flags, '--resume')
        self.assertEqual(resumed['weights_digest'], whole['weights_digest'])

    def test_second_signal_kills(self):
        """With room for one line of metrics only, the second step never ends."""
        pipe = self.folder / 'metrics.pipe'
        os.mkfifo(pipe)
        descriptor = os.open(pipe, os.O_RDWR)
        self.addCleanup(os.close, descriptor)
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, 4096)
        filled = os.write(descriptor, b' ' * (4096 - 160))
        process = self.start('train', self.net, '--metrics', pipe)
        self.wait_until_blocked(process, descriptor, filled)
        process.send_signal(signal.SIGINT)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, -signal.SIGINT)

    def wait_until_blocked(self, process, descriptor, filled):
        """Until the process has written into the pipe and waits for room there."""
        waiting = array.array('i', [0])
        while waiting[0] <= filled or self.state_of(process) != 'S':
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(timeout=0.01)
            fcntl.ioctl(descriptor, termios.FIONREAD, waiting)

    @staticmethod
    def state_of(process):
        return pathlib.Path(f'/proc/{process.pid}/stat').read_text().rsplit(')', 1)[1].split()[0]

    def test_resume_without_a_checkpoint_starts_afresh_and_says_so(self):
        result = self.call('train', self.net, '--checkpoint', 'c', '--resume')
        self.assertEqual(result.returncode, 0)
        self.assertIn("no checkpoint 'c' yet: starting from the beginning", result.stderr)

    def test_complete_run_reports_and_stays_as_it_is(self):
        done = self.train('--checkpoint', 'c')
        before = (self.folder / 'c').read_bytes()
        again = self.train('--checkpoint', 'c', '--resume')
        self.assertTrue(again['was_complete'])
        for key in ('epochs', 'steps', 'weights_digest', 'test_loss', 'test_accuracy'):
            self.assertEqual(again[key], done[key], key)
        self.assertEqual((self.folder / 'c').read_bytes(), before)
        self.assertIn('was trained already', self.done('train', self.net, '--checkpoint', 'c',
                                                       '--resume'))

    def test_more_epochs_go_on(self):
        whole = self.train('--epochs', '5')
        self.train('--epochs', '2', '--checkpoint', 'c')
        resumed = self.train('--epochs', '5', '--checkpoint', 'c', '--resume', '--parts', '2')
        self.assertEqual(resumed['weights_digest'], whole['weights_digest'])


class ResumedSettingsTest(program.CliTest):
    """A run goes on as it began; what a flag or the file says otherwise is told."""

    GIVEN = ('--optimizer', 'sgd', '--lr', '0.1', '--momentum', '0.9', '--clip', '1', '--seed', '7',
             '--batch-size', '5', '--test-split', '0.4', '--micro-batches', '2')

    def setUp(self):
        super().setUp()
        self.whole = self.train(*self.GIVEN, '--epochs', '4')
        self.train(*self.GIVEN, '--epochs', '2', '--checkpoint', 'c')

    def resume(self, *arguments):
        result = self.call('train', self.net, '--epochs', '4', '--checkpoint', 'c', '--resume', '--output',
                           'json', *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout), result.stderr

    def test_what_is_not_given_comes_from_the_checkpoint(self):
        report, said = self.resume()
        for key in ('weights_digest', 'test_loss', 'steps'):
            self.assertEqual(report[key], self.whole[key], key)
        self.assertIn("goes on as 'c' was trained", said)
        self.assertIn("batch_size is 5 as in 'c', and not 8 as in", said)
        self.assertIn('--batch-size changes it', said)

    def test_parts_in_processes_go_on_alike(self):
        report, said = self.resume('--parts', '2', '--processes')
        self.assertEqual(report['weights_digest'], self.whole['weights_digest'])
        self.assertIn("goes on as 'c' was trained", said)

    def test_a_flag_wins_and_is_said(self):
        report, said = self.resume('--optimizer', 'adam', '--lr', '0.001', '--test-split', '0.25')
        self.assertNotEqual(report['weights_digest'], self.whole['weights_digest'])
        for line in ("optimizer is adam as given; 'c' was trained with sgd",
                     "lr is 0.001 as given; 'c' was trained with 0.1",
                     "test_split is 0.25 as given; 'c' was trained with 0.4"):
            self.assertIn(line, said)
        report, said = self.resume('--optimizer', 'adam', '--lr', '0.001', '--test-split', '0.25')
        self.assertTrue(report['was_complete'])
        self.assertNotIn('as given', said)


class DamagedCheckpointTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.train('--checkpoint', 'c')
        self.checkpoint = self.folder / 'c'
        self.good = self.checkpoint.read_bytes()

    def assert_refused(self, *texts, net=None):
        before = self.checkpoint.read_bytes()
        result = self.call('train', net or self.net, '--checkpoint', 'c', '--resume', '--epochs', '9')
        self.assert_fails(result, *texts)
        self.assertEqual(self.checkpoint.read_bytes(), before)

    def test_truncated(self):
        for length in (0, 4, 100, len(self.good) // 2, len(self.good) - 1):
            with self.subTest(length):
                self.checkpoint.write_bytes(self.good[:length])
                self.assert_refused("'c'")

    def test_flipped_bit(self):
        chance = random.Random(SEED)
        for _ in range(5):
            at = chance.randrange(len(self.good))
            with self.subTest(at):
                damaged = bytearray(self.good)
                damaged[at] ^= 1 << chance.randrange(8)
                self.checkpoint.write_bytes(damaged)
                self.assert_refused("'c'")

    def test_foreign(self):
        self.checkpoint.write_text('a letter to a friend, long enough to have a header length')
        self.assert_refused("'c'")

    def test_another_graph(self):
        other = self.write('other.harp', self.net.read_text().replace('linear(8)', 'linear(9)'))
        self.assert_refused("'c'", 'another graph', 'narrow', net=other)


if __name__ == '__main__':
    unittest.main()
