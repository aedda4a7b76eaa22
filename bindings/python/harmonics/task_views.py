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
    """How, in a word: 'succeeded', 'failed', 'signalled', 'timed_out', 'stopped', 'lease_lost', 'lost', 'refused' or
    'unable'."""
    exit_code: int
    """The exit status of its process."""
    signal: int
    """The number of the signal that ended it, else 0."""
    message: str
    """The same for people."""

    def __str__(self) -> str:
        return self.message or self.kind


@dataclasses.dataclass(frozen=True)
class Member:
    """A worker that a task runs on, or ran on last."""

    worker: str
    """Its name."""
    devices: tuple[str, ...]
    """Devices that the task has there."""
    launched: bool
    """Whether its process was started."""
    progress: Mapping[str, Any] | None
    """What it said last of its progress: steps, loss and the like."""


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """A file that came with a task."""

    path: str
    """Its path in the folder of the task."""
    bytes: int
    """Its size."""
    executable: bool
    """Whether it can be run."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One task as the server sees it."""

    id: int
    """Its number on the server."""
    name: str
    """What it was called."""
    state: str
    """'waiting', 'pending', 'delayed', 'active', 'succeeded', 'failed', 'cancelled' or 'dependency_failed'."""
    user: str
    """Who handed it in."""
    first: int
    """The first task of its array; its own id where it is none."""
    attempts: int
    """How often it was started."""
    failures: int
    """Attempts that failed by themselves."""
    losses: int
    """Attempts that were lost with their worker."""
    preemptions: int
    """Attempts that made room for a more important task."""
    refusals: int
    """Attempts that a worker could not start."""
    submitted: float
    """Seconds since 1970."""
    changed: float | None
    """When it started, is tried again, or ended."""
    members: tuple[Member, ...]
    """Workers that it runs on, or ran on last."""
    end: TaskEnd | None
    """How its last attempt ended."""
    progress: Mapping[str, Any] | None
    """What it said last of its progress: steps, loss and the like."""
    plan: Mapping[str, Any] | None
    """How the stages of a pipeline are placed."""
    files: tuple[TaskFile, ...]
    """Files that came with it."""
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
    """In a word."""
    text: str
    """For people: what it waits for, and what to do."""
    before: int
    """How many tasks are before it in the queue."""

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class WaitResult:
    """How the tasks that were waited for ended; `ended` is false where the time was over first."""

    ended: bool
    """Whether all have ended."""
    succeeded: int
    """Tasks that succeeded."""
    failed: int
    """Tasks that failed."""
    cancelled: int
    """Tasks that somebody cancelled."""
    dependency_failed: int
    """Tasks that never ran since one before them failed."""
    unfinished: int
    """Tasks that have not ended."""

    @property
    def good(self) -> bool:
        """Whether all of them succeeded."""
        return self.ended and self.failed + self.cancelled + self.dependency_failed == 0


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A file that a task left."""

    path: str
    """Its path in the folder of the task."""
    bytes: int
    """Its size."""


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of a worker."""

    name: str
    """Its name there, such as 'gpu0'."""
    model: str
    """Such as 'RTX3090'."""
    memory_mb: int
    """Its memory, in MiB."""
    free: bool
    """Whether no task has it."""


@dataclasses.dataclass(frozen=True)
class Worker:
    """One worker as the server sees it."""

    name: str
    """Its name."""
    state: str
    """Such as 'ready'."""
    address: str
    """Where it is reached."""
    cpus: int
    """Cores that it lends to tasks."""
    memory_mb: int
    """Its memory, in MiB."""
    draining: bool
    """Whether it takes no new tasks."""
    devices: tuple[Device, ...]
    """Its devices."""
    task_count: int
    """Tasks that it has now."""
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
