"""Harmonics inside PySpark: thin wrappers of the Java classes in io.harmonics.spark.

    from harmonics_spark import Harmonics, TrainingJob, builder, zoo

    session = builder('harmonics-jvm-0.1.0.jar', 'harmonics-spark-0.1.0.jar').getOrCreate()
    graph = zoo(session, 'digits-mlp')
    job = TrainingJob(epochs=30, parts=2, lr=0.005)
    job.bind('image', 'csv:hdfs://store/digits.csv?columns=0-63&scale=0.0625')
    job.bind('label', 'csv:hdfs://store/digits.csv?columns=64&dtype=int64')
    result = Harmonics(session).layer_parallel(graph, job)
    result.save('digits.safetensors')

What goes wrong in the Java machine is a HarmonicsError of one line.

Works with classic sessions; Spark Connect has no Java machine to call.
"""

from harmonics_spark.errors import HarmonicsError
from harmonics_spark.jobs import Harmonics, TrainingJob, TrainingResult, builder, load, parse, zoo
from harmonics_spark.stages import HarmonicsEstimator, HarmonicsModel

__all__ = ['Harmonics', 'HarmonicsError', 'HarmonicsEstimator', 'HarmonicsModel', 'TrainingJob',
           'TrainingResult', 'builder', 'load', 'parse', 'zoo']
