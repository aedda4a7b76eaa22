#!/usr/bin/env python3
"""Runs every benchmark of a build and writes what they print into bench/RESULTS.md.

usage: tools/bench.py BUILD_FOLDER [--also PROGRAM …] [--short] [--output FILE]

A benchmark prints rows "name | ours | reference | ratio | bar". The bar is ">= x" or "<= x" and is
about the ratio. Exits with 1 when a benchmark fails to run or misses its bar.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r'^\|?\s*([^|]+?)\s*\|\s*([^|]+?)\s*\|\s*([^|]+?)\s*\|\s*([^|]+?)\s*\|\s*([^|]*?)\s*\|?\s*$')


def parse_rows(output):
    """(rows, other lines) of what a benchmark printed; heads and rules of tables are left out."""
    rows, rest = [], []
    for line in output.splitlines():
        match = ROW.match(line)
        if not match:
            rest.append(line)
        elif match.group(1) != 'name' and not set(match.group(1)) <= set('-: '):
            rows.append(match.groups())
    return rows, rest


def verdict(ratio, bar):
    """'met' or 'missed', or '' for a row without a bar."""
    wanted = re.fullmatch(r'(>=|<=)\s*([\d.]+).*', bar)
    measured = re.search(r'\d[\d.]*', ratio)
    if not wanted or not measured:
        return ''
    value, limit = float(measured.group(0)), float(wanted.group(2))
    met = value >= limit if wanted.group(1) == '>=' else value <= limit
    return 'met' if met else 'missed'


def first_match(path, pattern, fallback):
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1) if found else fallback


def machine():
    cpu = first_match('/proc/cpuinfo', r'^model name\s*:\s*(.+)$', platform.machine())
    memory = int(first_match('/proc/meminfo', r'^MemTotal:\s*(\d+) kB', '0')) / 2**20
    system = first_match('/etc/os-release', r'^PRETTY_NAME="(.+)"$', platform.system())
    return f'{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}'


def commit():
    def git(*arguments):
        return subprocess.run(['git', *arguments], cwd=ROOT, capture_output=True, text=True,
                              check=False).stdout.strip()
    changed = ' with local changes' if git('status', '--porcelain', '-uno') else ''
    return (git('rev-parse', '--short=12', 'HEAD') or 'unknown') + changed


def run(program, short):
    print(f'bench: {program.name}', flush=True)
    done = subprocess.run([str(program)] + (['--short'] if short else []), text=True,
                          stdout=subprocess.PIPE, check=False)
    print(done.stdout, flush=True)
    return done.returncode, done.stdout


def report(results, short):
    """The text of RESULTS.md."""
    lines = ['# Results', '',
             'Written by `make bench`. A figure is a ratio to a reference that ran in the same process '
             'or interleaved with it; the bar is about the ratio. Recorded elsewhere: '
             '[an H200](results/h200.md), [clusters](results/cluster.md), [Python](results/python.md), '
             '[language models](results/text.md), [CPUs with AVX-512](results/cpu.md), [training by plans](results/training.md).', '',
             f'- commit: {commit()}', f'- machine: {machine()}',
             f'- date: {datetime.now(timezone.utc):%Y-%m-%d}']
    if short:
        lines.append('- one short round each: the figures are rough')
    for name, code, output in results:
        rows, rest = parse_rows(output)
        lines += ['', f'## {name}', '']
        if code != 0:
            lines += [f'failed with exit code {code}', '']
        if rows:
            lines += ['| name | ours | reference | ratio | bar | |', '|---|---|---|---|---|---|']
            lines += ['| ' + ' | '.join((*row, verdict(row[3], row[4]))) + ' |' for row in rows]
        notes = [line for line in rest if line.strip()]
        lines += ['', *(f'    {line}' for line in notes)] if notes else []
    return '\n'.join(lines) + '\n'


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build', type=Path)
    parser.add_argument('--short', action='store_true', help='one short round of each')
    parser.add_argument('--output', type=Path, default=ROOT / 'bench/RESULTS.md')
    parser.add_argument('--also', type=Path, nargs='*', default=[], metavar='PROGRAM',
                        help='benchmarks outside the build folder')
    options = parser.parse_args(arguments)
    programs = sorted(path for path in (options.build / 'bench').glob('*')
                      if path.is_file() and os.access(path, os.X_OK))
    if not programs:
        print(f'bench: no programs in {options.build}/bench: run `make all` first', file=sys.stderr)
        return 1
    programs += [program.resolve() for program in options.also]
    results = [(program.name, *run(program, options.short)) for program in programs]
    options.output.write_text(report(results, options.short))
    print(f'bench: wrote {options.output}')
    missed = [row[0] for _, _, output in results for row in parse_rows(output)[0]
              if verdict(row[3], row[4]) == 'missed']
    if missed:
        print(f"bench: below the bar: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed or any(code for _, code, _ in results) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
