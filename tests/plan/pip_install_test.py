"""`pip install .` in a fresh venv puts sched-pipeline on PATH. Skipped where PyPI does not answer."""

import subprocess
import sys
import tempfile
from pathlib import Path

from source_copy import SOURCE, build_environment, copy_source

SKIPPED = 77


def reaches_pypi(python):
    """Whether the build backend can be had."""
    asked = subprocess.run([python, '-m', 'pip', 'download', '--no-deps', '--quiet', '--timeout', '10',
                            '--retries', '1', '--dest', str(Path(python).parent), 'scikit-build-core'],
                           capture_output=True, text=True, check=False)
    return asked.returncode == 0


def main():
    with tempfile.TemporaryDirectory(prefix='harmonics-pip-') as folder:
        made = subprocess.run([sys.executable, '-m', 'venv', f'{folder}/venv'], check=False,
                              capture_output=True, text=True)
        if made.returncode != 0:
            print('pip install: SKIPPED: this Python cannot make a venv with pip')
            return SKIPPED
        python = f'{folder}/venv/bin/python'
        if not reaches_pypi(python):
            print('pip install: SKIPPED: PyPI does not answer')
            return SKIPPED
        tree = copy_source(folder)
        subprocess.run([python, '-m', 'pip', 'install', '--quiet', '.'], cwd=tree, check=True,
                       env=build_environment(tree))
        environment = {'PATH': f'{folder}/venv/bin'}
        plan = subprocess.run(['sched-pipeline'], cwd=SOURCE / 'examples/plan', env=environment,
                              check=True, capture_output=True, text=True).stdout
        assert plan.startswith('- ') and plan.count('\n') == 8, plan
    print('pip install: sched-pipeline is on PATH and plans')
    return 0


if __name__ == '__main__':
    sys.exit(main())
