"""`harmonics train --processes` and `harmonics stage`: one process for each part, also when they die."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import unittest

import program
from resume_test import Metrics

SEED = int(os.environ.get('HARMONICS_PROCESSES_SEED', '20261'))
ROUNDS = 50 if os.environ.get('HARMONICS_SOAK') else 2
MEASURED = ('seconds', 'samples_per_second', 'parts', 'checkpoint')


def comparable(report):
    return {key: value for key, value in report.items() if key not in MEASURED}


def children_of(process):
    """The ids of a process's children."""
    path = pathlib.Path(f'/proc/{process.pid}/task/{process.pid}/children')
    return [int(number) for number in path.read_text().split()]


def is_alive(number):
    try:
        return pathlib.Path(f'/proc/{number}/stat').read_text().rsplit(')', 1)[1].split()[0] != 'Z'
    except (FileNotFoundError, ProcessLookupError):
        return False


class ProcessesTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.common = self.settings(4)

    @staticmethod
    def settings(epochs):
        return ('--epochs', epochs, '--micro-batches', '2', '--lr', '0.01', '--clip', '1', '--patience',
                '50')

    def in_processes(self, *arguments, epochs=4):
        return ('--processes', '--parts', '3', *self.settings(epochs), *arguments)

    def start_run(self, *arguments, epochs=4):
        metrics = Metrics(self.folder / 'metrics.pipe')
        self.addCleanup(metrics.close)
        process = self.start('train', self.net, '--metrics', metrics.path, '--output', 'json',
                             *self.in_processes(*arguments, epochs=epochs))
        return process, metrics

    def finish(self, process):
        output, error = process.communicate(timeout=program.TIMEOUT_S)
        return process.returncode, output, error

    def transports(self):
        parts = json.loads(self.done('doctor', '--output', 'json'))['parts']
        built = {part['name'] for part in parts if part['built']}
        return ['shm', 'tcp'] + [name for name in ('grpc', 'flight') if name in built]

    def test_every_transport_gives_the_report_of_one_process(self):
        cosine = ('--schedule', 'cosine')
        expected = comparable(self.train(*self.common, *cosine))
        for name in self.transports():
            with self.subTest(name):
                extra = ('--compress',) if name == 'tcp' else ()
                report = self.train(*self.in_processes('--transport', name, *cosine, *extra))
                self.assertEqual(report['parts'], 3)
                self.assertIsNone(report['checkpoint'])
                self.assertEqual(comparable(report), expected)

    def test_checkpoints_go_on_in_any_number_of_processes(self):
        expected = comparable(self.train(*self.common))
        saved = self.folder / 'run'
        self.train('--processes', '--parts', '2', *self.settings(2), '--checkpoint', saved,
                   '--checkpoint-every-epochs', '1')
        report = self.train(*self.in_processes('--checkpoint', saved, '--resume'))
        self.assertEqual(comparable(report)['weights_digest'], expected['weights_digest'])
        self.assertEqual(report['checkpoint'], str(saved))
        # Done already: the same report, from one process and from several.
        for arguments in (self.common, self.in_processes()):
            again = self.train(*arguments, '--checkpoint', saved, '--resume')
            self.assertTrue(again['was_complete'])
            for key in ('weights_digest', 'test_loss', 'test_accuracy', 'train_loss', 'steps'):
                self.assertEqual(again[key], expected[key], key)
        out = json.loads(self.done('run', self.net, '--weights', saved, '--output', 'json'))
        self.assertEqual(out['rows'], 64)

    def test_the_start_of_the_parts_counts_for_no_rate(self):
        """Of the first epoch all steps but one are in the time of the whole run, so its rate cannot be far below."""
        result = self.call('train', self.net, '--processes', '--parts', '2', '--epochs', '5')
        self.assertEqual(result.returncode, 0, result.stderr)

        def rate(pattern, text):
            number, unit = re.search(pattern + r'([\d.]+) ?([kM]?) ?samples/s', text).groups()
            return float(number) * {'': 1, 'k': 1e3, 'M': 1e6}[unit]
        self.assertGreater(rate('epoch 1/5 .*  ', result.stderr), 0.05 * rate(r'trained .*\(', result.stdout), result.stderr)

    def test_a_checkpoint_that_lost_a_file_says_so(self):
        saved = self.folder / 'run'
        whole = self.train('--processes', '--parts', '2', *self.settings(2), '--checkpoint', saved,
                           '--checkpoint-every-epochs', '1')
        manifest = json.loads(saved.read_text())
        lost = manifest['latest']['stages'][1]['file']
        (self.folder / lost).unlink()
        # One process goes back alike, and says so once.
        alone = ('train', self.net, *self.settings(2), '--checkpoint', saved, '--resume', '--output', 'json')
        before = saved.read_text()
        result = self.call(*alone)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count(f"has lost '{lost}' of step"), 1, result.stderr)
        self.assertEqual(json.loads(result.stdout)['weights_digest'], whole['weights_digest'])
        saved.write_text(before)
        resume = ('train', self.net, '--processes', '--parts', '2', *self.settings(3), '--checkpoint', saved,
                  '--resume', '--output', 'json')
        result = self.call(*resume)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(lost, result.stderr)
        self.assertIn(f'go back to step {manifest["previous"]["step"]}', result.stderr)
        manifest = json.loads(saved.read_text())
        for step in ('latest', 'previous'):
            (self.folder / manifest[step]['stages'][0]['file']).unlink(missing_ok=True)
        for again in (resume, alone):
            self.assert_fails(self.call(*again), 'has lost', 'no earlier step is whole', '--resume')

    def test_wrong_usage(self):
        for line, text in {'--processes --transport bus': 'a bus connects parts of one process',
                           '--transport tcp': 'add --processes',
                           '--compress': 'needs --processes',
                           '--restarts 3': 'add --processes, or start it again yourself with --resume',
                           '--processes --transport pigeon': "'pigeon' is none of"}.items():
            with self.subTest(line):
                result = self.call('train', self.net, *line.split())
                self.assert_fails(result, text, "try 'harmonics train --help'", code=2)

    def test_a_part_killed_at_a_random_step_changes_nothing(self):
        expected = comparable(self.train(*self.common))
        for number in range(ROUNDS):
            process, metrics = self.start_run('--checkpoint', self.folder / f'run{number}',
                                              '--checkpoint-every', '3', '--transport',
                                              self.chance.choice(['shm', 'tcp']))
            metrics.wait_for_step(self.chance.randint(1, 20))
            victim = self.chance.choice(children_of(process))
            os.kill(victim, signal.SIGKILL)
            code, output, error = self.finish(process)
            metrics.close()
            with self.subTest(seed=SEED, round=number):
                self.assertEqual(code, 0, error)
                self.assertEqual(comparable(json.loads(output)), expected)
                self.assertRegex(error, r'part \d of 3 was killed by signal 9 .*: all parts start again '
                                        r'from the (last checkpoint|beginning) \(restart 1 of 3\)')

    def test_restarts_are_bounded_and_no_process_is_left(self):
        process, metrics = self.start_run('--restarts', '0', epochs=100000)
        metrics.wait_for_step(2)
        children = children_of(process)
        self.assertEqual(len(children), 3)
        os.kill(children[1], signal.SIGKILL)
        code, output, error = self.finish(process)
        self.assertEqual((code, output), (1, ''), error)
        self.assertIn('part 1 of 3 was killed by signal 9', error)
        self.assertFalse(any(map(is_alive, children)))

    def test_the_error_of_a_part_ends_all_and_is_told(self):
        self.write('points.csv', program.points(64).replace(',3\n', ',7\n'))  # there are four classes
        process = self.start('train', self.net, *self.in_processes())
        code, output, error = self.finish(process)
        self.assertEqual((code, output), (1, ''))
        self.assertRegex(error, r'(?m)^harmonics: part 2 of 3: .*7')

    def test_interrupted_and_resumed(self):
        expected = self.train(*self.common)['weights_digest']
        saved = self.folder / 'run'
        process, metrics = self.start_run('--checkpoint', saved)
        metrics.wait_for_step(self.chance.randint(1, 8))
        process.send_signal(signal.SIGINT)
        code, output, error = self.finish(process)
        metrics.close()
        self.assertEqual(code, 130, error)
        self.assertTrue(json.loads(output)['interrupted'])
        self.assertIn('--resume goes on', error)
        report = self.train(*self.in_processes('--checkpoint', saved, '--resume'))
        self.assertEqual(report['weights_digest'], expected)

    def test_the_parts_die_with_their_parent(self):
        process, metrics = self.start_run(epochs=100000)
        metrics.wait_for_step(2)
        children = children_of(process)
        process.kill()
        process.communicate(timeout=program.TIMEOUT_S)
        while metrics.next() is not None:  # until the last writer is gone
            pass
        for child in children:
            descriptor = None
            try:
                descriptor = os.pidfd_open(child)
            except ProcessLookupError:
                continue
            with os.fdopen(descriptor):
                subprocess.run(['tail', f'--pid={child}', '-f', '/dev/null'], check=True,
                               timeout=program.TIMEOUT_S)

    def test_stages_by_hand(self):
        expected = self.train(*self.common)['weights_digest']
        place = f'tcp://127.0.0.1:{program.reserved_port()}?compress=1'
        saved = self.folder / 'run'
        token = self.write_token()
        stages = [self.start('stage', self.net, '--parts', '2', '--part', part, *self.common, '--meet',
                             place, '--run', 'by-hand', '--token-file', token, '--checkpoint', saved,
                             '--output', 'json') for part in (0, 1)]
        for stage in stages:
            code, output, error = self.finish(stage)
            self.assertEqual(code, 0, error)
            self.assertEqual(json.loads(output)['steps'], 24)
        again = self.train(*self.common, '--checkpoint', saved, '--resume')
        self.assertTrue(again['was_complete'])
        self.assertEqual(again['weights_digest'], expected)

    def test_a_stage_that_is_killed_and_started_again_joins_the_others(self):
        expected = self.train(*self.common)['weights_digest']
        port = program.reserved_port()
        metrics = Metrics(self.folder / 'metrics.pipe')
        self.addCleanup(metrics.close)

        def stage(part, *arguments):
            return self.start('stage', self.net, '--parts', '2', '--part', part, *self.common, '--meet',
                              f'tcp://127.0.0.1:{port}', '--checkpoint', self.folder / 'run',
                              '--checkpoint-every', '2', '--output', 'json',
                              *arguments)

        survivor = stage(0, '--first-contact', '100')
        victim = stage(1, '--metrics', metrics.path)
        metrics.wait_for_step(5)
        victim.kill()
        victim.communicate(timeout=program.TIMEOUT_S)
        restarted = stage(1, '--resume')
        for process in (survivor, restarted):
            code, _, error = self.finish(process)
            self.assertEqual(code, 0, error)
        again = self.train(*self.common, '--checkpoint', self.folder / 'run', '--resume')
        self.assertEqual(again['weights_digest'], expected)

    def test_a_peer_that_never_comes(self):
        place = f'tcp://127.0.0.1:{program.reserved_port()}'
        result = self.call('stage', self.net, '--parts', '2', '--part', '1', *self.common, '--meet', place,
                           '--first-contact', '1', '--restarts', '0')
        self.assert_fails(result, "boundary '", '127.0.0.1', 'may take 1 s to come',
                          f'part 1 meets the others at {place}, and waits up to 1 s for them')
        result = self.call('stage', self.net, '--parts', '2', '--part', '1', *self.common)
        self.assert_fails(result, '@1', '--meet tcp')
        result = self.call('stage', self.net, '--parts', '2', '--part', '2', *self.common)
        self.assert_fails(result, 'the parts are 0 to 1')


if __name__ == '__main__':
    unittest.main()
