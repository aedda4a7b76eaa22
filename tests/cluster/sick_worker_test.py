"""A worker that cannot start tasks, for reasons of its own, beside one that can."""

import subprocess
import unittest

from cluster import TIMEOUT_S, ClusterTest

TASKS = 60


class SickWorker(ClusterTest):
    """The state folder of the worker `sick` is full, for real."""

    def setUp(self):
        super().setUp()
        self.small = self.folder / 'small'
        self.small.mkdir(mode=0o700)
        mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m,mode=700', 'none', self.small],
                                 capture_output=True, text=True, timeout=TIMEOUT_S)
        self.mounted = mounted.returncode == 0
        if self.mounted:
            self.addCleanup(subprocess.run, ['umount', '--lazy', self.small], timeout=TIMEOUT_S)
        self.start_server()
        self.start_worker('--id', 'sick', '--state-dir', self.small, '--token-file',
                          self.state / 'token', gpus=1)

    def fill(self):
        """Leaves no room below the folder; where nothing may be mounted, no right to write there."""
        self.inner = [path for name in ('attempts', 'spare') for path in self.small.glob(f'**/{name}')]
        self.assertTrue(self.inner)
        if not self.mounted:
            for path in self.inner:
                path.chmod(0o500)
            return
        with open(self.small / 'filler', 'wb', buffering=0) as file:
            try:
                while True:
                    file.write(b'x' * 4096)
            except OSError:
                pass

    def make_room(self):
        if self.mounted:
            (self.small / 'filler').unlink()
        else:
            for path in self.inner:
                path.chmod(0o700)

    def worker(self, name):
        return next(worker for worker in self.json('workers') if worker['name'] == name)

    def where(self, task):
        return [member['worker'] for member in self.task(task)['members']]

    def test_it_swallows_no_task_and_comes_back(self):
        self.fill()
        self.start_worker('--id', 'well', '--state-dir', self.folder / 'well', '--token-file',
                          self.state / 'token', gpus=1)
        tasks = [self.submit('true', gpus=1) for _ in range(TASKS)]
        self.assertEqual(self.wait(*tasks)['succeeded'], TASKS)
        views = [self.task(task) for task in tasks]
        self.assertTrue(all(view['failures'] == view['losses'] == 0 for view in views))
        self.assertEqual({member['worker'] for view in views for member in view['members']}, {'well'})
        refused = sum(view['refusals'] for view in views)
        self.assertGreater(refused, 0, 'it was tried')
        self.assertLess(refused, TASKS // 2, 'it rests in between')
        self.make_room()
        # Only where the other one is not: it must be asked again by itself.
        self.done('drain', 'well')
        task = self.submit('true', gpus=1)
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(self.where(task), ['sick'])

    def test_alone_it_makes_tasks_wait_and_says_why(self):
        self.fill()
        task = self.submit('true', gpus=1)
        view = self.until(lambda: self.worker('sick')['state'] == 'unable' and self.worker('sick'),
                          'its rest')
        reason = 'No space left on device' if self.mounted else 'Permission denied'
        self.assertIn(reason, view['problem'])
        self.until(lambda: self.task(task)['refusals'] >= 2, 'a second try')
        self.assertEqual(self.state_of(task), 'pending')
        why = self.until(lambda: (lambda one: one['reason'] == 'unable' and one)(
            self.json('why', task)), 'the reason')
        self.assertIn("worker 'sick'", why['text'])
        self.assertIn(reason, why['text'])
        for command in ('workers', 'monitor'):
            self.until(lambda name=command: 'sick is unable to start tasks' in self.done(name), command)
        self.make_room()
        self.assertEqual(self.wait(task)['succeeded'], 1)
        ended = self.task(task)
        self.assertEqual((ended['failures'], ended['losses']), (0, 0))
        self.assertEqual(self.worker('sick')['state'], 'ready')

    def test_a_disk_that_fills_while_a_task_runs_takes_no_result(self):
        if not self.mounted:
            self.skipTest('nothing may be mounted here')
        # What was not kept is more to say than what fits beside the record that is there already.
        wishes = [word for letter in 'abc' for word in ('--artifact', letter * 1400)]
        tasks = {code: self.script(f'cat /dev/zero >big 2>/dev/null; exit {code}', gpus=1,
                                   flags=wishes) for code in (0, 3)}
        for code, task in tasks.items():
            self.wait(task)
            view = self.task(task)
            self.assertEqual((view['state'], view['losses']), ('failed' if code else 'succeeded', 0), view)
            self.assertIn('artifacts that were not kept', view['end']['message'])
            for file in self.small.glob('**/big'):
                file.unlink()

    def test_what_is_the_tasks_own_fault_still_fails(self):
        for task in (self.submit('no-such-program', gpus=1),
                     self.submit('true', gpus=1, flags=('--workdir', '/no/such/folder'))):
            self.assertEqual(self.wait(task)['failed'], 1)
            self.assertEqual(self.task(task)['refusals'], 0)
        self.assertEqual(self.worker('sick')['state'], 'ready')


if __name__ == '__main__':
    unittest.main()
