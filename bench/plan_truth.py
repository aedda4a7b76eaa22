#!/usr/bin/env python3
"""Whether plans come true: the period that was measured beside the one that was planned, for three models on three
machines of unlike speed over three networks.

usage: bench/plan_truth.py [--short] [--check] [--build FOLDER] [--batches N] [--slowdowns A,B,C] [--only TEXT]

The machines are network namespaces of this one with cables of tc rates between them; they pose as slower by
HARMONICS_SLOWDOWN, which waits after computing, so that three of them fit two cores. Each stage has one thread. What
a user does is done: profile the model, plan, run a few batches, let `harmonics profile --from-run` correct the files
(links, cores and what layers take one after another), plan again, run. Rows with a bar are of the second plan; those
without are of the first, which knows the profile and the cables' nominal rates alone.
"""

import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from namespaces.machines import Machines, NotPermitted

ROOT = Path(__file__).resolve().parent.parent
HOSTS = ['fast', 'half', 'quarter']
NETWORKS = [('1 Gbit/s', '1gbit', 1000, 0), ('100 Mbit/s', '100mbit', 100, 0),
            ('50 Mbit/s with 20 ms', '50mbit', 50, 20)]
TOLERANCE = 0.1
FIRST_BATCHES = 8
TIMEOUT_S = 900
PORT = 9300
LIBTORCH_THREADS = {'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1'}


def transformer(blocks, width, length):
    """The text of a transformer whose units are its blocks."""
    layers, links, last = [], [], 'embed'
    for i in range(blocks):
        b = f'b{i}'
        first = f'    layer embed embedding(rows=1024, width={width});\n' if i == 0 else ''
        head = '    layer head linear(1024);\n' if i + 1 == blocks else ''
        layers.append(f'  group {b} {{\n{first}    layer {b}.n1 layer_norm;\n    layer {b}.attn attention(heads=8);\n'
                      f'    layer {b}.s1 add;\n    layer {b}.n2 layer_norm;\n    layer {b}.up linear({4 * width});\n'
                      f'    layer {b}.down linear({width});\n    layer {b}.s2 add;\n{head}  }}\n')
        links.append(f'    {last} -> {b}.n1 -> {b}.attn;\n    {last}, {b}.attn -> {b}.s1 -> {b}.n2 -(gelu)-> {b}.up'
                     f' -> {b}.down;\n    {b}.s1, {b}.down -> {b}.s2;\n')
        last = f'{b}.s2'
    return (f'harmonic transformer {{\n  producer tokens {{{length}}} int64;\n  consumer prediction;\n'
            + ''.join(layers) + '  cycle {\n    tokens -> embed;\n' + ''.join(links)
            + f'    {last} -> head -> prediction;\n  }}\n}}\n')


