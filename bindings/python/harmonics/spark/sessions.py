"""Sessions with Harmonics in their Java machine, graphs there, and what goes wrong in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

try:
    from py4j.java_gateway import JavaObject, JavaPackage
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException
    from pyspark.sql import SparkSession
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(f"harmonics.spark needs PySpark, and there is no module '{missing.name}': pip install "
                              "'harmonics-ml[spark]', or the PySpark of your cluster", name=missing.name) from None

from .. import errors
from ..errors import Error

if TYPE_CHECKING:
    from .._core import Graph

__all__ = ['builder', 'java_graph']

PLUGIN = 'io.harmonics.spark.HarmonicsPlugin'


def builder(*jars: str | os.PathLike[str]) -> Any:
    """A session builder with the plugin; `jars` are harmonics-jvm and harmonics-spark."""
    names = [os.fspath(jar) for jar in jars]
    for jar in names:
        if '://' not in jar and not os.path.exists(jar):
            raise FileNotFoundError(f"there is no jar '{jar}': scripts/spark-package.sh makes harmonics-jvm and "
                                    'harmonics-spark')
    made = SparkSession.builder.config('spark.plugins', PLUGIN)
    return made.config('spark.jars', ','.join(names)) if names else made


def java(session: Any) -> Any:
    """The Java packages of Harmonics, as the session's driver sees them."""
    machine = getattr(session, '_jvm', None)
    if machine is None:
        raise errors.FailedPrecondition('Harmonics needs a classic Spark session: Spark Connect has no Java machine')
    if isinstance(machine.io.harmonics.HarmonicGraph, JavaPackage):
        raise errors.FailedPrecondition(
            'this session has no jars of Harmonics: make it with harmonics.spark.builder(HARMONICS_JVM_JAR, '
            'HARMONICS_SPARK_JAR), or give them to spark-submit --jars')
    return machine.io.harmonics


def java_graph(session: Any, graph: Graph | Any) -> Any:
    """A graph as the session's Java machine has it, without its weights; one that is there already comes back as it is."""
    if isinstance(graph, JavaObject):
        return graph
    if not hasattr(graph, 'harp'):
        raise TypeError(f'a harmonics.Graph is needed, not a {type(graph).__name__}')
    there = java(session)
    with in_one_line():
        return there.HarmonicGraph.parse(graph.harp())


def graph_to_train(session: Any, graph: Graph | Any) -> Any:
    """The same of a graph that is to learn: in Spark start weights are drawn, so one that has its own is refused."""
    if not isinstance(graph, JavaObject) and hasattr(graph, 'harp') and graph.weights():
        raise errors.Unimplemented(
            f"graph '{graph.name}' has weights, and training in Spark draws its own from the seed: take the graph without "
            'them (Graph.parse(graph.harp())), or train it with harmonics.train_distributed')
    return java_graph(session, graph)


def first_line(error: Any) -> str:
    """The first line of the message of a Java exception."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        text = error.java_exception.getMessage() or error.java_exception.toString()
    return (text.strip().splitlines() or ['an error without words'])[0]


def code_of(error: Any) -> str:
    """The code of the library's error that a Java exception is, or has as its cause."""
    found = getattr(error, 'java_exception', None)
    while found is not None:
        name = found.getClass().getSimpleName()
        if name == 'HarmonicsException':
            return str(found.code())
        if name == 'IllegalArgumentException':
            return 'invalid_argument'
        found = found.getCause()
    return 'unknown'


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turns exceptions of the Java machine into those of `harmonics.errors`."""
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        made: Error = errors.made(code_of(error), first_line(error))
        made.java_error = error
        raise made from None
