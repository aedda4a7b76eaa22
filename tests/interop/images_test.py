"""Pictures come out as Pillow and transformers' processors make them (images_peer.py says of what).

The packages come into a virtual environment in the build folder; where the index cannot be reached the test is skipped
with a line that says so.
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


class ImagesTest(unittest.TestCase):
    def test_samples_are_those_of_the_processors(self):
        python = packages.interpreter('images', ['transformers==4.44.2', 'numpy<2', 'pillow==11.3.0'],
                                      'transformers, PIL, numpy')
        if python is None:
            self.skipTest('transformers and Pillow are not here')
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [python, SOURCE_DIR / 'tests' / 'interop' / 'images_peer.py', BINARY_DIR / 'harmonics', folder],
                capture_output=True, text=True, timeout=300,
                env=dict(os.environ, TRANSFORMERS_OFFLINE='1', TRANSFORMERS_VERBOSITY='error', USE_TORCH='0'))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('processors: 5 of 5 equal', done.stdout)


if __name__ == '__main__':
    unittest.main()
