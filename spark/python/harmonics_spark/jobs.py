"""Graphs, training jobs and their results."""

import json
import os
from array import array

from py4j.java_gateway import JavaPackage
from pyspark import RDD
from pyspark.sql import SparkSession

from harmonics_spark.errors import in_one_line

PLUGIN = 'io.harmonics.spark.HarmonicsPlugin'


def builder(*jars):
    """A session builder with the plugin; `jars` are harmonics-jvm and harmonics-spark."""
    for jar in jars:
        if '://' not in jar and not os.path.exists(jar):
            raise FileNotFoundError(f"there is no jar '{jar}': scripts/spark-package.sh makes "
                                    'harmonics-jvm and harmonics-spark')
    made = SparkSession.builder.config('spark.plugins', PLUGIN)
    return made.config('spark.jars', ','.join(jars)) if jars else made


def _java(session):
    """The Java packages of Harmonics, as the session's driver sees them."""
    machine = getattr(session, '_jvm', None)
    if machine is None:
        raise RuntimeError('Harmonics needs a classic Spark session: '
                           'Spark Connect has no Java machine')
    if isinstance(machine.io.harmonics.HarmonicGraph, JavaPackage):
        raise RuntimeError("this session has no jars of Harmonics: make it with "
                           'harmonics_spark.builder(HARMONICS_JVM_JAR, HARMONICS_SPARK_JAR), or '
                           'give them to spark-submit --jars')
    return machine.io.harmonics


def zoo(session, name):
    """A well-known network, for instance 'digits-mlp'."""
    java = _java(session)
    with in_one_line():
        return java.HarmonicGraph.zoo(name)


def parse(session, text):
    """A graph from .harp text."""
    java = _java(session)
    with in_one_line():
        return java.HarmonicGraph.parse(text)


def load(session, path):
    """A graph from a .harp file."""
    with open(path, encoding='utf-8') as file:
        return parse(session, file.read())


def _pack(rows):
    """The Java RDD of the rows' floats as bytes."""
    return rows.map(lambda row: array('f', row).tobytes())._to_java_object_rdd()


class TrainingJob:
    """What a training job is told beside its graph: the settings of the Java class of that name.

    Keywords are its methods in snake_case (epochs, parts, replicas, batch_size, shuffle, cache,
    compress, base_port) or settings of a .harp file's train section (lr, seed, micro_batches,
    optimizer ...).
    """

    _METHODS = {'epochs': 'epochs', 'parts': 'parts', 'replicas': 'replicas',
                'batch_size': 'batchSize', 'shuffle': 'shuffle', 'compress': 'compress',
                'base_port': 'basePort', 'cache': 'cache'}

    def __init__(self, **settings):
        self._calls = []
        for name, value in settings.items():
            if name in self._METHODS:
                self._calls.append((self._METHODS[name], (value,)))
            else:
                self._calls.append(('set', (name, value)))

    def bind(self, producer, source):
        """Where a producer's samples come from; the path may be the URI of a Hadoop file system."""
        self._calls.append(('bind', (producer, source)))
        return self

    def rows(self, frame, **columns):
        """A data frame, and by producer the column, or the list of columns, that feeds it."""
        self._calls.append(('rows', (frame,)))
        for producer, names in columns.items():
            columns = [names] if isinstance(names, str) else names
            self._calls.append(('columns', (producer, columns)))
        return self

    def augment(self, producer, **options):
        """Random changes: crop_padding, flip, noise, mean and deviation (lists), seed."""
        self._calls.append(('augment', (producer, options)))
        return self

    def checkpoint(self, file, steps):
        """A file in a folder that all executors share, and how often the state goes there."""
        self._calls.append(('checkpoint', (file, steps)))
        return self

    def carrier(self, name):
        """'auto', 'shared_memory', 'tcp' or 'grpc'."""
        self._calls.append(('carrier', (name,)))
        return self

    def secure(self, keys=''):
        """Signs and checks every tensor between the tasks; `keys` is a folder that all can read."""
        self._calls.append(('secure', (keys,)))
        return self

    def deploy(self, backend='auto', parts=None, strict=False):
        """What computes the parts: a backend for all, and others by the number of the part."""
        self._calls.append(('deploy', (backend, dict(parts or {}), strict)))
        return self

    def to_java(self, session):
        """The Java object."""
        java = _java(session).spark
        with in_one_line():
            job = java.TrainingJob()
            for method, arguments in self._calls:
                getattr(job, method)(*self._translated(session, java, method, arguments))
            return job

    @staticmethod
    def _translated(session, java, method, arguments):
        if method == 'rows':
            return (arguments[0]._jdf,)
        if method == 'columns':
            names = arguments[1]
            array = session._sc._gateway.new_array(session._jvm.java.lang.String, len(names))
            for i, name in enumerate(names):
                array[i] = name
            return arguments[0], array
        if method == 'augment':
            options = session._jvm.java.util.HashMap()
            for name, value in arguments[1].items():
                if isinstance(value, (list, tuple)):
                    numbers = session._jvm.java.util.ArrayList()
                    for number in value:
                        numbers.add(float(number))
                    value = numbers
                options.put(name, value)
            return arguments[0], options
        if method == 'carrier':
            return (java.Carrier.named(arguments[0]),)
        if method == 'deploy':
            made = java.Deployment().backend(arguments[0]).strict(arguments[2])
            for part, backend in arguments[1].items():
                made.part(part, backend)
            return (made,)
        return arguments


