"""Modules of torch as graphs, and weights back into their state dicts.

A module comes in through torch's own export to ONNX, which runs it once on example inputs: what it computes for them
is the graph. Parameters keep the memory of the module until something is learnt.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _built, errors
from ._loading import check_torch, load_core
from .models import import_model

if TYPE_CHECKING:
    from ._core import Graph
    from .runtime import Runtime

__all__ = ['from_torch', 'to_torch']

OPSET = 17
# What the module is called within the one that is exported.
_PREFIX = 'module.'
_MOST_PLACES = 3


def from_torch(module: Any, example_inputs: Any, *, loss: str = '', target: str = 'label') -> Graph:
    """The graph of a torch module, with its weights.

    `example_inputs` is a tensor, or a tuple or dict of them, each with the batch first; the graph takes any batch.
    Producers have the names of the arguments of `forward`, the consumer is `output` (`output0`, `output1` … of a tuple,
    the keys of a dict). With `loss` ('cross_entropy', 'mse', …) the graph learns from the producer `target`. An operator
    that cannot be taken over is an `Unimplemented` that names it and the line where the module uses it.
    """
    torch = _torch()
    check_torch(str(torch.__version__))
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f'from_torch takes a torch.nn.Module, not a {type(module).__name__}')
    inputs = _named_inputs(module, example_inputs)
    whole = _wrapped(torch, module, list(inputs))
    with _evaluating(module), tempfile.TemporaryDirectory() as folder:
        whole.training = True  # so that the exporter keeps equal parameters apart
        path = os.path.join(folder, f'{type(module).__name__}.onnx')
        try:
            _export(torch, whole, inputs, path)
            graph = import_model(path)
        except (errors.Unimplemented, torch.onnx.errors.OnnxExporterError, RuntimeError) as error:
            raise errors.Unimplemented(_refusal(torch, whole, inputs, error)) from error
    graph = _taken_over(graph, module)
    return graph.with_loss(loss, target) if loss else graph


def to_torch(source: Graph | Runtime, module: Any = None) -> dict[str, Any]:
    """The weights of a graph that `from_torch` made, or of its runtime, under the names of the module's state dict.

    With `module` they are copied into it, too. The tensors share the memory of the runtime, whose further steps they
    show, but for matrices that the graph holds transposed.
    """
    torch = _torch()
    graph: Any = getattr(source, 'graph', source)
    origins = graph._origins()
    if not origins:
        raise errors.FailedPrecondition('this graph was not made by from_torch: nothing says what its weights were called')
    engine = getattr(source, '_engine', None)
    weights = engine.parameters(True) if engine is not None else {
        name: torch.from_numpy(array) for name, array in graph.weights().items()}
    state: dict[str, Any] = {}
    for own, (theirs, turned) in origins.items():
        if own in weights:
            state[_module_name(theirs)] = weights[own].t() if turned else weights[own]
    if module is not None:
        known = module.state_dict()
        shaped = {name: tensor.reshape(known[name].shape) for name, tensor in state.items() if name in known}
        module.load_state_dict(shaped, strict=False)
    return state


def _torch() -> Any:
    try:
        return importlib.import_module('torch')
    except ImportError as missing:
        raise ImportError(f'torch is not installed here (this harmonics was built with {_built.TORCH}): Debian has it as '
                          'python3-torch, pip as torch') from missing


def _module_name(name: str) -> str:
    return name.removeprefix(_PREFIX)


def _named_inputs(module: Any, given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    tensors = list(given) if isinstance(given, (tuple, list)) else [given]
    names = [name for name, one in inspect.signature(module.forward).parameters.items()
             if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(names) < len(tensors):
        names = [f'input{i}' for i in range(len(tensors))] if len(tensors) > 1 else ['input']
    return dict(zip(names, tensors))


def _wrapped(torch: Any, module: Any, names: Sequence[str]) -> Any:
    class Whole(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module
            self.outputs: list[str] = ['output']

        def forward(self, *tensors: Any) -> Any:
            made = self.module(*tensors)
            if isinstance(made, Mapping):
                self.outputs = [f'{key}_output' if key in names else str(key) for key in made]
                return tuple(made.values())
            if isinstance(made, (tuple, list)):
                self.outputs = [f'output{i}' for i in range(len(made))]
                return tuple(made)
            return made

    return Whole()


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """The module in evaluation mode, as it was afterwards."""
    before = [(one, one.training) for one in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for one, training in before:
            one.training = training


def _export(torch: Any, whole: Any, inputs: Mapping[str, Any], path: str) -> None:
    tensors = tuple(inputs.values())
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        whole(*tensors)  # says what its outputs are called
        names = list(inputs)
        options: dict[str, Any] = {}
        if 'dynamo' in inspect.signature(torch.onnx.export).parameters:
            options['dynamo'] = False
        torch.onnx.export(whole, tensors, path, opset_version=OPSET, training=torch.onnx.TrainingMode.PRESERVE,
                          do_constant_folding=False, input_names=names, output_names=whole.outputs,
                          dynamic_axes={name: {0: 'batch'} for name in [*names, *whole.outputs]}, **options)


def _refusal(torch: Any, whole: Any, inputs: Mapping[str, Any], error: Exception) -> str:
    """What cannot be taken over, and where the user's module says it."""
    text = str(error).split('Please feel free')[0].split('\n')[0].strip()
    text = re.sub(r'^\S*?([^/\s]+)\.onnx: ', r'\1: ', text)
    found = []
    for operator in dict.fromkeys(re.findall(r"aten::\w+|(?<=\()[A-Z]\w+(?=\))|(?<=: )[A-Z]\w+(?= \()|(?<=, )[A-Z]\w+(?= \()", text)):
        places = _places(torch, whole, inputs, operator)
        if places:
            more = f' and {len(places) - _MOST_PLACES} more' if len(places) > _MOST_PLACES else ''
            found.append(f"{operator} at {', '.join(places[:_MOST_PLACES])}{more}")
    return f"{text} ({'; '.join(found)})" if found else text


