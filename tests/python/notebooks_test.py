"""The notebooks of examples/notebooks run from the first cell to the last, and pass mypy --strict.

Cells are run as a script, without Jupyter: what a cell shows at its end is computed and not drawn.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages

SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
# Of a cluster, which cluster.python_client_test starts.
ELSEWHERE = {'cluster_from_a_laptop.ipynb'}
NOTEBOOKS = sorted((SOURCE_DIR / 'examples' / 'notebooks').glob('*.ipynb'))


def code_of(notebook):
    cells = json.loads(notebook.read_text())['cells']
    return '\n\n'.join(''.join(cell['source']) for cell in cells if cell['cell_type'] == 'code') + '\n'


class NotebooksTest(unittest.TestCase):
    def check(self, name, **environment):
        notebook = SOURCE_DIR / 'examples' / 'notebooks' / name
        done = subprocess.run([sys.executable, '-c', code_of(notebook)], cwd=notebook.parent, capture_output=True, text=True,
                              timeout=500, env=dict(os.environ, **environment))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_digits_in_four_parts(self):
        self.check('digits_in_four_parts.ipynb')

    def test_minilm_in_two_processes(self):
        model = packages.minilm()
        if model is None:
            self.skipTest('the weights of MiniLM are not here')
        self.check('minilm_in_two_processes.ipynb', MINILM=str(model))

    def test_every_notebook_is_run_somewhere(self):
        run = {'digits_in_four_parts.ipynb', 'minilm_in_two_processes.ipynb'} | ELSEWHERE
        self.assertEqual({notebook.name for notebook in NOTEBOOKS}, run)

    def test_notebooks_hold_no_output(self):
        for notebook in NOTEBOOKS:
            for cell in json.loads(notebook.read_text())['cells']:
                self.assertEqual(cell.get('outputs', []), [], notebook.name)

    def test_their_types(self):
        python = packages.interpreter('mypy', ['mypy==1.18.2', 'numpy==1.26.4'], 'mypy, numpy')
        if python is None:
            self.skipTest('mypy is not here')
        with tempfile.TemporaryDirectory() as folder:
            for notebook in NOTEBOOKS:
                file = pathlib.Path(folder) / f'{notebook.stem}.py'
                file.write_text(code_of(notebook))
                done = subprocess.run([python, '-m', 'mypy', '--strict', '--python-version', '3.11',
                                       f"--cache-dir={BINARY_DIR / 'mypy-cache'}", file], cwd=folder,
                                      env=dict(os.environ, MYPYPATH=str(BINARY_DIR / 'python')), capture_output=True,
                                      text=True, timeout=500)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == '__main__':
    unittest.main()
