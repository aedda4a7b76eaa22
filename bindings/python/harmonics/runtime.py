"""Runtime: one graph, its weights and its data, in one object."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ._loading import load_core
from .data import as_data, without_arrow
from .keywords import checked
from .progress import bar
from .settings import Settings, settings_text

if TYPE_CHECKING:
    from ._core import EpochReport, Evaluation, FitReport, Graph, StepReport

__all__ = ['FitOptions', 'Runtime', 'RuntimeSettings']


class RuntimeSettings(Settings, total=False):
    """What `Runtime` takes besides the settings of training."""

    deploy: list[str | dict[str, Any]]
    strict: bool
    secure: bool
    secure_key: str
    secure_keys: str
    secure_chain: str
    secure_proofs: str


class FitOptions(TypedDict, total=False):
    """What `Runtime.fit` takes besides its data."""

    epochs: int
    on_step: Callable[[StepReport], object]
    on_epoch: Callable[[EpochReport], object]
    checkpoint: str | os.PathLike[str]
    checkpoint_every: int
    metrics: str | os.PathLike[str]
    progress: bool


class Runtime:
    """Computes a graph and, when it has a loss, learns; in one process, whole or in parts on threads.

    Settings are the keys of a .harp file's train section (`lr`, `optimizer`, `batch_size`, `parts`, …), with those of
    the graph's file below them. Arrays go in and out without copies: numpy, torch, whatever has DLPack. One thread at
    a time uses it; others run while it computes.
    """

    def __init__(self, graph: Graph, **settings: Unpack[RuntimeSettings]) -> None:
        """A runtime with the graph's weights, or fresh ones where it has none."""
        core = load_core()
        if not isinstance(graph, core.Graph):
            raise TypeError(f'Runtime takes a harmonics.Graph, not a {type(graph).__name__}')
        known = {key: value for key, value in settings.items() if key in KINDS}
        self._engine = checked(lambda: core.Engine(graph, settings_text(settings)), known, KINDS)

    @property
    def graph(self) -> Graph:
        """The graph, with the shapes that followed from the data."""
        graph: Graph = self._engine.graph
        return graph

    def bind(self, data: Mapping[str, Any]) -> None:
        """Binds data by producer, in place of what was bound: see `fit`."""
        self._engine.bind(as_data(data))

    def fit(self, data: Any = None, *, evaluation: Any = None, **options: Unpack[FitOptions]) -> FitReport:
        """Learns for some epochs (`epochs`, else what the settings say).

        `data` maps producers to arrays of samples, to sources as in a .harp file ('csv:digits.csv?columns=0-63'), or
        is a table of Arrow with a column each, or an iterable of batches, such as a DataLoader, that yields dicts, tables
        or tuples in the order of the producers.
        Without it what was bound before is used, or what the graph's file names. `evaluation` is measured after every
        epoch. A callback that answers False ends the fit after the step at hand; so does Ctrl-C, which is raised once
        everything is saved. `progress` shows a bar. In a notebook the report draws the losses.
        """
        producers = [node.name for node in self._engine.graph.producers]
        wishes: dict[str, Any] = dict(options)
        with bar(None, bool(wishes.pop('progress', False)), 'step') as told:
            if told is not None:
                epochs = wishes.get('epochs') or self._engine.epochs
                wishes['on_step'] = _counted(told, epochs, wishes.get('on_step'))
            report: FitReport = self._engine.fit(as_data(data, producers), as_data(evaluation, producers), wishes)
        return report

    def step(self) -> StepReport:
        """One batch of the bound data; past its end the next epoch begins."""
        report: StepReport = self._engine.step()
        return report

    def evaluate(self, data: Any) -> Evaluation:
        """Loss and accuracy over one pass of this data, which must have every producer."""
        producers = [node.name for node in self._engine.graph.producers]
        found: Evaluation = self._engine.evaluate(as_data(data, producers))
        return found

    def infer(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What leaves the graph for these inputs, each with a leading batch axis, by consumer.

        Torch tensors come back where one went in, else numpy arrays. Inputs of the declared dtype are not copied, and
        must not be changed while others look at the outputs.
        """
        inputs = inputs if isinstance(inputs, dict) else without_arrow(inputs)
        if not isinstance(inputs, Mapping):
            raise TypeError(f'inputs is a dict of arrays by producer, not a {type(inputs).__name__}')
        outputs: dict[str, Any] = self._engine.infer(inputs if isinstance(inputs, dict) else dict(inputs))
        return outputs

    def parameters(self) -> dict[str, Any]:
        """Parameters and buffers by name, as numpy arrays over the runtime's own memory."""
        found: dict[str, Any] = self._engine.parameters(False)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves everything that training needs to go on as if it had never stopped; whole or not at all."""
        self._engine.save(os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on from what `save`, or the command line, saved."""
        self._engine.load(os.fspath(path))

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Start weights from safetensors, GGUF or a checkpoint."""
        self._engine.load_weights(os.fspath(path))

    def digest(self) -> str:
        """SHA-256 over all weights: equal exactly when two sets of them are, on any way to train them."""
        text: str = self._engine.digest()
        return text

    def progress(self) -> dict[str, int]:
        """Epochs that are done, and batches of the one under way."""
        now: dict[str, int] = self._engine.progress()
        return now

    def close(self) -> None:
        """Ends a secure run: its chain is whole, and no step may follow."""
        self._engine.close()

    def proof(self) -> str:
        """What the parts signed last in a secure run, a line each."""
        lines: str = self._engine.proof()
        return lines

    def __repr__(self) -> str:
        return f'<Runtime of {self._engine.graph!r}>'


def _counted(told: Callable[[int, int | None], None], epochs: int,
             on_step: Callable[[StepReport], object] | None) -> Callable[[StepReport], object]:
    """The callback of a fit that tells a bar how far it is."""
    done = 0

    def step(report: StepReport) -> object:
        nonlocal done
        done += 1
        told(done, None if report.batches_in_epoch is None else report.batches_in_epoch * epochs)
        return None if on_step is None else on_step(report)
    return step


KINDS = typing.get_type_hints(RuntimeSettings)
