"""A policy from a shared library decides; one that throws, crashes, hangs or lies costs nothing."""

import re
import shlex
import subprocess
import unittest

from cluster import BINARY_DIR, SOURCE_DIR, ClusterTest

LIBRARY = BINARY_DIR / 'tests' / 'contrary_policy.so'


class Policy(ClusterTest):
    def place(self, name):
        task = self.script(self.held(name), name=name)
        self.until_launched(task)
        return task, self.task(task)['members'][0]['worker']

    def test_the_library_decides(self):
        self.start_server('--policy', LIBRARY)
        for _ in range(3):
            self.start_worker()
        for name in ('first', 'second'):
            # The built-in policies would take worker-1 and spread the second.
            task, worker = self.place(name)
            self.assertEqual(worker, 'worker-3')
        self.release('first')
        self.release('second')
        self.assertEqual(self.wait(1, task)['succeeded'], 2)

    def test_the_built_in_policy_decides_when_the_library_cannot(self):
        server = self.start_server('--policy', LIBRARY)
        self.start_worker()
        for name, text in (('throw', 'I would rather not'), ('crash', 'has crashed'),
                           ('hang', 'did not answer'), ('lie', 'balanced')):
            with self.subTest(name):
                self.assertEqual(self.wait(self.script('true', name=name))['succeeded'], 1)
                self.until(lambda wanted=text: wanted in self.printed(server), 'the log')
        self.assertEqual(self.wait(self.script('true', name='good'))['succeeded'], 1)

    def test_one_that_hangs_stops_nobody(self):
        # Forty-five decisions of a second each would outlast the lease.
        server = self.start_server('--policy', LIBRARY, '--lease', 10)
        self.start_worker('--cpus', 64, gpus=0)
        running, _ = self.place('go')
        tasks = self.script('true', name='hang', flags=['--array', 45])
        self.assertEqual(self.wait(tasks)['succeeded'], 45)
        self.assertIn('it is left out for 10 s', self.printed(server))
        self.assertEqual(self.wait(self.script('true', name='good'))['succeeded'], 1)
        self.release()
        self.assertEqual(self.wait(running)['succeeded'], 1)
        self.assertEqual((self.task(running)['attempts'], self.task(running)['losses']), (1, 0))

    def test_one_that_is_slow_gets_a_share_of_each_pass(self):
        server = self.start_server('--policy', LIBRARY)
        self.start_worker('--cpus', 64, gpus=0)
        tasks = self.script('true', name='slow', flags=['--array', 60])
        self.assertEqual(self.wait(tasks)['succeeded'], 60)
        self.assertIn("'balanced' decides the rest", self.printed(server))

    def test_the_line_of_the_guide_builds_one(self):
        guide = (SOURCE_DIR / 'docs/guides/cluster.md').read_text()
        line = re.search(r'^(c\+\+ .*mine\.cc.*)$', guide, re.MULTILINE).group(1)
        source = re.search(r'```cpp\n(.*?harmonics_make_policy.*?)```', guide, re.DOTALL).group(1)
        (self.folder / 'mine.cc').write_text(source)
        # In the source tree the headers lie by module; an installation has them in one folder.
        include = ' '.join(f'-I{SOURCE_DIR}/src/{module}/include' for module in ('base', 'cluster'))
        subprocess.run(shlex.split(line.replace('-IPREFIX/include', include)), cwd=self.folder,
                       check=True, timeout=300)
        self.start_server('--policy', self.folder / 'mine.so')
        for _ in range(2):
            self.start_worker()
        for name in ('first', 'second'):
            _, worker = self.place(name)
            self.assertEqual(worker, 'worker-2', 'the last that fits')
        self.release('first')
        self.release('second')

    def test_libraries_that_are_none(self):
        for path, text in (('/no/such.so', 'cannot be loaded'),
                           (BINARY_DIR / 'harmonics-supervisor', '')):
            server = self.start('server', '--port', 0, '--policy', path)
            self.assertEqual(server.wait(timeout=60), 1)
            self.assertIn(text, self.printed(server))


if __name__ == '__main__':
    unittest.main()
