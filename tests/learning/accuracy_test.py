"""The shipped examples learn: test accuracy of digits.harp and lenet.harp on rows never trained on."""

import json
import os
import pathlib
import subprocess
import unittest

BINARY_DIR = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"])
EXAMPLES = pathlib.Path(os.environ["HARMONICS_SOURCE_DIR"]) / "examples"


def train(example, seed):
    """The JSON that `harmonics train` prints for one seed."""
    done = subprocess.run(
        [BINARY_DIR / "harmonics", "train", EXAMPLES / example, "--seed", str(seed), "--threads", "1",
         "--output", "json"], check=True, capture_output=True, text=True, timeout=200)
    return json.loads(done.stdout)


class AccuracyTest(unittest.TestCase):
    def test_digits(self):
        runs = [train("digits.harp", seed) for seed in range(1, 6)]
        accuracies = [run["test_accuracy"] for run in runs]
        print("digits:", accuracies)
        self.assertTrue(all(run["epochs"] <= 30 for run in runs))
        self.assertGreaterEqual(sum(accuracies) / len(accuracies), 0.97)
        self.assertGreaterEqual(min(accuracies), 0.96)

    def test_lenet(self):
        run = train("lenet.harp", 1)
        print("lenet:", run["test_accuracy"])
        self.assertLessEqual(run["epochs"], 30)
        self.assertGreaterEqual(run["test_accuracy"], 0.98)


if __name__ == "__main__":
    unittest.main()
