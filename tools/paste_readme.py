#!/usr/bin/env python3
"""Pastes README block by block into shells of a fresh account, as a newcomer would, and stops at what fails.

usage: tools/paste_readme.py FOLDER [--no-tests]     (a checkout; scripts/bare-root.sh calls it inside a bare root)

Every block of commands is one paste: all its lines go to a shell at once, with the variables that earlier blocks
exported. What a block leaves running (a server, a worker) goes on until the end and is ended then, by group.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = re.compile(r'^```(\w*)\n(.*?)^```', re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r'^\$ +', re.MULTILINE)
PASTE_S = 5400
# The one command of README that ends only when it is told to.
ENDLESS = re.compile(r'^harmonics monitor$', re.MULTILINE)
# The one that --no-tests leaves out.
TESTS = re.compile(r'^make test\b.*\n', re.MULTILINE)


def pastes(text):
    """What a reader would paste: blocks of a shell, and the lines with a prompt of the others."""
    for kind, body in BLOCK.findall(text):
        if kind == 'sh':
            yield body
        elif kind == '' and PROMPT.search(body):
            yield ''.join(PROMPT.sub('', line) + '\n' for line in body.splitlines() if PROMPT.match(line))


def cpu_seconds():
    """Of all that was started and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Account:
    """A home of its own, an environment with nothing in it, and the folder that README speaks of."""

    def __init__(self, folder, home):
        self.folder = folder
        self.home = Path(home)
        self.variables = self.home / '.exported'
        self.variables.write_text('')
        self.groups = []

    def paste(self, block):
        """The exit code of a block, and what it printed, which also goes to standard output."""
        text = ENDLESS.sub('timeout --signal=INT 5 harmonics monitor', block)
        script = f'set -e\n. {self.variables}\n{text}\nexport -p >{self.variables}\n'
        out = self.home / 'pasted.log'
        with out.open('w') as log:
            shell = subprocess.Popen(
                ['bash', '-c', script], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, env={'HOME': str(self.home), 'PATH': '/usr/bin:/bin:/usr/sbin:/sbin',
                                             'TERM': 'dumb', 'LANG': 'C.UTF-8', 'USER': 'newcomer',
                                             **{name: value for name, value in os.environ.items()
                                                if name == 'CCACHE_DIR'}})
            self.groups.append(shell.pid)
            code = shell.wait(timeout=PASTE_S)
        return code, out.read_text(errors='replace')

    def leave(self):
        """Ends what the blocks left running."""
        for group in self.groups:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(group, number)
                except ProcessLookupError:
                    break


def main(arguments):
    without_tests = '--no-tests' in arguments
    arguments = [word for word in arguments if word != '--no-tests']
    if len(arguments) != 1 or not (Path(arguments[0]) / 'README.md').is_file():
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        return 2
    folder = Path(arguments[0]).resolve()
    done = 0
    with tempfile.TemporaryDirectory(prefix='newcomer-') as home:
        account = Account(folder, home)
        try:
            for block in pastes((folder / 'README.md').read_text()):
                block = TESTS.sub('', block) if without_tests else block
                print(f'=== pasted:\n{block.rstrip()}', flush=True)
                started, cpu = time.monotonic(), cpu_seconds()
                code, printed = account.paste(block)
                print('\n'.join(printed.splitlines()[-12:]))
                print(f'=== {time.monotonic() - started:.0f} s, {cpu_seconds() - cpu:.0f} s of CPU', flush=True)
                if code != 0 or re.search(r'^(harmonics|bash): ', printed, re.MULTILINE):
                    print(f'=== this block failed, with exit code {code}', file=sys.stderr)
                    return 1
                done += 1
        finally:
            account.leave()
    print(f'=== {done} blocks of README work in a fresh account')
    return 0 if done else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
