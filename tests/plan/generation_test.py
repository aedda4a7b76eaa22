"""Plans for generation, `sched-pipeline --goal tokens|first-token|both`, beside a MILP of the same model in HiGHS.

The model is written down anew here, from the page of the planner's files and generation.h. Where highspy cannot be had a
line says so, and the instances are planned without it. HARMONICS_SOAK=1 takes all 200 instances."""

import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ['HARMONICS_SOURCE_DIR']) / 'tests'))
import packages

PROGRAM = pathlib.Path(os.environ['HARMONICS_BINARY_DIR']) / 'sched-pipeline'
FEW = 21
INSTANCES = 200 if os.environ.get('HARMONICS_SOAK') == '1' else FEW
SEED = int(os.environ.get('HARMONICS_SEED', '2406'))
GOALS = ('tokens', 'first-token', 'both')
TIMEOUT_S = 60
SAME = 1e-6


def draw(number):
    """An instance as plain numbers: unlike hosts, some with little memory, some behind slow links. The first ones are
    small."""
    chance = random.Random(f'{SEED} {number}')
    small = number < FEW
    layers = chance.randint(4, 9) if small else chance.randint(6, 14)
    types = chance.randint(2, 4)
    instance = {
        'goal': GOALS[number % 3],
        'context': chance.choice([64, 200, 1000]), 'sequences': chance.choice([1, 2, 4] if small else [1, 2, 5, 8]),
        'chunk': chance.choice([32, 128]),
        'weights_mb': [chance.uniform(4, 60) for _ in range(layers)],
        'cache': [chance.choice([0, 4096, 8192]) for _ in range(layers)],
        'out': [chance.choice([256, 576, 1024]) for _ in range(layers - 1)] + [chance.choice([4000, 49152])],
        'types': {}, 'hosts': {}, 'links': []}
    share = sum(instance['weights_mb'])
    for u in range(types):
        slow = chance.uniform(1, 6)
        steps = []
        for sequences in (1, 4):
            for context in (8, 512):
                steps.append((sequences, 1, context, [1e-3 * slow * (1 + 0.2 * sequences + context / 900)
                                                      * chance.uniform(0.7, 1.3) for _ in range(layers)]))
        for tokens in (32, 128):
            steps.append((1, tokens, 64, [1e-3 * slow * tokens * 0.25 * chance.uniform(0.7, 1.3) for _ in range(layers)]))
        instance['types'][f't{u}'] = {'mbps': chance.choice([20, 100, 1000]), 'steps': steps,
                                      'memory_mb': share * chance.choice([0.4, 0.7, 3]) + 40}
        instance['hosts'][f't{u}'] = [f't{u}-{k}' for k in range(1 if small else chance.randint(1, 2))]
    names = [host for hosts in instance['hosts'].values() for host in hosts]
    if number % 2 == 1:
        for i, one in enumerate(names):
            for other in names[:i]:
                instance['links'].append((one, other, chance.choice([10, 50, 400]), chance.choice([0, 1, 20])))
    return instance


def write(folder, instance):
    layers = len(instance['weights_mb'])
    (folder / 'models.yml').write_text(
        f"m-generation:\n  layers: {layers}\n  mem_MB: {instance['weights_mb']}\n  parameters_in: 2\n"
        f"  parameters_out: {instance['out']}\n  cache_bytes: {instance['cache']}\n")
    text = ''
    for name, one in instance['types'].items():
        text += f"{name}:\n  bw_Mbps: {one['mbps']}\n  mem_MB: {one['memory_mb']}\n  model_profiles:\n"
        text += '  generation_profiles:\n    m-generation:\n'
        for sequences, tokens, context, times in one['steps']:
            text += (f'    - sequences: {sequences}\n      tokens: {tokens}\n      context: {context}\n'
                     f'      time_s: {times}\n')
    (folder / 'device_types.yml').write_text(text)
    (folder / 'devices.yml').write_text(json.dumps(instance['hosts']))
    (folder / 'links.yml').write_text('links:\n' + ''.join(
        f'- between: [{a}, {b}]\n  bw_Mbps: {mbps}\n  latency_ms: {late}\n' for a, b, mbps, late in instance['links'])
        if instance['links'] else 'links: []\n')


def words(instance, goal=None):
    return [str(PROGRAM), '-m', 'm', '--links-file', 'links.yml', '--goal', goal or instance['goal'],
            '--context', str(instance['context']), '--sequences', str(instance['sequences']),
            '--chunk', str(instance['chunk'])]


def plan(folder, instance, *more, goal=None):
    done = subprocess.run([*words(instance, goal), *more, '--report', 'json'], cwd=folder, capture_output=True, text=True,
                          timeout=TIMEOUT_S)
    return done


