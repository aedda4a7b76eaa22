"""Data as producers take it: arrays, sources in text, columns of Arrow, and batches out of iterables."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

from ._loading import load_core

__all__ = ['as_data']

# Batches that one producer may be behind another in the same iterable.
MAX_BATCHES_BEHIND = 64


class _Batches:
    """One iterable whose batches hold the tensors of several producers."""

    def __init__(self, source: Iterable[Any], producers: Sequence[str]) -> None:
        self._source = source
        self._producers = producers
        self._batches: Iterator[Any] | None = None
        self._waiting: dict[str, deque[Any]] = {}
        self._begun: dict[str, int] = {}
        self._turn = 0

    def look(self) -> Mapping[str, Any]:
        """The tensors of the first batch, which is not lost."""
        self._restart()
        if not self._pull():
            raise ValueError('the data has no batch at all')
        return {name: waiting[0] for name, waiting in self._waiting.items()}

    def begin(self, name: str, epoch: int) -> None:
        """Goes to the start of an epoch; the first producer to do so takes the others along."""
        turn = self._begun.get(name, 0) + 1
        self._begun[name] = turn
        if turn > self._turn:
            self._turn = turn
            if turn > 1:
                self._restart()

    def next(self, name: str) -> Any:
        """The next tensor of a producer, or None at the end."""
        waiting = self._waiting[name]
        if not waiting and not self._pull():
            return None
        return waiting.popleft()

    def _restart(self) -> None:
        batches = iter(self._source)
        if batches is self._source and self._batches is not None:
            raise ValueError('the data is an iterator, which can be walked once: give something that starts anew for '
                             'every epoch, such as a list or a DataLoader, or epochs=1')
        self._batches = batches
        for waiting in self._waiting.values():
            waiting.clear()

    def _pull(self) -> bool:
        assert self._batches is not None
        try:
            batch = next(self._batches)
        except StopIteration:
            return False
        for name, tensor in self._named(batch).items():
            waiting = self._waiting.setdefault(name, deque())
            if len(waiting) >= MAX_BATCHES_BEHIND:
                raise ValueError(f"nobody reads '{name}' of the data")
            waiting.append(tensor)
        return True

    def _named(self, batch: Any) -> Mapping[str, Any]:
        batch = without_arrow(batch)
        if isinstance(batch, Mapping):
            return batch
        tensors = batch if isinstance(batch, (list, tuple)) else [batch]
        if len(tensors) != len(self._producers):
            raise ValueError(f'a batch of {len(tensors)} tensors for {len(self._producers)} producers '
                             f"({', '.join(self._producers)}): give one each, or a dict by name")
        return dict(zip(self._producers, tensors))


def without_arrow(data: Any) -> Any:
    """A table or batch of Arrow as a dict of arrays by column, columns in a dict as arrays; what is neither as it is."""
    arrow = sys.modules.get('pyarrow')
    if arrow is None:
        return data
    if isinstance(data, (arrow.Table, arrow.RecordBatch)):
        data = {name: data.column(name) for name in data.schema.names}
    if not isinstance(data, Mapping):
        return data
    return {name: _array_of(arrow, name, value) if isinstance(value, (arrow.Array, arrow.ChunkedArray)) else value
            for name, value in data.items()}


def _array_of(arrow: Any, name: str, column: Any) -> Any:
    """A column as a numpy array over its memory, where it is in one piece; lists, all of one length, are further axes."""
    if isinstance(column, arrow.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    shape = [len(column)]
    while True:
        if column.null_count:
            raise ValueError(f"data of '{name}': {column.null_count} values are missing: fill them, or leave the rows out")
        if not arrow.types.is_list(column.type) and not arrow.types.is_fixed_size_list(column.type):
            break
        lengths = set(column.value_lengths().unique().to_pylist())
        if len(lengths) > 1:
            raise ValueError(f"data of '{name}': its lists are not of one length: pad them first")
        shape.append(lengths.pop() if lengths else 0)
        column = column.flatten()
    if not (arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type) or arrow.types.is_boolean(column.type)):
        raise TypeError(f"data of '{name}': a column of {column.type} is no array of numbers")
    return column.to_numpy(zero_copy_only=False).reshape(shape)


def as_data(data: Any, producers: Sequence[str] = ()) -> dict[str, Any]:
    """The data by producer, as the native half takes it."""
    data = without_arrow(data)
    if data is None:
        return {}
    if isinstance(data, Mapping):
        return dict(data)
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        raise TypeError(f'data is a dict of producers and their arrays, or an iterable of batches, not a '
                        f'{type(data).__name__}')
    batches = _Batches(data, producers)
    first = batches.look()
    count = len(data) if isinstance(data, Sized) else None
    native = load_core()
    return {name: native._feed(batches, name, tensor, count) for name, tensor in first.items()}
