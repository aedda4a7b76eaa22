#!/usr/bin/env python3
"""The policies on published traces, played by `harmonics sim`: GPUs given out of the workloads of the FGD study, times
of Philly's jobs with and without limits, CPU time of a million jobs.

usage: bench/policy_bench.py [--short] [--check] [--build FOLDER] [--traces FOLDER] [--seeds N] [--jobs N] [--only TEXT]

--traces (or HARMONICS_TRACES) is a folder with `fgd/openb_*.csv` of hkust-adsl/kubernetes-scheduler-simulator and
`philly/philly.csv` of siasosp23/artifacts; without it their rows are left out. Published figures are means of ten seeds
at a load of 130 % (Weng et al., USENIX ATC 2023). Decisions are jobs that came, each asked for once at least, by CPU time
of the whole program, the trace's reading included.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED_FGD = {'default': 95.39, 'gpushare100': 86.90, 'multigpu50': 97.18, 'gpuspec33': 94.55, 'cpu050': 95.21}
POLICIES = ('balanced', 'simple', 'fair', 'fgd', 'las', 'srtf')
ORDERS = tuple((policy, words) for policy in POLICIES for words in ((), ('--one-user',)))
LAS_MEAN_H, LAS_P99_H = 15, 195
TIMEOUT_S = 3600


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, Path(folder)
        self.missed = []

    def sim(self, *words):
        """The report, and the CPU seconds it took."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([self.options.build / 'harmonics-cluster', 'sim', *map(str, words), '--output', 'json'],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            sys.exit(f"harmonics sim {' '.join(map(str, words))}: {done.stderr.strip()}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def row(self, name, ours, reference, verdict):
        """`verdict` is the ratio, the bar, and whether it is kept."""
        ratio, bar, good = verdict
        print(f'{name} | {ours} | {reference} | {ratio:.3f} | {bar}', flush=True)
        if not good:
            self.missed.append(name)

    def wanted(self, name):
        return self.options.only in name

    def renamed(self, nodes):
        """The same machines under names drawn at random."""
        head, *rows = nodes.read_text().splitlines()
        chance = random.Random(7)
        file = self.folder / 'renamed.csv'
        file.write_text('\n'.join([head] + [f'{chance.randrange(1 << 60):x},' + row.split(',', 1)[1] for row in rows])
                        + '\n')
        return file

    def fragmentation(self, traces):
        nodes = traces / 'fgd' / 'openb_node_list_gpu_node.csv'
        seeds = range(1, self.options.seeds + 1)
        for workload, published in PUBLISHED_FGD.items():
            name = f'fgd on {workload}, 130 %, {len(seeds)} seeds'
            if not self.wanted(name):
                continue
            shares, jobs, seconds = [], 0, 0
            for names in (nodes, self.renamed(nodes)):
                total = 0
                for seed in seeds:
                    report, took = self.sim(traces / 'fgd' / f'openb_pod_list_{workload}.csv', '--nodes', names,
                                            '--policy', 'fgd', '--load', 1.3, '--seed', seed)
                    total += 100 * report['allocated'] / len(seeds)
                    jobs, seconds = jobs + report['jobs'], seconds + took
                shares.append(total)
            self.row(f'{name}: GPUs given out', f'{shares[0]:.2f} %', f'published FGD {published:.2f} %',
                     (shares[0] / published, '>= 1', shares[0] >= published))
            apart = abs(shares[0] - shares[1])
            self.row(f'{name}: the same under random names', f'{shares[1]:.2f} %', f'{shares[0]:.2f} %',
                     (shares[1] / shares[0], '0.2 points', apart <= 0.2))
            self.row(f'{name}: decisions', f'{jobs / seconds:,.0f}/CPU s', '20,000/CPU s',
                     (jobs / seconds / 20000, '>= 1', jobs >= 20000 * seconds))

    def philly(self, traces):
        trace = traces / 'philly' / 'philly.csv'
        for policy, words in ORDERS:
            name = ' '.join(('philly', policy, *words))
            if not self.wanted(name):
                continue
            told = []
            for limits in ((), ('--limits', 'exact')):
                told.append(self.sim(trace, '--policy', policy, *words, *limits)[0]['classes'][0]['completion_h'])
            for which in ('mean', 'p99'):
                without, exact = told[0][which], told[1][which]
                self.row(f'{name}: {which} with exact limits', f'{exact:.1f} h', f'without {without:.1f} h',
                         (exact / without, '<= 1', exact <= without))
            if policy == 'las' and not words:
                for which, limit_h in (('mean', LAS_MEAN_H), ('p99', LAS_P99_H)):
                    value = told[0][which]
                    self.row(f'{name}: {which}', f'{value:.1f} h', f'{limit_h} h limit',
                             (value / limit_h, '<= 1', value <= limit_h))

    def million(self):
        """Jobs of nine users that ask for 0.95 of 512 GPUs: most short, some a hundred times as long."""
        chance = random.Random(11)
        file, jobs, at = self.folder / 'million.csv', self.options.jobs, 0.0
        sizes, weights = (1, 2, 4, 8, 16), (80, 8, 6, 5, 1)
        mean_s = sum(s * w for s, w in zip(sizes, weights)) / sum(weights) * 600 * 2.718281828 ** (1.5 ** 2 / 2)
        with open(file, 'w') as out:
            out.write('arrival_s,duration_s,gpus,user\n')
            for _ in range(jobs):
                at += chance.expovariate(0.95 * 512 / mean_s)
                out.write(f'{at:.0f},{max(1, chance.lognormvariate(0, 1.5) * 600):.0f},'
                          f'{chance.choices(sizes, weights)[0]},u{chance.randrange(9)}\n')
        bar = 60 * jobs / 1_000_000
        for policy in POLICIES:
            for limits in ((), ('--limits', 'exact')):
                name = ' '.join((f'{jobs:,} jobs', policy, *limits))
                if not self.wanted(name):
                    continue
                took = self.sim(file, '--policy', policy, *limits)[1]
                self.row(name, f'{took:.1f} CPU s', f'{bar:g} CPU s limit', (took / bar, '<= 1', took <= bar))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('--short', action='store_true', help='few jobs, one seed, without the long trace')
    parser.add_argument('--check', action='store_true', help='exit with 1 when a bar is missed')
    parser.add_argument('--build', type=Path, default=ROOT / 'build-Release')
    parser.add_argument('--traces', type=Path, default=os.environ.get('HARMONICS_TRACES'))
    parser.add_argument('--seeds', type=int, default=10)
    parser.add_argument('--jobs', type=int, default=1_000_000)
    parser.add_argument('--only', default='', help='rows whose name holds this text')
    options = parser.parse_args(arguments)
    if options.short:
        options.seeds, options.jobs = 1, 5000
    return options


def main(arguments):
    options = parse(arguments)
    print('name | ours | reference | ratio | bar')
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        if options.traces is None:
            print('left out: the published traces; --traces or HARMONICS_TRACES names their folder')
        else:
            bench.fragmentation(Path(options.traces))
            if not options.short:
                bench.philly(Path(options.traces))
        bench.million()
    return 1 if options.check and bench.missed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
