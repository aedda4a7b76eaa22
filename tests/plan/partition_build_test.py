"""The commands of the scheduler's README, as typed, in a copy of the source tree."""

import subprocess
import sys
import tempfile

from source_copy import SOURCE, build_environment, copy_source

COMMANDS = 'mkdir partition/build; cd partition/build; cmake ..; cmake --build .'


def main():
    with tempfile.TemporaryDirectory(prefix='harmonics-partition-') as folder:
        tree = copy_source(folder)
        subprocess.run(['sh', '-ec', COMMANDS], cwd=tree, env=build_environment(tree), check=True)
        program = tree / 'partition/build/sched-pipeline'
        plan = subprocess.run([program], cwd=SOURCE / 'examples/plan', check=True,
                              capture_output=True, text=True).stdout
        assert plan.startswith('- ') and plan.count('\n') == 8, plan
        linked = subprocess.run(['ldd', program], check=True, capture_output=True, text=True).stdout
        assert 'torch' not in linked and 'ssl' not in linked, linked
    print('partition build: the program plans')
    return 0


if __name__ == '__main__':
    sys.exit(main())
