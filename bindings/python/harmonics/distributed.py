"""Training in several processes: those of `harmonics train --processes`, started and watched from here."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ._loading import load_core
from .data import without_arrow
from .drawing import loss_svg
from .keywords import checked, flags_of
from .programs import program, refuse
from .progress import bar
from .settings import Settings

if TYPE_CHECKING:
    from ._core import Graph

__all__ = ['DistributedReport', 'DistributedSettings', 'train_distributed']

# How long the processes may take to end after Ctrl-C: they finish their step and save.
_GOODBYE_S = 60.0
_LOOK_S = 0.2


class DistributedSettings(Settings, total=False):
    """What `train_distributed` takes besides the settings of training; the meaning is that of the flags."""

    processes: bool
    transport: str
    compress: bool
    boundary_bits: int | str | Sequence[int | str]
    gradient_bits: int | str | Sequence[int | str]
    restarts: int
    elastic: bool
    slowdown: str | Sequence[float]
    deploy: str | os.PathLike[str]
    plan: str | os.PathLike[str]
    axis: str | Sequence[str]
    weights: str | os.PathLike[str]
    checkpoint: str | os.PathLike[str]
    checkpoint_every: int
    checkpoint_every_epochs: int
    keep_checkpoints: bool
    resume: bool
    metrics: str | os.PathLike[str]
    secure: bool
    sign_weights_every: int
    sign_layers: bool
    proof: str | os.PathLike[str]
    key: str
    keys: str | os.PathLike[str]
    on_step: Callable[[dict[str, Any]], object]
    progress: bool


@dataclasses.dataclass(frozen=True)
class DistributedReport:
    """How a training in several processes went."""

    graph: Graph
    """The graph with what it has learnt."""
    digest: str
    """That of all weights: the command line prints the same one."""
    figures: Mapping[str, Any]
    """What `harmonics train --output json` says: epochs, steps, train_loss, samples_per_second and more."""
    steps: list[dict[str, Any]]
    """A report of each step, as in a metrics file."""

    def _repr_svg_(self) -> str:
        """The loss of each step, for notebooks."""
        return loss_svg(self.steps, f"loss of '{self.graph.name}', weights {self.digest[:12]}")


def train_distributed(graph: Graph, data: Mapping[str, Any] | None = None,
                      **settings: Unpack[DistributedSettings]) -> DistributedReport:
    """Trains a graph in parts (or replicas), each in a process of its own unless `processes=False`.

    `data` maps producers to arrays or to sources in text, or is a table of Arrow with such columns; a graph from a file
    that names its data needs none. The
    processes are those of `harmonics train`, so that the weights are the same bit for bit. One that dies is started
    again from the last checkpoint, as `restarts` says; Ctrl-C lets them finish the step and save before it is raised.
    `on_step` is told of each step, `progress` shows a bar. In a notebook the report draws the losses.
    """
    core = load_core()
    if not isinstance(graph, core.Graph):
        raise TypeError(f'train_distributed takes a harmonics.Graph, not a {type(graph).__name__}')
    data = without_arrow(data)
    if data is not None and not isinstance(data, Mapping):
        raise TypeError(f'data is a dict of producers and their arrays or sources, not a {type(data).__name__}')
    wishes: dict[str, Any] = dict(settings)
    on_step = wishes.pop('on_step', None)
    progress = bool(wishes.pop('progress', False))
    wishes.setdefault('processes', True)
    if wishes['processes']:
        wishes.setdefault('transport', 'shm')
    with tempfile.TemporaryDirectory(prefix='harmonics-') as name:
        folder = pathlib.Path(name)
        wishes.setdefault('checkpoint', folder / 'checkpoint.safetensors')
        wishes.setdefault('metrics', folder / 'metrics.jsonl')
        words = [str(program()), 'train', str(_saved(graph, folder)), *_bound(data or {}, graph, folder), *flags_of(wishes),
                 '--output', 'json']
        with bar(None, progress, 'step') as told:
            if told is not None:
                on_step = _counted(told, on_step)
            steps_told = _Steps(pathlib.Path(wishes['metrics']), on_step)
            said = checked(lambda: _watched(words, steps_told), _known(settings), KINDS)
        figures = json.loads(said)
        weights = core._checkpoint_weights(os.fspath(wishes['checkpoint']))
        steps = [one for one in _lines(pathlib.Path(wishes['metrics'])) if 'step' in one]
        return DistributedReport(graph.with_weights(weights), figures['weights_digest'], figures, steps)


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those whose kind is known; what the others are is said by the program."""
    return {key: value for key, value in settings.items() if key in KINDS}


