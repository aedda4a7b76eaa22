"""Python functions as tasks: how a call is packed, and how its outcome comes back."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import pickle
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from . import call_runner
from .errors import Error, ResourceExhausted
from .task_views import Task

__all__ = ['TaskFailed']

# What goes with one task (docs/formats/task-json.md), less what names and the runner take.
_MAX_CALL_BYTES = (512 << 10) - (16 << 10)
# Of an array, whose files go to a worker once for each of its tasks.
_ARRAY_CALL_BYTES = 32 << 10
_MAX_SOURCE_CHARACTERS = 16 << 10
_RUNNER = 'call_runner.py'

File = tuple[str, bytes, bool]


class TaskFailed(Error):
    """The task did not succeed, and left no exception of its own that could be raised again."""

    code = 'aborted'

    def __init__(self, task: Task, said: str = ''):
        """Made by `SubmittedCall.result`."""
        end = f' ({task.end})' if task.end is not None else ''
        super().__init__(f'task {task.id} {task.state}{end}{said and ": "}{said}')
        self.task = task
        """The task as it ended."""


class RemoteTraceback(Exception):
    """Where on the worker an exception was raised: the cause of the one that is raised here."""

    def __str__(self) -> str:
        return f'\n{self.args[0]}'


def source_of(function: Callable[..., object]) -> str:
    """The source of a function, for people; its name where there is none."""
    inner = inspect.unwrap(function)
    while hasattr(inner, 'func'):
        inner = inner.func
    try:
        text = textwrap.dedent(inspect.getsource(inner))
    except (OSError, TypeError):
        text = repr(function)
    return text if len(text) <= _MAX_SOURCE_CHARACTERS else text[:_MAX_SOURCE_CHARACTERS] + '\n…'


def name_of(function: Callable[..., object]) -> str:
    """What to call a task that calls it."""
    inner = inspect.unwrap(function)
    while hasattr(inner, 'func'):
        inner = inner.func
    return str(getattr(inner, '__name__', type(inner).__name__))


def command_of(python: str | None) -> list[str]:
    """What a worker runs for a call."""
    return [python or sys.executable, _RUNNER, '%d.%d' % sys.version_info[:2]]


def _cloudpickle() -> Any:
    try:
        return importlib.import_module('cloudpickle')
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a Python function is pickled by cloudpickle: 'pip install cloudpickle', here and "
                                  'where the workers run') from None


def pack(function: Callable[..., object], calls: Iterable[Sequence[object]]) -> Iterator[tuple[list[File], int]]:
    """The files of tasks, and how many calls each of them holds: one array after another."""
    cloudpickle = _cloudpickle()
    code: bytes = cloudpickle.dumps(function)
    runner = pathlib.Path(call_runner.__file__).read_bytes()
    limit = max(_ARRAY_CALL_BYTES, len(code) + (4 << 10))
    held: list[bytes] = []
    size = len(code)
    for arguments in calls:
        data: bytes = cloudpickle.dumps(tuple(arguments))
        if len(code) + len(data) > _MAX_CALL_BYTES:
            raise ResourceExhausted(
                f'the function and its arguments are {len(code) + len(data)} bytes when they are pickled, and at most '
                f'{_MAX_CALL_BYTES} go with a task: put large data where the workers can read it, and pass its path')
        if held and size + len(data) > limit:
            yield _files(runner, code, held), len(held)
            held, size = [], len(code)
        held.append(data)
        size += len(data) + 16
    if held:
        yield _files(runner, code, held), len(held)


def _files(runner: bytes, code: bytes, calls: list[bytes]) -> list[File]:
    return [(_RUNNER, runner, False), (call_runner.CALLS, pickle.dumps((code, calls)), False)]


def value_of(outcome: bytes, task: Callable[[], Task]) -> Any:
    """What the call gave; or raises what it raised, whose cause says where."""
    kind, data, said = pickle.loads(outcome)
    if kind == 'value':
        return pickle.loads(data)
    try:
        error = None if data is None else pickle.loads(data)
    except Exception:
        error = None
    if not isinstance(error, Exception):  # one that would end this program is only told
        raise TaskFailed(task(), said)
    raise error from RemoteTraceback(said)
