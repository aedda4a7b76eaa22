"""The native half of harmonics: graphs, data and what learns."""

from typing import Any
from collections.abc import Sequence
import os
import pathlib


class ProducerNode:
    """A tensor that enters a graph."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def shape(self) -> list[int] | None:
        """Its shape without the batch; None: learnt from the data."""

    @property
    def dtype(self) -> str:
        """Such as 'float32'."""

class LayerNode:
    """A layer of a graph."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def type(self) -> str:
        """What it computes, such as 'linear'."""

    @property
    def attributes(self) -> dict[str, int | float | str | list[int]]:
        """Its settings by name."""

    @property
    def inputs(self) -> list[str]:
        """Producers or layers that it reads."""

    @property
    def activation(self) -> str:
        """Applied to its output; '' for none."""

class ConsumerNode:
    """A tensor that leaves a graph."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def input(self) -> str:
        """The producer or layer that it shows."""

    @property
    def activation(self) -> str:
        """Applied on the way out; '' for none."""

class TrainingTap:
    """A loss that makes a graph learn."""

    @property
    def loss(self) -> str:
        """Its kind, such as 'cross_entropy'."""

    @property
    def prediction(self) -> str:
        """The layer that is judged."""

    @property
    def target(self) -> str:
        """The producer of what is right."""

    @property
    def weight(self) -> float:
        """How much it counts beside others."""

class Graph:
    """
    A neural network: producers, layers, consumers and training taps, checked and in order.
    """

    @staticmethod
    def parse(text: str) -> Graph:
        """The graph of a .harp text."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Graph:
        """
        The graph of a .harp file, with its data, its settings and its weights.
        """

    @staticmethod
    def zoo(name: str) -> Graph:
        """A well-known network, ready to train."""

    @staticmethod
    def zoo_names() -> list[str]:
        """The names that `zoo` knows."""

    @property
    def name(self) -> str:
        """The graph's name."""

    @property
    def producers(self) -> list[ProducerNode]:
        """Tensors that enter."""

    @property
    def layers(self) -> list[LayerNode]:
        """Layers in graph order."""

    @property
    def consumers(self) -> list[ConsumerNode]:
        """Tensors that leave."""

    @property
    def taps(self) -> list[TrainingTap]:
        """Losses to learn from."""

    @property
    def resolved(self) -> bool:
        """Whether every shape is known."""

    @property
    def parameter_count(self) -> int:
        """Trainable numbers."""

    @property
    def left_out(self) -> list[str]:
        """
        What of an imported model the graph does not have, such as chance in training.
        """

    @property
    def architecture(self) -> str:
        """What it was imported from, such as 'ONNX'; '' for others."""

    @property
    def file(self) -> pathlib.Path:
        """The .harp file that it was loaded from."""

    def shape(self, tensor: str) -> list[int]:
        """The shape of a producer or of a layer's output, without the batch."""

    def harp(self) -> str:
        """The graph as .harp text."""

    def svg(self) -> str:
        """A drawing of the graph."""

    def dot(self) -> str:
        """The graph for Graphviz."""

    def _repr_svg_(self) -> str:
        """For notebooks."""

    def partition(self, parts: int) -> list[Graph]:
        """
        Cuts the graph into that many parts, which compute together what it computes, bit for bit.
        """

    def with_loss(self, loss: str, target: str = 'label', prediction: str = '', weight: float = 1.0) -> Graph:
        """
        The graph with a loss to learn from; a target that it does not have yet becomes a producer. `prediction` is a consumer or a layer; '': the only consumer.
        """

    def _edited(self, name: str, edits: dict[str, Any]) -> Graph:
        """
        The graph with other names and attributes of layers: {layer: (name, {attribute: value})}.
        """

    def weights(self) -> dict[str, Any]:
        """Start values by parameter, as arrays over the memory where they lie."""

    def with_weights(self, weights: dict[str, Any]) -> Graph:
        """
        The graph with these start values, which stay where they are; parameters that are not named keep theirs.
        """

    def _origins(self) -> dict[str, Any]:
        """
        Parameters that are tensors of the source: its name there, and whether ours is transposed.
        """

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Writes a .harp file and, where there are weights, a safetensors file beside it.
        """

    def __repr__(self) -> str: ...

    def __eq__(self, other: object, /) -> bool: ...

class GraphBuilder:
    """
    Assembles a graph; nodes may come in any order, and `build` checks everything at once.
    """

    def __init__(self, name: str = 'graph') -> None:
        """A builder of a graph of that name."""

    def axis(self, name: str, ceiling: int) -> GraphBuilder:
        """A named axis of at most `ceiling`."""

    def producer(self, name: str, shape: Sequence[int | str] | None = None, dtype: str = 'float32') -> GraphBuilder:
        """
        A tensor that enters: its shape without the batch, numbers or names of axes; None: learnt from the data.
        """

    def layer(self, *args: Any, **kwargs: Any) -> GraphBuilder:
        """
        layer(name, type, inputs, activation='', **attributes): a layer; `inputs` is a name or a list of names.
        """

    def consumer(self, name: str, input: str, activation: str = '') -> GraphBuilder:
        """A tensor that leaves."""

    def tap(self, loss: str, prediction: str, target: str, weight: float = 1.0) -> GraphBuilder:
        """A loss to learn from."""

    def group(self, name: str) -> GraphBuilder:
        """Layers from now on are never cut apart; '' ends the group."""

    def build(self) -> Graph:
        """The graph, checked."""

def _import_model(path: str | os.PathLike[str], options: dict[str, Any]) -> Graph: ...

class Feed:
    """Batches that an object of Python yields, for one producer."""

def _feed(feed: object, name: str, first: object, batches: int | None) -> Feed: ...

class StepReport:
    """One batch; steps and epochs count from 1."""

    @property
    def step(self) -> int:
        """Number of the step since the run began."""

    @property
    def epoch(self) -> int:
        """Number of the epoch."""

    @property
    def batch(self) -> int:
        """Batches of this epoch so far."""

    @property
    def batches_in_epoch(self) -> int | None:
        """Of all of them, where the data has a size."""

    @property
    def samples(self) -> int:
        """Rows of the batch."""

    @property
    def loss(self) -> float | None:
        """Mean over the rows; None when the graph only infers."""

    @property
    def accuracy(self) -> float | None:
        """Share of right predictions, where classes are judged."""

    @property
    def learning_rate(self) -> float:
        """The rate of this step."""

    @property
    def gradient_norm(self) -> float:
        """Before clipping; 0 where clipping is off."""

    @property
    def updated(self) -> bool:
        """False when an overflow of fp16 skipped the update."""

class Evaluation:
    """What the losses say of data that is not learnt from."""

    @property
    def samples(self) -> int:
        """Rows that were looked at."""

    @property
    def loss(self) -> float:
        """Mean over the rows."""

    @property
    def accuracy(self) -> float | None:
        """Share of right predictions, where classes are judged."""

class EpochReport:
    """One pass over the data."""

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 1."""

    @property
    def steps(self) -> int:
        """Steps in it."""

    @property
    def samples(self) -> int:
        """Rows in it."""

    @property
    def train_loss(self) -> float | None:
        """Mean over the rows."""

    @property
    def train_accuracy(self) -> float | None:
        """Share of right predictions."""

    @property
    def evaluation(self) -> Evaluation | None:
        """Of the data that is held back; None without any."""

