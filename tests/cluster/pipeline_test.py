"""A training in stages as one task of the cluster: planned, run, killed in every way, and still the same.

HARMONICS_SOAK=1 kills at more points; HARMONICS_SEED repeats a run.
"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import unittest
import urllib.request
from unittest import mock

from cluster import HARMONICS, SOURCE_DIR, ClusterTest, environment

SEED = int(os.environ.get('HARMONICS_SEED', random.SystemRandom().randrange(1 << 32)))
ROUNDS = 10 if os.environ.get('HARMONICS_SOAK') else 1
DIGITS = SOURCE_DIR / 'examples' / 'digits.harp'
NAMES = ('a', 'b', 'c')
# Long enough for a busy machine, short enough that a dead worker's end is soon known.
LEASE_S = 6
PATIENCE_S = 400
# The network is so small that it would be done before anything could be killed.
SLOWDOWN = 40
CHECKPOINT_EVERY = 20


class Pipeline(ClusterTest):
    def start_server(self, *arguments, port=None):
        return super().start_server('--lease', LEASE_S, *arguments, port=port)

    def start_workers(self, names=NAMES, slowdown=1):
        return {name: self.start_worker('--id', name, '--state-dir', self.folder / f'machine-{name}',
                                        '--token-file', self.state / 'token', '--slowdown', slowdown, gpus=1)
                for name in names}

    def pipeline(self, *flags, model=DIGITS, stages=3):
        return int(self.done('submit', '--output', 'quiet', '--pipeline', model, '--stages', stages,
                             '--set', 'threads=1', *flags))

    def report(self, task, rank=0):
        """What a stage says at the end of the run."""
        return json.loads(self.done('logs', task, '--rank', rank).splitlines()[-1])

    def wait(self, *tasks):
        """As in other tests, with more patience: each task is several processes."""
        result = subprocess.run([str(HARMONICS), 'wait', *self.access(), *map(str, tasks), '--timeout',
                                 str(PATIENCE_S), '--output', 'json'], capture_output=True, text=True,
                                timeout=2 * PATIENCE_S, env=environment(self.folder))
        ends = json.loads(result.stdout)
        self.assertTrue(ends['ended'], f'{ends} {[self.call("why", task).stdout for task in tasks]}')
        return ends

    def finish(self, *tasks):
        ends = self.wait(*tasks)
        errors = [self.call('logs', task, '--stream', 'err').stdout for task in tasks]
        self.assertEqual(ends['succeeded'], len(tasks), '\n'.join(errors))

    undisturbed_digests = {}

    def undisturbed(self, *flags):
        """The digest of the same training in one process; files among the flags are the test's own."""
        known = (*flags, self.folder if {'--weights', '--checkpoint'} & set(flags) else None)
        if known not in self.undisturbed_digests:
            self.undisturbed_digests[known] = self.trained(flags)
        return self.undisturbed_digests[known]

    def trained(self, flags):
        result = subprocess.run(
            [str(HARMONICS), 'train', str(DIGITS), '--threads', '1', '--output', 'json', *map(str, flags)],
            capture_output=True, text=True, check=True, cwd=self.folder, env=environment(self.folder))
        return json.loads(result.stdout)['weights_digest']

    def steps_done(self, task):
        progress = self.task(task)['progress'] or {}
        return progress.get('step', 0)

    def test_three_stages_learn_what_one_process_learns(self):
        self.start_server()
        self.start_workers()
        flags = ('--epochs', 3, '--micro-batches', 4)
        task = self.pipeline(*flags, '--batch-size', 32, '--checkpoint-every', 50)
        self.until(lambda: self.task(task)['state'] != 'pending', 'its start')
        view = self.task(task)
        if view['state'] == 'active':
            self.assertEqual([stage['worker'] for stage in view['plan']['stages']],
                             [member['worker'] for member in view['members']])
            self.assertNotIn('access', view['plan'])
            why = self.done('why', task)
            if self.task(task)['state'] == 'active':  # so it was when it was asked
                self.assertIn('Its 3 stages: ', why)
        self.finish(task)
        reports = [self.report(task, rank) for rank in range(3)]
        self.assertEqual({report['weights_digest'] for report in reports},
                         {self.undisturbed(*flags)})
        self.assertEqual({report['epochs'] for report in reports}, {3})
        lines = self.done('logs', task, '--rank', 2, '--stream', 'metrics').splitlines()
        self.assertIn('test_accuracy', json.loads(lines[-1]))
        self.expect_a_whole_story(task)

    def test_a_reproducible_pipeline_gives_the_bits_of_any_machine(self):
        self.start_server()
        self.start_workers(NAMES[:2])
        flags = ('--epochs', 1, '--micro-batches', 2, '--reproducible')
        task = self.pipeline(*flags, stages=2)
        self.finish(task)
        with mock.patch.dict(os.environ, HARMONICS_EXACT='scalar'):
            alone = self.undisturbed(*flags)
        self.assertEqual(self.report(task)['weights_digest'], alone)

    def expect_a_whole_story(self, task):
        """What a pipeline did is still told when it has ended."""
        view = self.task(task)
        self.assertEqual(view['state'], 'succeeded')
        self.assertEqual([stage['worker'] for stage in view['plan']['stages']],
                         [member['worker'] for member in view['members']])
        self.assertNotIn('access', view['plan'])
        self.assertTrue(pathlib.Path(view['plan']['checkpoint']).exists(), view['plan']['checkpoint'])
        self.assertIn('Its 3 stages: ', self.done('why', task))
        told = self.done('task', task)
        for text in ('said last', 'samples/s', 'test_accuracy', 'checkpoint  /', 'stage 2: '):
            self.assertIn(text, told)

    def test_it_begins_with_the_weights_that_its_file_names(self):
        """As a file that 'harmonics import' wrote does, beside its weights."""
        start = self.folder / 'start.safetensors'
        self.undisturbed('--epochs', 1, '--seed', 9, '--checkpoint', start)
        model = self.folder / 'tuned.harp'
        model.write_text(DIGITS.read_text().replace('csv:', f'csv:{DIGITS.parent}/') +
                         'weights { file = "start.safetensors"; }\n')
        self.start_server()
        self.start_workers()
        task = self.pipeline('--epochs', 1, model=model, stages=2)
        self.finish(task)
        digest = self.undisturbed('--epochs', 1, '--weights', start)
        self.assertNotEqual(digest, self.undisturbed('--epochs', 1))
        self.assertEqual(self.report(task)['weights_digest'], digest)

    def test_every_stage_tells_how_fast_and_how_busy_it_is(self):
        server = self.start_server('--http', 0)
        # The machine of the last stage is slow: the others wait for it.
        for name, slowdown in (('a', 1), ('b', 1), ('c', SLOWDOWN)):
            self.start_worker('--id', name, '--slowdown', slowdown)
        task = self.pipeline('--epochs', 1000, '--checkpoint-every', 1000)

        def told():
            lines = [member['progress'] or {} for member in self.task(task)['members']]
            return len(lines) == 3 and all('micro_batch_s' in line for line in lines) and lines
        lines = self.until(told, 'rates of all stages')
        for line in lines:
            self.assertGreater(line['samples_per_second'], 0)
            self.assertAlmostEqual(line['busy'] + line['waiting'], 1, delta=0.002)
        slow = [member['worker'] for member in self.task(task)['members']].index('c')
        self.assertEqual(max(range(3), key=lambda rank: lines[rank]['busy']), slow, lines)
        shown = json.loads(self.done('monitor', '--output', 'json'))['active'][0]['members']
        self.assertTrue(all(member['progress']['samples_per_second'] > 0 for member in shown), shown)
        stages = [line for line in self.done('monitor').splitlines() if '  stage ' in line]
        self.assertEqual(len(stages), 3)
        for line in stages:
            self.assertRegex(line, r'samples/s  busy \d+ %  waiting \d+ %')
        url = re.search(r'(http://\S+)/metrics', self.printed(server)).group(1)
        with urllib.request.urlopen(self.with_token(url + '/status'), timeout=60) as page:
            status = json.load(page)
        self.assertEqual([one['task'] for one in status['pipelines']], [task])
        stages = status['pipelines'][0]['stages']
        self.assertTrue(all(stage['samples_per_second'] > 0 for stage in stages), stages)
        self.assertTrue({'loss', 'train_loss'} & set(stages[-1]), stages)
        self.done('cancel', task)
        self.wait(task)

    def test_a_file_says_the_same(self):
        self.start_server()
        self.start_workers(('a', 'b'))
        (self.folder / 'task.json').write_text(json.dumps({
            'name': 'by file', 'pipeline': {'model': str(DIGITS), 'stages': 2, 'checkpoint_every': 10,
                                            'settings': {'epochs': '1', 'threads': '1'}}}))
        task = int(self.done('submit', '--output', 'quiet', '--config', 'task.json'))
        self.finish(task)
        self.assertEqual(self.report(task)['weights_digest'], self.undisturbed('--epochs', 1))

    def test_left_alone_the_plan_uses_the_workers_that_help(self):
        self.start_server()
        self.start_workers(('a', 'b'))
        task = self.pipeline('--epochs', 1, stages='auto')
        self.finish(task)
        self.assertEqual(self.report(task)['parts'], 2)
        self.assertEqual(self.report(task)['weights_digest'], self.undisturbed('--epochs', 1))

    def test_it_is_measured_before_it_is_planned(self):
        self.start_server()
        for name, slowdown in (('quick', 1), ('slow', 50)):
            self.start_worker('--id', name, '--slowdown', slowdown)
        lenet = SOURCE_DIR / 'examples' / 'lenet.harp'
        task = self.pipeline('--profile', '--trace', '--epochs', 1, '--checkpoint-dir',
                             self.folder / 'shared', model=lenet, stages=2)
        plan = self.until(lambda: 'stages' in (self.task(task).get('plan') or {}) and
                          self.task(task)['plan'], 'its plan')
        self.assertTrue(all(worker['measured'] for worker in plan['workers']), plan)
        layers = {stage['worker']: stage['layers'][1] - stage['layers'][0] + 1 for stage in plan['stages']}
        self.assertGreater(layers['quick'], layers['slow'], plan)
        self.assertIn('measured', self.done('why', task))
        self.finish(task)
        self.assertEqual(self.task(task)['attempts'], 2)
        traces = list((self.folder / 'shared').glob(f'task-{task}-*/passes-task-{task}.2-*.jsonl'))
        self.assertEqual(len(traces), 2)
        passes = [json.loads(line) for line in traces[0].read_text().splitlines()]
        self.assertEqual({one['pass'] for one in passes}, {'forward', 'backward'})
        # The next one knows already.
        again = self.pipeline('--profile', '--epochs', 1, '--checkpoint-dir', self.folder / 'shared',
                              model=lenet, stages=2)
        self.finish(again)
        self.assertEqual(self.task(again)['attempts'], 1)

    def test_what_a_run_measures_serves_later_plans(self):
        server = self.start_server()
        for name, slowdown in (('quick', 1), ('slow', 50)):
            self.start_worker('--id', name, '--slowdown', slowdown)
        lenet = SOURCE_DIR / 'examples' / 'lenet.harp'

        def planned(basis):
            task = self.pipeline('--epochs', 1000, '--checkpoint-every', 1000, model=lenet, stages=2)
            plan = self.until(lambda: self.task(task).get('plan'), 'its plan')
            self.assertEqual({worker['basis'] for worker in plan['workers']}, {basis}, plan)
            return task, plan

        def stopped(task):
            self.done('cancel', task)
            self.wait(task)
        first, plan = planned('estimate')
        self.assertIn('The plan rests on estimates', self.done('why', first))
        self.until(lambda: all('micro_batch_s' in (member['progress'] or {})
                               for member in self.task(first)['members']), 'measurements')
        stopped(first)
        # They are kept: the server may be another one.
        self.kill(server)
        self.start_server()
        self.until(lambda: len(self.ready_workers()) == 2, 'the workers')
        second, plan = planned('training')
        self.assertIn('The plan rests on measurements.', self.done('why', second))
        layers = {stage['worker']: stage['layers'][1] - stage['layers'][0] + 1 for stage in plan['stages']}
        self.assertGreater(layers['quick'], layers['slow'], plan)
        stopped(second)

    def until_training(self, task, attempt, step):
        """Until that attempt, or a later one, has done so many steps."""
        def there():
            view = self.task(task)
            self.assertIn(view['state'], ('active', 'pending', 'delayed'), 'it ended before the kill')
            return view['attempts'] >= attempt and (view['progress'] or {}).get('step', 0) >= step
        self.until(there, f'step {step} of attempt {attempt}')

    def kill_machine(self, name, worker):
        """The worker, what it runs, and its disk."""
        identity = self.mark_of(name)
        self.kill(worker)
        self.kill_pids(self.supervisors(name) + self.processes(identity))
        shutil.rmtree(self.folder / f'machine-{name}')

    def disturb(self, chance, task, server, workers):
        """Kills a stage, the server and a worker in some order, each while the task trains; the server."""
        order = ['server', 'stage', 'worker']
        chance.shuffle(order)
        attempt, step = 1, 0
        for what in order:
            step += chance.randrange(1, 60)
            self.until_training(task, attempt, step)
            step = self.steps_done(task)
            name = chance.choice(sorted(workers))
            print(f'kills {what} after step {step}', flush=True)
            if what == 'server':
                self.kill(server)
                server = self.start_server()
                continue
            attempt += 1
            if what == 'stage':
                self.kill_pids(self.processes(self.mark_of(name), 'harmonics-torch'))
            else:
                self.kill_machine(name, workers.pop(name))
            # It goes back to a checkpoint first.
            step = max(0, step - CHECKPOINT_EVERY)
        return server

    def test_killed_anywhere_it_ends_with_the_same_weights(self):
        chance = random.Random(SEED)
        print(f'seed {SEED}', flush=True)
        flags = ('--epochs', 8, '--micro-batches', 2)
        expected = self.undisturbed(*flags)
        for _ in range(ROUNDS):
            server = self.start_server(port=0)
            workers = self.start_workers(slowdown=SLOWDOWN)
            task = self.pipeline(*flags, '--checkpoint-every', CHECKPOINT_EVERY)
            server = self.disturb(chance, task, server, workers)
            self.finish(task)
            view = self.task(task)
            self.assertEqual((view['attempts'], view['failures'], view['losses']), (3, 1, 1))
            for rank in range(2):
                self.assertEqual(self.report(task, rank)['weights_digest'], expected)
            for process in [server, *workers.values()]:
                self.kill(process)
            for folder in [self.state, *self.folder.glob('machine-*')]:
                shutil.rmtree(folder)

    def test_a_secure_one_is_signed_by_every_stage(self):
        self.start_server()
        self.start_workers()
        task = self.pipeline('--epochs', 2, '--secure')
        self.finish(task)
        reports = [self.report(task, rank) for rank in range(3)]
        self.assertEqual(reports[0]['weights_digest'], self.undisturbed('--epochs', 2))
        proof = subprocess.run([str(HARMONICS), 'verify', *(report['chain'] for report in reports)],
                               capture_output=True, text=True, timeout=PATIENCE_S,
                               env=environment(self.folder), check=False)
        self.assertEqual(proof.returncode, 0, proof.stdout + proof.stderr)
        self.assertIn('verified: ', proof.stdout)

    def test_where_the_cluster_speaks_tls_so_do_the_stages(self):
        made = subprocess.run([str(HARMONICS), 'server', '--init', 'tls'], cwd=self.folder, check=False,
                              capture_output=True, text=True, env=environment(self.folder))
        self.assertEqual(made.returncode, 0, made.stderr)
        self.start_server('--tls', 'tls')
        tls = ('--tls', 'tls')
        workers = ('a', 'b')
        for name in workers:
            self.start('worker', *self.access(), *tls, '--id', name)
        self.until(lambda: len(self.json('workers', *tls)) == len(workers), 'the workers')
        task = int(self.done('submit', *tls, '--output', 'quiet', '--pipeline', DIGITS, '--stages', 2,
                             '--set', 'threads=1', '--epochs', 2))
        why = self.until(lambda: 'Its 2 stages' in self.done('why', *tls, task) and
                         self.done('why', *tls, task), 'its plan')
        self.assertIn('Its stages speak TLS.', why)
        self.done('wait', *tls, task, '--timeout', PATIENCE_S)
        for rank in range(2):
            words = self.done('logs', *tls, task, '--rank', rank, '--stream', 'err')
            self.assertIn(f'--tls-key {self.folder / "tls" / "peer.key"}', words)
        report = json.loads(self.done('logs', *tls, task).splitlines()[-1])
        self.assertEqual(report['weights_digest'], self.undisturbed('--epochs', 2))

    def test_an_elastic_one_moves_when_a_worker_joins(self):
        self.start_server()
        self.start_workers(('a',), slowdown=SLOWDOWN)
        flags = ('--epochs', 8, '--micro-batches', 2)
        task = self.pipeline(*flags, '--elastic', '--checkpoint-every', CHECKPOINT_EVERY, stages='auto')
        self.until_training(task, 1, 1)
        # Twice the machines: the plan with both must be better by far, transfers being cheap here.
        self.start_workers(('b',), slowdown=SLOWDOWN)
        self.finish(task)
        view = self.task(task)
        self.assertEqual((view['attempts'], view['preemptions'], view['failures']), (2, 1, 0))
        self.assertEqual(self.report(task, 1)['weights_digest'], self.undisturbed(*flags))

    def test_five_pipelines_and_fifty_tasks_at_once(self):
        self.start_server()
        self.start_workers()
        ran = self.folder / 'ran'
        ran.mkdir()
        # Each holds its device by a folder that only one of them can make.
        guarded = (f'd={ran}/$HARMONICS_WORKER-$CUDA_VISIBLE_DEVICES; mkdir $d || exit 9; sleep 0.05; '
                   'rmdir $d')
        pipelines, tasks = [], []
        for i in range(5):
            pipelines.append(self.pipeline('--gpus', 1, '--epochs', 1, '--checkpoint-every', 40,
                                           stages=(3, 2, 'auto', 3, 1)[i]))
            tasks.append(int(self.done('submit', '--output', 'quiet', '--name', 'small', '--gpus', 1,
                                       '--array', 10, '--', 'sh', '-c', guarded)))
        waiter = self.start('wait', *self.access(), *pipelines, *tasks, '--timeout', PATIENCE_S)
        while waiter.poll() is None:
            held = [(member['worker'], device) for task in self.json('tasks', '--state', 'active')
                    for member in task['members'] for device in member['devices']]
            self.assertEqual(len(held), len(set(held)), held)
        ends = self.wait(*pipelines, *tasks)
        self.assertEqual(ends['succeeded'], 55, [self.task(task) for task in pipelines])
        digests = {self.report(task)['weights_digest'] for task in pipelines}
        self.assertEqual(digests, {self.undisturbed('--epochs', 1)})

    def test_what_is_wrong_is_said_before_or_by_why(self):
        self.start_server()
        self.start_workers(('a',))
        self.assert_fails(self.call('submit', '--pipeline', 'none.harp'), 'none.harp')
        # A network of the zoo is known by its name, and brings no data.
        self.assert_fails(self.call('submit', '--pipeline', 'digits-mlp'), "producer 'image' has no data: add --bind")
        self.assert_fails(self.call('submit', '--name', 'x', '--stages', 2), '--pipeline MODEL.harp')
        self.assert_fails(self.call('submit', '--pipeline', DIGITS, '--stages', 5),
                          "'digits' cannot be cut into 5 stages", 'ask for 1 to 4')
        self.assert_fails(self.call('submit', '--pipeline', DIGITS, '--set', 'lrr=0.1'),
                          "did you mean 'lr'?", code=2)
        self.assert_fails(self.call('submit', '--pipeline', DIGITS, '--set', 'parts=2'),
                          "no setting 'parts'")
        self.assert_fails(self.call('submit', '--pipeline', DIGITS, '--stages', 'many'), 'auto', code=2)
        self.assert_fails(self.call('submit', '--pipeline', DIGITS, '--reproducible', '--no-reproducible'), 'excludes', code=2)
        # What only the cluster knows.
        self.assert_fails(self.call('submit', '--pipeline', DIGITS, '--host-memory', 1 << 30, '--stages', 2),
                          'could never run', 'on each of 2 workers', '--wait-for-machines')
        task = self.pipeline('--host-memory', 1 << 30, '--wait-for-machines', stages=2)
        self.assertEqual(self.json('why', task)['reason'], 'impossible')

    def test_the_checkpoint_lies_where_it_was_wished(self):
        self.start_server()
        worker = self.start_worker('--id', 'a')
        task = self.pipeline('--epochs', 1, '--retries', 0, '--checkpoint-dir', self.folder / 'shared',
                             stages=1)
        self.finish(task)
        self.assertTrue(list((self.folder / 'shared').glob(f'task-{task}-*/checkpoint')))
        self.kill(worker)


if __name__ == '__main__':
    unittest.main()
