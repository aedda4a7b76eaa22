"""The flags of `harmonics submit` as keywords, and how keywords become flags."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from . import _cluster
from ._flags import SWITCHES, SubmitFlags
from .errors import InvalidArgument

__all__ = ['TaskOptions']


class TaskOptions(SubmitFlags, total=False):
    """How a task is submitted: each keyword is the flag of `harmonics submit` with that name."""

    python: str
    """Of a function alone: the Python that calls it (the path of the one that submits it)."""


def _texts(value: object) -> list[str]:
    """The values of a flag that may be given several times."""
    if isinstance(value, Mapping):
        return [f'{key}={_text(one)}' for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [_text(one) for one in value]
    return [_text(value)]


def _text(value: object) -> str:
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return str(value)


def flags_of(options: Mapping[str, object]) -> list[str]:
    """The words of the command line; None is as if it were not given."""
    flags = []
    for key, value in options.items():
        flag = '--' + key.replace('_', '-')
        if value is True:
            flags.append(flag)
        elif value is False and key in SWITCHES:  # which the model's file may ask for
            flags.append('--no-' + flag.removeprefix('--'))
        elif value is not None and value is not False:
            flags += [f'{flag}={text}' for text in _texts(value)]
    return flags


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of a kind, as far as the kinds above go."""
    if kind is Any or value is None:
        return True
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    origin = typing.get_origin(kind)
    if origin is Literal:
        return isinstance(value, str)
    if origin in (Mapping, Sequence):
        return isinstance(value, origin)
    if origin is not None:
        return any(_fits(value, one) for one in typing.get_args(kind)) or origin is os.PathLike and isinstance(
            value, os.PathLike)
    return isinstance(value, kind)


def refuse(error: InvalidArgument, given: Mapping[str, object], kinds: Mapping[str, Any]) -> Exception:
    """What to raise for keywords that the command line does not take: its text, as a TypeError where a keyword is
    unknown or its value of a kind that it never takes."""
    wrong = any(key not in kinds or not _fits(value, kinds[key]) for key, value in given.items())
    return TypeError(str(error)) if wrong else error


def checked(work: Callable[[], Any], given: Mapping[str, object], kinds: Mapping[str, Any]) -> Any:
    """What `work` gives; an argument that it does not take is an error of Python's kind."""
    try:
        return work()
    except InvalidArgument as error:
        raised = refuse(error, given, kinds)
        raise raised from (None if raised is not error else error.__cause__)


def checked_ids(tasks: Iterable[object]) -> list[int]:
    """Ids of tasks; what is none raises what `harmonics wait` says of it."""
    ids = []
    for task in tasks:
        if type(task) is not int or not 0 < task <= 1 << 40:
            checked(lambda: _cluster.check(['wait', '--', str(task)]), {'task': task}, {'task': int})
            raise TypeError(f"ID: '{task}' is a {type(task).__name__}, and a task is named by an int")
        ids.append(task)
    return ids


def checked_seconds(timeout: object) -> float:
    """A time to wait, in seconds; less than nothing for None."""
    if timeout is None:
        return -1.0
    if type(timeout) not in (int, float) or not 0 <= timeout <= 1e9:  # type: ignore[operator]
        checked(lambda: _cluster.check(['wait', f'--timeout={timeout}', '1']), {'timeout': timeout}, {'timeout': float})
        raise TypeError(f"--timeout: '{timeout}' is a {type(timeout).__name__}, and a time is a float")
    return float(timeout)  # type: ignore[arg-type]


KINDS = typing.get_type_hints(TaskOptions)
