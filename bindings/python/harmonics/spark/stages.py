"""Graphs as stages of a pyspark.ml pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
from pyspark.ml.wrapper import JavaEstimator, JavaModel
from pyspark.sql import SparkSession

from .jobs import TrainingJob, TrainingResult
from .sessions import graph_to_train, in_one_line

if TYPE_CHECKING:
    from .._core import Graph

__all__ = ['HarmonicsEstimator', 'HarmonicsModel']


class _Writer(MLWriter):  # type: ignore[misc]
    """Saves the Java stage, and metadata that leads a saved Python pipeline to it."""

    def __init__(self, stage: Any) -> None:
        super().__init__()
        self._stage = stage

    def saveImpl(self, path: str) -> None:
        self._stage._transfer_params_to_java()
        self._stage._java_obj.save(f'{path}/java')
        DefaultParamsWriter.saveMetadata(self._stage, path, self.sparkSession)


class _Reader(MLReader):  # type: ignore[misc]
    def __init__(self, stage: Any) -> None:
        super().__init__()
        self._stage = stage

    def load(self, path: str) -> Any:
        java = getattr(self.sparkSession._jvm.io.harmonics.spark, self._stage.__name__)
        stage = self._stage.__new__(self._stage)
        super(self._stage, stage).__init__()
        stage._adopt(java.load(f'{path}/java'))
        return stage


class _Columns(Params, MLWritable, MLReadable):  # type: ignore[misc]
    featuresCol = Param(Params._dummy(), 'featuresCol', 'column with the features',
                        TypeConverters.toString)
    outputCol = Param(Params._dummy(), 'outputCol', "new column with the graph's output",
                      TypeConverters.toString)
    predictionCol = Param(Params._dummy(), 'predictionCol',
                          "new column with the place of the output's largest element",
                          TypeConverters.toString)

    def write(self) -> Any:
        """What saves the stage."""
        return _Writer(self)

    @classmethod
    def read(cls) -> Any:
        """What loads the stage."""
        return _Reader(cls)

    def _adopt(self, java: Any) -> None:
        """Takes over a Java stage: its id, and the values of its parameters."""
        self._java_obj = java
        self._resetUid(java.uid())
        self._transfer_params_from_java()


class HarmonicsEstimator(JavaEstimator, _Columns):  # type: ignore[misc]
    """Trains a graph on a data frame; `columns` may say featuresCol, labelCol, outputCol,
    predictionCol and mode ('layer', 'data' or 'hybrid')."""

    labelCol = Param(Params._dummy(), 'labelCol', 'column with the label', TypeConverters.toString)
    mode = Param(Params._dummy(), 'mode', 'how the tasks share the work', TypeConverters.toString)

    def __init__(self, graph: Graph | Any, job: TrainingJob, **columns: str) -> None:
        """In the active session, which `builder` made."""
        super().__init__()
        session = SparkSession.getActiveSession()
        made = job.to_java(session)
        there = graph_to_train(session, graph)
        with in_one_line():
            java = session._jvm.io.harmonics.spark.HarmonicsEstimator(there, made)
        self._adopt(java)
        self._set(**columns)

    def _create_model(self, java_model: Any) -> HarmonicsModel:
        return HarmonicsModel(java_model)


class HarmonicsModel(JavaModel, _Columns):  # type: ignore[misc]
    """A trained graph: adds the graph's output, and the place of its largest element, to rows."""

    def __init__(self, java_model: Any = None) -> None:
        """Made by an estimator's `fit`."""
        super().__init__(java_model)
        if java_model is not None:
            self._adopt(java_model)

    @property
    def result(self) -> TrainingResult:
        """What the training came to."""
        return TrainingResult(SparkSession.getActiveSession(), self._java_obj.result())
