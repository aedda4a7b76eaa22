"""The client of a cluster for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar, Unpack, overload

from . import _cluster
from .client import Client
from .submitted import Submitted, SubmittedCall, SubmittedMap
from .task_options import TaskOptions
from .task_refs import StrPath, TaskRef
from .task_views import Artifact, Task, WaitResult, Why, Worker

__all__ = ['AsyncClient']

T = TypeVar('T')
Ref = TypeVar('Ref', bound=TaskRef)

# Calls that wait at one time; others wait for their turn.
_MAX_CALLS = 64
_END = object()


def _next(iterator: Iterator[Any]) -> Any:
    return next(iterator, _END)


class AsyncClient:
    """What `Client` does, as coroutines: each leaves the event loop free, and one that is cancelled ends its call to the
    server. Use it in an `async with`, or `close` it."""

    def __init__(self, scheduler: str | None = None, token_file: StrPath | None = None, tls: StrPath | None = None, *,
                 state_dir: StrPath | None = None, patience: float | None = None):
        """As `Client`; the server is looked for by the first call."""
        self._given = {'scheduler': scheduler, 'token_file': token_file, 'tls': tls, 'state_dir': state_dir,
                       'patience': patience}
        self._threads = ThreadPoolExecutor(_MAX_CALLS, thread_name_prefix='harmonics-client')
        self._opening = asyncio.Lock()
        self._client: Client | None = None

    async def __aenter__(self) -> AsyncClient:
        await self._opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of its threads."""
        self._threads.shutdown(wait=False)

    async def _opened(self) -> Client:
        async with self._opening:
            if self._client is None:
                opened: Client = await self._run(lambda: Client(**self._given))  # type: ignore[arg-type]
                self._client = opened
            return self._client

    async def _run(self, work: Callable[[], T]) -> T:
        """`work` in a thread; cancelled, what it waits for ends."""
        interrupt = _cluster.Interrupt()

        def watched() -> T:
            _cluster.watch(interrupt)
            try:
                return work()
            finally:
                _cluster.watch(None)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, watched)
        except asyncio.CancelledError:
            interrupt.set()
            raise

    @overload
    async def submit(self, what: Callable[..., T], /, *arguments: Any,
                     **options: Unpack[TaskOptions]) -> SubmittedCall[T]: ...

    @overload
    async def submit(self, what: str | Sequence[str] | None = None, /, *arguments: str,
                     **options: Unpack[TaskOptions]) -> Submitted: ...

    async def submit(self, what: Any = None, /, *arguments: Any, **options: Unpack[TaskOptions]) -> Submitted:
        """As `Client.submit`. Members of what it gives block; `result` and `wait` of this client do not."""
        client = await self._opened()
        return await self._run(lambda: client.submit(what, *arguments, **options))

    async def submit_many(self, commands: Iterable[Sequence[str]], /,
                          **options: Unpack[TaskOptions]) -> list[Submitted]:
        """As `Client.submit_many`."""
        client = await self._opened()
        return await self._run(lambda: client.submit_many(commands, **options))

    async def map(self, function: Callable[[Any], T], items: Iterable[Any], /,
                  **options: Unpack[TaskOptions]) -> SubmittedMap[T]:
        """As `Client.map`."""
        client = await self._opened()
        return await self._run(lambda: client.map(function, items, **options))

    async def result(self, call: SubmittedCall[T], timeout: float | None = None) -> T:
        """As `SubmittedCall.result`."""
        return await self._run(lambda: call.result(timeout))

    async def results(self, calls: SubmittedMap[T], timeout: float | None = None) -> list[T]:
        """As `SubmittedMap.results`."""
        return await self._run(lambda: list(calls.results(timeout)))

    async def wait(self, tasks: TaskRef | Iterable[TaskRef], timeout: float | None = None) -> WaitResult:
        """As `Client.wait`."""
        client = await self._opened()
        return await self._run(lambda: client.wait(tasks, timeout))

    async def as_completed(self, tasks: Iterable[Ref], timeout: float | None = None) -> AsyncIterator[Ref]:
        """As `Client.as_completed`, for `async for`."""
        client = await self._opened()
        ends = client.as_completed(tasks, timeout)
        while (one := await self._run(lambda: _next(ends))) is not _END:
            yield one

    async def task(self, task: TaskRef) -> Task:
        """As `Client.task`."""
        client = await self._opened()
        return await self._run(lambda: client.task(task))

    async def tasks(self, state: str | Sequence[str] = (), worker: str | None = None, limit: int = 50) -> list[Task]:
        """As `Client.tasks`."""
        client = await self._opened()
        return await self._run(lambda: client.tasks(state, worker, limit))

    async def all_tasks(self, state: str | Sequence[str] = ()) -> AsyncIterator[Task]:
        """As `Client.all_tasks`, for `async for`."""
        client = await self._opened()
        found = await self._run(lambda: client.all_tasks(state))
        while (one := await self._run(lambda: _next(found))) is not _END:
            yield one

    async def why(self, task: TaskRef) -> Why:
        """As `Client.why`."""
        client = await self._opened()
        return await self._run(lambda: client.why(task))

    async def cancel(self, tasks: TaskRef | Iterable[TaskRef]) -> None:
        """As `Client.cancel`."""
        client = await self._opened()
        await self._run(lambda: client.cancel(tasks))

    async def logs(self, task: TaskRef, *, stream: Literal['out', 'err', 'metrics'] = 'out', attempt: int = 0,
                   rank: int = 0) -> str:
        """As `Client.logs`."""
        client = await self._opened()
        return await self._run(lambda: client.logs(task, stream=stream, attempt=attempt, rank=rank))

    async def follow(self, task: TaskRef, *, stream: Literal['out', 'err', 'metrics'] = 'out', attempt: int = 0,
                     rank: int = 0) -> AsyncIterator[str]:
        """As `Client.logs` with `follow`, for `async for`."""
        client = await self._opened()
        lines = await self._run(lambda: client.logs(task, follow=True, stream=stream, attempt=attempt, rank=rank))
        while (line := await self._run(lambda: _next(lines))) is not _END:
            yield line

    async def artifacts(self, task: TaskRef, *, to: StrPath | None = None, paths: Sequence[str] = (), attempt: int = 0,
                        rank: int | None = None) -> list[Artifact]:
        """As `Client.artifacts`."""
        client = await self._opened()
        return await self._run(lambda: client.artifacts(task, to=to, paths=paths, attempt=attempt, rank=rank))

    async def read_artifact(self, task: TaskRef, path: str) -> bytes:
        """As `Client.read_artifact`."""
        client = await self._opened()
        return await self._run(lambda: client.read_artifact(task, path))

    async def workers(self) -> list[Worker]:
        """As `Client.workers`."""
        client = await self._opened()
        return await self._run(client.workers)

    async def status(self) -> dict[str, Any]:
        """As `Client.status`."""
        client = await self._opened()
        return await self._run(client.status)
