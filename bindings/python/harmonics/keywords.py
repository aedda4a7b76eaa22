"""Keywords as flags of the command line, and what to raise for those that it does not take."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from ._flags import SWITCHES
from .errors import InvalidArgument

T = TypeVar('T')


def _texts(value: object) -> list[str]:
    """The values of a flag that may be given several times."""
    if isinstance(value, Mapping):
        return [f'{key}={_text(one)}' for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [_text(one) for one in value]
    return [_text(value)]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return str(value)


def flags_of(options: Mapping[str, object]) -> list[str]:
    """The words of the command line; None is as if it were not given, and so is False but for what is switched off."""
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


def checked(work: Callable[[], T], given: Mapping[str, object], kinds: Mapping[str, Any]) -> T:
    """What `work` gives; an argument that it does not take is an error of Python's kind."""
    try:
        return work()
    except InvalidArgument as error:
        raised = refuse(error, given, kinds)
        raise raised from (None if raised is not error else error.__cause__)
