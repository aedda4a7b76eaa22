"""Plans, parts by a plan, measuring, and work over unlike devices."""

import contextlib
import io
import json
import os
import pathlib
import signal
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
        with self.assertRaisesRegex(TypeError, "tolerance is a float, and 'wide' is a str"):
            hm.plan(*FILES, model=LARGE, tolerance='wide')
        with self.assertRaisesRegex(TypeError, "exclude is a list of str, and 'mb-0' is a str"):
            hm.plan(*FILES, model=LARGE, exclude='mb-0')
        with self.assertRaisesRegex(TypeError, 'a path or a dict, not a int'):
            hm.plan(1, 2, 3)
        with self.assertRaisesRegex(TypeError, 'parts is an int or a harmonics.Plan, not a str'):
            hm.partition(hm.Graph.zoo('lenet'), 'two')
        with self.assertRaisesRegex(RuntimeError, 'batch size 3'):
            hm.plan(*FILES, model=LARGE, batch_size=3)
        with self.assertRaisesRegex(ValueError, "no flag '--bathc-size'; did you mean '--batch-size'"):
            hm.profile('lenet', '.', bathc_size=3)


class DispatcherTest(unittest.TestCase):
    def test_sub_batches_of_a_function_are_worth_their_hand_over(self):
        dispatcher = hm.Dispatcher(['emulated:4000,0#free'])
        dispatcher.map(abs, range(1000))
        [device] = dispatcher.knowledge()
        self.assertGreaterEqual(device['best_batch'], 0.05 * device['rows_per_second'] - 1)

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

    def test_a_graph_over_all_devices(self):
        dispatcher = hm.Dispatcher(['emulated:50000,0.1ms#a', 'emulated:20000,0.1ms#b'])
        graph = hm.Graph.zoo('digits-mlp')
        rows = numpy.random.default_rng(1).random((3000, 64), numpy.float32)
        wanted = hm.Runtime(graph).infer({'image': rows})['prediction']
        loaded = dispatcher.load(graph)
        for given in (rows, {'image': rows}):
            made = loaded.run(given)['prediction']
            numpy.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
        self.assertEqual(len(json.loads(dispatcher.trace())['traceEvents']) > 4, True)
        weights = {name: numpy.ascontiguousarray(value[::-1]) for name, value in hm.Runtime(graph).parameters().items()}
        other = graph.with_weights(weights)
        numpy.testing.assert_allclose(dispatcher.run(other, rows)['prediction'],
                                      hm.Runtime(other).infer({'image': rows})['prediction'], rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(ValueError, "'digits_mlp' has no producer 'picture'; there are image, label"):
            loaded.run({'picture': rows})

    def test_a_torchscript_module_over_all_devices(self):
        import torch
        torch.manual_seed(1)
        module = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2))
        rows = torch.rand(4000, 6)
        wanted = module(rows).detach()
        dispatcher = hm.Dispatcher(['emulated:50000,0.1ms#a', 'emulated:20000,0.1ms#b', 'cpu'])
        for script in (torch.jit.script(module), torch.jit.trace(module, rows[:2])):
            made = dispatcher.run(script, rows)['output']
            self.assertIsInstance(made, torch.Tensor)
            torch.testing.assert_close(made, wanted)
        with tempfile.TemporaryDirectory() as folder:
            script.save(f'{folder}/module.pt')
            loaded = dispatcher.load(f'{folder}/module.pt', inputs=['x'], outputs=['y'])
            numpy.testing.assert_allclose(loaded.run(rows.numpy())['y'], wanted, rtol=1e-5, atol=1e-6)
            with self.assertRaisesRegex(hm.errors.Error, 'nowhere.pt'):
                dispatcher.load(f'{folder}/nowhere.pt')

        class Pair(torch.nn.Module):
            def forward(self, one: torch.Tensor, other: torch.Tensor):
                return one + other, one * other
        made = dispatcher.run(torch.jit.script(Pair()), {'one': rows, 'other': rows * 2})
        torch.testing.assert_close(made['output0'], rows * 3)
        torch.testing.assert_close(made['output1'], rows * rows * 2)
        with self.assertRaisesRegex(ValueError, 'one array is given for the inputs one, other: give a dict'):
            dispatcher.run(torch.jit.script(Pair()), rows)

    def test_a_bar_and_a_trace_of_a_map(self):
        dispatcher = hm.Dispatcher(['emulated:2000,1ms#only'])
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            dispatcher.map(abs, range(500), progress=True)
        self.assertIn('500', said.getvalue())
        rows = sum(event['args']['rows'] for event in json.loads(dispatcher.trace())['traceEvents']
                   if event.get('ph') == 'X' and 'rows' in event.get('args', {}))
        self.assertGreaterEqual(rows, 500)

    def test_ctrl_c_ends_a_map(self):
        dispatcher = hm.Dispatcher(['emulated:2000,1ms'])
        begun = threading.Event()

        def interrupt():
            begun.wait(100)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        with self.assertRaises(KeyboardInterrupt):
            dispatcher.map(lambda row: begun.set(), range(10**7))
        self.assertEqual(dispatcher.map(abs, [-1, 2]), [1, 2])

    def test_one_run_at_a_time(self):
        dispatcher = hm.Dispatcher(['emulated:2000,1ms'])

        def again(row):
            with self.assertRaisesRegex(hm.errors.FailedPrecondition, 'still under way'):
                dispatcher.map(abs, [1])
        dispatcher.map(again, [1])

    def test_what_cannot_be_dispatched(self):
        dispatcher = hm.Dispatcher(['cpu'])
        for call, text in ((lambda: hm.Dispatcher('cpu'), r"list of names, such as \['cpu'\], not a str"),
                           (lambda: hm.Dispatcher(['cpu'], efficiency='much'), "efficiency is a float, and 'much' is a str"),
                           (lambda: dispatcher.run(3, [1]), 'is dispatched, not a int'),
                           (lambda: dispatcher.load(3), 'is loaded, not a int'),
                           (lambda: dispatcher.map(hm.Graph.zoo('lenet'), [1]), 'run takes models')):
            with self.assertRaisesRegex(TypeError, text):
                call()
        with self.assertRaisesRegex(ValueError, 'an efficiency of 2 is not between 0 and 1'):
            hm.Dispatcher(['cpu'], efficiency=2)

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
