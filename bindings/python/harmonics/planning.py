"""Planning: which host runs which layers of a model, with a proof of how good the plan is; and measuring for it."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ._loading import load_core
from .programs import run

if TYPE_CHECKING:
    from ._core import Graph, Plan

__all__ = ['PlanOptions', 'partition', 'plan', 'profile']

PlannerFile = str | os.PathLike[str] | Mapping[str, Any]


class PlanOptions(TypedDict, total=False):
    """What `plan` takes besides its files; the meaning is that of the flags of `sched-pipeline`."""

    model: str
    dtype: str
    batch_size: int | str
    exclude: Sequence[str]
    host_order: Sequence[str]
    pin: Sequence[str]
    goal: str
    then: str
    tolerance: float
    replicate: bool
    buffers_in: int
    buffers_out: int
    links: PlannerFile


def plan(models: PlannerFile, types: PlannerFile, devices: PlannerFile, **options: Unpack[PlanOptions]) -> Plan:
    """The best placement of a model's layers on hosts that do not match.

    Each of the three is a file (models.yml, device_types.yml, devices.yml) or the same as a dict. With one model in
    the file it need not be named. No plan at all is a `FailedPrecondition` that says which limit is to blame.
    """
    wishes: dict[str, Any] = dict(options)
    files = {'models': _text(models), 'types': _text(types), 'devices': _text(devices)}
    links = wishes.pop('links', None)
    if links is not None:
        files['links'] = _text(links)
    made: Plan = load_core()._plan(files, wishes)
    return made


def partition(graph: Graph, parts: int | Plan) -> list[Graph]:
    """Cuts a graph into so many parts of equal cost, or into one for each stage of a plan."""
    core = load_core()
    if not isinstance(graph, core.Graph):
        raise TypeError(f'partition takes a harmonics.Graph, not a {type(graph).__name__}')
    if not isinstance(parts, (int, core.Plan)) or isinstance(parts, bool):
        raise TypeError(f'parts is an int or a harmonics.Plan, not a {type(parts).__name__}')
    cut: list[Graph] = graph.partition(parts) if isinstance(parts, int) else parts.partition(graph)
    return cut


def profile(graph: Graph | str | os.PathLike[str], folder: str | os.PathLike[str] = '.', **flags: Any) -> None:
    """Measures a graph on this machine and merges the figures into models.yml and device_types.yml of a folder.

    Keywords are the flags of `harmonics profile`: `batch_size="1,8"` is `--batch-size 1,8`.
    """
    place = pathlib.Path(folder)
    words: list[str] = []
    for key, value in flags.items():
        words += [f"--{key.replace('_', '-')}"] if value is True else [f"--{key.replace('_', '-')}", str(value)]
    kept = place / '.profiled.harp'
    try:
        if not isinstance(graph, (str, os.PathLike)):
            kept.write_text(graph.harp())
            graph = kept
        run('profile', os.fspath(graph), '--models-file', place / 'models.yml', '--dev-types-file',
            place / 'device_types.yml', '--results-file', place / 'profiler_results.yml', *words)
    finally:
        kept.unlink(missing_ok=True)


def _text(given: PlannerFile) -> tuple[str, str]:
    if isinstance(given, Mapping):
        return json.dumps(given), 'the dict'
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f'a file of the planner is a path or a dict, not a {type(given).__name__}')
    return pathlib.Path(given).read_text(encoding='utf-8'), os.fspath(given)
