"""A client of a cluster: what `harmonics submit`, `wait`, `logs` and their like do, from Python."""

from __future__ import annotations

import codecs
import json
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar, Union, Unpack, cast, overload

from . import _cluster, call_runner, calls
from .errors import Error
from .keywords import checked, flags_of
from .submitted import Submitted, SubmittedCall, SubmittedMap
from .task_options import KINDS, TaskOptions, checked_ids, checked_seconds
from .task_refs import NamesTasks, StrPath, TaskRef
from .task_views import Artifact, Task, WaitResult, Why, Worker

__all__ = ['Client']

T = TypeVar('T')
Ref = TypeVar('Ref', bound=TaskRef)

# Between two looks at what has ended.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.02, 1.0
# Looking takes at most one part in so many of the time.
_LOOK_SHARE = 10


def ids_of(tasks: TaskRef | Iterable[TaskRef]) -> list[int]:
    """The ids that stand for these tasks: of an array its first alone."""
    if isinstance(tasks, (int, str, NamesTasks)) or not isinstance(tasks, Iterable):
        tasks = [tasks]
    found: list[object] = []
    for task in tasks:
        found += task.firsts if isinstance(task, NamesTasks) else [task]
    return checked_ids(found)


def _all_ids(task: TaskRef) -> list[int]:
    return list(task.ids) if isinstance(task, Submitted) else ids_of(task)


def _one_id(task: TaskRef) -> int:
    ids = ids_of(task)
    if len(ids) != 1:
        raise ValueError(f'one task is asked for, and these are {len(ids)}')
    return ids[0]


def _say(line: str) -> None:
    print(line, file=sys.stderr)


