"""sched-pipeline --flow on the three placement problems that Helix (ASPLOS 2025) publishes (its licence is beside them), from
outside: each answer is put into all constraints of the file itself, its flow is computed anew, and it is held against what the
authors' solver reaches."""

import gzip
import json
import os
import re
import resource
import subprocess
import tempfile
import unittest
from collections import deque
from pathlib import Path

PROGRAM = Path(os.environ['HARMONICS_BINARY_DIR']) / 'sched-pipeline'
FILES = Path(os.environ['HARMONICS_SOURCE_DIR']) / 'tests/plan/helix'

# Tokens a second: the best that the authors report of their solver (Gurobi, 20 threads, one to two hours each).
REFERENCE = {'quality': 286.5874, 'raw_24': 1212.1768, 'raw_42': 4892.2424}


class Program:
    """The constraints of a file in LP format: name, terms, comparison, limit."""

    def __init__(self, text):
        body = text[text.index('Subject To') + len('Subject To'):text.index('\nBounds')]
        self.constraints = []
        for name, rest in re.findall(r'^ (\w+): (.*?)(?=^ \w+:|\Z)', body, re.S | re.M):
            left, comparison, limit = re.split(r'(<=|=)', ' '.join(rest.split()))
            terms = [(float(sign + (factor or '1')), variable)
                     for sign, factor, variable in re.findall(r'([+-]?) ?([\d.]+(?:e[+-]\d+)?)? ?([a-z]\w*)', left)]
            self.constraints.append((name, terms, comparison, float(limit)))
        self.layers = int(next(limit for name, _, _, limit in self.constraints if name.startswith('end_constraint')))
        self.nodes = sum(name.startswith('end_constraint') for name, *_ in self.constraints)
        self.rate, self.link = {}, {}
        for name, terms, _, _ in self.constraints:
            for factor, variable in terms:
                word = variable.split('_')
                if name.startswith('node_throughput') and word[0] == 'hold':
                    self.rate[int(word[1]), int(word[2])] = -factor
                if name.startswith('edge_flow') and word[0] == 'switch':
                    self.link[word[1], word[2]] = -factor

    def broken(self, value):
        """Constraints that an assignment breaks."""
        names = []
        for name, terms, comparison, limit in self.constraints:
            parts = [factor * value.get(variable, 0) for factor, variable in terms]
            slack = 1e-6 * max([1, abs(limit), *map(abs, parts)])
            left = sum(parts)
            if left > limit + slack or (comparison == '=' and left < limit - slack):
                names.append(name)
        return names

    def flow(self, ranges):
        """The maximum flow of {node: (first cut, last cut)}, by breadth-first augmentation."""
        left = {}

        def add(a, b, capacity):
            left.setdefault(a, {})[b] = capacity
            left.setdefault(b, {}).setdefault(a, 0)

        for node, (first, last) in ranges.items():
            add(('in', node), ('out', node), self.rate[node, last - first])
        for (a, b), capacity in self.link.items():
            start = 'source' if a == 'source' else ('out', int(a))
            end = 'sink' if b == 'sink' else ('in', int(b))
            meets = (0 if a == 'source' else ranges.get(int(a), (0, -1))[1]) == \
                    (self.layers if b == 'sink' else ranges.get(int(b), (-2, 0))[0])
            if meets:
                add(start, end, capacity)
        total = 0
        while True:
            came, waiting = {'source': None}, deque(['source'])
            while waiting and 'sink' not in came:
                at = waiting.popleft()
                for to, capacity in left.get(at, {}).items():
                    if capacity > 1e-6 and to not in came:
                        came[to] = at
                        waiting.append(to)
            if 'sink' not in came:
                return total
            way, at = [], 'sink'
            while came[at] is not None:
                way.append((came[at], at))
                at = came[at]
            most = min(left[a][b] for a, b in way)
            for a, b in way:
                left[a][b] -= most
                left[b][a] += most
            total += most


def assignment(program, report):
    value, held = {}, set()
    for host in report['hosts']:
        node = int(host['host'].removeprefix('node-'))
        first, last = host['layers']
        value[f'start_{node}'], value[f'hold_{node}_{last - first + 1}'] = first - 1, 1
        held.add(node)
    for node in set(range(program.nodes)) - held:  # all nodes hold something; nothing flows through these
        value[f'hold_{node}_1'] = 1
    for route in report['routes']:
        ends = ['source', *(host.removeprefix('node-') for host in route['hosts']), 'sink']
        for a, b in zip(ends, ends[1:]):
            value[f'flow_{a}_{b}'] = value.get(f'flow_{a}_{b}', 0) + route['rate']
            value[f'switch_{a}_{b}'] = 1
    return value


