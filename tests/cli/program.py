"""What the tests of the command line share: the programs, a scratch folder, a small data set."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from reserved_port import reserved_port

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
EXAMPLES = SOURCE_DIR / 'examples'
HARMONICS = BINARY_DIR / 'harmonics'
TIMEOUT_S = 120

# Learns which quadrant of four numbers is the largest. Dropout and batch norm are there because they
# are what a cut or a restart gets wrong first.
GRAPH = """
harmonic quadrant {
  producer point {4};
  producer label {1} int64 1/1 point;
  layer wide linear(16);
  layer norm batch_norm;
  layer drop dropout(0.25);
  layer narrow linear(8);
  layer output linear(4);
  consumer prediction {4};
  cycle {
    point -> wide -(relu)-> norm -> drop -(relu)-> narrow -> output;
    output -(softmax)-> prediction;
    output <-(cross_entropy)- label;
  }
}
"""
DATA = """
data {
  point = "csv:points.csv?columns=0-3";
  label = "csv:points.csv?columns=4";
  test_split = 0.25;
}
"""
TRAIN = """
train {
  epochs = 3;
  batch_size = 8;
  threads = 1;
}
"""


def points(rows, seed=5):
    """The text of points.csv."""
    chance = random.Random(seed)
    lines = []
    for _ in range(rows):
        values = [round(chance.random(), 3) for _ in range(4)]
        lines.append(','.join(map(str, values + [values.index(max(values))])))
    return '\n'.join(lines) + '\n'


def limited_environment():
    """One thread per program, so that tests that run side by side do not fight for the cores."""
    environment = dict(os.environ, OMP_NUM_THREADS='1', TERM='xterm')
    environment.pop('NO_COLOR', None)
    return environment


class CliTest(unittest.TestCase):
    """Every test works in a fresh folder that holds net.harp and points.csv."""

    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory(prefix='harmonics-cli-')
        self.addCleanup(self._scratch.cleanup)
        self.folder = pathlib.Path(self._scratch.name)
        self.write('points.csv', points(64))
        self.net = self.write('net.harp', GRAPH + DATA + TRAIN)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def write_token(self, text='81b2c4f97d0e5a3688d1f0c2\n', mode=0o600):
        path = self.write('token', text)
        path.chmod(mode)
        return path

    def call(self, *arguments, **options):
        """Runs `harmonics …` to its end in the scratch folder."""
        options.setdefault('cwd', self.folder)
        return subprocess.run([str(HARMONICS), *map(str, arguments)], capture_output=True, text=True,
                              timeout=TIMEOUT_S, env=limited_environment(), **options)

    def start(self, *arguments, **options):
        """Starts `harmonics …`; it is killed at the end of the test if it still runs."""
        options.setdefault('stdout', subprocess.PIPE)
        options.setdefault('stderr', subprocess.PIPE)
        process = subprocess.Popen([str(HARMONICS), *map(str, arguments)], cwd=self.folder, text=True,
                                   env=limited_environment(), **options)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=TIMEOUT_S)

    def done(self, *arguments):
        """The standard output of a call that must succeed."""
        result = self.call(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def train(self, *arguments):
        """The report of a training run that must succeed."""
        return json.loads(self.done('train', self.net, '--output', 'json', *arguments))

    def assert_fails(self, result, *texts, code=1):
        """A message on standard error that holds all `texts`, nothing on standard output."""
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertRegex(result.stderr, '(?m)^harmonics: ')
        self.assertEqual(result.stdout, '')
        for text in texts:
            self.assertIn(text, result.stderr)

    def names(self):
        """What lies in the scratch folder."""
        return sorted(path.name for path in self.folder.iterdir())
