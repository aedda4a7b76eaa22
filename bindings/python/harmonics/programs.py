"""The programs of the command line, which come with this package."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from typing import NoReturn

from . import errors

__all__ = ['program', 'run']

_USAGE = 2
_INTERRUPTED = 130


def program(name: str = 'harmonics') -> pathlib.Path:
    """The path of a program: beside this package in a build folder, where pip puts programs, or on PATH."""
    package = pathlib.Path(__file__).absolute().parent
    for folder in (package.parent.parent, pathlib.Path(sysconfig.get_path('scripts'))):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found is None:
        raise errors.NotFound(f"there is no program '{name}': install harmonics-ml with its programs, or put it on PATH")
    return pathlib.Path(found)


def run(*words: str | os.PathLike[str], timeout: float | None = None) -> str:
    """What a command prints, such as run('graph', 'show', 'digits.harp'); what it refuses is an error with its text."""
    try:
        done = subprocess.run([program(), *words], capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise errors.DeadlineExceeded(f"'harmonics {' '.join(map(str, words))}' took longer than {timeout} s") from None
    if done.returncode != 0:
        refuse(done.returncode, done.stderr)
    return done.stdout


def refuse(code: int, said: str) -> NoReturn:
    """Raises what a program that ended with this code said on its standard error."""
    lines = [line for line in said.strip().splitlines() if not line.startswith("try '")]
    text = '\n'.join(lines[-20:]) or f'the program ended with exit code {code}'
    for name in ('harmonics: ', 'error: '):
        text = text.removeprefix(name)
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    if code == _USAGE:
        raise errors.InvalidArgument(text)
    if code < 0:
        raise errors.Aborted(f'the program was ended by signal {-code}: {text}')
    raise errors.Aborted(text)
