"""`make demo` after its build, without a terminal: it ends well and leaves nothing running."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])


class DemoTest(unittest.TestCase):
    def test_the_demo(self):
        with tempfile.TemporaryDirectory(prefix='harmonics-demo-') as folder:
            out = pathlib.Path(folder) / 'demo'
            result = subprocess.run(
                [sys.executable, str(SOURCE_DIR / 'tools' / 'demo.py'), str(BINARY_DIR), str(out)],
                capture_output=True, text=True, timeout=1500, check=False, stdin=subprocess.DEVNULL,
                env=dict(os.environ, HARMONICS_DEMO_PATIENCE='1200'))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertNotIn('\x1b', result.stdout)
            report = json.loads((out / 'report.json').read_text())
            task = json.loads((out / 'task.json').read_text())
            self.assertGreaterEqual(report['test_accuracy'], 0.96)
            self.assertEqual(task['losses'], 1, result.stdout)
            for place in ('the page was on http://127.0.0.1:', str(out / 'index.html'), str(out / 'task.html')):
                self.assertIn(place, result.stdout)
            self.assertIn('"/api/task?id=1"', (out / 'task.html').read_text())
            page = (out / 'index.html').read_text()
            self.assertIn('<b>equal</b>', page)
            self.assertIn('verified: ', (out / 'proof.txt').read_text())
            for text in ('The plan of attempt', 'The loss, step by step', 'What the stages did', 'The chain of custody',
                         'Attempt 1 trained nothing', '</b> planned, <b>', ' steps after the first ',
                         report['weights_digest']):
                self.assertIn(text, page)
            for process in pathlib.Path('/proc').glob('[0-9]*'):
                try:
                    self.assertNotIn(folder.encode(), (process / 'cmdline').read_bytes(), process)
                except OSError:
                    pass


if __name__ == '__main__':
    unittest.main()
