#!/usr/bin/env python3
"""Writes the types of an extension module of the Python package: tools/python_stub.py [--check] MODULE FILE.

nanobind says what the extension has; what it cannot know, the types inside of dicts and paths, is filled in. With
--check nothing is written, and a file that is not what it should be ends it with 1. PYTHONPATH names the built package
and nanobind.
"""

import argparse
import importlib
import pathlib
import re
import sys

FILLED_IN = [
    (re.compile(r'\bos\.PathLike\b(?!\[)'), 'os.PathLike[str]'),
    (re.compile(r'(?<=[>:] )dict\b(?!\[)'), 'dict[str, Any]'),
    (re.compile(r'(?<=[>:] )list\b(?!\[)'), 'list[Any]'),
    (re.compile(r'(?<=[>:] )tuple\b(?!\[)'), 'tuple[Any, ...]'),
    (re.compile(r'(\*args|\*\*kwargs)(?=[,)])'), r'\1: Any'),
]


def stub_of(module):
    from nanobind.stubgen import StubGen
    made = StubGen(importlib.import_module(module), include_private=True)
    made.put(made.module)
    text = made.get()
    for pattern, filled in FILLED_IN:
        text = pattern.sub(filled, text)
    text = '\n'.join(line.rstrip() for line in text.splitlines())
    if 'Any' in text and 'import Any' not in text:
        text = re.sub(r'^(?=(?:import|from) )', 'from typing import Any\n', text, count=1, flags=re.MULTILINE)
    return text.rstrip() + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--check', action='store_true')
    parser.add_argument('module')
    parser.add_argument('file', type=pathlib.Path)
    wishes = parser.parse_args()
    text = stub_of(wishes.module)
    if not wishes.check:
        wishes.file.write_text(text)
        return 0
    if wishes.file.read_text() == text:
        return 0
    print(f'{wishes.file.name} does not say what {wishes.module} has: run tools/python_stub.py {wishes.module} '
          f'{wishes.file}', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
