#!/usr/bin/env python3
"""The Python client beside HyperQueue's: `true` tasks from the first submit to the end of the last one, as one array and
each submitted alone, with one server and one worker on this machine.

usage: bench/cluster_client.py [--short] [--check] [--build FOLDER] [--rounds N]

HyperQueue's server and worker are threads of the client's process and keep nothing on disk; ours are processes of their
own, and a submit is on disk when it returns. The rounds of both take turns, so that a busy machine is busy for both.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / 'bench/reference/hyperqueue_peer.py'
SLOTS = 8
TIMEOUT_S = 600


class Cluster:
    """A server and a worker of ours in a scratch folder."""

    def __init__(self, build, folder, worker):
        self.program, self.folder, self.worker = build / 'harmonics', Path(folder), worker
        os.environ.update(XDG_STATE_HOME=folder, XDG_CONFIG_HOME=f'{folder}/config')
        for name in ('HARMONICS_SCHEDULER', 'HARMONICS_TLS', 'HARMONICS_TOKEN_FILE'):
            os.environ.pop(name, None)
        self.processes = []

    def __enter__(self):
        server = self.start('server', '--port', '0')
        end = time.monotonic() + TIMEOUT_S
        while (found := re.search(r'listening on \S+?:(\d+),', server.read_text())) is None:
            if time.monotonic() > end or self.processes[0].poll() is not None:
                sys.exit(f'the server did not start: {server.read_text()}')
            time.sleep(0.01)
        self.scheduler = f'localhost:{found.group(1)}'
        self.start('worker', '--scheduler', self.scheduler, *self.worker)
        return self

    def start(self, *words):
        log = self.folder / f'{words[0]}.log'
        with open(log, 'w') as file:
            self.processes.append(subprocess.Popen([self.program, *words], stdout=file, stderr=file))
        return log

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(TIMEOUT_S)


def ours(client, kind, count):
    begin = time.monotonic()
    if kind == 'array':
        submitted = client.submit('true', gpus=0, array=count)
    else:
        submitted = [client.submit('true', gpus=0) for _ in range(count)]
    ends = client.wait(submitted)
    if ends.succeeded != count:
        sys.exit(f'not all of {count} tasks succeeded: {ends}')
    return count / (time.monotonic() - begin)


def theirs(python, kind, count):
    result = subprocess.run([python, PEER, kind, str(count), str(SLOTS)], capture_output=True, text=True,
                            timeout=TIMEOUT_S)
    found = re.search(r'^seconds (\S+)$', result.stdout, re.MULTILINE)
    if found is None:
        sys.exit(f'the reference failed: {result.stderr[-2000:]}')
    return count / float(found.group(1))


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument('--short', action='store_true', help='few tasks, without bars')
    parser.add_argument('--check', action='store_true', help='exit with 1 when a bar is missed')
    parser.add_argument('--build', type=Path, default=ROOT / 'build-Release')
    parser.add_argument('--rounds', type=int, default=3)
    options = parser.parse_args(arguments)
    options.build = options.build.resolve()
    os.environ['HARMONICS_BINARY_DIR'] = str(options.build)
    sys.path[:0] = [str(ROOT / 'tests'), str(options.build / 'python')]
    import packages
    from harmonics.client import Client

    python = packages.interpreter('hyperqueue', ['hyperqueue==0.27.0'], 'hyperqueue')
    counts = {'array': 300, 'singles': 100} if options.short else {'array': 10_000, 'singles': 2_000}
    titles = {'array': 'tasks of one array', 'singles': 'tasks submitted one by one'}
    print('name | ours | reference | ratio | bar')
    missed = False
    with tempfile.TemporaryDirectory() as folder, Cluster(options.build, folder, ['--cpus', str(SLOTS)]) as cluster:
        client = Client(cluster.scheduler)
        ours(client, 'singles', 1)
        for kind, count in counts.items():
            rates = {'ours': [], 'theirs': []}
            for _ in range(1 if options.short else options.rounds):
                rates['ours'].append(ours(client, kind, count))
                if python is not None:
                    rates['theirs'].append(theirs(python, kind, count))
            one = statistics.median(rates['ours'])
            other = statistics.median(rates['theirs']) if rates['theirs'] else None
            ratio = None if other is None else one / other
            missed |= ratio is not None and ratio < 1
            print(f'{count} {titles[kind]} | {one:.0f}/s | ' + (
                '- | - | -' if ratio is None else f'HyperQueue {other:.0f}/s | {ratio:.2f} | '
                + ('-' if options.short else '>= 1')), flush=True)
    return 1 if options.check and missed and not options.short else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
