#!/usr/bin/env python3
"""Prints the C++ sources that clang-tidy can read, one per line.

usage: tools/lint_files.py [PATTERN …]     (regular expressions; default: every source)

clang 19 cannot compile the headers of libtorch 1.13 as C++20 (std::vector of an incomplete type), so
files that reach them are left out, with a line on standard error that says how many.
"""

import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def find(path, bracket, name):
    """The file of the repository that an include names, or None."""
    if bracket == '"':
        module = ROOT.joinpath(*path.relative_to(ROOT).parts[:2])  # of a room
        return next((folder / name for folder in (path.parent, module) if (folder / name).is_file()), None)
    return next(iter(ROOT.glob(f'src/*/include/{name}')), None)


@lru_cache(maxsize=None)
def reaches_torch(path):
    for bracket, name in INCLUDE.findall(path.read_text()):
        if re.match(r'(torch|ATen|c10)/', name):
            return True
        target = find(path, bracket, name)
        if target is not None and reaches_torch(target):
            return True
    return False


def main(patterns):
    listed = subprocess.run(['git', 'ls-files', 'src', 'apps', 'bench', 'examples'], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split()
    # A fuzzer is compiled into its test; the consumer is a project of its own.
    sources = [name for name in listed if name.endswith('.cc')
               and not name.startswith('examples/consumer/')
               and any(re.search(pattern, name) for pattern in patterns or ['.'])
               and (ROOT / name).is_file()]
    readable = [name for name in sources if not reaches_torch(ROOT / name)]
    print('\n'.join(readable))
    print(f'lint: {len(readable)} files; {len(sources) - len(readable)} that include libtorch are '
          'left out', file=sys.stderr)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
