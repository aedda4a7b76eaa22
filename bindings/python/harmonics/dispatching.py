"""Dispatcher: one large batch over every device of a machine, however unlike they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, Unpack

from ._loading import load_core
from .progress import bar

__all__ = ['Dispatcher', 'DispatcherOptions']

_A_DAY_S = 86400.0


class DispatcherOptions(TypedDict, total=False):
    """What `Dispatcher` takes besides its devices."""

    model: str
    rates_file: str | os.PathLike[str]
    first_batches: Sequence[int]
    repeat_late: bool


class Dispatcher:
    """Cuts a batch into sub-batches, whose sizes it learns for each device, and computes them on all at once.

    Devices have torch's names ('cpu', 'cuda:0'), or are emulated: 'emulated:2000,1ms#slow' takes a millisecond and
    2000 rows a second. What was learned is kept from one run to the next, and in `rates_file` if there is one.
    """

    def __init__(self, devices: Iterable[str], **options: Unpack[DispatcherOptions]) -> None:
        """A dispatcher over these devices."""
        given: dict[str, Any] = dict(options)
        if 'rates_file' in given:
            given['rates_file'] = os.fspath(given['rates_file'])
        self._native = load_core()._Dispatcher(list(devices), given)

    def run(self, function: Callable[[Any, str], Any], rows: Any, *, progress: bool = False,
            timeout: float = _A_DAY_S) -> list[Any]:
        """What `function(sub_batch, device)` gave for each sub-batch, in the order of the rows.

        `rows` is anything that has a length and slices: a list, an array, a tensor. The function runs in several
        threads, one for each device; the GIL is held while it runs Python, and free while native code computes.
        """
        found = self._pieces(lambda begin, end, device: function(rows[begin:end], device), len(rows), progress, timeout)
        return [piece for _, piece in found]

    def map(self, function: Callable[[Any], Any], rows: Sequence[Any], *, progress: bool = False,
            timeout: float = _A_DAY_S) -> list[Any]:
        """`[function(row) for row in rows]`, over all devices."""
        def piece(begin: int, end: int, device: str) -> list[Any]:
            return [function(row) for row in rows[begin:end]]

        return [one for _, part in self._pieces(piece, len(rows), progress, timeout) for one in part]

    def knowledge(self) -> list[dict[str, Any]]:
        """What was learned about each device: latency_s, rows_per_second, best_batch."""
        found: list[dict[str, Any]] = self._native.knowledge()
        return found

    def trace(self) -> str:
        """What each lane did when, as Chrome's and Perfetto's JSON."""
        text: str = self._native.trace_json()
        return text

    def _repr_svg_(self) -> str:
        """A drawing of the trace, for notebooks."""
        text: str = self._native.trace_svg()
        return text

    def _pieces(self, piece: Callable[[int, int, str], Any], rows: int, progress: bool,
                timeout: float) -> list[tuple[int, Any]]:
        if rows == 0:
            return []
        with bar(rows, progress) as told:
            found: list[tuple[int, Any]] = self._native.map(piece, rows, told, timeout)
        return found
