#!/usr/bin/env python3
"""What Python costs: a step and an empty inference beside the native loop, memory over a thousand steps, and a Python
function over unlike devices, beside a pool of Ray's.

usage: bench/python_bench.py [--short] [--ray] [--build FOLDER]

Ray comes from the package index, into a virtual environment in the build folder; a short round leaves it out. Steps are
counted in CPU seconds, in turns with the native loop, so that other work on the machine counts little.
"""

import argparse
import gc
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = 256


def mlp(hm, width, depth, inputs, outputs):
    builder = hm.GraphBuilder('mlp').producer('x', [inputs]).producer('y', [1], 'int64')
    last = 'x'
    for number in range(depth):
        builder.layer(f'h{number}', 'linear', last, 'relu', out=width)
        last = f'h{number}'
    return builder.layer('out', 'linear', last, out=outputs).consumer('scores', 'out').tap('cross_entropy', 'out', 'y').build()


def median(values):
    return sorted(values)[len(values) // 2]


def step_overhead(hm, np, rounds, steps):
    """CPU seconds of a step that Python asks for, one by one and with a callback, beside those of the native loop."""
    random = np.random.default_rng(1)
    data = {'x': random.random((ROWS * steps, 784), np.float32), 'y': random.integers(0, 10, ROWS * steps)}
    runtime, stepped = (hm.Runtime(mlp(hm, 1024, 7, 784, 10), batch_size=ROWS, threads=1, shuffle=False) for _ in range(2))
    runtime.fit(data, epochs=1)
    stepped.bind(data)
    stepped.step()
    ratios = {'step()': [], 'fit with on_step': []}
    native_s = []
    for _ in range(rounds):
        start = time.process_time()
        runtime.fit(epochs=1)
        native = time.process_time() - start
        native_s.append(native / steps)
        start = time.process_time()
        for _ in range(steps):
            stepped.step()
        ratios['step()'].append((time.process_time() - start) / native)
        start = time.process_time()
        runtime.fit(epochs=1, on_step=lambda report: report.loss < 100)
        ratios['fit with on_step'].append((time.process_time() - start) / native)
    for name, found in ratios.items():
        ratio = median(found)
        print(f'{name}, MLP 784-1024x7-10, batch {ROWS} | {1e3 * ratio * median(native_s):.2f} ms | '
              f'{1e3 * median(native_s):.2f} ms | {ratio:.4f} | <= 1.02')


def empty_inference(hm, np, calls):
    """CPU microseconds of an inference that computes nothing."""
    graph = hm.Graph.parse('harmonic echo { producer x {1}; consumer out; layer same identity; '
                           'cycle { x -> same; same -> out; } }')
    runtime = hm.Runtime(graph)
    inputs = {'x': np.zeros((1, 1), np.float32)}
    found = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(calls):
            runtime.infer(inputs)
        found.append((time.process_time() - start) / calls)
    print(f'empty inference | {1e6 * median(found):.1f} us | - | {1e6 * median(found):.1f} us | <= 15 us')


def resident_kib():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def leaks(hm, np, steps):
    """Growth of the process over a thousand steps and inferences, with arrays that are made anew."""
    graph = mlp(hm, 64, 2, 100, 10)
    runtime = hm.Runtime(graph, batch_size=32, threads=1)

    def work(count):
        for _ in range(count):
            data = {'x': np.ones((64, 100), np.float32), 'y': np.zeros(64, np.int64)}
            runtime.fit(data, epochs=1, on_step=lambda report: True)
            runtime.infer({'x': np.ones((64, 100), np.float32)})
        gc.collect()
    work(steps // 5)
    before = resident_kib()
    work(steps)
    grown = resident_kib() - before
    print(f'growth over {2 * steps} steps and {steps} inferences | {grown} KiB | - | {grown / steps:.3f} | <= 1')


FAST, SLOW, LATENCY_S = 4000, 200, 0.001
# Rows of a chunk in Ray's pool: what its issue asks about, and smaller ones.
CHUNKS = (200, 50, 20)
RAY = 'ray==2.49.2'


def rate_of(work, rows):
    """Rows a second of the second run: the first one is for learning the devices."""
    work(rows // 4)
    start = time.monotonic()
    work(rows)
    return rows / (time.monotonic() - start)


def dispatched(hm, rows):
    """Rows a second over devices of 20:1 beside the sum of their rates: for a function whose device takes its time, one
    that computes besides, and one that sleeps itself. The last one's is given back."""
    total = FAST + SLOW
    names = [f'emulated:{FAST},1ms#fast', f'emulated:{SLOW},1ms#slow']
    for name, function in (('that waits', lambda row: row), ('that computes', lambda row: row * 3 + 1)):
        dispatcher = hm.Dispatcher(names)
        rate = rate_of(lambda count: dispatcher.map(function, range(count)), rows)
        print(f'a Python function {name}, devices 20:1 | {rate:.0f} rows/s | {total} rows/s | {rate / total:.3f} | >= 0.95')

    def sleeps(piece, device):
        time.sleep(LATENCY_S + len(piece) / (FAST if device.endswith('fast') else SLOW))
        return piece
    dispatcher = hm.Dispatcher(['emulated:1e12,1us#fast', 'emulated:1e12,1us#slow'])
    rate = rate_of(lambda count: dispatcher.run(sleeps, range(count)), rows)
    print(f'a Python function that sleeps, 20:1 | {rate:.0f} rows/s | {total} rows/s | {rate / total:.3f} | >= 0.95')
    return rate


def ray_interpreter(build):
    """A Python with ray in the build folder, or None where the package index cannot be reached."""
    folder = build / 'venv-ray'
    python = folder / 'bin' / 'python'
    if not python.exists():
        subprocess.run(['/usr/bin/python3', '-m', 'venv', folder], check=True, capture_output=True)
        subprocess.run([python, '-m', 'pip', 'install', '-q', RAY], capture_output=True, timeout=600)
    known = subprocess.run([python, '-c', 'import ray'], capture_output=True, timeout=300).returncode == 0
    return python if known else None


def beside_ray(build, ours, rows):
    """The same devices as actors of one pool in Ray, in chunks of several sizes."""
    python = ray_interpreter(build)
    if python is None:
        print(f'a pool of unlike actors in Ray | left out: {RAY} cannot be fetched | - | - | -')
        return
    for chunk in CHUNKS:
        words = [python, ROOT / 'bench/reference/ray_pool.py', rows, chunk, FAST, SLOW, LATENCY_S]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, RAY_USAGE_STATS_ENABLED='0'))
        if done.returncode != 0:
            sys.exit(f'Ray did not run: {done.stderr[-2000:]}')
        theirs = float(done.stdout.split()[-1])
        print(f"a function that sleeps, 20:1, beside Ray's pool with chunks of {chunk} | {ours:.0f} rows/s | "
              f'{theirs:.0f} rows/s | {ours / theirs:.2f} | >= 1')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--short', action='store_true')
    parser.add_argument('--ray', action='store_true', help='Ray beside it in a short round too')
    parser.add_argument('--build', type=Path, default=ROOT / 'build-Release')
    wishes = parser.parse_args()
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    sys.path.insert(0, str(wishes.build.absolute() / 'python'))
    try:
        import numpy as np

        import harmonics as hm
    except ImportError as missing:
        sys.exit(f'python_bench: {sys.executable}: {missing}: run it with the Python that the package was built with')
    print('name | ours | reference | ratio | bar')
    print('---|---|---|---|---')
    step_overhead(hm, np, 3 if wishes.short else 9, 4 if wishes.short else 8)
    empty_inference(hm, np, 2000 if wishes.short else 20000)
    leaks(hm, np, 200 if wishes.short else 1000)
    rate = dispatched(hm, 8000 if wishes.short else 40000)
    if wishes.ray or not wishes.short:
        beside_ray(wishes.build.absolute(), rate, 8000 if wishes.short else 40000)


if __name__ == '__main__':
    main()
