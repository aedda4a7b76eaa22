"""Plans, parts by a plan, measuring, and work over unlike devices."""

import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

import numpy

import harmonics as hm

SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
EXAMPLES = SOURCE_DIR / 'examples' / 'plan'
LARGE = 'google/vit-large-patch16-224'
FILES = [EXAMPLES / name for name in ('models.yml', 'device_types.yml', 'devices.yml')]


class PlanTest(unittest.TestCase):
    def test_the_plan_is_sched_pipelines(self):
        plan = hm.plan(*FILES, model=LARGE)
        said = subprocess.run([BINARY_DIR / 'sched-pipeline', '-m', LARGE], cwd=EXAMPLES, capture_output=True, text=True,
                              check=True).stdout
        self.assertEqual(plan.yaml(), said)
        self.assertTrue(plan.proven)
        self.assertAlmostEqual(plan.period_s, 5.091929, delta=5e-7)
        self.assertEqual(plan.stages[0].first_layer, 1)
        self.assertTrue(plan._repr_html_().startswith('<svg'))
        self.assertEqual(json.loads(plan.json())['period_s'], plan.period_s)
        self.assertIn('proven optimal', str(plan))

    def test_wishes(self):
        best = hm.plan(*FILES, model=LARGE)
        few = hm.plan(*FILES, model=LARGE, then='hosts', tolerance=1)
        self.assertLess(len(few.stages), len(best.stages))
        self.assertNotIn('mb-0', hm.plan(*FILES, model=LARGE, exclude=['mb-0']).yaml())

    def test_dicts_and_parts_by_a_plan(self):
        graph = hm.Graph.zoo('lenet')
        with tempfile.TemporaryDirectory() as folder:
            hm.profile(graph, folder, batch_size=8, repeats=1, warmup=0, type='small', mem_mb=1000, bw_mbps=1000)
            hosts = {'small': ['a', 'b', 'c']}
            plan = hm.plan(f'{folder}/models.yml', f'{folder}/device_types.yml', hosts)
            self.assertEqual(os.listdir(folder).count('.profiled.harp'), 0)
        parts = hm.partition(graph, plan)
        self.assertEqual(len(parts), len(plan.stages))
        self.assertEqual(sum(len(part.layers) for part in parts), len(graph.layers))
        self.assertEqual(len(hm.partition(graph, 2)), 2)

    def test_mistakes(self):
        with self.assertRaisesRegex(hm.errors.Error, 'google/vit-large'):
            hm.plan(*FILES, model='nothing')
        with self.assertRaisesRegex(ValueError, "no option 'speed'"):
            hm.plan(*FILES, model=LARGE, speed=3)
        with self.assertRaisesRegex(ValueError, "no goal 'fun'; there are throughput and latency"):
            hm.plan(*FILES, model=LARGE, goal='fun')
        with self.assertRaisesRegex(RuntimeError, 'batch size 3'):
            hm.plan(*FILES, model=LARGE, batch_size=3)
        with self.assertRaisesRegex(ValueError, "no flag '--bathc-size'; did you mean '--batch-size'"):
            hm.profile('lenet', '.', bathc_size=3)


