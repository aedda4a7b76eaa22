"""What `Client.submit` and `Client.map` give: tasks that were handed in."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

from . import call_runner, calls
from .errors import FailedPrecondition, NotFound
from .task_options import checked_seconds
from .task_views import Artifact, Task, WaitResult, Why

if TYPE_CHECKING:
    from .client import Client

__all__ = ['Submitted', 'SubmittedCall', 'SubmittedMap']

T = TypeVar('T')
# Results that are read at one time.
_READERS = 8
_LOOK_S = 0.2


class Submitted:
    """A task, or an array of them, that a server has on its disk."""

    def __init__(self, client: Client, first: int, count: int = 1, already: bool = False, advice: str = ''):
        """Made by `Client.submit`; also by hand, of ids that were kept."""
        self._client = client
        self.first = first
        """Its id, or the first one of an array."""
        self.count = count
        """How many tasks it is."""
        self.already = already
        """The idempotency key was known: nothing was added."""
        self.advice = advice
        """What to do about a task that no known worker could run; mostly empty."""

    def __repr__(self) -> str:
        last = self.first + self.count - 1
        return f'<task {self.first}>' if self.count == 1 else f'<tasks {self.first} to {last}>'

    @property
    def ids(self) -> Sequence[int]:
        """The ids of all of them."""
        return range(self.first, self.first + self.count)

    @property
    def firsts(self) -> list[int]:
        """The ids that stand for all of it."""
        return [self.first]

    def wait(self, timeout: float | None = None) -> WaitResult:
        """As `Client.wait`."""
        return self._client.wait(self, timeout)

    def cancel(self) -> None:
        """As `Client.cancel`."""
        self._client.cancel(self)

    def task(self) -> Task:
        """As `Client.task`; of an array, its first."""
        return self._client.task(self.first)

    def why(self) -> Why:
        """As `Client.why`; of an array, its first."""
        return self._client.why(self.first)

    def logs(self, stream: str = 'out') -> str:
        """As `Client.logs`; of an array, its first."""
        return self._client.logs(self.first, stream=stream)

    def artifacts(self) -> list[Artifact]:
        """As `Client.artifacts`; of an array, its first."""
        return self._client.artifacts(self.first)


class SubmittedCall(Submitted, Generic[T]):
    """A call of a Python function."""

    stands_for_others = False

    def wait(self, timeout: float | None = None) -> WaitResult:
        """Until the call has ended, or the time is over."""
        if not self.stands_for_others:
            return super().wait(timeout)
        # To the server the first task of an array is all of it: of this one only its state can be asked.
        limit = checked_seconds(timeout)
        end = None if limit < 0 else time.monotonic() + limit
        while not (task := self.task()).ended:
            if end is not None and time.monotonic() >= end:
                return WaitResult(False, 0, 0, 0, 0, 1)
            self._client.wait(self.first, _LOOK_S if end is None else min(_LOOK_S, max(0.0, end - time.monotonic())))
        state = task.state
        return WaitResult(True, int(state == 'succeeded'), int(state == 'failed'), int(state == 'cancelled'),
                          int(state == 'dependency_failed'), 0)

    def cancel(self) -> None:
        """As `Client.cancel`."""
        if self.stands_for_others:
            raise FailedPrecondition(f'task {self.first} is the first of an array and stands for all of it: cancel the '
                                     'map that it belongs to')
        super().cancel()

    def done(self) -> bool:
        """Whether it has ended."""
        return self.task().ended

    def result(self, timeout: float | None = None) -> T:
        """What the function gave, waited for. Raises what the function raised; `TaskFailed` where it could not say; and
        TimeoutError when the time is over. What comes back is unpickled: the cluster is trusted."""
        if not self.wait(timeout).ended:
            raise TimeoutError(f'task {self.first} has not ended in time')
        return self._value()

    def _value(self) -> T:
        try:
            outcome = self._client.read_artifact(self.first, call_runner.OUTCOME)
        except (NotFound, FailedPrecondition):
            raise calls.TaskFailed(self.task()) from None
        value: T = calls.value_of(outcome, self.task)
        return value

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What `result` would raise, of the task's own; None where it succeeded."""
        if not self.wait(timeout).ended:
            raise TimeoutError(f'task {self.first} has not ended in time')
        try:
            self._value()
        except Exception as error:
            return error
        return None


class SubmittedMap(Submitted, Generic[T]):
    """Calls of one function for several items, in their order."""

    def __init__(self, client: Client, parts: Sequence[Submitted]):
        """Made by `Client.map`."""
        super().__init__(client, parts[0].first if parts else 0, sum(part.count for part in parts),
                         any(part.already for part in parts), next((part.advice for part in parts if part.advice), ''))
        self._parts = list(parts)
        self._ids = [one for part in parts for one in part.ids]

    def __repr__(self) -> str:
        return f'<map of {self.count} calls, tasks {", ".join(map(repr, self._parts))}>'

    @property
    def ids(self) -> Sequence[int]:
        """The ids of all calls, in the order of the items."""
        return self._ids

    @property
    def firsts(self) -> list[int]:
        """The ids that stand for all of them."""
        return [part.first for part in self._parts]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[SubmittedCall[T]]:
        return (self[at] for at in range(self.count))

    def __getitem__(self, index: int) -> SubmittedCall[T]:
        """The call for one item."""
        task = self._ids[index]
        call: SubmittedCall[T] = SubmittedCall(self._client, task)
        call.stands_for_others = any(part.first == task and part.count > 1 for part in self._parts)
        return call

    def results(self, timeout: float | None = None) -> Iterator[T]:
        """What the calls gave, in the order of the items, once all have ended. Raises as `SubmittedCall.result` does."""
        if not self.wait(timeout).ended:
            raise TimeoutError(f'not all of {self.count} calls have ended in time')
        readers = ThreadPoolExecutor(_READERS)
        try:
            yield from readers.map(lambda task: SubmittedCall[T](self._client, task)._value(), self._ids)
        finally:
            readers.shutdown(wait=False, cancel_futures=True)
