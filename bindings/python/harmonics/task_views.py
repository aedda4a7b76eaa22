"""What a cluster says of its tasks and workers: plain values, the fields of `harmonics … --output json`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

__all__ = ['Artifact', 'Device', 'Member', 'Task', 'TaskEnd', 'TaskFile', 'WaitResult', 'Why', 'Worker']

_ENDED = frozenset({'succeeded', 'failed', 'cancelled', 'dependency_failed'})


@dataclasses.dataclass(frozen=True)
class TaskEnd:
    """How an attempt ended."""

    kind: str
    exit_code: int
    signal: int
    message: str

    def __str__(self) -> str:
        return self.message or self.kind


@dataclasses.dataclass(frozen=True)
class Member:
    """A worker that a task runs on, or ran on last."""

    worker: str
    devices: tuple[str, ...]
    launched: bool
    progress: Mapping[str, Any] | None


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """A file that came with a task."""

    path: str
    bytes: int
    executable: bool


@dataclasses.dataclass(frozen=True)
class Task:
    """One task as the server sees it."""

    id: int
    name: str
    state: str
    """'waiting', 'pending', 'delayed', 'active', 'succeeded', 'failed', 'cancelled' or 'dependency_failed'."""
    user: str
    first: int
    """The first task of its array; its own id where it is none."""
    attempts: int
    failures: int
    losses: int
    preemptions: int
    refusals: int
    submitted: float
    """Seconds since 1970."""
    changed: float | None
    """When it started, is tried again, or ended."""
    members: tuple[Member, ...]
    end: TaskEnd | None
    progress: Mapping[str, Any] | None
    plan: Mapping[str, Any] | None
    """How the stages of a pipeline are placed."""
    files: tuple[TaskFile, ...]
    spec: Mapping[str, Any]
    """What was submitted, as task JSON."""

    @property
    def ended(self) -> bool:
        """Whether it will not run again."""
        return self.state in _ENDED

    @property
    def firsts(self) -> list[int]:
        """The id that stands for it."""
        return [self.id]

    @property
    def source(self) -> str | None:
        """The source of the Python function that it calls, where it calls one."""
        text = self.spec.get('params', {}).get('python_source')
        return None if text is None else str(text)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Task:
        """Of an object that `harmonics task --output json` prints."""
        end = given.get('end')
        return cls(
            **{key: given[key] for key in ('id', 'name', 'state', 'user', 'first', 'attempts', 'failures', 'losses',
                                           'preemptions', 'refusals', 'submitted', 'progress', 'spec')},
            changed=given.get('changed'), plan=given.get('plan'),
            members=tuple(Member(one['worker'], tuple(one['devices']), one['launched'], one['progress'])
                          for one in given['members']),
            end=None if end is None else TaskEnd(end['kind'], end['exit_code'], end['signal'], end['message']),
            files=tuple(TaskFile(one['path'], one['bytes'], one['executable']) for one in given.get('files', ())))


@dataclasses.dataclass(frozen=True)
class Why:
    """Why a task is not running."""

    reason: str
    text: str
    before: int
    """How many tasks are before it in the queue."""

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class WaitResult:
    """How the tasks that were waited for ended; `ended` is false where the time was over first."""

    ended: bool
    succeeded: int
    failed: int
    cancelled: int
    dependency_failed: int
    unfinished: int

    @property
    def good(self) -> bool:
        """Whether all of them succeeded."""
        return self.ended and self.failed + self.cancelled + self.dependency_failed == 0


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A file that a task left."""

    path: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of a worker."""

    name: str
    model: str
    memory_mb: int
    free: bool


@dataclasses.dataclass(frozen=True)
class Worker:
    """One worker as the server sees it."""

    name: str
    state: str
    address: str
    cpus: int
    memory_mb: int
    draining: bool
    devices: tuple[Device, ...]
    task_count: int
    problem: str | None
    """Why it is unable to start tasks."""

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Worker:
        """Of an object that `harmonics workers --output json` prints."""
        return cls(
            **{key: given[key] for key in ('name', 'state', 'address', 'cpus', 'memory_mb', 'draining', 'task_count')},
            problem=given.get('problem'),
            devices=tuple(Device(one['name'], one['model'], one['memory_mb'], one['free'])
                          for one in given['devices']))
