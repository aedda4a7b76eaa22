"""What names tasks, and paths."""

from __future__ import annotations

import os
from typing import Protocol, Union, runtime_checkable

__all__ = ['NamesTasks', 'StrPath', 'TaskRef']

StrPath = Union[str, os.PathLike[str]]
"""A path, as a text or an object."""


@runtime_checkable
class NamesTasks(Protocol):
    """What stands for tasks: a `Task`, or what `submit` and `map` gave."""

    @property
    def firsts(self) -> list[int]:
        """Ids; the first one of an array stands for all of it."""


TaskRef = Union[int, NamesTasks]
"""What names tasks: an id (the first of an array means all of it), a `Task`, or what `submit` and `map` gave."""
