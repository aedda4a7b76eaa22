"""Files that pyarrow wrote, with every codec and encoding that it has, are read number for number."""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

BINARY_DIR = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"])
sys.path.insert(0, os.environ["HARMONICS_PYARROW_DIR"])


def pyarrow():
    """numpy, pyarrow and its Parquet, or None where this interpreter cannot load them."""
    try:
        import numpy
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet
        return numpy, pyarrow
    except ImportError as error:
        print(f"pyarrow cannot be loaded: {error}")
        return None


class ColumnsTest(unittest.TestCase):
    def setUp(self):
        modules = pyarrow()
        if modules is None:
            self.skipTest("pyarrow is not for this interpreter")
        self.numpy, self.arrow = modules
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        random = self.numpy.random.default_rng(1)
        self.vectors = random.standard_normal((1000, 4)).astype("float32")
        self.labels = random.integers(0, 10, 1000)
        flat = self.arrow.array(self.vectors.reshape(-1))
        self.table = self.arrow.table({
            "name": [f"row {i}" for i in range(1000)],
            "x": self.arrow.FixedSizeListArray.from_arrays(flat, 4),
            "lists": self.vectors.tolist(),
            "y": self.labels,
            "first": self.vectors[:, 0].astype("float64")})

    def dump(self, spec, **options):
        return subprocess.run([BINARY_DIR / "tests" / "columns_dump", spec], text=True, timeout=60,
                              capture_output=True, **options)

    def check(self, spec, dtype, shape, wanted):
        done = self.dump(spec)
        self.assertEqual(done.returncode, 0, done.stderr)
        head, *lines = done.stdout.splitlines()
        self.assertEqual(head, f"{dtype} {shape}")
        found = self.numpy.frombuffer(bytes.fromhex("".join(lines)), dtype)
        self.assertTrue(self.numpy.array_equal(found, wanted.astype(dtype).reshape(-1)))

    def check_all(self, source):
        self.check(f"{source}?columns=x", "float32", "{4}", self.vectors)
        self.check(f"{source}?columns=y", "int64", "{1}", self.labels)
        self.check(f"{source}?columns=lists&shape=2x2&dtype=float32", "float32", "{2, 2}", self.vectors)
        both = self.numpy.concatenate([self.labels[:, None], self.vectors[:, :1]], axis=1)
        self.check(f"{source}?columns=y,first&dtype=float64", "float64", "{2}", both)

    def test_parquet_of_every_codec(self):
        for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
            for version in ["1.0", "2.0"]:
                path = f"{self.folder.name}/{codec}.parquet"
                self.arrow.parquet.write_table(self.table, path, compression=codec, row_group_size=300,
                                               data_page_version=version, use_dictionary=["y"])
                with self.subTest(codec=codec, version=version):
                    self.check_all(f"parquet:{path}")

    def test_parquet_of_other_encodings(self):
        path = f"{self.folder.name}/encoded.parquet"
        self.arrow.parquet.write_table(
            self.table, path, use_dictionary=False, row_group_size=1000,
            column_encoding={"y": "DELTA_BINARY_PACKED", "first": "BYTE_STREAM_SPLIT"})
        self.check_all(f"parquet:{path}")

    def test_arrow_files_and_streams(self):
        for codec in [None, "lz4", "zstd"]:
            options = self.arrow.ipc.IpcWriteOptions(compression=codec)
            for kind in ["file", "stream"]:
                path = f"{self.folder.name}/{kind}.arrow"
                new = self.arrow.ipc.new_file if kind == "file" else self.arrow.ipc.new_stream
                with new(path, self.table.schema, options=options) as writer:
                    writer.write_table(self.table, max_chunksize=300)
                with self.subTest(codec=codec, kind=kind):
                    self.check_all(f"arrow:{path}")
        path = f"{self.folder.name}/table.feather"
        self.arrow.feather.write_feather(self.table, path)
        self.check_all(f"arrow:{path}")

    def test_a_null_is_named_by_row_and_column(self):
        path = f"{self.folder.name}/null.parquet"
        table = self.arrow.table({"a": [0.5] * 10, "b": [1.0] * 7 + [None, 1.0, 1.0]})
        self.arrow.parquet.write_table(table, path, row_group_size=4)
        done = self.dump(f"parquet:{path}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("null.parquet' row 7, column 'b': null is no number", done.stderr)

    def test_memory_follows_a_row_group_and_not_the_file(self):
        rows = 1_000_000
        table = self.arrow.table({f"c{i}": self.numpy.arange(rows) for i in range(40)})
        path = f"{self.folder.name}/large.parquet"
        self.arrow.parquet.write_table(table, path, row_group_size=100_000, compression="none",
                                       use_dictionary=False)
        self.assertGreater(os.path.getsize(path), 300_000_000)
        limit = 128 << 20  # of all memory that the program writes to

        def bounded():
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

        done = self.dump(f"parquet:{path}?columns=c3&dtype=int32", preexec_fn=bounded)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("\n"), rows + 1)


if __name__ == "__main__":
    unittest.main()