def milp(instances):
    """What HiGHS finds for each instance: (value or None, seconds, whether it is proven). In a Python of its own."""
    python = packages.interpreter('highs', ['highspy'], 'highspy, numpy')
    if python is None:
        return None
    done = subprocess.run([python, pathlib.Path(__file__).with_name('generation_milp.py')], input=json.dumps(instances),
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class GenerationTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_the_optimum_of_a_milp(self):
        instances = [draw(number) for number in range(INSTANCES)]
        ours = []
        for number, instance in enumerate(instances):
            with self.subTest(number=number):
                write(self.folder, instance)
                done = plan(self.folder, instance)
                self.assertIn(done.returncode, (0, 3), done.stderr)
                if done.returncode == 3:
                    self.assertIn('no feasible plan', done.stderr)
                    ours.append(None)
                    continue
                report = json.loads(done.stderr)
                self.assertLessEqual(report['lower_bound_s'], report['objective_s'] * (1 + SAME))
                ours.append(report)
        self.assertGreater(sum(one is not None for one in ours), len(ours) / 2)
        theirs = milp(instances)
        if theirs is None:
            return
        closed = 0
        for number, (one, other) in enumerate(zip(ours, theirs)):
            with self.subTest(number=number, goal=instances[number]['goal']):
                if not other['closed']:
                    continue
                closed += 1
                if other['value'] is None:
                    self.assertIsNone(one)
                    continue
                self.assertIsNotNone(one)
                self.assertLessEqual(abs(one['objective_s'] - other['value']), 2e-5 * other['value'], one['stages'])
                self.assertTrue(one['proven'])
        pairs = [(one['plan_seconds'], other['seconds']) for one, other in zip(ours, theirs)
                 if one is not None and other['value'] is not None]
        mine, his = (statistics.median(column) for column in zip(*pairs))
        print(f'{closed} of {INSTANCES} closed by HiGHS; median CPU seconds of a plan {mine:.5f}, of HiGHS {his:.3f}: '
              f'{his / mine:.0f} times', file=sys.stderr)

    def test_the_plan_alone_is_on_standard_output_and_words_are_in_the_report(self):
        instance = draw(0) | {'context': 64, 'sequences': 8}
        for one in instance['types'].values():
            one['memory_mb'] = 10000
        write(self.folder, instance)
        done = plan(self.folder, instance, '--explain')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith('- t'))
        report = json.loads(done.stderr)
        self.assertEqual(report['goal'], 'tokens')
        self.assertAlmostEqual(report['tokens_per_s'], 8 / report['cycle_s'])
        self.assertIn('binds', report['explanation'][0])
        self.assertIn('With 16 sequences', report['explanation'][-1])
        text = subprocess.run([*words(instance), '--explain', '--report', 'text'], cwd=self.folder, capture_output=True,
                              text=True)
        self.assertIn('proven optimal', text.stderr)
        # Other goals are no better at this one.
        both = json.loads(plan(self.folder, instance, '--tolerance', '0.2', goal='both').stderr)
        first = json.loads(plan(self.folder, instance, goal='first-token').stderr)
        self.assertGreaterEqual(both['tokens_per_s'], 0.8 * report['tokens_per_s'] * (1 - SAME))
        self.assertLessEqual(both['first_token_s'], report['first_token_s'] * (1 + SAME))
        self.assertLessEqual(first['first_token_s'], both['first_token_s'] * (1 + SAME))

    def test_bad_input(self):
        instance = draw(0)
        write(self.folder, instance)

        def refused(code, sentence, *more, goal='tokens'):
            done = subprocess.run([*words(instance, goal), *more], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(sentence, done.stderr)
            self.assertEqual(done.stdout, '')
        refused(2, 'do not go together', '--replicate')
        refused(2, 'do not go together', '--then', 'hosts')
        refused(2, 'needs --goal both', '--tolerance', '0.1')
        refused(2, 'needs --goal tokens', goal='throughput')
        refused(2, '--goal', goal='words')
        refused(2, '--context', '--context', '0')
        refused(1, 'is not in 1..', '--prompt', '2000')
        refused(3, 'no feasible plan', '--context', '1000000')
        refused(1, 'was not measured for generation', '-m', 'other')
        for one in instance['types'].values():
            one['steps'] = []
        text = (self.folder / 'device_types.yml').read_text()
        (self.folder / 'device_types.yml').write_text(
            '\n'.join(line for line in text.split('generation_profiles')[0].splitlines()[:-1]) + '\n')
        (self.folder / 'devices.yml').write_text('{t0: [t0-0]}')
        (self.folder / 'links.yml').write_text('links: []\n')
        refused(1, 'was measured on no device type')


if __name__ == '__main__':
    unittest.main()
