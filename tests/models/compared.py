"""Runs a model in transformers and in harmonics, and hands both answers back as arrays.

Imported by the interpreter that run_compared.py starts.
"""

import os
import pathlib
import subprocess
import sys

import numpy
import torch

BINARY_DIR = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"])
HARMONICS = BINARY_DIR / "harmonics"
TIMEOUT_S = 120
torch.set_num_threads(1)


def harmonics(*words, fails=False):
    """What the program prints; `fails`: what it complains about."""
    done = subprocess.run([HARMONICS, *map(str, words)], capture_output=True, text=True,
                          timeout=TIMEOUT_S)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if fails else done.stdout


def write_csv(path, rows):
    """Rows of numbers that are read back as they are."""
    rows = numpy.asarray(rows)
    text = "\n".join(",".join(map(repr, row)) for row in rows.reshape(len(rows), -1).tolist())
    pathlib.Path(path).write_text(text + "\n")


def read_csv(path, shape):
    return numpy.loadtxt(path, delimiter=",", dtype=numpy.float32, ndmin=2).reshape(-1, *shape)


class Compared:
    """One model as both know it: `folder` holds it, `scratch` takes files."""

    def __init__(self, model, scratch, name):
        self.model = model.eval()
        self.folder = pathlib.Path(scratch) / name
        self.scratch = pathlib.Path(scratch)
        self.harp = self.scratch / f"{name}.harp"
        model.save_pretrained(self.folder, safe_serialization=True)

    def imported(self, *flags):
        harmonics("import", self.folder, "-o", self.harp, *flags)
        return self.harp

    def theirs(self, inputs, output):
        with torch.no_grad():
            answer = self.model(**{name: torch.tensor(rows) for name, rows in inputs.items()})
        return answer[output].numpy()

    def ours(self, inputs, output, shape, *flags):
        return run(self.harp, inputs, output, shape, *flags)


def run(harp, inputs, output, shape, *flags):
    """A consumer's rows for these inputs."""
    words = ["run", harp, "--threads", "1", "--output", "quiet"]
    for name, rows in inputs.items():
        path = harp.with_suffix(f".{name}.csv")
        write_csv(path, rows)
        dtype = "int64" if numpy.asarray(rows).dtype.kind == "i" else "float32"
        words += ["--bind", f"{name}=csv:{path}?dtype={dtype}&header=no"]
    out = harp.with_suffix(".out.csv")
    harmonics(*words, "--out", f"{output}=csv:{out}", *flags)
    return read_csv(out, shape)


def relative(ours, theirs):
    """The largest difference beside the largest number."""
    return float(numpy.abs(ours - theirs).max() / numpy.abs(theirs).max())


def main(test_case):
    """Where transformers cannot be had, says so and passes; else runs the tests of `test_case`."""
    import unittest
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(test_case))
    sys.exit(0 if result.wasSuccessful() else 1)
