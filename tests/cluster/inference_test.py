"""Rows through a model in stages, as a task of the cluster: planned, run, killed in every way, and every row comes
out once, in order, with the bits of one process.

HARMONICS_SOAK=1 kills more often; HARMONICS_SEED repeats a run.
"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest

from cluster import HARMONICS, SOURCE_DIR, ClusterTest, environment

SEED = int(os.environ.get('HARMONICS_SEED', random.SystemRandom().randrange(1 << 32)))
SOAK = bool(os.environ.get('HARMONICS_SOAK'))
ROUNDS = 20 if SOAK else 1
KILLS = 6 if SOAK else 3
DIGITS = SOURCE_DIR / 'examples' / 'digits.harp'
# Soon after this a dead worker's tasks are somebody else's.
LEASE_S = 3
PATIENCE_S = 300
# The network is so small that it would be done before anything could be killed.
SLOWDOWN = 60
BATCH = 4 if SOAK else 16


class Inference(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.weights = cls.made / 'digits.safetensors'
        cls.program('train', DIGITS, '--epochs', 1, '--checkpoint', cls.weights)
        cls.program('run', DIGITS, '--weights', cls.weights, '--batch-size', BATCH, '--threads', 1,
                    '--out', f'prediction=csv:{cls.made / "rows.csv"}')
        cls.rows = (cls.made / 'rows.csv').read_bytes()

    @classmethod
    def program(cls, *arguments):
        result = subprocess.run([str(HARMONICS), *map(str, arguments)], capture_output=True, text=True,
                                timeout=PATIENCE_S, env=environment(cls.made), check=False)
        assert result.returncode == 0, result.stderr

    def start_server(self, *arguments, port=None):
        return super().start_server('--lease', LEASE_S, *arguments, port=port)

    def start_machine(self, name, slowdown=1):
        return self.start_worker('--id', name, '--state-dir', self.folder / f'machine-{name}',
                                 '--token-file', self.state / 'token', '--slowdown', slowdown, gpus=0)

    def infer(self, *flags, stages=2, weights=None):
        return int(self.done('submit', '--output', 'quiet', '--pipeline', DIGITS, '--infer', '--weights',
                             weights or self.weights, '--stages', stages, '--batch-size', BATCH,
                             '--set', 'threads=1', '--out', 'prediction=csv:out/rows.csv', *flags))

    def finish(self, *tasks):
        result = subprocess.run([str(HARMONICS), 'wait', *self.access(), *map(str, tasks), '--timeout',
                                 str(PATIENCE_S), '--output', 'json'], capture_output=True, text=True,
                                timeout=2 * PATIENCE_S, env=environment(self.folder))
        told = [self.call(word, task, *more).stdout for task in tasks
                for word, more in (('why', ()), ('logs', ('--stream', 'err')))]
        self.assertEqual(json.loads(result.stdout).get('succeeded'), len(tasks), '\n'.join(told))

    def assert_rows(self, task):
        """What it left is, byte for byte, what one process makes."""
        place = self.folder / f'fetched-{task}'
        self.assertEqual(self.done('artifacts', task, '--to', place, '--output', 'quiet'), 'out/rows.csv\n')
        self.assertTrue((place / 'out' / 'rows.csv').read_bytes() == self.rows,
                        f'task {task} has other rows')

    def rows_out(self, task):
        return (self.task(task)['progress'] or {}).get('rows', 0)

    def kept(self, task):
        """Batches that lie whole in the folder that survives every worker."""
        folder = pathlib.Path(self.task(task)['plan']['results'])
        return (folder / 'prediction.marks').stat().st_size // 34

    def test_three_stages_make_what_one_process_makes(self):
        self.start_server()
        for name in 'abc':
            self.start_machine(name, slowdown=2 * SLOWDOWN)  # there is much to look at before it ends
        task = self.infer(stages=3)

        def periods():
            lines = [member['progress'] or {} for member in self.task(task)['members']]
            return len(lines) == 3 and all('period_s' in line for line in lines) and lines
        lines = self.until(periods, 'periods of all stages')
        for line in lines:
            self.assertGreater(line['samples_per_second'], 0)
            self.assertAlmostEqual(line['busy'] + line['waiting'], 1, delta=0.002)
        told = self.done('task', task)
        shown = self.done('monitor')
        for text in (told, shown):
            stages = [line for line in text.splitlines() if 'stage ' in line]
            self.assertEqual(len(stages), 3, text)
            for line in stages:
                self.assertRegex(line, r'planned \d+\.\d+ ms  .*rows \d+  .*period \d+\.\d+ ms')
        self.assertRegex(told, r'results +/.*/results\n')
        why = self.done('why', task)
        self.assertIn('Its 3 stages: ', why)
        self.assertRegex(why, r'Measured periods: \w+ \d+\.\d+ ms \(planned \d+\.\d+ ms\), ')
        self.assertIn('Rows that came out are kept in /', why)
        self.finish(task)
        self.assert_rows(task)
        # It is told when it has ended, too, and the results lie where no worker's death takes them.
        self.assertIn('Measured periods: ', self.done('why', task))
        folder = pathlib.Path(self.task(task)['plan']['results'])
        self.assertEqual((folder / 'prediction.rows').read_bytes(), self.rows)
        report = json.loads(self.done('logs', task, '--rank', 2).splitlines()[-1])
        self.assertEqual(report['rows'], len(self.rows.splitlines()))
        self.assertGreater(report['accuracy'], 0.5)
        self.assertIsNotNone(report['stages'][0]['planned_period_s'])
        # The next plan knows what was measured.
        self.assertEqual(self.measured_basis(), 'run')

    def measured_basis(self):
        task = self.infer(stages=1)
        plan = self.until(lambda: self.task(task).get('plan'), 'its plan')
        self.finish(task)
        self.assert_rows(task)
        return plan['workers'][0]['basis']

    def kill_machine(self, name, worker):
        """The worker, what it runs, and its disk."""
        mark = self.mark_of(name)
        self.kill(worker)
        self.kill_pids(self.supervisors(name))
        disk = self.folder / f'machine-{name}'

        def gone():
            # One that was just being started when its supervisor died may still write.
            self.kill_pids(self.processes(mark))
            shutil.rmtree(disk, ignore_errors=True)
            return not disk.exists()
        self.until(gone, f'the disk of {name} to be gone')

    def disturb(self, chance, tasks, workers, server):
        """Kills stages, machines and the server while rows come out; the server that is left."""
        for count in range(KILLS):
            running = [task for task in tasks if self.state_of(task) != 'succeeded']
            if not running:
                break
            task = chance.choice(running)
            before = self.rows_out(task)
            goal = before + chance.randrange(1, 40) * BATCH
            self.until(lambda: self.rows_out(task) >= goal or self.state_of(task) == 'succeeded' or
                       self.task(task)['attempts'] > 1 and self.rows_out(task) > 0, f'rows of task {task}')
            what = ('machine', 'stage', 'server')[count % 3]
            name = chance.choice(sorted(workers))
            print(f'kills {what} {name} with {self.rows_out(task)} rows of task {task} out', flush=True)
            if what == 'server':
                self.kill(server)
                server = self.start_server()
            elif what == 'stage':
                self.kill_pids(self.processes(self.mark_of(name), 'harmonics-torch')[:1])
            else:
                self.kill_machine(name, workers.pop(name))
                workers[name + 'x'] = self.start_machine(name + 'x', slowdown=SLOWDOWN)
        return server

    def test_three_tasks_with_workers_that_die_lose_double_and_change_no_row(self):
        chance = random.Random(SEED)
        print(f'seed {SEED}', flush=True)
        for _ in range(ROUNDS):
            server = self.start_server(port=0)
            workers = {name: self.start_machine(name, slowdown=SLOWDOWN) for name in 'abc'}
            flags = ('--retries', 1000, '--max-losses', 'unlimited')
            tasks = [self.infer(*flags, stages=stages) for stages in (2, 3, 'auto')]
            server = self.disturb(chance, tasks, workers, server)
            self.finish(*tasks)
            # Results lie with those that ran the tasks, who may still be on their way back to a new server.
            self.until(lambda: len(self.ready_workers()) == len(workers), 'all workers')
            for task in tasks:
                self.assert_rows(task)
            self.assertTrue(any(self.task(task)['attempts'] > 1 for task in tasks), 'nothing was hit')
            for process in [server, *workers.values()]:
                self.kill(process)
            for folder in [self.state, *self.folder.glob('machine-*'), *self.folder.glob('fetched-*')]:
                shutil.rmtree(folder)

    def test_what_has_come_out_is_not_computed_again(self):
        self.start_server()
        workers = {name: self.start_machine(name, slowdown=SLOWDOWN) for name in 'ab'}
        task = self.infer('--retries', 5)
        self.until(lambda: self.rows_out(task) >= 20 * BATCH, 'rows')
        last = self.task(task)['members'][-1]['worker']
        before = self.kept(task)
        self.kill_machine(last, workers.pop(last))
        self.finish(task)
        self.assert_rows(task)
        view = self.task(task)
        self.assertEqual((view['attempts'], view['losses']), (2, 1))
        words = self.done('logs', task, '--stream', 'err')
        delivered = int(re.search(r'--delivered (\d+)', words).group(1))
        self.assertGreaterEqual(delivered, before)
        report = json.loads(self.done('logs', task).splitlines()[-1])
        self.assertEqual(report['rows'], len(self.rows.splitlines()) - delivered * BATCH)
        self.assertNotIn('accuracy', report)

    @unittest.skipUnless(SOAK, 'make soak runs it')
    def test_it_moves_to_a_better_plan_when_a_worker_joins(self):
        self.start_server()
        self.start_machine('a', slowdown=SLOWDOWN)
        task = self.infer('--elastic', stages='auto')
        self.until(lambda: self.rows_out(task) >= 5 * BATCH, 'rows')
        self.start_machine('b', slowdown=SLOWDOWN)
        self.finish(task)
        self.assert_rows(task)
        view = self.task(task)
        self.assertEqual((view['attempts'], view['preemptions'], view['failures']), (2, 1, 0))

    @unittest.skipUnless(SOAK, 'make soak runs it')
    def test_it_is_measured_first_signed_and_traced(self):
        self.start_server()
        for name in 'ab':
            self.start_machine(name)
        task = self.infer('--profile', '--secure', '--trace')
        self.finish(task)
        self.assert_rows(task)
        view = self.task(task)
        self.assertEqual({worker['basis'] for worker in view['plan']['workers']}, {'profile'})
        folder = pathlib.Path(view['plan']['results']).parent
        self.assertEqual(len(list(folder.glob(f'passes-task-{task}.2-*.jsonl'))), 2)
        chains = [str(chain) for chain in folder.glob(f'task-{task}.2-*.chain')]
        self.assertEqual(len(chains), 2)
        proof = subprocess.run([str(HARMONICS), 'verify', *chains], capture_output=True, text=True,
                               timeout=PATIENCE_S, env=environment(self.folder), check=False)
        self.assertEqual(proof.returncode, 0, proof.stdout + proof.stderr)

    def test_weights_that_changed_are_not_used(self):
        self.start_server()
        weights = self.folder / 'mine.safetensors'
        shutil.copy(self.weights, weights)
        task = self.infer('--retries', 0, stages=1, weights=weights)
        weights.write_bytes(weights.read_bytes()[:-4] + b'\0\0\0\0')
        self.start_machine('a')
        self.call('wait', task)
        self.assertEqual(self.state_of(task), 'failed')
        self.assertIn('does not hold the weights that were submitted',
                      self.done('logs', task, '--stream', 'err'))
        self.assertEqual(self.done('artifacts', task, '--output', 'quiet'), '')

    def refused(self, *flags, pipeline=True, code=1):
        given = ['--pipeline', DIGITS] if pipeline else ['--name', 'x']
        result = self.call('submit', *given, *flags)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stdout, '')
        if code == 1:
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        return result.stderr

    def test_what_is_wrong_is_one_clear_line(self):
        self.start_server()
        out = ('--out', 'prediction=csv:rows.csv')
        weights = ('--weights', self.weights)
        self.assertIn('give --pipeline MODEL.harp', self.refused('--infer', pipeline=False))
        self.assertIn('names no weights: give --weights FILE', self.refused('--infer', *out))
        self.assertIn("cannot read the weights '/none'", self.refused('--infer', *out, '--weights', '/none'))
        self.assertIn('is no file', self.refused('--infer', *out, '--weights', self.folder))
        self.assertIn('--infer needs --out NAME=csv:FILE', self.refused('--infer', *weights))
        self.assertIn('no such consumer; it has: prediction',
                      self.refused('--infer', *weights, '--out', 'guess=csv:rows.csv'))
        for wrong in ('csv:/tmp/rows.csv', 'csv:../rows.csv', 'npy:rows'):
            self.assertIn('must be csv:FILE', self.refused('--infer', *weights, '--out', f'prediction={wrong}'))
        self.assertIn('has no such producer; it has: ',
                      self.refused('--infer', *weights, *out, '--bind', 'pixels=csv:x.csv'))
        for flags in (('--epochs', 3), ('--set', 'lr=0.1'), ('--micro-batches', 2), ('--checkpoint-every', 5)):
            self.assertIn('is for training', self.refused('--infer', *weights, *out, *flags))
        self.assertIn('add --infer', self.refused(*weights))
        self.assertIn('add --infer', self.refused(*out))
        self.assertIn('cannot be cut into 9 stages', self.refused('--infer', *weights, *out, '--stages', 9))


if __name__ == '__main__':
    unittest.main()
