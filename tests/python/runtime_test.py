"""Graphs, data and Runtime: what goes in and out, and that it is what the command line computes."""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
import unittest
from xml.etree import ElementTree

import numpy

import harmonics as hm
from harmonics.distributed import DistributedSettings
from harmonics.runtime import RuntimeSettings

SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
NET = """
harmonic net {
  producer x {4};
  producer y {1} int64;
  consumer out;
  layer hidden linear(out=8);
  layer last linear(out=3);
  cycle { x -(relu)-> hidden -> last; last -> out; last <-(cross_entropy)- y; }
}
"""


def samples(count=60):
    random = numpy.random.default_rng(3)
    x = random.random((count, 4), numpy.float32)
    return {'x': x, 'y': (x.sum(1) * 0.7).astype(numpy.int64).clip(0, 2)}


class GraphTest(unittest.TestCase):
    def test_text_builder_and_file_are_one_graph(self):
        graph = hm.Graph.parse(NET)
        self.assertEqual([node.name for node in graph.producers], ['x', 'y'])
        self.assertEqual(graph.producers[1].dtype, 'int64')
        self.assertEqual(graph.parameter_count, 4 * 8 + 8 + 8 * 3 + 3)
        self.assertEqual(graph.shape('hidden'), [8])
        built = (hm.GraphBuilder('net').producer('x', [4]).producer('y', [1], 'int64')
                 .layer('hidden', 'linear', 'x', 'relu', out=8).layer('last', 'linear', ['hidden'], out=3)
                 .consumer('out', 'last').tap('cross_entropy', 'last', 'y').build())
        self.assertEqual(built, graph)
        self.assertEqual(hm.Graph.parse(graph.harp()), graph)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'net.harp'
            graph.save(path)
            self.assertEqual(hm.Graph.load(path), graph)
        self.assertTrue(graph.svg().startswith('<svg'))

    def test_zoo_and_parts(self):
        self.assertIn('lenet', hm.Graph.zoo_names())
        parts = hm.Graph.zoo('lenet').partition(3)
        self.assertEqual(len(parts), 3)
        with self.assertRaisesRegex(ValueError, '0'):
            hm.Graph.zoo('lenet').partition(0)

    def test_mistakes_name_the_place(self):
        with self.assertRaisesRegex(hm.errors.InvalidArgument, ':1:'):
            hm.Graph.parse('harmonic x { oops }')
        with self.assertRaises(hm.errors.NotFound):
            hm.Graph.load('nowhere.harp')
        with self.assertRaisesRegex(LookupError, 'nowhere'):
            hm.Graph.load('nowhere.harp')

    def test_a_loss_is_added(self):
        graph = hm.GraphBuilder('net').producer('x', [4]).layer('a', 'linear', 'x', out=3).consumer('out', 'a').build()
        learns = graph.with_loss('cross_entropy')
        self.assertEqual((learns.taps[0].prediction, learns.taps[0].target), ('a', 'label'))
        self.assertEqual((learns.producers[1].name, learns.producers[1].dtype, learns.producers[1].shape),
                         ('label', 'int64', [1]))
        self.assertEqual(graph.with_loss('mse', 'wish').producers[1].shape, [3])


