"""Feeds tools/bench.py with small programs and reads the report that it writes."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get('HARMONICS_SOURCE_DIR', Path(__file__).resolve().parents[2]))


class Bench(unittest.TestCase):
    def report_of(self, programs, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            for name, script in programs.items():
                path = Path(folder, 'bench', name)
                path.parent.mkdir(exist_ok=True)
                path.write_text('#!/bin/sh\n' + script)
                path.chmod(0o755)
            output = Path(folder, 'RESULTS.md')
            done = subprocess.run(
                [sys.executable, ROOT / 'tools/bench.py', folder, '--short', '--output', output,
                 *arguments],
                cwd=folder, capture_output=True, text=True, check=False)
            return done.returncode, output.read_text() if output.exists() else '', done.stderr

    def test_writes_tables_with_commit_and_machine(self):
        code, text, _ = self.report_of({
            'a': 'echo "name | ours | reference | ratio | bar"; echo "---|---|---|---|---"\n'
                 'echo "step | 10 ms | 11 ms | 0.91x | <= 1.05"; echo "a note"\n'
                 'echo "cycle | 9 us | 4 us | overhead 5.1 us | <= 20 us"\n'})
        self.assertEqual(code, 0)
        self.assertIn('## a\n', text)
        self.assertIn('| step | 10 ms | 11 ms | 0.91x | <= 1.05 | met |', text)
        self.assertIn('| overhead 5.1 us | <= 20 us | met |', text)
        self.assertEqual(text.count('| name |'), 1)
        self.assertIn('    a note', text)
        self.assertIn('- commit: ', text)
        self.assertIn('- machine: ', text)

    def test_passes_short_on(self):
        _, text, _ = self.report_of({'a': 'echo "given $1"\n'})
        self.assertIn('given --short', text)

    def test_runs_programs_from_elsewhere_too(self):
        code, text, _ = self.report_of({'a': 'echo "x | 1 | 1 | 1 | "\n',
                                        '../elsewhere.sh': 'echo "y | 4 | 1 | 4.0 | >= 5"\n'},
                                       '--also', 'elsewhere.sh')
        self.assertEqual(code, 1)
        self.assertIn('## elsewhere.sh\n\n', text)
        self.assertIn('| y | 4 | 1 | 4.0 | >= 5 | missed |', text)

    def test_a_missed_bar_fails_and_is_named(self):
        code, text, errors = self.report_of({'a': 'echo "csv | 4 | 1 | 4.0 | >= 5"\n'})
        self.assertEqual(code, 1)
        self.assertIn('| csv | 4 | 1 | 4.0 | >= 5 | missed |', text)
        self.assertIn('below the bar: csv', errors)

    def test_a_program_that_breaks_fails(self):
        code, text, _ = self.report_of({'a': 'exit 3\n', 'b': 'echo "x | 1 | 1 | 1 | "\n'})
        self.assertEqual(code, 1)
        self.assertIn('failed with exit code 3', text)
        self.assertIn('| x | 1 | 1 | 1 |  |  |', text)

    def test_no_programs_is_an_error(self):
        code, _, errors = self.report_of({})
        self.assertEqual(code, 1)
        self.assertIn('run `make all` first', errors)


if __name__ == '__main__':
    unittest.main()
