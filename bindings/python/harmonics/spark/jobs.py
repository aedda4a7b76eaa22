"""Training jobs and their results."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from .._loading import load_core
from ..runtime import Runtime
from ..settings import Settings
from .sessions import graph_to_train, in_one_line, java, java_graph

if TYPE_CHECKING:
    from .._core import Graph

__all__ = ['Harmonics', 'SparkSettings', 'TrainingJob', 'TrainingResult', 'train_distributed']


class SparkSettings(Settings, total=False):
    """What `TrainingJob` and `train_distributed` take besides the settings of training."""

    compress: bool
    base_port: int
    cache: int


def _pack(rows: Any) -> Any:
    """The Java RDD of the rows' floats as bytes."""
    return rows.map(lambda row: array('f', row).tobytes())._to_java_object_rdd()


class TrainingJob:
    """What a training job is told beside its graph: the settings of `harmonics.Runtime` and `train_distributed`, and of
    Spark compress, base_port and cache (bytes of samples that a task keeps)."""

    _METHODS = {'epochs': 'epochs', 'parts': 'parts', 'replicas': 'replicas', 'batch_size': 'batchSize',
                'shuffle': 'shuffle', 'compress': 'compress', 'base_port': 'basePort', 'cache': 'cache'}

    def __init__(self, **settings: Unpack[SparkSettings]) -> None:
        """A job with these settings."""
        self._calls: list[tuple[str, tuple[Any, ...]]] = []
        for name, value in settings.items():
            if name in self._METHODS:
                self._calls.append((self._METHODS[name], (value,)))
            else:
                self._calls.append(('set', (name, value)))

    def bind(self, producer: str, source: str) -> TrainingJob:
        """Where a producer's samples come from; the path may be the URI of a Hadoop file system."""
        self._calls.append(('bind', (producer, source)))
        return self

    def rows(self, frame: Any, **columns: str | Iterable[str]) -> TrainingJob:
        """A data frame, and by producer the column, or the list of columns, that feeds it."""
        self._calls.append(('rows', (frame,)))
        for producer, names in columns.items():
            self._calls.append(('columns', (producer, [names] if isinstance(names, str) else list(names))))
        return self

    def augment(self, producer: str, **options: Any) -> TrainingJob:
        """Random changes: crop_padding, flip, noise, mean and deviation (lists), seed."""
        self._calls.append(('augment', (producer, options)))
        return self

    def checkpoint(self, file: str, steps: int) -> TrainingJob:
        """A file in a folder that all executors share, and how often the state goes there."""
        self._calls.append(('checkpoint', (file, steps)))
        return self

    def carrier(self, name: str) -> TrainingJob:
        """'auto', 'shared_memory', 'tcp' or 'grpc'."""
        self._calls.append(('carrier', (name,)))
        return self

    def secure(self, keys: str = '') -> TrainingJob:
        """Signs and checks every tensor between the tasks; `keys` is a folder that all can read."""
        self._calls.append(('secure', (keys,)))
        return self

    def deploy(self, backend: str = 'auto', parts: Mapping[int, str] | None = None, strict: bool = False) -> TrainingJob:
        """What computes the parts: a backend for all, and others by the number of the part."""
        self._calls.append(('deploy', (backend, dict(parts or {}), strict)))
        return self

    def to_java(self, session: Any) -> Any:
        """The Java object."""
        there = java(session).spark
        with in_one_line():
            job = there.TrainingJob()
            for method, arguments in self._calls:
                getattr(job, method)(*self._translated(session, there, method, arguments))
            return job

    @staticmethod
    def _translated(session: Any, there: Any, method: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if method == 'rows':
            return (arguments[0]._jdf,)
        if method == 'columns':
            names = arguments[1]
            texts = session._sc._gateway.new_array(session._jvm.java.lang.String, len(names))
            for i, name in enumerate(names):
                texts[i] = name
            return arguments[0], texts
        if method == 'augment':
            return arguments[0], _java_options(session, arguments[1])
        if method == 'carrier':
            return (there.Carrier.named(arguments[0]),)
        if method == 'deploy':
            made = there.Deployment().backend(arguments[0]).strict(arguments[2])
            for part, backend in arguments[1].items():
                made.part(part, backend)
            return (made,)
        return arguments


def _java_options(session: Any, given: Mapping[str, Any]) -> Any:
    options = session._jvm.java.util.HashMap()
    for name, value in given.items():
        if isinstance(value, (list, tuple)):
            numbers = session._jvm.java.util.ArrayList()
            for number in value:
                numbers.add(float(number))
            value = numbers
        options.put(name, value)
    return options


class TrainingResult:
    """What a training job came to; `graph`, `digest` and `figures` are as in `harmonics.DistributedReport`."""

    def __init__(self, session: Any, made: Any, graph: Graph | Any = None) -> None:
        """Made by `train_distributed` and `Harmonics`."""
        self._session, self._java, self._graph = session, made, graph

    def __repr__(self) -> str:
        facts = ', '.join(f'{name}={value}' for name, value in sorted(self.figures.items())
                          if isinstance(value, (int, float)))
        return f'TrainingResult({facts})'

    @property
    def graph(self) -> Graph:
        """The graph with what it has learnt, as `harmonics.Runtime` takes it."""
        if not isinstance(self._graph, load_core().Graph):
            raise AttributeError('this training was given a graph of the Java machine: give a harmonics.Graph, or save the '
                                 'weights')
        with tempfile.TemporaryDirectory(prefix='harmonics-') as folder:
            file = pathlib.Path(folder) / 'weights.safetensors'
            self.save(file)
            runtime = Runtime(self._graph)
            runtime.load_weights(file)
        learnt: Graph = self._graph.with_weights(runtime.parameters())
        return learnt

    @property
    def figures(self) -> dict[str, Any]:
        """Epochs, steps, samples and, of the part that knows it, loss and accuracy."""
        found: dict[str, Any] = json.loads(self._java.report().json())
        return found

    @property
    def digest(self) -> str:
        """SHA-256 over all weights, the same as the native library and command line give."""
        return str(self._java.weightsDigest())

    @property
    def report(self) -> dict[str, Any]:
        """The same as `figures`."""
        return self.figures

    @property
    def weights_digest(self) -> str:
        """The same as `digest`."""
        return self.digest

    @property
    def processes(self) -> set[str]:
        """Process ids of the executors that took part."""
        return set(self._java.processes())

    @property
    def attempts(self) -> int:
        """How often the tasks were started: more than once when an executor was lost."""
        return int(self._java.attempts())

    @property
    def traffic(self) -> list[dict[str, Any]]:
        """What each task sent and received, and over what."""
        return [json.loads(task.json()) for task in self._java.traffic()]

    @property
    def resumed_from(self) -> int:
        """The step from which the tasks that finished had gone on; 0 when they began anew."""
        return int(self._java.resumedFrom())

    @property
    def proofs(self) -> list[str]:
        """What the tasks of a secure job signed last, a line each."""
        return list(self._java.proofs())

    def save_chains(self, folder: str | os.PathLike[str]) -> list[str]:
        """Writes the chains of a secure job; answers the files, which `harmonics verify` takes. The folder is made where
        it is missing."""
        with in_one_line():
            return [str(file) for file in self._java.saveChains(self._path(folder))]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights as a safetensors file, which `harmonics run --weights` and `Runtime.load_weights` read."""
        with in_one_line():
            self._java.save(self._path(path))

    def _path(self, path: str | os.PathLike[str]) -> Any:
        return self._session._jvm.java.io.File(os.fspath(path)).toPath()


class Harmonics:
    """Trains and runs graphs inside the tasks of a session that was started with the plugin."""

    def __init__(self, session: Any) -> None:
        """Over a session that `builder` made."""
        self._session = session
        self._java = java(session).spark.HarmonicsSpark(session._jsparkSession)
        self._packed = java(session).spark.PackedRows(self._java)

    def layer_parallel(self, graph: Graph | Any, job: TrainingJob) -> TrainingResult:
        """One copy of the graph, its layers over the job's parts."""
        return self._train(self._java.layerParallel, graph, job)

    def data_parallel(self, graph: Graph | Any, job: TrainingJob) -> TrainingResult:
        """The job's replicas of the graph, each of which computes a share of every batch."""
        return self._train(self._java.dataParallel, graph, job)

    def hybrid(self, graph: Graph | Any, job: TrainingJob) -> TrainingResult:
        """Replicas of the graph, each over several parts."""
        return self._train(self._java.hybrid, graph, job)

    def infer(self, graph: Graph | Any, result: TrainingResult, rows: Any, parts: int = 1, copies: int = 1) -> Any:
        """The outputs of a trained graph for an RDD of rows (sequences of numbers), as an RDD of arrays of floats in the
        order of the rows. With several `parts` the layers go over so many tasks, `copies` times."""
        from pyspark import RDD
        packed = _pack(rows)
        there = java_graph(self._session, graph)
        with in_one_line():
            if parts == 1:
                made = self._packed.infer(there, result._java, packed)
            else:
                made = self._packed.inferLayerParallel(there, result._java, packed, parts, copies)
        context = rows.context
        outputs = RDD(context._jvm.SerDeUtil.javaToPython(made), context)
        return outputs.map(lambda packed: array('f', bytes(packed)))

    def sum(self, vectors: Any) -> array[float]:
        """The sum of an RDD's vectors (sequences of as many numbers), as an array of floats: natively, up and down a tree
        of tasks. The RDD may have any number of partitions."""
        packed = _pack(vectors)
        with in_one_line():
            return array('f', bytes(self._packed.sum(packed)))

    def _train(self, train: Any, graph: Graph | Any, job: TrainingJob) -> TrainingResult:
        made = job.to_java(self._session)
        there = graph_to_train(self._session, graph)
        with in_one_line():
            return TrainingResult(self._session, train(there, made), graph)


def train_distributed(session: Any, graph: Graph | Any, data: Mapping[str, str | Iterable[str]] | None = None, *,
                      frame: Any = None, **settings: Unpack[SparkSettings]) -> TrainingResult:
    """What `harmonics.train_distributed` does, inside the tasks of a session: `parts` of the graph, `replicas` of it, or
    both, each a task.

    `data` maps producers to sources in text, whose paths all executors can read; with `frame` to columns of that data
    frame. Settings are those of `harmonics.train_distributed`, and so are the weights, bit for bit. What else a job can
    be told (checkpoints, carriers, keys) is said by `TrainingJob`, for `Harmonics`.
    """
    job = TrainingJob(**settings)
    given = dict(data or {})
    if frame is not None:
        job.rows(frame, **given)
    else:
        for producer, source in given.items():
            if not isinstance(source, str):
                raise TypeError(f"the data of '{producer}' is a source in text, or with frame= a column of it, not a "
                                f'{type(source).__name__}')
            job.bind(producer, source)
    front = Harmonics(session)
    if settings.get('replicas', 1) == 1:
        return front.layer_parallel(graph, job)
    return front.data_parallel(graph, job) if settings.get('parts', 1) == 1 else front.hybrid(graph, job)
