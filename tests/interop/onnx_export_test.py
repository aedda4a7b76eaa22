"""Exported graphs compute in onnxruntime what they compute here, and come back (onnx_export_cases.cc says which)."""

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
# Forms of layers that ONNX of opset 17 cannot spell, as docs/formats/onnx.md says.
REFUSED = {'adaptive_avg_pool', 'adaptive_max_pool', 'gather', 'pad_by_the_other_end', 'resize_by_a_factor__antialiased'}


def program(name, *words):
    return subprocess.run([BINARY_DIR / name, *map(str, words)], capture_output=True, text=True, timeout=300)


class OnnxExportTest(unittest.TestCase):
    def test_layers_and_networks(self):
        python = packages.interpreter('onnx', PACKAGES, 'onnx, onnxruntime')
        with tempfile.TemporaryDirectory() as folder:
            made = program('tests/onnx_export_cases', folder)
            self.assertEqual(made.returncode, 0, made.stdout)
            refused = {line.split(' refused: ')[0] for line in made.stdout.splitlines() if ' refused: ' in line}
            self.assertEqual(refused, REFUSED)
            self.assertTrue((pathlib.Path(folder) / 'lenet.onnx.data').exists())
            if python is None:
                self.skipTest('the packages onnx and onnxruntime are not here')
            wheel = packages.wheel('rapidocr-onnxruntime==1.4.4', '.onnx')
            trained = next(wheel.rglob('ch_ppocr_mobile_v2.0_cls_infer.onnx')) if wheel else ''
            done = subprocess.run([python, SOURCE_DIR / 'tests' / 'interop' / 'onnx_export_peer.py', folder,
                                   BINARY_DIR / 'harmonics', packages.minilm() or '', trained], timeout=300)
            self.assertEqual(done.returncode, 0)


if __name__ == '__main__':
    unittest.main()
