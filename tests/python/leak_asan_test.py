"""A thousand steps leave nothing behind: AddressSanitizer's leak checker looks at every allocation of the process when it
ends, and Python's collector counts the objects that it knows, which the checker takes for reachable. Where the package itself is built with it (`make sanitize`), memory that is used wrongly ends the
work too.

What CPython never frees is the same for few steps and for many; what grows with the steps is a leak.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 1000
# Of allocations that are still there at the end: what may differ from one run to the next.
ALLOWED = 50
LEAKED = 23


def library(name):
    """The path of a library of the compiler, or None."""
    try:
        path = subprocess.run(['g++', f'-print-file-name={name}'], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return path if os.path.isabs(path) else None


class LeakTest(unittest.TestCase):
    def lost(self, *words):
        """Allocations that nobody could reach at the end, objects that the collector knew, and what the checker said."""
        preload = [library('libasan.so'), library('libstdc++.so')]
        if None in preload:
            self.skipTest('the compiler has no AddressSanitizer')
        environment = dict(os.environ, LD_PRELOAD=':'.join(preload), PYTHONMALLOC='malloc', OMP_NUM_THREADS='1',
                           ASAN_OPTIONS='detect_leaks=1:use_sigaltstack=0',
                           LSAN_OPTIONS=f'exitcode={LEAKED}:max_leaks=0:print_suppressions=0')
        done = subprocess.run([sys.executable, HERE / 'leak_work.py', *map(str, words)], env=environment, capture_output=True,
                              text=True, timeout=500)
        self.assertIn('done', done.stdout, done.stderr[-4000:])
        self.assertIn(done.returncode, (0, LEAKED), done.stderr[-4000:])
        self.assertNotIn('ERROR: AddressSanitizer', done.stderr)
        unreachable = sum(map(int, re.findall(r'leak of \d+ byte\(s\) in (\d+) object', done.stderr)))
        return unreachable, int(done.stdout.split()[-1]), done.stderr

    def test_a_thousand_steps_leak_nothing(self):
        few, few_known, _ = self.lost(STEPS // 50)
        many, many_known, said = self.lost(STEPS)
        self.assertLess(many - few, ALLOWED, said)
        self.assertLess(many_known - few_known, ALLOWED)
        self.assertNotRegex(said, r'harmonics/_core\.')

    def test_a_leak_of_one_object_a_step_is_seen(self):
        few, few_known, _ = self.lost(10, '--planted')
        many, many_known, _ = self.lost(210, '--planted')
        self.assertGreaterEqual(many - few, 200)
        self.assertGreaterEqual(many_known - few_known, 200)


if __name__ == '__main__':
    unittest.main()