class RuntimeTest(unittest.TestCase):
    def test_learns_and_says_so(self):
        runtime = hm.Runtime(hm.Graph.parse(NET), lr=0.05, batch_size=20)
        steps, epochs = [], []
        report = runtime.fit(samples(), epochs=30, on_step=steps.append, on_epoch=epochs.append)
        self.assertEqual((report.epochs, report.steps), (30, 90))
        self.assertEqual((len(steps), len(epochs)), (90, 30))
        self.assertEqual((steps[-1].step, steps[-1].samples), (90, 20))
        self.assertLess(epochs[-1].train_loss, 0.6 * epochs[0].train_loss)
        found = runtime.evaluate(samples())
        self.assertEqual(found.samples, 60)
        self.assertAlmostEqual(found.loss, epochs[-1].train_loss, delta=0.05)

    def test_the_way_to_train_does_not_matter(self):
        digests = set()
        for settings in ({}, {'parts': 2}, {'parts': 2, 'pipeline': 'gpipe'}):
            runtime = hm.Runtime(hm.Graph.parse(NET), lr=0.05, micro_batches=2, threads=1, **settings)
            runtime.fit(samples(), epochs=2)
            digests.add(runtime.digest())
        self.assertEqual(len(digests), 1)

    def test_the_digest_is_the_command_lines(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            data = samples()
            for key, value in data.items():
                numpy.save(folder / f'{key}.npy', value)
            (folder / 'net.harp').write_text(NET)
            done = subprocess.run([BINARY_DIR / 'harmonics', 'train', folder / 'net.harp', '--bind', f'x=npy:{folder}/x.npy',
                                   '--bind', f'y=npy:{folder}/y.npy', '--epochs', '3', '--lr', '0.02', '--threads', '1',
                                   '--schedule', 'cosine', '--test-split', '0.2', '--checkpoint', folder / 'c.safetensors',
                                   '--output', 'json'],
                                  capture_output=True, text=True, timeout=300, check=True)
            told = json.loads(done.stdout)
            runtime = hm.Runtime(hm.Graph.load(folder / 'net.harp'), epochs=3, lr=0.02, threads=1, schedule='cosine',
                                 test_split=0.2)
            report = runtime.fit(data)
            self.assertEqual(runtime.digest(), told['weights_digest'])
            self.assertAlmostEqual(report.last_epoch.evaluation.loss, told['test_loss'])
            other = hm.Runtime(hm.Graph.load(folder / 'net.harp'), lr=0.02, threads=1)
            other.load(folder / 'c.safetensors')
            self.assertEqual(other.digest(), told['weights_digest'])
            self.assertEqual(other.progress()['epochs'], 3)
            other.save(folder / 'again.safetensors')
            with self.assertRaisesRegex(RuntimeError, "producer 'x'"):
                hm.Runtime(hm.Graph.parse(NET)).fit(epochs=1)

    def test_a_file_brings_its_data_and_its_settings(self):
        file = SOURCE_DIR / 'examples' / 'digits.harp'
        done = subprocess.run([BINARY_DIR / 'harmonics', 'train', file, '--epochs', '2', '--threads', '1', '--output', 'quiet'],
                              capture_output=True, text=True, timeout=300, check=True)
        runtime = hm.Runtime(hm.Graph.load(file), epochs=2, threads=1)
        report = runtime.fit()
        self.assertEqual(runtime.digest(), done.stdout.strip())
        self.assertEqual(report.last_epoch.evaluation.samples, 359)

    def test_sources_in_text_and_batches_of_iterables(self):
        data = samples(40)
        batches = [(data['x'][i:i + 10], data['y'][i:i + 10]) for i in range(0, 40, 10)]
        one = hm.Runtime(hm.Graph.parse(NET), threads=1, shuffle=False, batch_size=10)
        one.fit(data, epochs=2)
        other = hm.Runtime(hm.Graph.parse(NET), threads=1)
        report = other.fit(batches, epochs=2)
        self.assertEqual(report.steps, 8)
        self.assertEqual(one.digest(), other.digest())
        named = hm.Runtime(hm.Graph.parse(NET), threads=1)
        named.fit([{'x': x, 'y': y} for x, y in batches], epochs=2)
        self.assertEqual(named.digest(), one.digest())
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f'{folder}/x.npy', data['x'])
            third = hm.Runtime(hm.Graph.parse(NET), threads=1, shuffle=False, batch_size=10)
            third.fit({'x': f'npy:{folder}/x.npy', 'y': data['y']}, epochs=2)
            self.assertEqual(third.digest(), one.digest())
        with self.assertRaisesRegex(ValueError, 'walked once'):
            hm.Runtime(hm.Graph.parse(NET)).fit(iter(batches), epochs=2)

    def test_new_data_in_place_of_old(self):
        runtime = hm.Runtime(hm.Graph.parse(NET), batch_size=10)
        runtime.fit(samples(40), epochs=1)
        self.assertEqual(runtime.fit(samples(20), epochs=1).steps, 6)
        self.assertEqual(runtime.fit(epochs=1).steps, 8)
        self.assertEqual(runtime.step().step, 9)
        with self.assertRaisesRegex(ValueError, 'make another runtime'):
            runtime.fit({'x': numpy.zeros((4, 2, 2), numpy.float32), 'y': numpy.zeros(4, numpy.int64)})

    def test_a_callback_ends_the_fit(self):
        runtime = hm.Runtime(hm.Graph.parse(NET), batch_size=10)
        report = runtime.fit(samples(40), epochs=5, on_step=lambda step: step.step < 3)
        self.assertTrue(report.interrupted)
        self.assertEqual(report.steps, 3)

        def broken(step):
            raise ZeroDivisionError('mine')
        with self.assertRaisesRegex(ZeroDivisionError, 'mine'):
            runtime.fit(epochs=1, on_step=broken)

    def test_losses_draw_themselves(self):
        runtime = hm.Runtime(hm.Graph.parse(NET), batch_size=10)
        losses = []
        report = runtime.fit(samples(40), epochs=3, on_step=lambda step: losses.append(step.loss))
        self.assertEqual(report.losses, losses)
        drawn = ElementTree.fromstring(report._repr_svg_())
        points = drawn.find('{*}polyline').attrib['points'].split()
        self.assertEqual(len(points), 12)
        heights = [float(point.split(',')[1]) for point in points]
        self.assertEqual(heights.index(min(heights)), losses.index(max(losses)), 'a large loss stands high')
        for few in ([], [1.0], [2.0, 2.0], [None, float('nan')], [{'loss': 1}, {'loss': 2}]):
            ElementTree.fromstring(hm.loss_svg(few, 'less <than> "that"'))
        self.assertLess(len(ElementTree.fromstring(hm.loss_svg(range(10**5))).find('{*}polyline').attrib['points'].split()), 601)

    def test_a_long_fit_keeps_a_bounded_number_of_losses(self):
        runtime = hm.Runtime(hm.Graph.parse(NET), batch_size=1, threads=1)
        report = runtime.fit(samples(1000), epochs=66)
        self.assertEqual(report.steps, 66000)
        self.assertEqual(len(report.losses), 33000)

    def test_a_bar_of_a_fit(self):
        said = io.StringIO()
        seen = []
        with contextlib.redirect_stderr(said):
            hm.Runtime(hm.Graph.parse(NET), batch_size=10).fit(samples(40), epochs=2, progress=True, on_step=seen.append)
        self.assertRegex(said.getvalue(), '8 of 8 steps|8/8')
        self.assertEqual(len(seen), 8)

    def test_every_setting_has_its_keyword(self):
        with self.assertRaises(ValueError) as refused:
            hm.Runtime(hm.Graph.parse(NET), rate=3)
        known = str(refused.exception).split('there are ')[1].split(', ')
        others = {'deadline_s', 'first_contact_s', 'run', 'token', 'secure_sets_aside'}  # of parts in several processes
        hints = typing.get_type_hints(RuntimeSettings)
        self.assertEqual(set(known) - others, set(hints))
        kinds = {'lr': float, 'seed': int, 'shuffle': bool, 'recompute': int | typing.Literal['auto'], 'shares': str,
                 'pipeline': typing.Literal['sequential', '1f1b', 'gpipe']}
        self.assertEqual({name: hints[name] for name in kinds}, kinds)
        flags = set(re.findall(r'^  --([a-z0-9-]+)', hm.run('train', '--help'), re.M)) - {
            'bind', 'output', 'no-shuffle', 'no-reproducible'}
        self.assertEqual({flag.replace('-', '_') for flag in flags},
                         set(typing.get_type_hints(DistributedSettings)) - {'on_step', 'progress'})

    def test_errors_are_of_their_kind_with_the_command_lines_text(self):
        graph = hm.Graph.parse(NET)
        with self.assertRaisesRegex(ValueError, "epochs: '0' is not a whole number from 1 to 1000000000"):
            hm.Runtime(graph).fit(samples(), epochs=0)
        for call, text in ((lambda: hm.Runtime(graph).fit(samples(), epochs='3'), "epochs is an int, and '3' is a str"),
                           (lambda: hm.Runtime(graph).fit(samples(), epochs=True), 'epochs is an int, and True is a bool'),
                           (lambda: hm.Runtime(3), 'Runtime takes a harmonics.Graph, not a int'),
                           (lambda: hm.Runtime(graph).infer(3), 'inputs is a dict of arrays by producer, not a int'),
                           (lambda: hm.Runtime(graph, lr='fast'), "'lr': 'fast' is not a number of at least 0"),
                           (lambda: hm.Runtime(graph, epochs=2.5), "'epochs': '2.5' is not a whole number from 1"),
                           (lambda: hm.Runtime(graph, shuffle='yes'), "'shuffle': 'yes' is neither true nor false"),
                           (lambda: hm.train_distributed(graph, lr='fast'), "--lr: 'fast' is not a number of at least 0"),
                           (lambda: hm.train_distributed(3), 'takes a harmonics.Graph, not a int'),
                           (lambda: hm.train_distributed(graph, [1]), 'not a list')):
            with self.assertRaisesRegex(TypeError, text):
                call()
        with self.assertRaisesRegex(ValueError, "there is no setting 'rate'; there are .*lr"):
            hm.Runtime(graph, rate=3)
        with self.assertRaisesRegex(ValueError, "setting 'optimizer'.*'fast'"):
            hm.Runtime(graph, optimizer='fast')
        with self.assertRaisesRegex(ValueError, "--optimizer: 'fast' is none of sgd"):
            hm.train_distributed(graph, optimizer='fast')
        with self.assertRaisesRegex(ValueError, "no producer 'z'; there are x, y"):
            hm.Runtime(graph).fit({'z': numpy.zeros((2, 2))})
        with self.assertRaisesRegex(TypeError, "data of 'x': a object is no array"):
            hm.Runtime(graph).fit({'x': object(), 'y': numpy.zeros(2)})
        with self.assertRaisesRegex(TypeError, 'not a int'):
            hm.Runtime(graph).fit(3)
        bad = samples()
        bad['y'] = bad['y'] + 7
        with self.assertRaisesRegex(hm.errors.Error, "7|8|9"):
            hm.Runtime(graph).fit(bad)


