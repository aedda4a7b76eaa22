"""Installs the build into a fresh prefix, builds examples/consumer against it and runs it."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ['HARMONICS_SOURCE_DIR'])
BINARY = Path(os.environ['HARMONICS_BINARY_DIR'])


class Consumer(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.prefix = self.root / 'prefix'

    def tearDown(self):
        self.folder.cleanup()

    def run_program(self, *command):
        done = subprocess.run([str(part) for part in command], cwd=self.root, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_an_installed_library_trains(self):
        self.run_program('cmake', '--install', BINARY, '--prefix', self.prefix)
        # A copy, so that nothing but the installed files can be found from it.
        shutil.copytree(SOURCE / 'examples/consumer', self.root / 'consumer')
        self.run_program('cmake', '-S', 'consumer', '-B', 'build', '-DCMAKE_BUILD_TYPE=Debug',
                         f'-DCMAKE_PREFIX_PATH={self.prefix}')
        self.run_program('cmake', '--build', 'build')
        output = self.run_program('build/consumer')
        before, after = (float(loss) for loss in re.findall(r'loss \w+: +([\d.]+)', output))
        self.assertLess(after, before / 100, output)

        targets = '\n'.join(path.read_text() for path in self.prefix.rglob('harmonics-*.cmake'))
        for folder in (SOURCE, BINARY):
            self.assertNotIn(str(folder), targets, 'the package points back into the source tree')


if __name__ == '__main__':
    unittest.main()
