"""Signed runs, interrupted ones, models of others and columns of Arrow: what the package does beside plain training."""

import os
import pathlib
import signal
import sys
import tempfile
import threading
import unittest

import numpy

import harmonics as hm

SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
NET = ('harmonic net { producer x {4}; producer y {1} int64; consumer out; layer a linear(out=8); '
       'layer b linear(out=3); cycle { x -(relu)-> a -> b; b -> out; b <-(cross_entropy)- y; } }')


def samples(count=64):
    return {'x': numpy.random.default_rng(3).random((count, 4), numpy.float32), 'y': numpy.arange(count) % 3}


class InterruptTest(unittest.TestCase):
    def test_ctrl_c_finishes_the_step_and_saves(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'run.safetensors'
            runtime = hm.Runtime(hm.Graph.parse(NET), batch_size=8)
            begun = threading.Event()

            def interrupt():
                begun.wait(100)
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=interrupt, daemon=True).start()
            with self.assertRaises(KeyboardInterrupt):
                runtime.fit(samples(), epochs=10**6, checkpoint=path, on_epoch=lambda epoch: begun.set())
            other = hm.Runtime(hm.Graph.parse(NET), batch_size=8)
            other.load(path)
            self.assertEqual(other.digest(), runtime.digest())

    def test_other_threads_run_meanwhile(self):
        counted = [0]
        done = threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
        thread = threading.Thread(target=count)
        thread.start()
        try:
            before = counted[0]
            hm.Runtime(hm.Graph.zoo('lenet'), threads=1).fit(
                {'image': numpy.zeros((64, 1, 28, 28), numpy.float32), 'label': numpy.zeros(64, numpy.int64)}, epochs=1)
            self.assertGreater(counted[0], before)
        finally:
            done.set()
            thread.join()


