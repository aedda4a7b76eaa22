"""The flags of `harmonics submit` as keywords."""

from __future__ import annotations

import typing
from collections.abc import Iterable

from . import _cluster
from ._flags import SubmitFlags
from .keywords import checked

__all__ = ['TaskOptions']


class TaskOptions(SubmitFlags, total=False):
    """How a task is submitted: each keyword is the flag of `harmonics submit` with that name."""

    python: str
    """Of a function alone: the Python that calls it (the path of the one that submits it)."""


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
