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
def bar(total: int | None, shown: bool = True, unit: str = 'it') -> Iterator[Callable[[int, int | None], None] | None]:
    """A function that is told how much is done, of how much (None: nobody knows); None when nothing is to be shown."""
    if not shown:
        yield None
        return
    try:
        tqdm = importlib.import_module('tqdm.auto').tqdm
    except ImportError:
        yield _Plain(unit)
        return
    with tqdm(total=total, unit=unit) as shown_bar:
        def tell(done: int, of: int | None) -> None:
            if of != shown_bar.total:
                shown_bar.total = of
                shown_bar.refresh()
            shown_bar.update(done - shown_bar.n)
        yield tell


class _Plain:
    def __init__(self, unit: str) -> None:
        self._unit = '' if unit == 'it' else f' {unit}s'
        self._next = time.monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now < self._next and done != total:
            return
        self._next = now + _LINE_EVERY_S
        print(f'{done}{self._unit}' if total is None else f'{done} of {total}{self._unit}', file=sys.stderr)