def slower_types(types, slowdowns, mbps):
    """The text of device_types.yml with a type for each of HOSTS, so many times as slow as `types`' only one, "fast"."""
    def slower(name, factor):
        scaled = re.sub(r'time_s: \[([^\]]*)\]', lambda found: 'time_s: [' + ', '.join(
            repr(float(number) * factor) for number in found.group(1).split(',')) + ']', types)
        return re.sub(r'(?m)^fast:\n  bw_Mbps: .*$', f'{name}:\n  bw_Mbps: {mbps}', scaled)
    return ''.join(slower(name, factor) for name, factor in zip(HOSTS, slowdowns))


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, Path(folder)
        self.program = options.build / 'harmonics'
        self.missed = []

    def done(self, *words, codes=(0,), **environment):
        result = subprocess.run([self.program, *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                                timeout=TIMEOUT_S, check=False,
                                env={**os.environ, **LIBTORCH_THREADS, **environment})
        if result.returncode not in codes:
            raise RuntimeError(f"harmonics {' '.join(map(str, words))}: {result.stderr.strip()}")
        return result.stdout

    def make_model(self, name, text):
        """Writes the graph and weights for it: zeros take as long as any others."""
        self.model = self.folder / f'{name}.harp'
        if text is None:
            self.done('graph', 'zoo', name, '--out', self.model)
        else:
            self.model.write_text(text)
        shown = json.loads(self.done('graph', 'show', self.model, '--output', 'json'))
        tensors = {tensor['name']: tensor for layer in shown['layers'] for tensor in layer['tensors']}
        header, at = {}, 0
        for key, tensor in tensors.items():
            size = 4
            for extent in tensor['shape']:
                size *= extent
            header[key] = {'dtype': 'F32', 'shape': tensor['shape'], 'data_offsets': [at, at + size]}
            at += size
        encoded = json.dumps(header).encode()
        encoded += b' ' * (-len(encoded) % 8)
        with open(self.folder / 'weights.safetensors', 'wb') as file:
            file.write(struct.pack('<Q', len(encoded)) + encoded)
            file.truncate(8 + len(encoded) + at)
        self.source = next(one for one in shown['producers'] if one['name'] not in ('label', 'targets'))

    def profile(self, batch_size):
        """Measures the model once; the slower machines take so many times as long."""
        for file in ('models.yml', 'device_types.yml', 'links.yml'):
            (self.folder / file).unlink(missing_ok=True)
        self.done('profile', self.model, '--batch-size', batch_size, '--threads', 1, '--type', 'fast', '--bw-mbps', 1,
                  '--mem-mb', 100000, '--repeats', 1 if self.options.short else 7, '--output', 'quiet')
        self.types = (self.folder / 'device_types.yml').read_text()
        self.batch_size = batch_size

    def write_types(self, mbps):
        (self.folder / 'device_types.yml').write_text(slower_types(self.types, self.options.slowdowns, mbps))
        (self.folder / 'devices.yml').write_text(''.join(f'{name}: [{name}]\n' for name in HOSTS))

    def plan(self, number, links):
        words = ['plan', self.model, '--batch-size', self.batch_size, '--output', 'json']
        if links:
            words += ['--links-file', 'links.yml']
        (self.folder / f'plan{number}.json').write_text(self.done(*words))
        return json.loads((self.folder / f'plan{number}.json').read_text())

    def run(self, machines, number, batches):
        """Runs a plan, a stage on each of its machines; the files of their reports."""
        plan = json.loads((self.folder / f'plan{number}.json').read_text())
        (self.folder / 'hosts.yml').write_text(''.join(
            f'{name}: {address}:{PORT + number}\n' for name, address in zip(HOSTS, machines.addresses)))
        secret = self.folder / 'secret'
        secret.write_text('a secret of this bench alone\n')
        secret.chmod(0o600)
        kind = 'kind=integers&below=1000' if self.source['dtype'] == 'int64' else 'kind=normal'
        shape = 'x'.join(map(str, self.source['shape']))
        started = []
        try:
            for part, stage in enumerate(plan['stages']):
                machine = HOSTS.index(stage['hosts'][0])
                words = [self.program, 'stage', self.model, '--infer', '--plan', f'plan{number}.json', '--hosts',
                         'hosts.yml', '--part', part, '--weights', 'weights.safetensors', '--threads', 1,
                         '--token-file', 'secret', '--output', 'json', '--restarts', 0, '--bind',
                         f"{self.source['name']}=synthetic:?size={batches * self.batch_size}&shape={shape}&{kind}"]
                started.append(subprocess.Popen(
                    machines.inside(machine) + list(map(str, words)), cwd=self.folder, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env={**os.environ, **LIBTORCH_THREADS,
                         'HARMONICS_SLOWDOWN': str(self.options.slowdowns[machine])}))
            reports = []
            for part, process in enumerate(started):
                output, error = process.communicate(timeout=TIMEOUT_S)
                if process.returncode != 0:
                    raise RuntimeError(f'part {part}: {error.strip()}')
                reports.append(f'run{number}.{part}.json')
                (self.folder / reports[-1]).write_text(output)
            return reports
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
                    process.communicate()

    def check(self, reports):
        words = [word for report in reports for word in ('--check', report)]
        return json.loads(self.done('plan', *words, '--tolerance', TOLERANCE, '--output', 'json', codes=(0, 4)))

    def row(self, name, checked, bar):
        apart = abs(checked['error'])
        print(f"{name} | {1e3 * checked['measured_period_s']:.1f} ms | planned "
              f"{1e3 * checked['planned_period_s']:.1f} ms | {apart:.3f} apart | {bar}", flush=True)
        for finding in checked['findings']:
            print(f"  {finding['fault']}: {finding['what']}", flush=True)
        if bar and apart > TOLERANCE:
            self.missed.append(name)

    def case(self, title, network):
        name, rate, mbps, delay_ms = network
        batches = self.options.batches
        with Machines(len(HOSTS), rate, delay_ms) as machines:
            (self.folder / 'links.yml').unlink(missing_ok=True)
            self.write_types(mbps * 1e6 / 2**20)
            self.plan(0, links=False)
            first = self.run(machines, 0, min(FIRST_BATCHES, batches))
            self.row(f'{title}, {name}, from the profile alone', self.check(first), '')
            self.done('profile', *[word for report in first for word in ('--from-run', report)], '--output', 'quiet')
            # A plan of one machine has measured no link.
            self.plan(1, links=(self.folder / 'links.yml').exists())
            bar = '' if self.options.short else f'<= {TOLERANCE}'
            self.row(f'{title}, {name}', self.check(self.run(machines, 1, batches)), bar)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('--short', action='store_true', help='one small case, without bars')
    parser.add_argument('--check', action='store_true', help='exit with 1 when a bar is missed')
    parser.add_argument('--build', type=Path, default=ROOT / 'build-Release')
    parser.add_argument('--batches', type=int, default=24)
    parser.add_argument('--slowdowns', type=lambda text: list(map(float, text.split(','))), default=[1.0, 2.0, 4.0])
    parser.add_argument('--only', default='', help='cases whose title holds this text')
    options = parser.parse_args(arguments)
    options.build = options.build.resolve()
    if options.short:
        options.batches = min(options.batches, 6)
    return options


def main(arguments):
    options = parse(arguments)
    models = [('ViT-Base', 'vit-base', None, 2), ('ResNet-50', 'resnet50', None, 4),
              ('transformer of 12 blocks', 'transformer', transformer(12, 512, 128), 2)]
    networks = NETWORKS
    if options.short:
        models = [('small transformer', 'transformer', transformer(4, 64, 32), 2)]
        networks = [NETWORKS[1]]
    print('name | ours | reference | ratio | bar')
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        try:
            for title, name, text, batch_size in models:
                chosen = [network for network in networks if options.only in f'{title}, {network[0]}']
                if not chosen:
                    continue
                bench.make_model(name, text)
                bench.profile(batch_size)
                for network in chosen:
                    bench.case(title, network)
        except NotPermitted as reason:
            print(f'left out: {reason}')
    return 1 if options.check and bench.missed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
