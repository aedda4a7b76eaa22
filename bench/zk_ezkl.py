#!/usr/bin/env python3
"""A proof of the digits network (64-256-128-10 in int8) beside EZKL's of a network of the same layers, in one run.

usage: bench/zk_ezkl.py [--short] [--check] [--build FOLDER]

Both hide weights and inputs and show the outputs. CPU seconds of all threads; making keys and commitments to weights is not
counted on either side. Ours is measured before and after EZKL. EZKL (package `ezkl`) comes from the package index; where
that cannot be reached a line says so. --short has EZKL prove a far smaller network, of which the ratio says nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ['ezkl==23.0.5', 'onnx==1.23.2', 'numpy']
BATCH = 16
DIGITS = f'digits 64-256-128-10 in int8, {BATCH} pictures: '


def ours(build):
    """Seconds to prove and to verify and KB of a proof, as custody_zk prints them."""
    text = subprocess.run([build / 'bench/custody_zk', '--short'], capture_output=True, text=True, check=True).stdout
    rows = [line.split(' | ') for line in text.splitlines()]
    of = {row[0]: float(row[1].split()[0]) for row in rows if row[0].startswith(DIGITS)}
    return [of[DIGITS + what] for what in ('prove', 'verify', 'proof')]


def theirs(python, short):
    words = ['--batch', '1', '--widths', '8,16,4'] if short else ['--batch', str(BATCH)]
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([python, ROOT / 'bench/reference/ezkl_peer.py', '--folder', folder, *words],
                                capture_output=True, text=True)
    if result.returncode != 0:
        print('zk_ezkl: SKIPPED: EZKL ended with', (result.stderr or result.stdout).strip().splitlines()[-1:])
        return None
    return json.loads(result.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--short', action='store_true')
    parser.add_argument('--check', action='store_true', help='exit with 1 when a bar is missed')
    parser.add_argument('--build', type=Path, default=ROOT / 'build-Release')
    options = parser.parse_args()
    os.environ['HARMONICS_BINARY_DIR'] = str(options.build)
    sys.path.insert(0, str(ROOT / 'tests'))
    import packages
    python = packages.interpreter('ezkl', PACKAGES, 'ezkl, onnx')
    if python is None:
        print('zk_ezkl: SKIPPED: the package ezkl could not be fetched')
        return 0
    before = ours(options.build)
    peer = theirs(python, options.short)
    if peer is None:
        return 0
    prove, verify, size = [(a + b) / 2 for a, b in zip(before, ours(options.build))]
    print(f'ezkl {peer["version"]}, 2^{peer["logrows"]} rows, keys in {peer["setup"]["cpu"]:.3g} s')
    print('name | ours | reference | ratio | bar')
    ratio = peer['prove']['cpu'] / prove
    bar = '' if options.short else '>= 20'
    print(f'{DIGITS}prove, beside EZKL | {prove:.3g} s | {peer["prove"]["cpu"]:.3g} s | {ratio:.1f} | {bar}')
    print(f'{DIGITS}verify, beside EZKL | {verify:.3g} s | {peer["verify"]["cpu"]:.3g} s | '
          f'{peer["verify"]["cpu"] / verify:.2f} | ')
    print(f'{DIGITS}proof, beside EZKL | {size:.0f} KB | {peer["bytes"] / 1024:.0f} KB | '
          f'{peer["bytes"] / 1024 / size:.2f} | ')
    return 1 if options.check and not options.short and ratio < 20 else 0


if __name__ == '__main__':
    sys.exit(main())
