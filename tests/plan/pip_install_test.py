"""`pip install .` in a fresh venv gives the package harmonics and puts the programs on PATH. Skipped where PyPI does not
answer.

ctest builds the package without libtorch and one program, sched-pipeline; HARMONICS_SOAK=1 all of it, and runs the first
ten lines of the guide and the client of a cluster, with every Python from 3.11 to 3.13 that is on PATH or among pyenv's.
None of those venvs has a torch: what needs one says so.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from source_copy import SOURCE, build_environment, copy_source

SKIPPED = 77
VERSIONS = ('3.11', '3.12', '3.13')
WHOLE = os.environ.get('HARMONICS_SOAK') == '1'
SMALL = {'SKBUILD_BUILD_TARGETS': 'python;sched-pipeline',
         'SKBUILD_CMAKE_DEFINE': 'HARMONICS_WITH_TORCH=OFF;HARMONICS_WITH_GRPC=OFF'}


def pythons():
    """Those to install it with: this one, in a long run one of each version."""
    if not WHOLE:
        return [sys.executable]
    versions = Path(os.environ.get('PYENV_ROOT', Path.home() / '.pyenv')) / 'versions'
    found = []
    for version in VERSIONS:
        beside = sorted(versions.glob(f'{version}.*/bin/python{version}'))
        system = Path(f'/usr/bin/python{version}')
        python = system if system.exists() else beside[-1] if beside else shutil.which(f'python{version}')
        if python is None:
            print(f'pip install: there is no Python {version} here')
        else:
            found.append(str(python))
    return found


def reaches_pypi(python):
    """Whether the build backend can be had."""
    asked = subprocess.run([python, '-m', 'pip', 'download', '--no-deps', '--quiet', '--timeout', '10',
                            '--retries', '1', '--dest', str(Path(python).parent), 'scikit-build-core'],
                           capture_output=True, text=True, check=False)
    return asked.returncode == 0


def check_package(python, folder):
    """The package is there, typed, and says what it was built without, or learns."""
    names = 'import harmonics, pathlib; print(pathlib.Path(harmonics.__file__).with_name("py.typed").exists())'
    said = subprocess.run([python, '-c', names], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert said == 'True\n', said
    if WHOLE:
        lines = re.search(r'^```python\n(.*?)^```', (SOURCE / 'docs/guides/python.md').read_text(), re.M | re.S).group(1)
        Path(folder, 'examples').symlink_to(SOURCE / 'examples')
        said = subprocess.run([python, '-c', lines], cwd=folder, capture_output=True, text=True, check=True).stdout
        assert 'of the digits' in said, said
        Path(folder, 'examples').unlink()
        refused = subprocess.run([python, '-c', 'import harmonics; harmonics.from_torch(None, None)'], cwd=folder,
                                 capture_output=True, text=True, check=False).stderr
        assert 'torch is not installed here (this harmonics was built with ' in refused, refused
        nobody = 'import harmonics; harmonics.Client("localhost:1", patience=0).status()'
        refused = subprocess.run([python, '-c', nobody], cwd=folder, capture_output=True, text=True, check=False).stderr
        assert 'harmonics.errors.Unavailable' in refused, refused
        return
    refused = subprocess.run([python, '-c', 'import harmonics; harmonics.Graph'], cwd=folder, capture_output=True,
                             text=True, check=False).stderr
    assert 'built without libtorch (HARMONICS_WITH_TORCH=OFF)' in refused, refused


def installed(interpreter, tree):
    """Whether this tree went into a fresh venv of this interpreter; None where that cannot be tried."""
    with tempfile.TemporaryDirectory(prefix='harmonics-pip-') as folder:
        made = subprocess.run([interpreter, '-m', 'venv', f'{folder}/venv'], check=False,
                              capture_output=True, text=True)
        if made.returncode != 0:
            print(f'pip install: SKIPPED: {interpreter} cannot make a venv with pip')
            return None
        python = f'{folder}/venv/bin/python'
        if not reaches_pypi(python):
            print('pip install: SKIPPED: PyPI does not answer')
            return None
        begun = os.times()
        subprocess.run([python, '-m', 'pip', 'install', '--quiet', '.'], cwd=tree, check=True,
                       env={**build_environment(tree), **({} if WHOLE else SMALL)})
        cpu_s = sum(os.times()[2:4]) - sum(begun[2:4])
        environment = {'PATH': f'{folder}/venv/bin'}
        plan = subprocess.run(['sched-pipeline'], cwd=SOURCE / 'examples/plan', env=environment,
                              check=True, capture_output=True, text=True).stdout
        assert plan.startswith('- ') and plan.count('\n') == 8, plan
        check_package(python, folder)
    print(f'pip install: with {interpreter} harmonics is there, and sched-pipeline is on PATH and plans; '
          f'{cpu_s:.0f} CPU seconds', flush=True)
    return True


def main():
    with tempfile.TemporaryDirectory(prefix='harmonics-pip-') as folder:
        tree = copy_source(folder)
        return 0 if all([installed(interpreter, tree) for interpreter in pythons()]) else SKIPPED


if __name__ == '__main__':
    sys.exit(main())
