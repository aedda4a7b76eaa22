"""Text of others reaches a terminal with its control characters escaped, in every command."""

import json
import unittest

from cluster import ClusterTest

# Sets the title, begins a line of its own, clears the screen (a control of eight bits), turns the line.
EVIL = 'x\x1b]0;pwned\x07\ny fake root succeeded\x9b2J\u202e'
SHOWN = r'x\x1b]0;pwned\x07\ny fake root succeeded\x9b2J\u202e'


class Terminal(ClusterTest):
    def assert_harmless(self, text):
        obeyed = [char for char in text if ord(char) < 32 and char != '\n' or 0x7f <= ord(char) < 0xa0
                  or char == '\u202e']
        self.assertEqual(obeyed, [], text)
        self.assertNotIn('\ny fake', text)

    def both(self, command, *arguments):
        """All that a call prints, whatever its exit code."""
        result = self.call(command, *arguments)
        self.assert_harmless(result.stdout + result.stderr)
        return result.stdout + result.stderr

    def test_names_progress_and_ends_of_tasks(self):
        self.start_server()
        self.start_worker('--id', 'w\x1b[2J\x9b')
        told = json.dumps({'progress': 0.5, 'note\x1b[1m': EVIL})
        (self.folder / 'told').write_text(told + '\n')
        running = self.script(f'cat {self.folder}/told >&$HARMONICS_PROGRESS_FD; {self.held()}', name=EVIL)
        missing = self.submit(f'/no{EVIL}', name='missing')
        impossible = self.script('true', name=EVIL, gpus=9, flags=['--wait-for-machines'])
        self.until(lambda: self.task(running)['progress'], 'the line of progress')
        self.assertEqual(self.wait(missing)['failed'], 1)
        self.assertEqual(self.task(running)['name'], EVIL, 'JSON says the same')
        self.assertEqual(self.task(running)['progress']['note\x1b[1m'], EVIL)
        for style in ('table', 'json', 'quiet'):
            for command in ('tasks', 'workers', 'monitor'):
                self.both(command, '--output', style)
            for task in (running, missing, impossible):
                self.both('task', task, '--output', style)
                self.both('why', task, '--output', style)
        self.assertIn(SHOWN, self.both('tasks'))
        self.assertIn(SHOWN, self.both('task', running))
        self.assertIn(SHOWN, self.both('task', missing), "the missing program's name")
        self.assertIn(SHOWN, self.both('monitor'))
        self.assertIn(r'w\x1b[2J\x9b', self.both('workers', '--output', 'quiet'))
        waited = self.both('submit', '--wait', '--gpus', 0, '--name', EVIL, '--', f'/no{EVIL}')
        self.assertIn(SHOWN, waited)
        self.release()

    def test_errors(self):
        self.start_server()
        self.assertIn(SHOWN, self.both('drain', EVIL))
        self.assertIn(SHOWN, self.both('monitor', '--worker', EVIL))
        self.assertIn(SHOWN, self.both('cancel', EVIL))
        self.assertIn('no\\x1b[2Jfile', self.both('submit', '--config', 'no\x1b[2Jfile'))
        self.assertIn(SHOWN, self.both('submit', '--name', EVIL, f'--{EVIL}'))

    def test_the_output_of_a_task_stays_as_it_is(self):
        self.start_server()
        self.start_worker()
        task = self.submit('printf', r'\033[1mbold\033[0m\n')
        self.wait(task)
        self.assertEqual(self.done('logs', task), '\x1b[1mbold\x1b[0m\n')


if __name__ == '__main__':
    unittest.main()
