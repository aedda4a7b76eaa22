"""A checkpoint opens with Python's safetensors (and torch, where it is installed).

The package comes into a virtual environment in the build folder; where the package index cannot be
reached the test is skipped with a line that says so.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages

BINARY_DIR = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"])
SOURCE_DIR = pathlib.Path(os.environ["HARMONICS_SOURCE_DIR"])

READER = """
import json, sys
from safetensors import safe_open
try:
    import torch
    framework = "pt"
except ImportError:
    framework = "np"
with safe_open(sys.argv[1], framework=framework) as file:
    shapes = {key: list(file.get_tensor(key).shape) for key in file.keys()}
    total = float(file.get_tensor(sys.argv[2]).sum())
    print(json.dumps({"framework": framework, "shapes": shapes, "sum": total,
                      "metadata": file.metadata()}))
"""


class SafetensorsTest(unittest.TestCase):
    def test_checkpoint_opens(self):
        python = packages.interpreter("safetensors", ["safetensors", "numpy"], "safetensors, numpy")
        if python is None:
            self.skipTest("Python's safetensors could not be installed here")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "digits.safetensors")
            subprocess.run(
                [BINARY_DIR / "harmonics", "train", SOURCE_DIR / "examples" / "digits.harp", "--epochs",
                 "1", "--threads", "1", "--checkpoint", path, "--output", "quiet"],
                check=True, capture_output=True, timeout=120)
            answer = subprocess.run([python, "-c", READER, path, self.first_weight(path)], check=True,
                                    capture_output=True, text=True, timeout=120)
        content = json.loads(answer.stdout)
        names = content["shapes"]
        self.assertTrue(any(name.startswith("model.") and name.endswith(".weight") for name in names))
        self.assertTrue(any(name.startswith("optim.") for name in names))
        self.assertNotEqual(content["sum"], 0.0)
        state = json.loads(content["metadata"]["harmonics"])
        self.assertEqual(state["epochs_done"], 1)

    @staticmethod
    def first_weight(path):
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return next(name for name in header
                    if name.startswith("model.") and name.endswith(".weight"))


if __name__ == "__main__":
    unittest.main()
