"""Reads instances of generation_test.py as JSON, writes for each what HiGHS finds: value, seconds, closed."""

import json
import sys
import time

import highspy
import numpy

LIMIT_S = 60
MOST_STEPS = 64
TOLERANCE = 0.1
BLOCK = 16


def line(points, x, proportional):
    points = sorted(points.items())
    if len(points) == 1:
        scale = x / points[0][0] if proportional else 1
        return [scale * value for value in points[0][1]]
    at = max(1, min(len(points) - 1, sum(1 for p, _ in points if p <= x)))
    (x0, y0), (x1, y1) = points[at - 1], points[at]
    return [max(0.0, a + (x - x0) / (x1 - x0) * (b - a)) for a, b in zip(y0, y1)]


def times(steps, decodes, rows, context):
    grid = {}
    for sequences, tokens, held, seconds in steps:
        if (tokens if decodes else sequences) == 1:
            grid.setdefault(sequences if decodes else tokens, {})[held] = seconds
    return line({count: line(held, context, False) for count, held in grid.items()}, rows, True)


class Step:
    """Compute of each host and layer, seconds to move each cut, memory."""

    def __init__(self, instance, rows, decodes):
        prompt = max(1, instance['context'] // 2)
        context = (prompt + instance['context']) / 2 if decodes else prompt / 2
        self.hosts = [(host, name) for name, hosts in instance['hosts'].items() for host in hosts]
        self.compute = [times(instance['types'][name]['steps'], decodes, rows, context) for _, name in self.hosts]
        self.bytes = [8 * rows] + [4 * rows * out for out in instance['out']]
        if not decodes:
            self.bytes[-1] /= rows
        own = [instance['types'][name]['mbps'] * 131072 for _, name in self.hosts]
        links = {}
        for a, b, mbps, late in instance['links']:
            links[a, b] = links[b, a] = (mbps * 131072, late / 1e3)
        count = len(self.hosts)
        self.rate = [[min(own[u], own[v], links.get((self.hosts[u][0], self.hosts[v][0]), (1e30, 0))[0])
                      for v in range(count)] for u in range(count)]
        self.late = [[links.get((self.hosts[u][0], self.hosts[v][0]), (0, 0))[1] for v in range(count)]
                     for u in range(count)]
        self.own = own
        blocks = -(-instance['context'] // BLOCK) * BLOCK * instance['sequences']
        self.layer_memory = [mb * 2 ** 20 + cache * blocks for mb, cache in zip(instance['weights_mb'], instance['cache'])]
        self.capacity = [instance['types'][name]['memory_mb'] * 2 ** 20 for _, name in self.hosts]

    def fits(self, u, i, j):
        memory = sum(self.layer_memory[i:j]) + (0 if i == 0 else 2 * self.bytes[i]) + 2 * self.bytes[j]
        return memory + self.bytes[i] + self.bytes[j] < self.capacity[u]


class Model:
    """Paths of stages (u, i, j) and hand-overs (cut, u, v) from the first cut to the last, each host once."""

    def __init__(self, fits):
        self.solver = highspy.Highs()
        self.solver.setOptionValue('output_flag', False)
        self.solver.setOptionValue('threads', 1)
        self.solver.setOptionValue('mip_rel_gap', 1e-7)
        self.solver.setOptionValue('mip_abs_gap', 0.0)
        self.count = 0
        layers, hosts = len(fits.layer_memory), len(fits.hosts)
        self.layers = layers
        self.stages = {(u, i, j): self.column(0, 1, True) for u in range(hosts) for i in range(layers)
                       for j in range(i + 1, layers + 1) if fits.fits(u, i, j)}
        self.moves = {(cut, u, v): self.column(0, 1, False) for cut in range(1, layers) for u in range(hosts)
                      for v in range(hosts) if u != v}
        flows = {}
        for (u, i, j), column in self.stages.items():
            flows.setdefault(('in', i, u) if i else 'start', []).append((column, -1 if i else 1))
            flows.setdefault(('out', j, u) if j < layers else 'end', []).append((column, 1))
        for (cut, u, v), column in self.moves.items():
            flows.setdefault(('out', cut, u), []).append((column, -1))
            flows.setdefault(('in', cut, v), []).append((column, 1))
        flows.setdefault('start', [])
        for key, terms in flows.items():
            one = 1 if key in ('start', 'end') else 0
            self.row(one, one, terms)
        for u in range(hosts):
            self.row(0, 1, [(column, 1) for (w, _, _), column in self.stages.items() if w == u])

    def column(self, low, high, whole):
        self.solver.addVar(low, high)
        if whole:
            self.solver.changeColIntegrality(self.count, highspy.HighsVarType.kInteger)
        self.count += 1
        return self.count - 1

    def row(self, low, high, terms):
        self.solver.addRow(low, high, len(terms), numpy.array([t[0] for t in terms], dtype=numpy.int32),
                           numpy.array([t[1] for t in terms], dtype=float))

    def way(self, step):
        """Terms of the way of a step; the last stage sends the answers at its host's own bandwidth."""
        terms = []
        for (u, i, j), column in self.stages.items():
            seconds = sum(step.compute[u][i:j])
            if j == self.layers:
                seconds += step.bytes[j] / step.own[u]
            terms.append((column, 1e3 * seconds))
        for (cut, u, v), column in self.moves.items():
            terms.append((column, 1e3 * (step.bytes[cut] / step.rate[u][v] + step.late[u][v])))
        return terms

    def period(self, step):
        """A column that no stage and no link exceeds: milliseconds."""
        period = self.column(0, highspy.kHighsInf, False)
        for u in range(len(step.hosts)):
            terms = [(column, 1e3 * sum(step.compute[u][i:j])) for (w, i, j), column in self.stages.items() if w == u]
            self.row(0, highspy.kHighsInf, [(period, 1)] + [(c, -s) for c, s in terms])
            last = [(column, -1e3 * step.bytes[-1] / step.own[u]) for (w, _, j), column in self.stages.items()
                    if w == u and j == self.layers]
            self.row(0, highspy.kHighsInf, [(period, 1)] + last)
            out = [(column, -1e3 * step.bytes[cut] / step.rate[u][v]) for (cut, w, v), column in self.moves.items() if w == u]
            self.row(0, highspy.kHighsInf, [(period, 1)] + out)
        return period

    def least(self, column, seconds):
        self.solver.changeColCost(column, 1.0)
        self.solver.setOptionValue('time_limit', max(0.01, seconds))
        self.solver.run()
        status = self.solver.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            return self.solver.getInfo().objective_function_value / 1e3, True
        return None, status == highspy.HighsModelStatus.kInfeasible

    def at_least(self, column, terms):
        self.row(0, highspy.kHighsInf, [(column, 1)] + [(c, -s) for c, s in terms])


def cycle_of(model, step, steps):
    cycle = model.column(0, highspy.kHighsInf, False)
    model.at_least(cycle, model.way(step))
    model.at_least(cycle, [(model.period(step), steps)])
    return cycle


def first_of(model, step, chunks, steps):
    first = model.column(0, highspy.kHighsInf, False)
    period, way = model.period(step), model.way(step)
    rounds, rest = divmod(chunks - 1, steps)
    model.at_least(first, way + [(period, chunks - 1)])
    model.at_least(first, [(c, (1 + rounds) * s) for c, s in way] + [(period, rest)])
    return first


def solve(instance, deadline):
    prompt = max(1, instance['context'] // 2)
    chunks = -(-prompt // instance['chunk'])
    prefill = Step(instance, -(-prompt // chunks), False)
    sequences = instance['sequences']
    if instance['goal'] == 'first-token':
        model = Model(prefill)
        return model.least(first_of(model, prefill, chunks, min(chunks, MOST_STEPS)), deadline - time.process_time())
    shares = [(steps, -(-sequences // steps)) for steps in range(1, min(sequences, MOST_STEPS) + 1)]
    decode = {share: Step(instance, share, True) for _, share in shares}
    best, closed = None, True
    for steps, share in shares:
        model = Model(decode[share])
        value, done = model.least(cycle_of(model, decode[share], steps), deadline - time.process_time())
        closed &= done
        best = value if best is None or (value is not None and value < best) else best
    if instance['goal'] == 'tokens' or best is None or not closed:
        return best, closed
    longest = best / (1 - TOLERANCE) * (1 + 1e-9)
    best = None
    for steps, share in shares:
        model = Model(decode[share])
        cycle = cycle_of(model, decode[share], steps)
        model.row(0, 1e3 * longest, [(cycle, 1)])
        value, done = model.least(first_of(model, prefill, chunks, steps), deadline - time.process_time())
        closed &= done
        best = value if best is None or (value is not None and value < best) else best
    return best, closed


def main():
    answers = []
    for instance in json.load(sys.stdin):
        start = time.process_time()
        value, closed = solve(instance, start + LIMIT_S)
        answers.append({'value': value, 'closed': closed, 'seconds': time.process_time() - start})
    json.dump(answers, sys.stdout)


main()