class ArrayTest(unittest.TestCase):
    ECHO = 'harmonic echo { producer x {6}; consumer out; layer same identity; cycle { x -> same; same -> out; } }'

    def test_arrays_go_through_without_a_copy(self):
        runtime = hm.Runtime(hm.Graph.parse(self.ECHO))
        x = numpy.arange(12, dtype=numpy.float32).reshape(2, 6)
        out = runtime.infer({'x': x})['out']
        self.assertEqual(out.__array_interface__['data'][0], x.__array_interface__['data'][0])
        import torch
        tensor = torch.arange(12, dtype=torch.float32).reshape(2, 6)
        back = runtime.infer({'x': tensor})['out']
        self.assertIsInstance(back, torch.Tensor)
        self.assertEqual(back.data_ptr(), tensor.data_ptr())
        needs_gradients = torch.ones(2, 6, requires_grad=True)
        self.assertEqual(runtime.infer({'x': needs_gradients})['out'].data_ptr(), needs_gradients.data_ptr())

    def test_what_is_kept_alive(self):
        runtime = hm.Runtime(hm.Graph.parse(self.ECHO))
        out = runtime.infer({'x': numpy.full((2, 6), 7, numpy.float32)})['out']
        del runtime
        self.assertTrue((out == 7).all())

    def test_other_kinds_are_converted(self):
        runtime = hm.Runtime(hm.Graph.parse(self.ECHO))
        wanted = numpy.arange(12).reshape(2, 6)
        for given in (wanted, wanted.astype(numpy.float64), wanted.tolist(), wanted.T.copy().T.astype(numpy.float32)):
            numpy.testing.assert_array_equal(runtime.infer({'x': given})['out'], wanted)
        with self.assertRaisesRegex(hm.errors.Error, 'x'):
            runtime.infer({'x': numpy.zeros((2, 5), numpy.float32)})

    def test_parameters_are_the_runtimes_memory(self):
        runtime = hm.Runtime(hm.Graph.parse(NET))
        before = runtime.parameters()['hidden.weight']
        kept = before.copy()
        runtime.fit(samples(), epochs=1)
        self.assertFalse((before == kept).all())
        numpy.testing.assert_array_equal(before, runtime.parameters()['hidden.weight'])


