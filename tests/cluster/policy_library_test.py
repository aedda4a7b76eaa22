"""A policy from a shared library decides; one that throws, crashes, hangs or lies costs nothing."""

import unittest

from cluster import BINARY_DIR, ClusterTest

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

    def test_libraries_that_are_none(self):
        for path, text in (('/no/such.so', 'cannot be loaded'),
                           (BINARY_DIR / 'harmonics-supervisor', '')):
            server = self.start('server', '--port', 0, '--policy', path)
            self.assertEqual(server.wait(timeout=60), 1)
            self.assertIn(text, self.printed(server))


if __name__ == '__main__':
    unittest.main()