class TrainingResult:
    """What a training job came to."""

    def __init__(self, session, java):
        self._session, self._java = session, java

    def __repr__(self):
        facts = ', '.join(f'{name}={value}' for name, value in sorted(self.report.items())
                          if isinstance(value, (int, float)))
        return f'TrainingResult({facts})'

    @property
    def report(self):
        """Epochs, steps, samples and, of the part that knows it, loss and accuracy."""
        return json.loads(self._java.report().json())

    @property
    def weights_digest(self):
        """SHA-256 over all weights, the same as the native library and command line give."""
        return self._java.weightsDigest()

    @property
    def processes(self):
        """Process ids of the executors that took part."""
        return set(self._java.processes())

    @property
    def attempts(self):
        """How often the tasks were started: more than once when an executor was lost."""
        return self._java.attempts()

    @property
    def traffic(self):
        """What each task sent and received, and over what."""
        return [json.loads(task.json()) for task in self._java.traffic()]

    @property
    def resumed_from(self):
        """The step from which the tasks that finished had gone on; 0 when they began anew."""
        return self._java.resumedFrom()

    @property
    def proofs(self):
        """What the tasks of a secure job signed last, a line each."""
        return list(self._java.proofs())

    def save_chains(self, folder):
        """Writes the chains of a secure job; answers the files, which `harmonics verify` takes. The
        folder is made where it is missing."""
        with in_one_line():
            return [str(file) for file in self._java.saveChains(self._path(folder))]

    def save(self, path):
        """Writes the weights as a safetensors file, which `harmonics run --weights` reads."""
        with in_one_line():
            self._java.save(self._path(path))

    def _path(self, path):
        return self._session._jvm.java.io.File(str(path)).toPath()


class Harmonics:
    """Trains and runs graphs inside the tasks of a session that was started with the plugin."""

    def __init__(self, session):
        self._session = session
        self._java = _java(session).spark.HarmonicsSpark(session._jsparkSession)
        self._packed = _java(session).spark.PackedRows(self._java)

    def layer_parallel(self, graph, job):
        """One copy of the graph, its layers over the job's parts."""
        return self._train(self._java.layerParallel, graph, job)

    def data_parallel(self, graph, job):
        """The job's replicas of the graph, each of which computes a share of every batch."""
        return self._train(self._java.dataParallel, graph, job)

    def hybrid(self, graph, job):
        """Replicas of the graph, each over several parts."""
        return self._train(self._java.hybrid, graph, job)

    def infer(self, graph, result, rows, parts=1, copies=1):
        """The outputs of a trained graph for an RDD of rows (sequences of numbers), as an RDD of
        arrays of floats in the order of the rows. With several `parts` the layers go over so many
        tasks, `copies` times."""
        packed = _pack(rows)
        with in_one_line():
            if parts == 1:
                made = self._packed.infer(graph, result._java, packed)
            else:
                made = self._packed.inferLayerParallel(graph, result._java, packed, parts, copies)
        context = rows.context
        outputs = RDD(context._jvm.SerDeUtil.javaToPython(made), context)
        return outputs.map(lambda packed: array('f', bytes(packed)))

    def sum(self, vectors):
        """The sum of an RDD's vectors (sequences of as many numbers), as an array of floats:
        natively, up and down a tree of tasks. The RDD may have any number of partitions."""
        packed = _pack(vectors)
        with in_one_line():
            return array('f', bytes(self._packed.sum(packed)))

    def _train(self, train, graph, job):
        made = job.to_java(self._session)
        with in_one_line():
            return TrainingResult(self._session, train(graph, made))
