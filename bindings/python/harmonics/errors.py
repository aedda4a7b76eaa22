"""Errors by their code: the short list that gRPC uses, each a class of its own.

Every one is an `Error`, and a built-in exception too where Python has one that means the same, so that
`except ValueError` catches a wrong argument and `except TimeoutError` a deadline. The text is the command line's.
"""

from __future__ import annotations

from typing import Any

__all__ = ['Aborted', 'AlreadyExists', 'Cancelled', 'DataLoss', 'DeadlineExceeded', 'Error', 'FailedPrecondition',
           'Internal', 'InvalidArgument', 'NotFound', 'OutOfRange', 'PermissionDenied', 'ResourceExhausted',
           'Unauthenticated', 'Unavailable', 'Unimplemented', 'Unknown']


class Error(Exception):
    """What the library says when something cannot be done: what, where, and what to do about it."""

    code: str = 'unknown'
    """The name of the code, such as 'invalid_argument'."""
    key: str = ''
    """Of a task that was handed in to a cluster: handed in again with this key, it is the same task."""
    submitted: list[Any] = []
    """Of several tasks that were handed in: those that were taken all the same."""
    java_error: Any = None
    """Inside Spark: what came from the Java machine, with its stack."""


class Cancelled(Error, RuntimeError):
    """Somebody asked for the work to end."""

    code = 'cancelled'


class Unknown(Error, RuntimeError):
    """No better code is known."""

    code = 'unknown'


class InvalidArgument(Error, ValueError):
    """An argument, a file or a setting that makes no sense."""

    code = 'invalid_argument'


class DeadlineExceeded(Error, TimeoutError):
    """It took longer than was allowed."""

    code = 'deadline_exceeded'


class NotFound(Error, LookupError):
    """A file, a name or a task that is not there."""

    code = 'not_found'


class AlreadyExists(Error, ValueError):
    """Something that would have to be new is there already."""

    code = 'already_exists'


class PermissionDenied(Error, PermissionError):
    """Whoever asked may not do this."""

    code = 'permission_denied'


class ResourceExhausted(Error, RuntimeError):
    """A ceiling was reached: memory, a queue, a quota."""

    code = 'resource_exhausted'


class FailedPrecondition(Error, RuntimeError):
    """Something else must be done first."""

    code = 'failed_precondition'


class Aborted(Error, RuntimeError):
    """Others ended what was under way."""

    code = 'aborted'


class OutOfRange(Error, ValueError):
    """A number beyond what there is."""

    code = 'out_of_range'


class Unimplemented(Error, NotImplementedError):
    """This cannot be done here: an operator that is not known, a part that was not built."""

    code = 'unimplemented'


class Internal(Error, RuntimeError):
    """A mistake of the library itself."""

    code = 'internal'


class Unavailable(Error, ConnectionError):
    """A peer, a server or a device that does not answer."""

    code = 'unavailable'


class DataLoss(Error, RuntimeError):
    """Bytes that are damaged, cut short or not what their digest says."""

    code = 'data_loss'


class Unauthenticated(Error, PermissionError):
    """Nobody knows who asked: a token or a certificate is missing or wrong."""

    code = 'unauthenticated'


_BY_CODE: dict[str, type[Error]] = {one.code: one for one in Error.__subclasses__()}


def made(code: str, text: str) -> Error:
    """The error of that code, with this text."""
    return _BY_CODE.get(code, Unknown)(text)