def _places(torch: Any, whole: Any, inputs: Mapping[str, Any], operator: str) -> list[str]:
    """The lines of the user's code that an operator comes from, each once: 'model.py:12'."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            nodes = list(_traced(torch, whole, inputs, operator).nodes())
        except Exception:  # noqa: BLE001 - a second failure must not hide the first one
            return []
    inside = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    kind = operator if '::' in operator else f'onnx::{operator}'
    places = []
    for node in nodes:
        if node.kind() != kind:
            continue
        for file, line in re.findall(r'^(.*)\((\d+)\): ', node.sourceRange(), re.MULTILINE):
            if not file.startswith(inside):
                places.append(f'{file}:{line}')
                break
    return list(dict.fromkeys(places))


def _traced(torch: Any, whole: Any, inputs: Mapping[str, Any], operator: str) -> Any:
    tensors = tuple(inputs.values())
    if '::' in operator:
        return torch.jit._get_trace_graph(whole, tensors)[0]
    utils = importlib.import_module('torch.onnx.utils')
    mode = torch.onnx.TrainingMode.PRESERVE
    with utils.exporter_context(whole, mode, False):
        torch.onnx._globals.GLOBALS.export_onnx_opset_version = OPSET
        return utils._model_to_graph(whole, tensors, do_constant_folding=False, training=mode, input_names=list(inputs),
                                     dynamic_axes={name: {0: 'batch'} for name in inputs})[0]


def _taken_over(graph: Graph, module: Any) -> Graph:
    """The graph with the module's names, its frozen and tied parameters, and its memory."""
    state = module.state_dict(keep_vars=True)
    learned = {name: one.requires_grad for name, one in state.items() if type(one).__name__ == 'Parameter'}
    origins = {own: (_module_name(theirs), turned) for own, (theirs, turned) in graph._origins().items()}
    edits = _edits(graph, origins, learned)
    graph = graph._edited(type(module).__name__, edits)
    shared = {}
    weights = graph.weights()
    for own, (theirs, turned) in graph._origins().items():
        tensor = state.get(_module_name(theirs))
        if tensor is None or turned or own not in weights or str(tensor.dtype) != 'torch.float32':
            continue
        if tensor.is_contiguous() and tensor.device.type == 'cpu':
            shared[own] = tensor.detach().reshape(weights[own].shape)
    dropped = [f'{name} drops {one.p:g} of its inputs' for name, one in module.named_modules()
               if type(one).__name__.startswith('Dropout') and one.p > 0]
    if dropped:
        warnings.warn(f"the graph of {type(module).__name__} drops nothing in training: {', '.join(dropped[:5])}"
                      + (f' and {len(dropped) - 5} more' if len(dropped) > 5 else ''), stacklevel=3)
    return graph.with_weights(shared)


def _edits(graph: Graph, origins: Mapping[str, tuple[str, bool]],
           learned: Mapping[str, bool]) -> dict[str, tuple[str, dict[str, Any]]]:
    """What becomes of each layer: its name, whether it learns, and what it is tied to."""
    edits: dict[str, tuple[str, dict[str, Any]]] = {}
    taken = {node.name for node in graph.producers}
    owners: dict[str, tuple[str, bool]] = {}
    for layer in graph.layers:
        own = {name[len(layer.name) + 1:]: origin for name, origin in origins.items()
               if name.startswith(layer.name + '.')}
        name = _layer_name(layer.name, own, taken)
        taken.add(name)
        attributes: dict[str, Any] = {}
        wishes = [learned[theirs] for theirs, _ in own.values() if theirs in learned]
        if 'value' in own and learned.get(own['value'][0], False):
            attributes['learned'] = True
        elif wishes and not any(wishes):
            attributes['trainable'] = False
        for parameter, (theirs, turned) in own.items():
            if theirs not in learned:
                continue
            first = owners.setdefault(theirs, (f'{name}.{parameter}', turned))
            if first[0] == f'{name}.{parameter}':
                continue
            if parameter != 'weight' or first[1] != turned:
                raise errors.Unimplemented(f"parameter '{theirs}' is used twice, by {first[0]} and {name}.{parameter}, "
                                           'in ways that one parameter of a graph cannot serve')
            attributes['tie'] = first[0]
        edits[layer.name] = (name, attributes)
    return edits


def _layer_name(name: str, own: Mapping[str, tuple[str, bool]], taken: set[str]) -> str:
    """The submodule whose parameters these are, under the same names; else the operator's own."""
    owners = {theirs.rpartition('.')[0] for parameter, (theirs, _) in own.items()
              if theirs.rpartition('.')[2] == parameter}
    if len(owners) == 1 and all(theirs.rpartition('.')[2] == parameter for parameter, (theirs, _) in own.items()):
        wish = owners.pop()
        if wish and wish not in taken and re.fullmatch(r'[A-Za-z_][\w.]*', wish):
            return wish
    wish = name.removeprefix('_module_').removeprefix('_module.')
    return wish if re.fullmatch(r'[A-Za-z_][\w.]*', wish) and wish not in taken else name
