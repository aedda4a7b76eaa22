"""Every node case of the onnx package, for every operator that docs/formats/onnx.md claims (onnx_cases.cc says how).

The cases lie in the wheel of the last onnx that was written for opset 21; where the index cannot be reached the test is
skipped with a line that says so.
"""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
PACKAGE = 'onnx==1.16.2'


class OnnxCasesTest(unittest.TestCase):
    def test_cases_of_claimed_operators(self):
        folder = packages.wheel(PACKAGE, ('.onnx', '.pb'))
        if folder is None:
            self.skipTest(f'the wheel of {PACKAGE} is not here')
        done = subprocess.run(
            [BINARY_DIR / 'tests' / 'onnx_cases', SOURCE_DIR / 'docs' / 'formats' / 'onnx.md',
             folder / 'onnx' / 'backend' / 'test' / 'data' / 'node'], timeout=300)
        self.assertEqual(done.returncode, 0)


if __name__ == '__main__':
    unittest.main()