class LoadingTest(unittest.TestCase):
    def test_an_extension_that_is_not_there_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / 'harmonics'
            package.mkdir()
            for file in pathlib.Path(hm.__file__).parent.glob('*.py'):
                (package / file.name).symlink_to(file.resolve())
            for extension, wish, lacks in (('_core', 'Graph', 'libtorch'), ('_cluster', 'Client', 'gRPC')):
                self.assertIn(f'built without {lacks} (HARMONICS_WITH_', self.refused(folder, wish))
                (package / f'{extension}.cpython-399-x86_64-linux-gnu.so').touch()
                self.assertRegex(self.refused(folder, wish), r'built for another Python \(_\w+\.cpython-399.*pip install \.')

    def refused(self, folder, wish):
        done = subprocess.run([sys.executable, '-c', f'import harmonics; harmonics.{wish}'], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=folder))
        return done.stderr.splitlines()[-1]

    def test_importing_loads_no_libtorch(self):
        said = subprocess.run([sys.executable, '-c', 'import harmonics, sys; print(harmonics.__version__, '
                               '"harmonics._core" in sys.modules, "torch" in sys.modules)'],
                              capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(said[1:], ['False', 'False'])
        self.assertRegex(said[0], r'^\d+\.\d+\.\d+$')

    def test_another_torch_is_refused_in_one_sentence(self):
        code = ('import sys, types; torch = types.ModuleType("torch"); torch.__version__ = "2.9.1+cpu"; '
                'sys.modules["torch"] = torch; import harmonics; harmonics.Graph')
        done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
        self.assertIn('ImportError: harmonics', done.stderr)
        self.assertIn('cannot share a process with torch 2.9.1+cpu', done.stderr)

    def test_another_torch_that_comes_later_is_refused_too(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            for name, text in (('torch/__init__.py', 'print("loaded")'),
                               ('torch-2.9.1.dist-info/METADATA', 'Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1\n')):
                (place / name).parent.mkdir()
                (place / name).write_text(text)
            environment = dict(os.environ, PYTHONPATH=f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}")
            done = subprocess.run([sys.executable, '-c', 'import harmonics; harmonics.Graph; import torch'], env=environment,
                                  capture_output=True, text=True)
        self.assertEqual(done.stdout, '')
        self.assertIn('cannot share a process with torch 2.9.1: install torch', done.stderr)


if __name__ == '__main__':
    unittest.main()