class HelixFlows(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix='harmonics-flow-')
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def run_program(self, *arguments):
        return subprocess.run([str(PROGRAM), *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              check=False, timeout=120)

    def test_each_reaches_what_the_authors_solver_reaches(self):
        for name, reference in REFERENCE.items():
            with self.subTest(name):
                text = gzip.decompress((FILES / f'{name}.lp.gz').read_bytes()).decode()
                (self.folder / f'{name}.lp').write_text(text)
                program = Program(text)
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                done = self.run_program('--flow', f'{name}.lp', '--report', 'json')
                seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
                self.assertEqual(done.returncode, 0, done.stderr)
                report = json.loads(done.stderr)
                self.assertGreaterEqual(report['rate'], reference)
                self.check(program, report)
                self.assertEqual(len(done.stdout.splitlines()), len(report['hosts']))
                print(f"{name}: {report['rate']:.2f}, the authors' solver {reference}, no placement above {report['bound']:.2f}; "
                      f'{seconds:.2f} CPU s')

    def check(self, program, report):
        value = assignment(program, report)
        self.assertEqual(program.broken(value), [])
        objective = sum(rate for name, rate in value.items() if name.startswith('flow_source_'))
        self.assertAlmostEqual(objective, report['rate'], delta=1e-6 * objective)
        ranges = {int(host['host'].removeprefix('node-')): (host['layers'][0] - 1, host['layers'][1]) for host in report['hosts']}
        self.assertAlmostEqual(program.flow(ranges), report['rate'], delta=1e-6 * objective)
        # The certificate: at a larger rate even the best ranges do not come to it.
        rate, weights = report['certificate']['rate'] * (1 + 1e-6), report['certificate']['layer_weights']
        self.assertAlmostEqual(sum(weights), 1, delta=1e-9)
        before = [sum(weights[:k]) for k in range(len(weights) + 1)]
        most = {}
        for (node, count), own in program.rate.items():
            weight = max(before[first + count] - before[first] for first in range(program.layers - count + 1))
            most[node] = max(most.get(node, 0), weight * min(own, rate))
        self.assertLess(sum(most.values()), rate)
        self.assertGreaterEqual(report['bound'], report['rate'])

    def test_a_wrong_answer_would_be_seen(self):
        program = Program(gzip.decompress((FILES / 'quality.lp.gz').read_bytes()).decode())
        (self.folder / 'q.lp').write_text(gzip.decompress((FILES / 'quality.lp.gz').read_bytes()).decode())
        done = self.run_program('--flow', 'q.lp', '--report', 'json', '--work', '20000000')
        report = json.loads(done.stderr)
        report['hosts'][3]['layers'][0] += 1
        self.assertNotEqual(program.broken(assignment(program, report)), [])
        report['hosts'][3]['layers'][0] -= 1
        report['routes'][0]['rate'] *= 1.01
        self.assertNotEqual(program.broken(assignment(program, report)), [])

    def test_text_and_refusals(self):
        (self.folder / 'x.lp').write_text('Maximize\n x\nSubject To\n a: x <= 1\nEnd\n')
        wrong = self.run_program('--flow', 'x.lp')
        self.assertEqual((wrong.returncode, wrong.stdout), (1, ''))
        self.assertIn('x.lp: it names no nodes or no layers', wrong.stderr)
        both = self.run_program('--flow', 'x.lp', '--replicate')
        self.assertEqual(both.returncode, 2)
        self.assertIn('--flow: and --replicate do not go together', both.stderr)
        (self.folder / 'q.lp').write_text(gzip.decompress((FILES / 'quality.lp.gz').read_bytes()).decode())
        text = self.run_program('--flow', 'q.lp', '--report', 'text', '--work', '20000000').stderr
        self.assertRegex(text, r'(?s)^flow [\d.]+/s over \d+ of 10 hosts, bound .*what binds: node-.*routes:')


if __name__ == '__main__':
    unittest.main()