class FitReport:
    """How a fit went."""

    @property
    def epochs(self) -> int:
        """Epochs since the run began."""

    @property
    def steps(self) -> int:
        """Steps since the run began."""

    @property
    def last_epoch(self) -> EpochReport:
        """The last whole epoch."""

    @property
    def stopped_early(self) -> bool:
        """No better evaluation for `patience` epochs."""

    @property
    def interrupted(self) -> bool:
        """A callback or a signal ended it."""

    @property
    def losses(self) -> list[float]:
        """
        The loss of each step of this fit; of more than 65,536 steps the mean of two, four … neighbours each.
        """

    def _repr_svg_(self) -> str:
        """The losses, for notebooks."""

class Engine:
    def __init__(self, graph: Graph, settings: str) -> None: ...

    @property
    def graph(self) -> Graph: ...

    @property
    def epochs(self) -> int: ...

    def bind(self, data: dict[str, Any]) -> None: ...

    def fit(self, data: dict[str, Any], evaluation: dict[str, Any], options: dict[str, Any]) -> FitReport: ...

    def step(self) -> StepReport: ...

    def evaluate(self, data: dict[str, Any]) -> Evaluation: ...

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]: ...

    def parameters(self, torch: bool) -> dict[str, Any]: ...

    def progress(self) -> dict[str, Any]: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...

    def load(self, path: str | os.PathLike[str]) -> None: ...

    def load_weights(self, path: str | os.PathLike[str]) -> None: ...

    def digest(self) -> str: ...

    def close(self) -> None: ...

    def proof(self) -> str: ...

def _checkpoint_weights(path: str | os.PathLike[str]) -> dict[str, Any]: ...

class PlanStage:
    """Layers of a model on one host, or on several that take turns."""

    @property
    def hosts(self) -> list[str]:
        """The hosts."""

    @property
    def first_layer(self) -> int:
        """Counted from 1."""

    @property
    def last_layer(self) -> int:
        """Included."""

    @property
    def turns(self) -> list[int]:
        """Micro-batches of a round that each host takes; empty: one each."""

    def __repr__(self) -> str: ...

class Plan:
    """Which host runs which layers, and how good that is."""

    @property
    def stages(self) -> list[PlanStage]:
        """In the order of the layers."""

    @property
    def period_s(self) -> float:
        """Seconds from one micro-batch to the next."""

    @property
    def latency_s(self) -> float:
        """Seconds of one micro-batch through all stages."""

    @property
    def samples_per_s(self) -> float:
        """What the pipeline makes."""

    @property
    def batch_size(self) -> int:
        """Samples of a micro-batch."""

    @property
    def proven(self) -> bool:
        """Whether no plan is better."""

    @property
    def lower_bound_s(self) -> float:
        """No plan goes below it."""

    def yaml(self) -> str:
        """The plan as `sched-pipeline` prints it."""

    def json(self) -> str:
        """The report as JSON."""

    def svg(self) -> str:
        """A time line: a row for each stage, the first micro-batches as bars."""

    def partition(self, graph: Graph) -> list[Graph]:
        """The parts of a graph, one for each stage."""

    def _repr_html_(self) -> str:
        """For notebooks."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

def _plan(files: dict[str, Any], options: dict[str, Any]) -> Plan: ...

class _DispatchedModel:
    def run(self, inputs: dict[str, Any], progress: object | None, timeout_s: float) -> dict[str, Any]: ...

class _Dispatcher:
    def __init__(self, devices: Sequence[str], options: dict[str, Any]) -> None: ...

    def map(self, function: object, rows: int, progress: object | None, timeout_s: float) -> list[Any]: ...

    def script(self, file: str | os.PathLike[str], inputs: Sequence[str], outputs: Sequence[str]) -> _DispatchedModel: ...

    def graph(self, model: Graph, file: str | os.PathLike[str]) -> _DispatchedModel: ...

    def knowledge(self) -> list[Any]: ...

    def trace_json(self) -> str: ...

    def trace_svg(self) -> str: ...

version: str = '0.1.0'

torch_version: str = '1.13.0'
