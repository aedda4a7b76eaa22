"""Progress bars: tqdm's where it is installed, else plain lines."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Callable, Iterator

__all__ = ['bar']

_LINE_EVERY_S = 1.0


@contextlib.contextmanager
def bar(total: int, shown: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """A function that is told how much is done, of how much; None when nothing is to be shown."""
    if not shown:
        yield None
        return
    try:
        tqdm = importlib.import_module('tqdm.auto').tqdm
    except ImportError:
        yield _Plain(total)
        return
    with tqdm(total=total) as shown_bar:
        def tell(done: int, _: int) -> None:
            shown_bar.update(done - shown_bar.n)
        yield tell


class _Plain:
    def __init__(self, total: int) -> None:
        self._total = total
        self._next = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next and done < total:
            return
        self._next = now + _LINE_EVERY_S
        print(f'{done} of {self._total}', file=sys.stderr)
