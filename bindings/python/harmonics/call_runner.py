"""Runs a pickled call on a worker: it travels with the task and needs no more than Python and cloudpickle there.

usage: call_runner.py MAJOR.MINOR      (the version of Python that pickled the call)
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback

CALLS, OUTCOME = 'calls.pickle', 'outcome.pickle'


def call() -> object:
    """What the call of this task gives."""
    here = '%d.%d' % sys.version_info[:2]
    if here != sys.argv[1]:
        raise RuntimeError(f'the call was pickled by Python {sys.argv[1]} and {sys.executable} is Python {here}: name '
                           'one of the same version with python=')
    try:
        importlib.import_module('cloudpickle')  # by which the function was pickled
    except ModuleNotFoundError:
        raise RuntimeError(f'{sys.executable} has no cloudpickle: install it there, or name another Python with '
                           'python=') from None
    with open(CALLS, 'rb') as file:
        function, calls = pickle.load(file)
    arguments = pickle.loads(calls[int(os.environ.get('HARMONICS_ARRAY_INDEX', '0'))])
    return pickle.loads(function)(*arguments)


def pickled(value: object) -> bytes:
    """By cloudpickle where it is there."""
    try:
        return bytes(importlib.import_module('cloudpickle').dumps(value))
    except ModuleNotFoundError:
        return pickle.dumps(value)


def outcome() -> tuple[str, bytes | None, str]:
    """('value', what the call gave, ''), or ('error', what it raised, the traceback); both pickled."""
    try:
        return 'value', pickled(call()), ''
    except BaseException as error:
        said = traceback.format_exc()
        try:
            return 'error', pickled(error), said
        except Exception:
            return 'error', None, said


def main() -> None:
    """Leaves the outcome as an artifact; a call that raised ends with what it said and exit code 1."""
    kind, data, said = outcome()
    with open(OUTCOME + '.part', 'wb') as file:
        pickle.dump((kind, data, said), file)
    os.replace(OUTCOME + '.part', OUTCOME)
    if kind == 'error':
        sys.exit(said)


if __name__ == '__main__':
    main()
