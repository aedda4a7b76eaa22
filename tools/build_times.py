#!/usr/bin/env python3
"""Measures what compiling costs, from nothing and without a compiler cache, and writes it to docs/ARCHITECTURE.md.

usage: tools/build_times.py

What `make demo` builds, everything with tests, and one edited file. Half an hour on two idle cores; what it builds
goes to build-Times/ and is removed again.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / 'build-Times'
PAGE = ROOT / 'docs/ARCHITECTURE.md'
EDITED = ROOT / 'src/cluster/why.cc'
MARKS = re.compile(r'(<!-- build times: .*? -->\n).*?(<!-- end of build times -->)', re.DOTALL)


def built(*targets):
    """CPU and wall seconds of building the targets; of everything where there are none."""
    words = ['cmake', '--build', FOLDER, '--parallel', str(os.cpu_count())]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words + (['--target', *targets] if targets else []), check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - started


def measured():
    demo_targets = subprocess.run(['scripts/demo.sh', '--targets'], cwd=ROOT, check=True, capture_output=True,
                                  text=True).stdout.split()
    subprocess.run(['cmake', '--preset', 'release', '-B', FOLDER], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    demo, rest = built(*demo_targets), built()
    EDITED.touch()
    return {'what `make demo` builds': demo,
            'everything, with tests': tuple(map(sum, zip(demo, rest))),
            f'one edited file (`{EDITED.relative_to(ROOT)}`), linked': built('harmonics-cluster')}


def main(arguments):
    if arguments:
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        return 2
    os.environ['CCACHE_DISABLE'] = '1'
    try:
        rows = ''.join(f'| {name} | {cpu:,.0f} | {wall:,.0f} |\n' for name, (cpu, wall) in measured().items())
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    table = f'| from nothing, without a compiler cache | CPU s | s on {os.cpu_count()} cores |\n|---|---|---|\n{rows}'
    PAGE.write_text(MARKS.sub(lambda found: found[1] + table + found[2], PAGE.read_text()))
    print(table, end='')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