class SecureTest(unittest.TestCase):
    def test_a_signed_run_verifies(self):
        with tempfile.TemporaryDirectory() as folder:
            keys, chain = f'{folder}/keys', f'{folder}/run.chain'
            hm.run('keys', 'new', 'me', '--keys', keys)
            runtime = hm.Runtime(hm.Graph.parse(NET), parts=2, threads=1, secure=True, secure_keys=keys, secure_key='me',
                                 secure_chain=chain)
            runtime.fit(samples(), epochs=1)
            runtime.close()
            self.assertEqual(len(runtime.proof().splitlines()), 2)
            said = hm.run('verify', chain, '--keys', keys)
            self.assertIn('verified', said.lower())
            checked = hm.verify(chain, keys=keys, line=runtime.proof().splitlines())
            self.assertTrue(checked.signers_known)
            self.assertLessEqual({'net_0', 'net_1'}, {stage['stage'] for stage in checked.stages})
            self.assertIn(checked.run, runtime.proof())
            line = runtime.proof().splitlines()[0]
            with self.assertRaises(hm.errors.Error):
                hm.verify(chain, keys=keys, line=line[:-1] + ('0' if line[-1] != '0' else '1'))
            with self.assertRaisesRegex(hm.errors.Error, 'signers are not in the roster'):
                hm.verify(chain, keys=f'{folder}/nobody')
            with self.assertRaisesRegex(ValueError, "no flag '--key'; did you mean '--keys'"):
                hm.verify(chain, key=keys)
            bytes_ = bytearray(pathlib.Path(chain).read_bytes())
            bytes_[len(bytes_) // 2] ^= 1
            pathlib.Path(chain).write_bytes(bytes_)
            with self.assertRaisesRegex(hm.errors.Error, 'run.chain.*damaged'):
                hm.verify(chain, keys=keys)


class ModelTest(unittest.TestCase):
    def test_an_onnx_file_comes_in_with_its_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            runtime = hm.Runtime(hm.Graph.parse(NET))
            runtime.save(f'{folder}/net.safetensors')
            hm.Graph.parse(NET).save(f'{folder}/net.harp')
            hm.run('export', f'{folder}/net.harp', '--weights', f'{folder}/net.safetensors', '--format', 'onnx',
                   f'{folder}/net.onnx')
            graph = hm.import_model(f'{folder}/net.onnx')
            self.assertEqual(graph.architecture, 'ONNX')
            x = samples()['x']
            numpy.testing.assert_array_equal(hm.Runtime(graph).infer({'x': x})['out'], runtime.infer({'x': x})['out'])
            with self.assertRaisesRegex(ValueError, "no option 'lenght'"):
                hm.import_model(f'{folder}/net.onnx', lenght=3)
            with self.assertRaisesRegex(hm.errors.Error, 'nowhere'):
                hm.import_model(f'{folder}/nowhere')

    def test_weights_of_ones_own(self):
        graph = hm.Graph.parse(NET).with_weights({'a.weight': numpy.ones((8, 4), numpy.float32),
                                                  'a.bias': numpy.zeros(8, numpy.float32),
                                                  'b.weight': numpy.ones((3, 8), numpy.float32),
                                                  'b.bias': numpy.zeros(3, numpy.float32)})
        out = hm.Runtime(graph).infer({'x': numpy.ones((1, 4), numpy.float32)})['out']
        numpy.testing.assert_array_equal(out, [[32, 32, 32]])
        with self.assertRaisesRegex(ValueError, r"'a.bias' is \{8\} in the graph, \{3\} was given"):
            graph.with_weights({'a.bias': numpy.zeros(3, numpy.float32)})
        with self.assertRaisesRegex(LookupError, "no parameter 'c.bias'"):
            graph.with_weights({'c.bias': numpy.zeros(3, numpy.float32)})


class ColumnsTest(unittest.TestCase):
    def test_columns_of_arrow(self):
        sys.path.append(str(SOURCE_DIR / '.cache' / 'pyarrow'))
        try:
            import pyarrow
        except ImportError:
            self.skipTest('pyarrow is not here')
        finally:
            sys.path.pop()
        data = samples()
        lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(data['x'].reshape(-1)), 4)
        table = pyarrow.table({'x': lists, 'y': data['y']})
        pieces = pyarrow.concat_tables([table.slice(0, 10), table.slice(10)])
        plain = pyarrow.table({'x': data['x'].tolist(), 'y': data['y']}).cast(
            pyarrow.schema([('x', pyarrow.list_(pyarrow.float32())), ('y', pyarrow.int64())]))
        wanted = hm.Runtime(hm.Graph.parse(NET), threads=1, batch_size=16, shuffle=False)
        wanted.fit(data, epochs=1)
        for given in (table, pieces, plain, {'x': table['x'], 'y': table['y']}, table.to_batches(max_chunksize=16)):
            runtime = hm.Runtime(hm.Graph.parse(NET), threads=1, batch_size=16, shuffle=False)
            runtime.fit(given, epochs=1)
            self.assertEqual(wanted.digest(), runtime.digest())
        self.assertEqual(wanted.infer(table.select(['x']))['out'].shape, (64, 3))
        trained = hm.train_distributed(hm.Graph.parse(NET), table, processes=False, threads=1, batch_size=16, shuffle=False,
                                       epochs=1)
        self.assertEqual(wanted.digest(), trained.digest)

        def first_row(value):
            return pyarrow.table({'x': [value, [1.0, 2.0, 3.0, 4.0]], 'y': [0, 1]})
        with self.assertRaisesRegex(ValueError, "data of 'x': its lists are not of one length"):
            wanted.fit(first_row([1.0]))
        with self.assertRaisesRegex(ValueError, "data of 'x': 1 values are missing"):
            wanted.fit(first_row(None))
        with self.assertRaisesRegex(TypeError, "data of 'x': a column of string is no array of numbers"):
            wanted.fit(pyarrow.table({'x': ['a'], 'y': [0]}))

    def test_a_column_in_one_piece_is_not_copied(self):
        sys.path.append(str(SOURCE_DIR / '.cache' / 'pyarrow'))
        try:
            import pyarrow
        except ImportError:
            self.skipTest('pyarrow is not here')
        finally:
            sys.path.pop()
        from harmonics.data import without_arrow
        values = pyarrow.array(numpy.arange(12, dtype=numpy.float32))
        made = without_arrow(pyarrow.table({'x': pyarrow.FixedSizeListArray.from_arrays(values, 4)}))['x']
        self.assertEqual(made.shape, (3, 4))
        self.assertEqual(made.__array_interface__['data'][0], values.buffers()[1].address)


if __name__ == '__main__':
    unittest.main()
