"""Harmonics inside PySpark: the graphs, settings, names and errors of `harmonics`, run by the tasks of a Spark session.

    import harmonics as hm
    from harmonics import spark

    session = spark.builder('harmonics-jvm-0.1.0.jar', 'harmonics-spark-0.1.0.jar').getOrCreate()
    trained = spark.train_distributed(session, hm.Graph.zoo('digits-mlp'), {
        'image': 'csv:hdfs://store/digits.csv?columns=0-63&scale=0.0625',
        'label': 'csv:hdfs://store/digits.csv?columns=64&dtype=int64'}, epochs=30, parts=2, lr=0.005)
    trained.save('digits.safetensors')

What goes wrong in the Java machine is an error of `harmonics.errors`, of one line; its `java_error` has the stack.
PySpark is not installed with the package: `pip install 'harmonics-ml[spark]'`, or the one of your cluster. Works with
classic sessions; Spark Connect has no Java machine to call.
"""

from __future__ import annotations

from .jobs import Harmonics, TrainingJob, TrainingResult, train_distributed
from .sessions import builder, java_graph
from .stages import HarmonicsEstimator, HarmonicsModel

__all__ = ['Harmonics', 'HarmonicsEstimator', 'HarmonicsModel', 'TrainingJob', 'TrainingResult', 'builder', 'java_graph',
           'train_distributed']
