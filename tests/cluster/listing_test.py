"""Lists of tasks however many and however large they are, and the commands that take several tasks."""

import json
import unittest

from cluster import ClusterTest


class Listing(ClusterTest):
    def test_tasks_with_large_specs_are_listed(self):
        self.start_server()
        script = 'true #' + 'x' * 20_000
        first = self.script(script, flags=['--array', 1000], name='large')
        shown = self.done('tasks').splitlines()
        self.assertEqual(len(shown), 51)
        self.assertEqual([int(line.split()[0]) for line in shown[1:]], list(range(951, 1001)))
        everything = self.json('tasks', '--limit', 1000)
        self.assertEqual([task['id'] for task in everything], list(range(first, first + 1000)))
        self.assertEqual(everything[-1]['spec']['command'][-1], script)
        self.assertEqual(len(self.json('monitor')['queue']), 40)
        self.assertIn('large', self.done('monitor'))

    def test_the_newest_of_many_are_found_from_the_end(self):
        self.start_server()
        self.start_worker(gpus=0)
        early = self.script(self.held(), name='early')
        self.until_launched(early)
        self.script('true', flags=['--array', 250_000, '--wait-for-machines'], gpus=1)
        late = self.script('true', gpus=1, name='late', flags=['--wait-for-machines'])
        self.assertEqual([task['id'] for task in self.json('tasks', '--limit', 2)], [late - 1, late])
        # Behind more tasks than one question looks at.
        self.assertEqual([task['id'] for task in self.json('tasks', '--state', 'active')], [early])
        self.assertEqual([task['id'] for task in self.json('monitor')['active']], [early])
        self.done('cancel', early + 1)
        status = self.json('monitor')['tasks']
        self.assertEqual((status['pending'], status['ended']), (1, 250_000))
        self.release()


class SeveralTasks(ClusterTest):
    def test_cancel_goes_through_the_whole_list(self):
        self.start_server()
        self.start_worker(gpus=1)
        ended = self.script('true')
        self.wait(ended)
        held = [self.script(self.held(), gpus=1) for _ in range(2)]
        result = self.call('cancel', held[0], ended, 999, held[1])
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, f'cancelled task {held[0]}\ncancelled task {held[1]}\n')
        self.assertEqual(result.stderr, f'harmonics: task {ended} has already ended: succeeded\n'
                                        f'harmonics: there is no task 999\n')
        self.assertEqual(self.wait(*held)['cancelled'], 2)

    def test_wait_counts_what_there_is(self):
        self.start_server()
        self.start_worker(gpus=0)
        good, bad = self.script('true'), self.script('false')
        self.wait(good)
        self.assertEqual(self.done('wait', good), '1 succeeded\n')
        self.assertEqual(self.call('wait', good, bad).stdout, '1 succeeded, 1 failed\n')


class Quotas(ClusterTest):
    def setUp(self):
        super().setUp()
        tokens = self.folder / 'tokens'
        lines = []
        for role in ('submit', 'view', 'admin'):
            lines.append(f'{role} {role}-user {role[0] * 32}\n')
            path = self.folder / f'{role}.token'
            path.write_text(role[0] * 32)
            path.chmod(0o600)
        tokens.write_text(''.join(lines))
        self.start_server('--tokens', tokens)

    def quota(self, role, *arguments):
        return self.call('quota', '--token-file', self.folder / f'{role}.token', *arguments)

    def test_what_was_set_can_be_read(self):
        self.assertIn('no user', self.done('quota'))
        self.assertEqual(self.quota('admin', 'ann', '--gpus', 8, '--weight', 2).returncode, 0)
        self.assertEqual(self.quota('admin', 'bob', '--waiting', 3).returncode, 0)
        expected = {'user': 'ann', 'max_gpus': 8, 'max_active': 0, 'max_waiting': 0, 'weight': 2,
                    'gpus': 0, 'active': 0, 'waiting': 0}
        self.assertEqual(json.loads(self.quota('view', '--output', 'json').stdout)[0], expected)
        one = json.loads(self.quota('view', 'ann', '--output', 'json').stdout)
        self.assertEqual(one, [expected])
        table = self.quota('admin').stdout
        self.assertRegex(table, r'ann +0 of 8 +0 +0 +2\n')
        self.assertRegex(table, r'bob +0 +0 +0 of 3 +1\n')
        self.assertEqual(self.quota('admin', '--output', 'quiet').stdout, 'ann\nbob\n')

    def test_a_user_sees_their_own(self):
        self.assertEqual(self.quota('admin', 'submit-user', '--active', 4).returncode, 0)
        self.assertEqual(self.quota('admin', 'ann', '--gpus', 8).returncode, 0)
        self.assertEqual(self.quota('submit', '--output', 'quiet').stdout, 'submit-user\n')
        self.assertEqual(self.quota('submit', 'ann', '--output', 'quiet').stdout, '')
        self.assert_fails(self.quota('submit', 'submit-user', '--gpus', 1), "role 'admin'")
        self.assert_fails(self.quota('admin', '--gpus', 1), 'USER', code=2)


if __name__ == '__main__':
    unittest.main()