class DispatcherTest(unittest.TestCase):
    def test_map_keeps_the_order_on_all_devices(self):
        dispatcher = hm.Dispatcher(['emulated:20000,1ms#fast', 'emulated:1000,1ms#slow'])
        seen = set()

        def square(row):
            seen.add(threading.get_ident())
            return row * row
        self.assertEqual(dispatcher.map(square, range(3000)), [row * row for row in range(3000)])
        self.assertEqual(len(seen), 2)
        rates = {one['device']: one['rows_per_second'] for one in dispatcher.knowledge()}
        self.assertGreater(rates['emulated:20000,1ms#fast'], 4 * rates['emulated:1000,1ms#slow'])
        self.assertIn('traceEvents', dispatcher.trace())
        self.assertTrue(dispatcher._repr_svg_().startswith('<svg'))

    def test_sub_batches_of_arrays(self):
        dispatcher = hm.Dispatcher(['emulated:50000,0.1ms#a', 'emulated:50000,0.1ms#b'])
        rows = numpy.arange(4000, dtype=numpy.float64)
        told = []
        made = dispatcher.run(lambda piece, device: (device, piece * 2), rows, progress=False)
        numpy.testing.assert_array_equal(numpy.concatenate([piece for _, piece in made]), rows * 2)
        self.assertEqual({device[-2:] for device, _ in made}, {'#a', '#b'})
        self.assertEqual(dispatcher.map(str, []), [])
        self.assertEqual(told, [])

    def test_an_exception_reaches_the_caller(self):
        dispatcher = hm.Dispatcher(['emulated:1e5,0.1ms'])

        def broken(row):
            raise KeyError('mine')
        with self.assertRaisesRegex(KeyError, 'mine'):
            dispatcher.map(broken, range(10))
        self.assertEqual(dispatcher.map(abs, [-1, 2]), [1, 2])
        with self.assertRaisesRegex(ValueError, 'gpu7'):
            hm.Dispatcher(['gpu7'])
        with self.assertRaisesRegex(ValueError, "no option 'size'"):
            hm.Dispatcher(['cpu'], size=3)


class ProgramTest(unittest.TestCase):
    def test_programs_of_the_package(self):
        self.assertEqual(hm.program(), BINARY_DIR / 'harmonics')
        self.assertIn('lenet', hm.run('graph', 'zoo'))
        with self.assertRaisesRegex(ValueError, "did you mean '--epochs'"):
            hm.run('train', 'x.harp', '--epohcs', '3')
        with self.assertRaisesRegex(hm.errors.Error, 'nowhere.harp'):
            hm.run('graph', 'show', 'nowhere.harp')


class DistributedTest(unittest.TestCase):
    NET = ('harmonic net { producer x {4}; producer y {1} int64; consumer out; layer a linear(out=8); '
           'layer b linear(out=3); cycle { x -(relu)-> a -> b; b -> out; b <-(cross_entropy)- y; } }')

    def test_steps_are_told_and_may_end_it(self):
        data = {'x': numpy.random.default_rng(3).random((64, 4), numpy.float32), 'y': numpy.arange(64) % 3}
        told = []
        graph = hm.Graph.parse(self.NET)
        report = hm.train_distributed(graph, data, parts=2, epochs=3, batch_size=16, threads=1,
                                      on_step=lambda step: told.append(step['step']))
        self.assertEqual(told, list(range(1, 13)))
        self.assertEqual(report.figures['steps'], 12)
        alone = hm.Runtime(graph, threads=1, batch_size=16)
        alone.fit(data, epochs=3)
        self.assertEqual(alone.digest(), report.digest)
        again = hm.Runtime(report.graph)
        self.assertEqual(again.digest(), report.digest)

    def test_a_graph_without_shapes_takes_those_of_the_data(self):
        graph = hm.Graph.parse(self.NET.replace('producer x {4}', 'producer x'))
        self.assertFalse(graph.resolved)
        data = {'x': numpy.ones((8, 4), numpy.float32), 'y': numpy.arange(8) % 3}
        report = hm.train_distributed(graph, data, processes=False, epochs=1, threads=1)
        alone = hm.Runtime(report.graph)
        self.assertEqual(alone.infer({'x': data['x']})['out'].shape, (8, 3))
        self.assertEqual(alone.digest(), report.digest)

    def test_what_the_program_refuses_is_raised_with_its_text(self):
        graph = hm.Graph.parse(self.NET)
        with self.assertRaisesRegex(ValueError, 'has no flag .--speed'):
            hm.train_distributed(graph, {}, speed=3)
        with self.assertRaisesRegex(hm.errors.Error, "producer 'x'"):
            hm.train_distributed(graph, {}, epochs=1)
        with self.assertRaisesRegex(ValueError, "no producer 'z'"):
            hm.train_distributed(graph, {'z': [1]}, epochs=1)


if __name__ == '__main__':
    unittest.main()
