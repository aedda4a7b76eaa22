"""The notebooks of examples/notebooks run from the first cell to the last, and pass mypy --strict.

A kernel of Jupyter runs them, and what their cells show is looked at. Where the package index cannot be reached the cells
are run as a script: then what a cell shows at its end is computed and not drawn.
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


RUN = """import nbclient, nbformat, sys
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=500, kernel_name='python3').execute()
nbformat.write(notebook, sys.argv[2])"""


class NotebooksTest(unittest.TestCase):
    def ran(self, name, **environment):
        """What the cells of a notebook showed, by kind; None where there is no Jupyter to ask."""
        notebook = SOURCE_DIR / 'examples' / 'notebooks' / name
        python = packages.interpreter('jupyter', ['nbclient==0.10.2', 'ipykernel==6.30.1', 'tqdm==4.67.1'],
                                      'nbclient, ipykernel, tqdm, numpy', on_system=True)
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / name
            words = ([sys.executable, '-c', code_of(notebook)] if python is None else
                     [python, '-c', RUN, notebook, copy])
            done = subprocess.run(words, cwd=notebook.parent, capture_output=True, text=True, timeout=500,
                                  env=dict(os.environ, JUPYTER_PLATFORM_DIRS='1', **environment))
            self.assertEqual(done.returncode, 0, done.stderr)
            if python is None:
                return None
            outputs = [one for cell in json.loads(copy.read_text())['cells'] for one in cell.get('outputs', ())]
        shown = {}
        for one in outputs:
            for kind, value in {'text': one.get('text', ''), **one.get('data', {})}.items():
                shown.setdefault(kind, []).append(''.join(value))
        return shown

    def test_digits_in_four_parts(self):
        shown = self.ran('digits_in_four_parts.ipynb')
        if shown is None:
            return
        pictures = shown['image/svg+xml']
        self.assertEqual(len(pictures), 4, 'the graph, two courses of losses, a trace')
        self.assertEqual(sum('polyline' in one and 'loss' in one for one in pictures), 2)
        self.assertEqual(len([one for one in shown['text/html'] if one.lstrip().startswith('<svg')]), 1, 'the plan')
        self.assertRegex(''.join(shown['text']), '135/135|0.9\\d+ are right')

    def test_minilm_in_two_processes(self):
        model = packages.minilm()
        if model is None:
            self.skipTest('the weights of MiniLM are not here')
        shown = self.ran('minilm_in_two_processes.ipynb', MINILM=str(model))
        if shown is not None:
            self.assertEqual(sum('polyline' in one for one in shown['image/svg+xml']), 1, 'the course of losses')

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