def _counted(told: Callable[[int, int | None], None],
             on_step: Callable[[dict[str, Any]], object] | None) -> Callable[[dict[str, Any]], object]:
    """A listener that tells a bar how far the processes are; steps that are done again do not count."""
    done = 0

    def step(report: dict[str, Any]) -> object:
        nonlocal done
        done = max(done, int(report['step']))
        told(done, None)
        return None if on_step is None else on_step(report)
    return step


def _saved(graph: Graph, folder: pathlib.Path) -> pathlib.Path:
    if str(graph.file) not in ('', '.') and not graph.weights():
        return pathlib.Path(graph.file).absolute()
    path = folder / 'model.harp'
    graph.save(path)
    return path


def _bound(data: Mapping[str, Any], graph: Graph, folder: pathlib.Path) -> list[str]:
    import numpy
    known = [node.name for node in graph.producers]
    words = []
    for name, value in data.items():
        if name not in known:
            raise ValueError(f"graph '{graph.name}' has no producer '{name}'; there are {', '.join(known)}")
        if not isinstance(value, str):
            if hasattr(value, 'detach'):
                value = value.detach().cpu().numpy()
            numpy.save(folder / f'{name}.npy', numpy.ascontiguousarray(value))
            value = f'npy:{folder / name}.npy'
        words += ['--bind', f'{name}={value}']
    return words


class _Steps:
    """Tells of the lines of a metrics file as they come."""

    def __init__(self, path: pathlib.Path, on_step: Callable[[dict[str, Any]], object] | None) -> None:
        self._path = path
        self._on_step = on_step
        self._told = path.stat().st_size if path.exists() else 0

    def look(self) -> bool:
        """Tells what is new; False when the listener wants the run to end."""
        if self._on_step is None or not self._path.exists():
            return True
        goes_on = True
        with self._path.open('rb') as file:
            file.seek(self._told)
            for line in file:
                if not line.endswith(b'\n'):
                    break
                self._told += len(line)
                report = json.loads(line)
                if 'step' in report and self._on_step(report) is False:
                    goes_on = False
        return goes_on


def _lines(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _watched(words: list[str], steps: _Steps) -> str:
    """What the program prints; it is ended with whoever waits for it."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    said: dict[str, str] = {}
    assert process.stdout is not None and process.stderr is not None
    readers = [threading.Thread(target=lambda name, pipe: said.__setitem__(name, pipe.read()), args=one, daemon=True)
               for one in (('out', process.stdout), ('err', process.stderr))]
    for reader in readers:
        reader.start()
    try:
        stopping = False
        while process.poll() is None:
            try:
                process.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                if not steps.look() and not stopping:
                    stopping = True
                    process.send_signal(signal.SIGINT)
        steps.look()
    except BaseException:
        _end(process)
        raise
    finally:
        for reader, pipe in zip(readers, (process.stdout, process.stderr)):
            reader.join(_GOODBYE_S)
            pipe.close()
    if process.returncode not in (0, 130 if stopping else 0):
        refuse(process.returncode, said.get('err', ''))
    return said.get('out', '')


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_GOODBYE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


KINDS = typing.get_type_hints(DistributedSettings)
