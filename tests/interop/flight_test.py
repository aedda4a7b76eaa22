"""An unmodified pyarrow client is the other end of a Flight boundary: it writes tensors and reads them."""

import os
import pathlib
import subprocess
import sys
import unittest

BINARY_DIR = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"])
sys.path.insert(0, os.environ["HARMONICS_PYARROW_DIR"])


def pyarrow():
    """numpy, pyarrow and its Flight client, or None where this interpreter cannot load them."""
    try:
        import numpy
        import pyarrow
        import pyarrow.flight
        return numpy, pyarrow, pyarrow.flight
    except ImportError as error:
        print(f"pyarrow cannot be loaded: {error}")
        return None


class FlightTest(unittest.TestCase):
    def setUp(self):
        modules = pyarrow()
        if modules is None:
            self.skipTest("pyarrow is not for this interpreter")
        self.numpy, self.arrow, self.flight = modules
        self.boundary = subprocess.Popen([BINARY_DIR / "tests" / "flight_echo"], text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end_boundary)
        self.port = int(self.boundary.stdout.readline())

    def end_boundary(self):
        if self.boundary.poll() is None:
            self.boundary.kill()
        self.boundary.communicate()

    def exchange(self, token):
        client = self.flight.FlightClient(f"grpc://127.0.0.1:{self.port}")
        self.addCleanup(client.close)
        options = self.flight.FlightCallOptions(
            timeout=60, headers=[(b"harmonics-run", b"tuesday"), (b"harmonics-token", token)])
        return client.do_exchange(self.flight.FlightDescriptor.for_path("hidden@1"), options)

    def batch(self, array):
        column = self.arrow.FixedShapeTensorArray.from_numpy_ndarray(array)
        schema = self.arrow.schema([self.arrow.field("tensor", column.type)])
        return self.arrow.record_batch([column], schema=schema)

    def test_tensors_cross_both_ways(self):
        writer, reader = self.exchange(b"secret 81b2c4f97d0e")
        arrays = [self.numpy.random.default_rng(rows).random((rows, 3, 4), dtype=self.numpy.float32)
                  for rows in (2, 5, 1, 1000)]
        writer.begin(self.batch(arrays[0]).schema)
        for step, array in enumerate(arrays):
            metadata = f"kind=activation step={step} micro_batch={step + 1}"
            writer.write_with_metadata(self.batch(array), metadata.encode())
            chunk = reader.read_chunk()
            self.assertEqual(chunk.app_metadata.to_pybytes().decode(),
                             f"kind=gradient step={step} micro_batch={step + 1}")
            back = chunk.data.column(0)
            self.assertEqual(back.type, self.arrow.fixed_shape_tensor(self.arrow.float32(), [3, 4]))
            self.numpy.testing.assert_array_equal(back.to_numpy_ndarray(), array)
        # Without metadata: an activation, its step the number of the message.
        writer.write_batch(self.batch(arrays[0]))
        self.assertIn(b"step=4", reader.read_chunk().app_metadata.to_pybytes())
        writer.write_metadata(b"kind=epoch_end step=9")
        self.assertEqual(reader.read_chunk().app_metadata.to_pybytes(),
                         b"kind=epoch_end step=9 micro_batch=0")
        writer.done_writing()
        output, errors = self.boundary.communicate(timeout=60)
        self.assertEqual(self.boundary.returncode, 0, errors)
        self.assertEqual(output, "6 messages\n")
        writer.close()

    def test_a_wrong_token_is_refused(self):
        writer, reader = self.exchange(b"guess")
        writer.begin(self.batch(self.numpy.zeros((1, 2), self.numpy.float32)).schema)
        answer = reader.read_chunk().app_metadata.to_pybytes()
        self.assertTrue(answer.startswith(b"kind=abandon"), answer)
        self.assertIn(b"token", answer)


if __name__ == "__main__":
    unittest.main()
