"""sched-pipeline --dag on the 16 graphs of Microsoft's dnn-partitioning (their licence is beside them), from outside: each plan is
evaluated by the rule as it is written, in Python, and held against what the authors' own programme reaches."""

import gzip
import json
import os
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(os.environ['HARMONICS_BINARY_DIR']) / 'sched-pipeline'
GRAPHS = Path(os.environ['HARMONICS_SOURCE_DIR']) / 'tests/plan/dnn-partitioning'

# Milliseconds: what the authors' dynamic programme finds, six digits; for inceptionv3, which it does not solve, the best known.
REFERENCE = {
    'bert24_inference': 17.7899, 'bert24_training': 41.7458,
    'gnmt_inference': 32.9107, 'gnmt_training': 107.004,
    'resnet50_inference': 33.7747, 'resnet50_training': 78.6318,
    'inceptionv3_inference': 51.5519, 'inceptionv3_training': 123.700,
    'operator_bert_l-3_inference': 27.9186, 'operator_bert_l-3_training': 65.3031,
    'operator_bert_l-6_inference': 29.5795, 'operator_bert_l-6_training': 72.8650,
    'operator_bert_l-12_inference': 147.478, 'operator_bert_l-12_training': 437.998,
    'operator_resnet50_inference': 124.349, 'operator_resnet50_training': 255.194,
}
ROUNDING = 5e-6  # the reference has six digits


def read(name):
    return json.loads(gzip.decompress((GRAPHS / f'{name}.json.gz').read_bytes()))


class Evaluator:
    """What a set of nodes costs a device, from the authors' description: a node's output costs the device that makes it once and
    each device that takes it once; the CPU pays no transfers."""

    def __init__(self, graph):
        self.graph = graph
        self.nodes = {node['id']: node for node in graph['nodes']}
        self.takers, self.cost, self.needs = {}, {}, {}
        for edge in graph['edges']:
            self.takers.setdefault(edge['sourceId'], set()).add(edge['destId'])
            self.needs.setdefault(edge['destId'], set()).add(edge['sourceId'])
            self.cost[edge['sourceId']] = edge['cost']

    def load(self, members, device):
        members = set(members)
        if device == 'cpu':
            return sum(self.nodes[k]['cpuLatency'] for k in members)
        compute = sum(self.nodes[k]['fpgaLatency'] for k in members)
        made = {k for k in members if self.takers.get(k, set()) - members}
        taken = set().union(*(self.needs.get(k, set()) for k in members)) - members
        return compute + sum(self.cost[k] for k in made | taken)

    def fits(self, members, device):
        return device == 'cpu' or (
            all(self.nodes[k]['supportedOnFpga'] for k in members) and
            sum(self.nodes[k].get('size', 0) for k in members) <= self.graph['maxSizePerFPGA'])

    def class_of(self, node):
        return self.nodes[node].get('colorClass', f'alone {node}')


