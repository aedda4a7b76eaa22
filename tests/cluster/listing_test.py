"""Lists of tasks however many and however large they are."""

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
        self.script('true', flags=['--array', 250_000], gpus=1)
        late = self.script('true', gpus=1, name='late')
        self.assertEqual([task['id'] for task in self.json('tasks', '--limit', 2)], [late - 1, late])
        # Behind more tasks than one question looks at.
        self.assertEqual([task['id'] for task in self.json('tasks', '--state', 'active')], [early])
        self.assertEqual([task['id'] for task in self.json('monitor')['active']], [early])
        self.done('cancel', early + 1)
        status = self.json('monitor')['tasks']
        self.assertEqual((status['pending'], status['ended']), (1, 250_000))
        self.release()


if __name__ == '__main__':
    unittest.main()