class Client:
    """Speaks with the server of a cluster. What is not given is said by the environment (HARMONICS_SCHEDULER,
    HARMONICS_TOKEN_FILE, HARMONICS_TLS), else by ~/.config/harmonics/client.yml, else it is the default of the command
    line: localhost:50051 and the token of the user's own state folder.

    Threads may share one. Calls that wait let other threads run and end on Ctrl-C. Errors are those of
    `harmonics.errors`: `Unavailable` where no server answers, `Unauthenticated` for a token that it does not know,
    `ResourceExhausted` where a queue or quota is full, `NotFound` for a task that is not there.
    """

    def __init__(self, scheduler: str | None = None, token_file: StrPath | None = None, tls: StrPath | None = None, *,
                 state_dir: StrPath | None = None, patience: float | None = None):
        """`patience` is how many seconds a server is waited for that is not up yet, or has gone (10)."""
        given = {'scheduler': scheduler, 'token_file': token_file, 'tls': tls, 'state_dir': state_dir,
                 'patience': patience}
        kinds = {'scheduler': str, 'token_file': StrPath, 'tls': StrPath, 'state_dir': StrPath, 'patience': float}
        self._native: _cluster.Connection = checked(lambda: _cluster.connect(flags_of(given), _say), given, kinds)

    @overload
    def submit(self, what: Callable[..., T], /, *arguments: Any, **options: Unpack[TaskOptions]) -> SubmittedCall[T]: ...

    @overload
    def submit(self, what: str | Sequence[str] | None = None, /, *arguments: str,
               **options: Unpack[TaskOptions]) -> Submitted: ...

    def submit(self, what: Any = None, /, *arguments: Any, **options: Unpack[TaskOptions]) -> Submitted:
        """Hands in a task, which is on the server's disk when this returns: a program with its arguments
        (`submit('python3', 'train.py')` or one list), a Python function with its arguments, or nothing for the built-in
        trainer and for `pipeline=` and `config=`.

        A function and its arguments are pickled by cloudpickle; `result()` of what comes back gives its value or raises
        its exception. Without `gpus=` a function needs none.
        """
        if callable(what):
            return self._submit_call(what, arguments, options)
        command = [] if what is None else [what] if isinstance(what, str) else list(what)
        command += arguments
        for word in command:
            if not isinstance(word, str):
                raise TypeError(f'a word of a command is a str, and {word!r} is a {type(word).__name__}')
        return Submitted(self, *self._hand_in(command, [], options))

    def _submit_call(self, function: Callable[..., T], arguments: Sequence[object],
                     options: TaskOptions) -> SubmittedCall[T]:
        if options.get('array') is not None:
            raise TypeError("a function is called once: 'map' calls it for each of several items")
        [(files, _)] = calls.pack(function, [arguments])
        return SubmittedCall(self, *self._hand_in_call(function, files, options))

    def map(self, function: Callable[[Any], T], items: Iterable[Any], /,
            **options: Unpack[TaskOptions]) -> SubmittedMap[T]:
        """Calls a function for each item, each call a task of an array. Their order is that of the items."""
        if options.get('array') is not None:
            raise TypeError('a map makes as many tasks as there are items: leave array= out')
        parts = []
        for files, count in calls.pack(function, ((item,) for item in items)):
            sized = cast(TaskOptions, {**options, 'array': count})
            try:
                parts.append(Submitted(self, *self._hand_in_call(function, files, sized)))
            except Error as error:
                error.submitted = parts
                raise
        return SubmittedMap(self, parts)

    def _hand_in_call(self, function: Callable[..., object], files: list[calls.File],
                      options: TaskOptions) -> tuple[int, int, bool, str]:
        given: dict[str, Any] = {'gpus': 0, 'name': calls.name_of(function), **options}
        python = given.pop('python', None)
        artifact = given.pop('artifact', None) or ()
        given['artifact'] = [call_runner.OUTCOME, *([artifact] if isinstance(artifact, str) else artifact)]
        given['param'] = {**(given.get('param') or {}), 'python_source': calls.source_of(function)}
        return self._hand_in(calls.command_of(python), files, cast(TaskOptions, given))

    def _submission(self, command: list[str], files: list[calls.File],
                    options: TaskOptions) -> tuple[list[str], list[str], list[calls.File], str]:
        given: dict[str, Any] = {**options}
        if 'dag' in given:
            raise TypeError("a file of several tasks is for the command line: submit each, with after= for its edges")
        if given.get('after') is not None:
            given['after'] = ids_of(given['after'])
        return flags_of(given), command, files, secrets.token_hex(12)

    def _hand_in(self, command: list[str], files: list[calls.File],
                 options: TaskOptions) -> tuple[int, int, bool, str]:
        submission = self._submission(command, files, options)
        try:
            return checked(lambda: self._native.submit(submission), options, KINDS)
        except Error as error:
            # Whether the server has it is not known where it could not answer: the same key is the same task.
            error.key = options.get('key') or submission[3]
            raise

    def submit_many(self, commands: Iterable[Sequence[str]], /, **options: Unpack[TaskOptions]) -> list[Submitted]:
        """Hands in many tasks at once, each a program with its arguments, all with the same options. Should some of them
        not be taken, the first error is raised once all have their answer; its `submitted` is a list with what was
        taken, None in the places of the others."""
        given = [self._submission(list(command), [], options) for command in commands]
        answers = checked(lambda: self._native.submit_all(given), options, KINDS)
        taken = [None if isinstance(one, Error) else Submitted(self, *one) for one in answers]
        for one in answers:
            if isinstance(one, Error):
                one.submitted = taken
                raise one
        return [one for one in taken if one is not None]

    def wait(self, tasks: TaskRef | Iterable[TaskRef], timeout: float | None = None) -> WaitResult:
        """Until all have ended, or `timeout` seconds are over. A server that restarts meanwhile is waited for."""
        return WaitResult(*self._native.wait(ids_of(tasks), checked_seconds(timeout)))

    def as_completed(self, tasks: Iterable[Ref], timeout: float | None = None) -> Iterator[Ref]:
        """Each of the tasks once it has ended (an array or map once all of it has), in the order of their ends. Those of
        an array one by one: `as_completed(array.ids)`. Raises TimeoutError when the time is over."""
        limit = checked_seconds(timeout)
        left: dict[int, list[Ref]] = {}
        missing: dict[int, int] = {}
        for task in tasks:
            ids = _all_ids(task)
            missing[id(task)] = len(ids)
            for one in ids:
                left.setdefault(one, []).append(task)
        return self._ends(left, missing, None if limit < 0 else time.monotonic() + limit)

    def _ends(self, left: dict[int, list[Ref]], missing: dict[int, int], end: float | None) -> Iterator[Ref]:
        pause = _FIRST_LOOK_S
        while left:
            before = time.monotonic()
            ended = [one for one in self._native.ended(min(left), max(left)) if one in left]
            cost = time.monotonic() - before
            for one in ended:
                for task in left.pop(one):
                    missing[id(task)] -= 1
                    if missing[id(task)] == 0:
                        yield task
            if not left:
                return
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f'{len(left)} tasks have not ended in time')
            pause = _FIRST_LOOK_S if ended else min(2 * pause, _LAST_LOOK_S)
            pause = max(pause, _LOOK_SHARE * cost)
            # The end of the oldest ends the pause.
            self._native.wait([min(left)], pause if end is None else min(pause, max(0.0, end - time.monotonic())))

    def task(self, task: TaskRef) -> Task:
        """One task as it is now."""
        return Task.from_json(json.loads(self._native.task(_one_id(task))))

    def tasks(self, state: str | Sequence[str] = (), worker: str | None = None, limit: int = 50) -> list[Task]:
        """The newest tasks, the newest last: in these states, and that run or ran last on this worker."""
        given = {'state': state, 'worker': worker, 'limit': limit}
        kinds = {'state': Union[str, Sequence[str]], 'worker': str, 'limit': int}
        text: str = checked(lambda: self._native.tasks(flags_of(given)), given, kinds)
        return [Task.from_json(one) for one in json.loads(text)]

    def all_tasks(self, state: str | Sequence[str] = ()) -> Iterator[Task]:
        """All tasks, the oldest first, page by page."""
        states = [state] if isinstance(state, str) else list(state)
        checked(lambda: _cluster.check(['tasks', *flags_of({'state': states})]), {'state': state},
                {'state': Union[str, Sequence[str]]})
        return self._pages(states)

    def _pages(self, states: list[str]) -> Iterator[Task]:
        first = 1
        while first:
            text, first = self._native.page(first, states)
            for one in json.loads(text):
                yield Task.from_json(one)

    def why(self, task: TaskRef) -> Why:
        """Why a task is not running."""
        return Why(*self._native.why(_one_id(task)))

    def cancel(self, tasks: TaskRef | Iterable[TaskRef]) -> None:
        """Stops tasks, or takes them off the queue. Should some of them not be there, the others are cancelled all the
        same, and the first error is raised then."""
        failed: Error | None = None
        for one in ids_of(tasks):
            try:
                self._native.cancel(one)
            except Error as error:
                failed = failed or error
        if failed is not None:
            raise failed

    @overload
    def logs(self, task: TaskRef, *, follow: Literal[False] = False, stream: str = 'out', attempt: int = 0,
             rank: int = 0) -> str: ...

    @overload
    def logs(self, task: TaskRef, *, follow: Literal[True], stream: str = 'out', attempt: int = 0,
             rank: int = 0) -> Iterator[str]: ...

    def logs(self, task: TaskRef, *, follow: bool = False, stream: str = 'out', attempt: int = 0,
             rank: int = 0) -> str | Iterator[str]:
        """What a task printed to 'out', 'err' or 'metrics': all of it as one text, or with `follow` line by line from
        its start, which is waited for, until it has ended."""
        given: dict[str, object] = {'follow': follow, 'stream': stream, 'attempt': attempt, 'rank': rank}
        kinds = {'follow': bool, 'stream': str, 'attempt': int, 'rank': int}
        one = _one_id(task)
        words = [*flags_of(given), '--', str(one)]
        checked(lambda: _cluster.check(['logs', *words]), given, kinds)
        if not follow:
            return ''.join(_pieces(self._native.logs(words)))
        self.task(one)  # that there is none is said now
        return self._follow(one, words, rank)

    def _follow(self, task: int, words: list[str], rank: int) -> Iterator[str]:
        pause = _FIRST_LOOK_S
        while True:
            view = self.task(task)
            if view.ended or any(member.launched for member in view.members[rank:rank + 1]):
                break
            self._native.wait([task], pause)
            pause = min(2 * pause, _LAST_LOOK_S)
        yield from _lines(_pieces(self._native.logs(words)))

    def artifacts(self, task: TaskRef, *, to: StrPath | None = None, paths: Sequence[str] = (), attempt: int = 0,
                  rank: int | None = None) -> list[Artifact]:
        """The files that a task left, all or those at `paths`; fetched into the folder `to` where one is named."""
        given = {'to': to, 'attempt': attempt, 'rank': rank}
        kinds = {'to': StrPath, 'attempt': int, 'rank': int}
        words = [*flags_of(given), '--', str(_one_id(task)), *paths]
        return [Artifact(*one) for one in checked(lambda: self._native.artifacts(words), given, kinds)]

    def read_artifact(self, task: TaskRef, path: str) -> bytes:
        """All bytes of one file that a task left."""
        return self._native.artifact(_one_id(task), path)

    def workers(self) -> list[Worker]:
        """The workers of the cluster."""
        return [Worker.from_json(one) for one in json.loads(self._native.workers())]

    def status(self) -> dict[str, Any]:
        """How many tasks, workers and devices there are: the keys of `harmonics monitor --output json`."""
        return cast('dict[str, Any]', json.loads(self._native.status()))


def _pieces(stream: _cluster.OutputStream) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder('utf-8')('replace')
    at = 0
    while (piece := stream.next()) is not None:
        offset, data = piece
        if offset > at:
            warnings.warn(f'{offset - at} bytes of the output are no longer kept', stacklevel=3)
        at = offset + len(data)
        yield decoder.decode(data)
    yield decoder.decode(b'', final=True)


def _lines(pieces: Iterator[str]) -> Iterator[str]:
    rest = ''
    for piece in pieces:
        *lines, rest = (rest + piece).split('\n')
        yield from lines
    if rest:
        yield rest