class OperatorGraphs(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix='harmonics-dag-')
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def run_program(self, *arguments):
        return subprocess.run([str(PROGRAM), *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, check=False)

    def plan(self, name, *arguments):
        (self.folder / 'graph.json').write_bytes(gzip.decompress((GRAPHS / f'{name}.json.gz').read_bytes()))
        done = self.run_program('--dag', 'graph.json', '--overlap', 'none', '--report', 'json', *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stderr), done.stdout

    def check_plan(self, graph, report):
        """The largest load of a plan, in milliseconds, once it is shown to be one."""
        evaluator = Evaluator(graph)
        hosts = [stage['host'] for stage in report['stages']]
        self.assertEqual(len(set(hosts)), len(hosts))
        for device, most in (('accelerator', graph['maxFPGAs']), ('cpu', graph['maxCPUs'])):
            self.assertLessEqual(sum(stage['type'] == device for stage in report['stages']), most)
        stage_of, longest = {}, 0
        for k, stage in enumerate(report['stages']):
            members = [int(node) for node in stage['nodes']]
            for node in members:
                self.assertNotIn(node, stage_of)
                stage_of[node] = k
            self.assertTrue(evaluator.fits(members, stage['type']))
            load = evaluator.load(members, stage['type'])
            self.assertAlmostEqual(load, stage['period_s'] * 1e3, delta=1e-9 * load)
            longest = max(longest, load)
        self.assertEqual(set(stage_of), set(evaluator.nodes))
        together = {}
        for node, k in stage_of.items():
            self.assertEqual(together.setdefault(evaluator.class_of(node), k), k)
        if report['split'] == 'contiguous':
            self.check_order(graph, evaluator, stage_of)
        self.assertAlmostEqual(longest, report['period_s'] * 1e3, delta=1e-9 * longest)
        return longest

    def check_order(self, graph, evaluator, stage_of):
        """No output of the forward pass goes back to an earlier stage."""
        for edge in graph['edges']:
            source, dest = edge['sourceId'], edge['destId']
            if not evaluator.nodes[source]['isBackwardNode'] and not evaluator.nodes[dest]['isBackwardNode']:
                self.assertLessEqual(stage_of[source], stage_of[dest])

    def check_certificate(self, graph, report):
        """Each class where it costs least at the certificate's prices, all hosts together costing 1."""
        evaluator = Evaluator(graph)
        price = {entry['type']: entry['price'] for entry in report['certificate']['prices']}
        self.assertAlmostEqual(sum(entry['price'] * entry['hosts'] for entry in report['certificate']['prices']), 1, delta=1e-9)
        times = {}
        for key, node in evaluator.nodes.items():
            own = times.setdefault(evaluator.class_of(key), [0, 0])
            own[0] += node['fpgaLatency'] if node['supportedOnFpga'] else float('inf')
            own[1] += node['cpuLatency']
        bound = sum(min(a * price['accelerator'], c * price['cpu']) for a, c in times.values())
        self.assertAlmostEqual(bound, report['certificate']['bound_s'] * 1e3, delta=1e-9 * bound)
        self.assertLessEqual(bound, report['period_s'] * 1e3 * (1 + 1e-9))

    def test_all_sixteen_are_as_good_as_the_reference(self):
        self.assertEqual(len(REFERENCE), 16)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        for name, reference in REFERENCE.items():
            with self.subTest(name):
                graph = read(name)
                report, text = self.plan(name)
                self.assertLessEqual(self.check_plan(graph, report), reference * (1 + ROUNDING))
                self.check_certificate(graph, report)
                self.assertEqual((report['proven'], report['method']), (True, 'whole lattice'))
                self.assertEqual(len(text.splitlines()), len(report['stages']))
        print(f'16 graphs: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before:.2f} CPU s')

    def test_small_ones_equal_a_plain_programme_over_all_ideals(self):
        for name in ('bert24_inference', 'bert24_training', 'resnet50_inference'):
            with self.subTest(name):
                graph = read(name)
                report, _ = self.plan(name)
                self.assertAlmostEqual(plain_optimum(graph), report['period_s'] * 1e3, delta=1e-6)

    def test_a_free_split_is_never_worse(self):
        name = 'operator_bert_l-3_inference'
        report, _ = self.plan(name, '--split', 'free', '--work', 200_000_000)
        self.assertLess(self.check_plan(read(name), report), REFERENCE[name])
        self.check_certificate(read(name), report)
        self.assertEqual(report['method'], 'moves')

    def test_what_is_printed_where(self):
        (self.folder / 'g.json').write_text(json.dumps({
            'devices': [{'type': 'gpu', 'hosts': ['g1', 'g2'], 'bandwidth_mbps': 8}],
            'nodes': [{'name': 'left', 'time_s': {'gpu': 2}}, {'name': 'right', 'time_s': {'gpu': 3}}], 'edges': []}))
        done = self.run_program('--dag', 'g.json')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertEqual(sorted(line.split(': ')[1] for line in done.stdout.splitlines()), ['["left"]', '["right"]'])
        done = self.run_program('--dag', 'g.json', '--report', 'text')
        self.assertIn('period 3 s, lower bound 3 s: proven optimal', done.stderr)
        self.assertIn('exact: all splits along the 4 ideals of 2 units', done.stderr)
        self.run_program('--dag', 'g.json', '--report-file', 'report.txt')
        self.assertIn('proven optimal', (self.folder / 'report.txt').read_text())

    def test_what_goes_wrong(self):
        (self.folder / 'g.json').write_text('{"devices": [], "nodes": [{"name": "a", "time_s": {"x": 1}}], "edges": []}')
        done = self.run_program('--dag', 'g.json')
        self.assertEqual(done.returncode, 1)
        self.assertIn("g.json.nodes[0].time_s.x: there is no device type 'x'", done.stderr)
        self.assertEqual(self.run_program('--dag', 'g.json', '--replicate').returncode, 2)
        self.assertEqual(self.run_program('--split', 'free').returncode, 2)
        (self.folder / 'g.json').write_text('{"devices": [], "nodes": [{"name": "a", "time_s": {}}], "edges": []}')
        done = self.run_program('--dag', 'g.json')
        self.assertEqual((done.returncode, done.stdout), (3, ''))
        self.assertIn("no host can run operator 'a'", done.stderr)


def all_ideals(classes, needs):
    """Sets of classes that hold with each all that it needs, the smaller first."""
    found, level = [frozenset()], {frozenset()}
    while level:
        level = {ideal | {one} for ideal in level for one in classes - ideal if needs.get(one, set()) <= ideal}
        found.extend(level)
    return found


def plain_optimum(graph):
    """The best chain of ideals by trying all pairs; for graphs whose classes each have a node of the forward pass."""
    evaluator = Evaluator(graph)
    members, needs = {}, {}
    for node in evaluator.nodes:
        members.setdefault(evaluator.class_of(node), set()).add(node)
    for edge in graph['edges']:
        ends = evaluator.nodes[edge['sourceId']], evaluator.nodes[edge['destId']]
        if not any(end['isBackwardNode'] for end in ends) and ends[0] is not ends[1]:
            needs.setdefault(evaluator.class_of(edge['destId']), set()).add(evaluator.class_of(edge['sourceId']))
    ideals = all_ideals(set(members), needs)
    best = {(ideals[0], 0, 0): 0.0}
    for before in ideals:
        states = [(used, value) for used in ((a, c) for a in range(graph['maxFPGAs'] + 1) for c in range(graph['maxCPUs'] + 1))
                  if (value := best.get((before, *used))) is not None]
        if not states:
            continue
        for after in ideals:
            if not before < after:
                continue
            stage = set().union(*(members[one] for one in after - before))
            for device, step in (('accelerator', (1, 0)), ('cpu', (0, 1))):
                if not evaluator.fits(stage, device):
                    continue
                load = evaluator.load(stage, device)
                for used, value in states:
                    if used[0] + step[0] > graph['maxFPGAs'] or used[1] + step[1] > graph['maxCPUs']:
                        continue
                    key = (after, used[0] + step[0], used[1] + step[1])
                    best[key] = min(best.get(key, float('inf')), max(value, load))
    return min(value for (ideal, *_), value in best.items() if len(ideal) == len(members))


if __name__ == '__main__':
    unittest.main(verbosity=2)
