"""harmonics.spark, in a session of two tasks inside one process.

usage: spark_test.py JAR[,JAR …]
(run by scripts/test-spark.sh with a Python that has pyspark, and the package of the build folder on PYTHONPATH)
"""

import contextlib
import importlib
import re
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
import harmonics as hm  # noqa: E402
from harmonics import spark as harmonics  # noqa: E402

DIGITS = ROOT / 'examples/data/digits.csv'
JARS = []


class HarmonicsSparkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = (harmonics.builder(*JARS).master('local[2]')
                       .config('spark.ui.enabled', 'false')
                       .config('spark.driver.host', '127.0.0.1')
                       .config('spark.driver.bindAddress', '127.0.0.1')
                       .config('spark.sql.shuffle.partitions', '2').getOrCreate())
        cls.session.sparkContext.setLogLevel('ERROR')
        cls.graph = hm.Graph.zoo('digits-mlp')
        pixels = ','.join(f'_c{i} * 0.0625D' for i in range(64))
        cls.frame = (cls.session.read.option('inferSchema', True).csv(str(DIGITS))
                     .selectExpr(f'array({pixels}) AS features', 'CAST(_c64 AS INT) AS label'))

    @classmethod
    def tearDownClass(cls):
        cls.session.stop()

    def from_file(self, **settings):
        return (harmonics.TrainingJob(epochs=2, lr=0.005, seed=3, threads=1, **settings)
                .bind('image', f'csv:{DIGITS}?columns=0-63&scale=0.0625')
                .bind('label', f'csv:{DIGITS}?columns=64&dtype=int64'))

    def test_a_file_and_a_frame_train_to_the_same_weights(self):
        spark = harmonics.Harmonics(self.session)
        file = spark.layer_parallel(self.graph, self.from_file(parts=2).carrier('auto'))
        job = harmonics.TrainingJob(epochs=2, lr=0.005, seed=3, threads=1, parts=2)
        frame = spark.layer_parallel(self.graph,
                                     job.rows(self.frame, image='features', label=['label']))
        self.assertEqual(file.weights_digest, frame.weights_digest)
        self.assertEqual(2, file.report['epochs'])
        self.assertEqual(1, file.attempts)
        self.assertEqual(1, len(file.processes))
        self.assertEqual([{'bus': 1}, {'bus': 1}], [task['ends'] for task in file.traffic])
        with tempfile.TemporaryDirectory() as folder:
            file.save(Path(folder) / 'digits.safetensors')
            self.assertGreater((Path(folder) / 'digits.safetensors').stat().st_size, 1000)

    def test_the_same_call_as_with_processes_comes_to_the_same_weights(self):
        data = {'image': f'csv:{DIGITS}?columns=0-63&scale=0.0625', 'label': f'csv:{DIGITS}?columns=64&dtype=int64'}
        settings = {'epochs': 2, 'lr': 0.005, 'seed': 3, 'threads': 1}
        made = harmonics.train_distributed(self.session, self.graph, data, parts=2, **settings)
        alone = hm.Runtime(self.graph, parts=2, **settings)
        alone.fit(data)
        self.assertEqual(alone.digest(), made.digest)
        self.assertEqual(made.digest, hm.Runtime(made.graph).digest())
        self.assertEqual(made.figures, made.report)
        frame = harmonics.train_distributed(self.session, self.graph, {'image': 'features', 'label': ['label']},
                                            frame=self.frame, replicas=2, **settings)
        self.assertGreater(frame.figures['train_accuracy'], 0.8)
        with self.assertRaisesRegex(NotImplementedError, "'digits_mlp' has weights|'digits-mlp' has weights"):
            harmonics.train_distributed(self.session, made.graph, data)
        with self.assertRaisesRegex(TypeError, "the data of 'image' is a source in text"):
            harmonics.train_distributed(self.session, self.graph, {'image': 3})

    def test_the_former_name(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter('always')
            former = importlib.import_module('harmonics_spark')
        self.assertIn('harmonics_spark is now harmonics.spark', str(said[-1].message))
        self.assertIs(former.TrainingJob, harmonics.TrainingJob)
        self.assertIs(importlib.import_module('harmonics_spark.stages').HarmonicsModel, harmonics.HarmonicsModel)
        made = former.Harmonics(self.session).layer_parallel(former.zoo(self.session, 'digits-mlp'), self.from_file(parts=2))
        self.assertEqual(2, made.report['epochs'])
        with self.assertRaisesRegex(AttributeError, 'a graph of the Java machine'):
            made.graph

    def test_replicas_train(self):
        spark = harmonics.Harmonics(self.session)
        result = spark.data_parallel(self.graph, self.from_file(replicas=2).deploy('cpu'))
        self.assertGreater(result.report['train_accuracy'], 0.8)

    def test_samples_are_kept_and_changed(self):
        spark = harmonics.Harmonics(self.session)
        plain = spark.layer_parallel(self.graph, self.from_file(parts=2)).weights_digest
        job = self.from_file(parts=2, cache=1 << 20)
        self.assertEqual(plain, spark.layer_parallel(self.graph, job).weights_digest)
        job.augment('image', noise=0.1, mean=[0.25], deviation=[0.5])
        self.assertNotEqual(plain, spark.layer_parallel(self.graph, job).weights_digest)

    def test_an_error_keeps_its_words(self):
        spark = harmonics.Harmonics(self.session)
        job = self.from_file(parts=2).bind('label', 'csv:/no/such/file.csv')
        with self.assertRaisesRegex(hm.Error, '/no/such/file.csv') as raised:
            spark.layer_parallel(self.graph, job)
        self.assertEqual(1, len(str(raised.exception).splitlines()))
        self.assertIsNotNone(raised.exception.java_error)

    def test_wrong_settings_are_one_line_at_once(self):
        spark = harmonics.Harmonics(self.session)
        for settings, words in (
                ({'epochs': 0}, 'epochs: at least 1, not 0'),
                ({'epochs': -1}, 'epochs: at least 1, not -1'),
                ({'parts': -1}, 'parts: at least 1, not -1'),
                ({'base_port': 70000}, 'base port 70000: ports are numbers from 1 to 65535')):
            job = harmonics.TrainingJob(**settings)
            self.told(words, lambda: spark.layer_parallel(self.graph, job))
        job = self.from_file().carrier('pigeon')
        self.told("there is no carrier 'pigeon'; there are auto, shared_memory, tcp, grpc",
                  lambda: spark.layer_parallel(self.graph, job))
        self.told('3 tasks at a time are needed, the cluster has 2: give the session more executors '
                  'or cores, or the job fewer parts or replicas',
                  lambda: spark.data_parallel(self.graph, self.from_file(replicas=3)))

    def told(self, words, call):
        with self.assertRaises(hm.Error) as raised:
            call()
        self.assertEqual(words, str(raised.exception))

    def test_missing_jars_are_told(self):
        machine = SimpleNamespace(io=SimpleNamespace(harmonics=self.session._jvm.io.nobody))
        with self.assertRaisesRegex(hm.errors.FailedPrecondition, 'no jars of Harmonics'):
            harmonics.java_graph(SimpleNamespace(_jvm=machine), self.graph)
        with self.assertRaisesRegex(FileNotFoundError, "no jar '/no/such.jar'"):
            harmonics.builder('/no/such.jar')

    def test_an_estimator_is_a_stage_of_a_pipeline(self):
        from pyspark.ml import Pipeline, PipelineModel
        estimator = harmonics.HarmonicsEstimator(
            self.graph, harmonics.TrainingJob(epochs=8, lr=0.005), mode='data', outputCol='scores')
        model = Pipeline(stages=[estimator]).fit(self.frame)
        scored = model.transform(self.frame)
        self.assertEqual(['features', 'label', 'scores', 'prediction'], scored.columns)
        rows = scored.select('label', 'prediction').collect()
        right = sum(row.label == row.prediction for row in rows)
        self.assertGreater(right / len(rows), 0.95)
        self.assertEqual(8, model.stages[0].result.report['epochs'])
        with tempfile.TemporaryDirectory() as folder:
            model.save(f'{folder}/fitted')
            loaded = PipelineModel.load(f'{folder}/fitted')
            Pipeline(stages=[estimator]).save(f'{folder}/plain')
            plain = Pipeline.load(f'{folder}/plain').getStages()[0]
        self.assertEqual(model.stages[0].result.weights_digest,
                         loaded.stages[0].result.weights_digest)
        again = loaded.transform(self.frame).select('label', 'prediction').collect()
        self.assertEqual(rows, again)
        self.assertEqual(estimator.uid, plain.uid)
        self.assertEqual('data', plain.getOrDefault('mode'))
        self.assertEqual('scores', plain.getOrDefault('outputCol'))

    def test_an_rdd_is_inferred_in_its_order(self):
        spark = harmonics.Harmonics(self.session)
        result = spark.layer_parallel(self.graph, self.from_file(parts=2))
        rows = self.frame.limit(300).rdd.map(lambda row: row.features).collect()
        spread = self.session.sparkContext.parallelize(rows, 3)
        whole = spark.infer(self.graph, result, spread).collect()
        self.assertEqual([10] * 300, [len(output) for output in whole])
        self.same(whole, spark.infer(self.graph, result, spread, parts=2).collect())
        backwards = self.session.sparkContext.parallelize(rows[::-1], 1)
        self.same(whole, spark.infer(self.graph, result, backwards).collect()[::-1])

    def same(self, expected, outputs):
        self.assertEqual(len(expected), len(outputs))
        for one, other in zip(expected, outputs):
            for a, b in zip(one, other):
                self.assertAlmostEqual(a, b, places=4)

    def test_the_guides_example_runs(self):
        page = (ROOT / 'docs/guides/spark.md').read_text()
        example = re.search(r'^```python\n(.*?)^```', page, re.M | re.S).group(1)
        for given, place in zip(JARS, re.findall(r"'([^']*\.jar)'", example)):
            self.assertEqual(Path(given).resolve(), (ROOT / place).resolve())
        known = {}
        with contextlib.chdir(ROOT):
            exec(compile(example.replace('epochs=30', 'epochs=2'), 'spark.md', 'exec'), known)
        self.assertEqual(2, known['result'].report['epochs'])
        self.assertEqual(10, len(known['outputs'].first()))
        self.assertEqual([8, 16], list(known['total']))
        self.assertIn('prediction', known['model'].transform(known['frame']).columns)
        self.assertRegex(repr(known['result']), r'TrainingResult\(.*epochs=2')

    def test_vectors_add_up(self):
        vectors = self.session.sparkContext.parallelize([[i, 2 * i, 0.5] for i in range(10)], 2)
        self.assertEqual([45, 90, 5], list(harmonics.Harmonics(self.session).sum(vectors)))

    def test_vectors_in_more_partitions_than_task_slots_add_up(self):
        vectors = self.session.sparkContext.parallelize([[1.0, 2.0]] * 8, 8)
        self.assertEqual([8, 16], list(harmonics.Harmonics(self.session).sum(vectors)))


if __name__ == '__main__':
    JARS.extend(sys.argv.pop(1).split(','))
    unittest.main()
