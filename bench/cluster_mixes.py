#!/usr/bin/env python3
"""Mixes of tasks with shares of devices and variants beside HyperQueue: how long all of a mix take, with one server and
one worker on this machine, and whether a device is ever given out to more than the whole.

usage: bench/cluster_mixes.py [--short] [--check] [--build FOLDER] [--mixes N] [--seed N]

A task holds a quarter, half, one, two or three of 16 devices and sleeps; some run as well on fewer devices for longer.
HyperQueue's package offers no devices but cores, so its cores stand for them: they have shares and variants too. The
same mixes go to both, in turns; each task notes its begin and its end in a file, from which the devices are reckoned up,
and whose last line is the end of the mix: HyperQueue's client looks but once a second.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster_client import ROOT, TIMEOUT_S, Cluster

PEER = ROOT / 'bench/reference/hyperqueue_mixes.py'
DEVICES = 16
# Devices, those of the variant (0: none) and how many times as long it takes there; and how often such a task is drawn.
KINDS = [((0.25, 0, 1), 20), ((0.5, 0, 1), 15), ((1, 0, 1), 25), ((2, 0, 1), 12), ((3, 0, 1), 5), ((1, 0.5, 1.8), 12),
         ((2, 1, 1.7), 11)]
SECONDS = (0.05, 0.45)


def mix(seed, count):
    """The tasks of a mix: devices, devices of the variant, and the seconds that it sleeps with either."""
    drawn = random.Random(seed)
    tasks = []
    for devices, variant, longer in drawn.choices([kind for kind, _ in KINDS], [often for _, often in KINDS], k=count):
        seconds = drawn.uniform(*SECONDS)
        tasks.append({'devices': devices, 'variant': variant, 'seconds': round(seconds, 3),
                      'variant_seconds': round(seconds * longer, 3)})
    return tasks


def script(task, number, log, on_variant):
    """What the task does: `on_variant` is a test of the shell that says whether it has the variant's devices."""
    sleep = f"sleep {task['seconds']}"
    if task['variant']:
        sleep = f"if {on_variant}; then sleep {task['variant_seconds']}; else {sleep}; fi"
    return f'echo "B {number} $CUDA_VISIBLE_DEVICES $HARMONICS_GPU_SHARE" >> {log}; {sleep}; echo "E {number}" >> {log}'


def ours(cluster, tasks, log):
    few = '[ -n "$HARMONICS_GPU_SHARE" ]', 'case $CUDA_VISIBLE_DEVICES in *,*) false;; esac'
    given = cluster.folder / 'mix.json'
    given.write_text(json.dumps({'defaults': {'min_gpu_memory': 1}, 'tasks': [
        {'name': f't{number}', 'required_gpus': task['devices'],
         'command': script(task, number, log, few[task['devices'] > 1]),
         'variants': [{'required_gpus': task['variant']}] if task['variant'] else []}
        for number, task in enumerate(tasks)]}))
    begin = time.time()
    result = subprocess.run([cluster.program, 'submit', '--scheduler', cluster.scheduler, '--dag', given, '--wait', '--output',
                             'quiet'], capture_output=True, text=True, timeout=TIMEOUT_S)
    if result.returncode:
        sys.exit(f'not all tasks succeeded: {result.stderr[-2000:]}')
    return log.stat().st_mtime - begin


def theirs(python, tasks, folder, log):
    given = Path(folder) / 'mix.json'
    given.write_text(json.dumps([{**task, 'script': script(task, number, log, '[ "$HQ_RESOURCE_VARIANT" = 1 ]')}
                                 for number, task in enumerate(tasks)]))
    result = subprocess.run([python, PEER, given, str(DEVICES)], capture_output=True, text=True, timeout=TIMEOUT_S)
    for line in result.stdout.splitlines():
        if line.startswith('begin '):
            return log.stat().st_mtime - float(line.split()[1])
    sys.exit(f'the reference failed: {result.stderr[-2000:]}')


def most_of_a_device(log):
    """The most of any device that tasks held at the same time, by their own notes."""
    held, of, most = [0.0] * DEVICES, {}, 0.0
    for line in log.read_text().splitlines():
        word, number, *rest = line.split()
        if word == 'E':
            for device, share in of.pop(number):
                held[device] -= share
            continue
        share = float(rest[1]) if len(rest) > 1 else 1.0
        of[number] = [(int(device), share) for device in rest[0].split(',')]
        for device, share in of[number]:
            held[device] += share
            most = max(most, held[device])
    return most


def compare(cluster, python, tasks, folder):
    log = Path(folder) / 'ours.log'
    log.unlink(missing_ok=True)
    own = ours(cluster, tasks, log)
    peer_log = Path(folder) / 'theirs.log'
    peer_log.unlink(missing_ok=True)
    other = None if python is None else theirs(python, tasks, folder, peer_log)
    return own, other, most_of_a_device(log)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('--short', action='store_true', help='one mix of few tasks, without bars')
    parser.add_argument('--check', action='store_true', help='exit with 1 when a bar is missed')
    parser.add_argument('--build', type=Path, default=ROOT / 'build-Release')
    parser.add_argument('--mixes', type=int, default=20)
    parser.add_argument('--seed', type=int, default=1, help='the first of so many mixes')
    options = parser.parse_args(arguments)
    options.build = options.build.resolve()
    os.environ['HARMONICS_BINARY_DIR'] = str(options.build)
    sys.path.insert(0, str(ROOT / 'tests'))
    import packages

    python = packages.interpreter('hyperqueue', ['hyperqueue==0.27.0'], 'hyperqueue')
    mixes, count = (1, 60) if options.short else (options.mixes, 1000)
    numbers = ','.join(map(str, range(DEVICES)))
    worker = ['--cpus', '64', '--gpus', numbers, '--models', ','.join(['T4'] * DEVICES), '--memories',
              ','.join(['1024'] * DEVICES)]
    print('name | ours | reference | ratio | bar')
    ratios, most = [], 0.0
    with tempfile.TemporaryDirectory() as folder, Cluster(options.build, folder, worker) as cluster:
        for seed in range(options.seed, options.seed + mixes):
            own, other, held = compare(cluster, python, mix(seed, count), folder)
            most = max(most, held)
            if other is not None:
                ratios.append(own / other)
            print(f'# mix {seed}: {own:.2f} s' + ('' if other is None else f', HyperQueue {other:.2f} s'), flush=True)
    worst = max(ratios, default=None)
    if worst is not None:
        print(f'{mixes} mixes of {count} tasks, time to their end (mean {statistics.mean(ratios):.3f}) | the longest '
              f"| HyperQueue's | {worst:.3f} | {'-' if options.short else '<= 1.02'}")
    print(f'the most of a device that was given out | {most:g} | 1 | {most:.3f} | <= 1')
    missed = most > 1 or (worst is not None and not options.short and worst > 1.02)
    return 1 if options.check and missed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
