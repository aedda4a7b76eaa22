"""Dispatcher: one large batch over every device of a machine, however unlike they are."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from ._loading import load_core
from .progress import bar

if TYPE_CHECKING:
    from ._core import Graph

__all__ = ['DispatchedModel', 'Dispatcher', 'DispatcherOptions']

_A_DAY_S = 86400.0


class DispatcherOptions(TypedDict, total=False):
    """What `Dispatcher` takes besides its devices."""

    model: str
    rates_file: str | os.PathLike[str]
    first_batches: Sequence[int]
    efficiency: float
    repeat_late: bool


class DispatchedModel:
    """A graph or a TorchScript module that lies on every device of a dispatcher, as it was when it was loaded."""

    def __init__(self, native: Any, inputs: Sequence[str]) -> None:
        """Made by `Dispatcher.load`."""
        self._native = native
        self._inputs = list(inputs)

    def run(self, rows: Any, *, progress: bool = False, timeout: float = _A_DAY_S) -> dict[str, Any]:
        """The outputs by name for a batch: a dict of arrays by input, or one array where there is one input.

        Rows come back in their order. Torch tensors come back where one went in, else numpy arrays. Python's other
        threads run meanwhile; Ctrl-C ends it once the sub-batches at work are done.
        """
        inputs = dict(rows) if isinstance(rows, Mapping) else {self._only_input(): rows}
        with bar(_length(inputs), progress) as told:
            return cast('dict[str, Any]', self._native.run(inputs, told, timeout))

    def _only_input(self) -> str:
        if len(self._inputs) != 1:
            raise ValueError(f"one array is given for the inputs {', '.join(self._inputs) or '(unknown)'}: give a dict of "
                             'arrays by name')
        return self._inputs[0]


class Dispatcher:
    """Cuts a batch into sub-batches, whose sizes it learns for each device, and computes them on all at once.

    Devices have torch's names ('cpu', 'cuda:0'), or are emulated: 'emulated:2000,1ms#slow' takes a millisecond and
    2000 rows a second. What was learned is kept from one run to the next, and in `rates_file` if there is one. One run
    at a time; Ctrl-C ends it once the sub-batches at work are done.
    """

    def __init__(self, devices: Iterable[str], **options: Unpack[DispatcherOptions]) -> None:
        """A dispatcher over these devices."""
        if isinstance(devices, str):
            raise TypeError(f"devices is a list of names, such as ['{devices}'], not a str")
        given: dict[str, Any] = dict(options)
        if 'rates_file' in given:
            given['rates_file'] = os.fspath(given['rates_file'])
        self._native = load_core()._Dispatcher(list(devices), given)

    def run(self, what: Any, rows: Any, *, progress: bool = False, timeout: float = _A_DAY_S) -> Any:
        """Computes a batch on all devices.

        `what` is a function: the answer is a list of what `function(sub_batch, device)` gave for each sub-batch, in the
        order of the rows, and `rows` anything that has a length and slices (a list, an array, a tensor). It runs in
        several threads, one for each device; the GIL is held while it runs Python, and free while native code computes.

        Or `what` is a graph, a TorchScript module or the file of one: the answer is a dict of outputs by name, as that
        of `DispatchedModel.run`. `load` keeps such a model on the devices for several runs.
        """
        if _is_model(what):
            return self.load(what).run(rows, progress=progress, timeout=timeout)
        if not callable(what):
            raise TypeError(f'a function, a graph or a TorchScript module is dispatched, not a {type(what).__name__}')
        found = self._pieces(lambda begin, end, device: what(rows[begin:end], device), len(rows), progress, timeout)
        return [piece for _, piece in found]

    def map(self, function: Callable[[Any], Any], rows: Sequence[Any], *, progress: bool = False,
            timeout: float = _A_DAY_S) -> list[Any]:
        """`[function(row) for row in rows]`, over all devices; `progress` shows a bar, `trace` says who did what."""
        if not callable(function):
            raise TypeError(f'a function of a row is mapped, not a {type(function).__name__}: run takes models')

        def piece(begin: int, end: int, device: str) -> list[Any]:
            return [function(row) for row in rows[begin:end]]

        return [one for _, part in self._pieces(piece, len(rows), progress, timeout) for one in part]

    def load(self, model: Graph | str | os.PathLike[str] | Any, *, inputs: Sequence[str] = (),
             outputs: Sequence[str] = ()) -> DispatchedModel:
        """Puts a model on every device: a graph with its weights (drawn from seed 1 where it has none, as by
        `Runtime`), a module of torch.jit.script or torch.jit.trace, or a file that torch.jit.save wrote.

        `inputs` names the arguments of the module's `forward` in their order (those of its signature), `outputs` what it
        returns ('output', or 'output0', 'output1' and so on; a dict has its own names).
        """
        if isinstance(model, (str, os.PathLike)):
            file = pathlib.Path(model)
            return DispatchedModel(self._native.script(file, list(inputs), list(outputs)), list(inputs) or ['input'])
        if not _is_model(model):
            raise TypeError(f'a graph, a TorchScript module or the file of one is loaded, not a {type(model).__name__}')
        with tempfile.TemporaryDirectory(prefix='harmonics-') as folder:
            if _is_script(model):
                names = list(inputs) or _arguments(model)
                file = pathlib.Path(folder) / 'model.pt'
                model.save(str(file))
                return DispatchedModel(self._native.script(file, names, list(outputs)), names)
            return DispatchedModel(self._native.graph(model, _weights(model, pathlib.Path(folder))),
                                   [one.name for one in model.producers if one.name not in _targets(model)])

    def knowledge(self) -> list[dict[str, Any]]:
        """What was learned about each device: latency_s, rows_per_second, best_batch."""
        found: list[dict[str, Any]] = self._native.knowledge()
        return found

    def trace(self) -> str:
        """What each lane did when, as Chrome's and Perfetto's JSON."""
        text: str = self._native.trace_json()
        return text

    def _repr_svg_(self) -> str:
        """A drawing of the trace, for notebooks."""
        text: str = self._native.trace_svg()
        return text

    def _pieces(self, piece: Callable[[int, int, str], Any], rows: int, progress: bool,
                timeout: float) -> list[tuple[int, Any]]:
        if rows == 0:
            return []
        with bar(rows, progress) as told:
            found: list[tuple[int, Any]] = self._native.map(piece, rows, told, timeout)
        return found


def _is_script(what: Any) -> bool:
    torch = sys.modules.get('torch')
    return torch is not None and isinstance(what, torch.jit.ScriptModule)


def _is_model(what: Any) -> bool:
    return isinstance(what, (str, os.PathLike, load_core().Graph)) or _is_script(what)


def _arguments(module: Any) -> list[str]:
    return [one.name for one in module.forward.schema.arguments[1:]]


def _targets(graph: Graph) -> set[str]:
    """Producers that only losses read."""
    return {tap.target for tap in graph.taps} - {name for layer in graph.layers for name in layer.inputs}


def _weights(graph: Graph, folder: pathlib.Path) -> str:
    """The file with the weights of a graph; '' where it has none."""
    if not graph.weights():
        return ''
    graph.save(folder / 'model.harp')
    [file] = folder.glob('*.safetensors')
    return str(file)


def _length(inputs: Mapping[str, Any]) -> int:
    """Rows of a batch."""
    return max((len(one) for one in inputs.values() if hasattr(one, '__len__')), default=0)
