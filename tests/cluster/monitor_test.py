"""harmonics monitor on a terminal: a picture that is drawn anew until Ctrl-C."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from cluster import HARMONICS, TIMEOUT_S, ClusterTest, environment

CLEAR = '\x1b[H\x1b[2J'


class Monitor(ClusterTest):
    def watch(self, *arguments, rows=40, columns=100):
        """Starts the monitor on a terminal; the process and the terminal's other end."""
        reader, writer = pty.openpty()
        self.addCleanup(os.close, reader)
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        process = subprocess.Popen([str(HARMONICS), 'monitor', *self.access(), '--refresh', '0.1', *arguments],
                                   stdin=writer, stdout=writer, stderr=writer, cwd=self.folder,
                                   env=environment(self.folder))
        os.close(writer)
        self.addCleanup(self.kill, process)
        return process, reader

    def until_shown(self, reader, *texts):
        """Reads what is drawn until one picture holds all the texts; that picture."""
        end, shown = time.monotonic() + TIMEOUT_S, ''
        while time.monotonic() < end:
            if select.select([reader], [], [], 1)[0]:
                shown += os.read(reader, 65536).decode(errors='replace')
            for picture in shown.split(CLEAR)[1:-1]:
                plain = re.sub(r'\x1b\[[0-9;]*m', '', picture)
                if all(text in plain for text in texts):
                    return plain
        self.fail(f'{texts} were never shown: {shown[-2000:]}')

    def test_it_follows_workers_devices_queue_and_tasks(self):
        self.start_server()
        process, reader = self.watch()
        self.until_shown(reader, '0 of 0 workers connected')
        self.start_worker(gpus=2)
        self.until_shown(reader, '1 of 1 workers connected', 'worker-1', '0 free, 1 free')
        script = 'echo \'{"progress": 0.25}\' >&$HARMONICS_PROGRESS_FD; ' + self.held()
        running = self.script(script, gpus=2, name='runs')
        self.script('true', gpus=2, name='queues')
        picture = self.until_shown(reader, '0 busy, 1 busy', '[#####...............]', '25 %', 'queues')
        self.assertRegex(picture, r'runs +worker-1')
        self.assertRegex(picture, r'queues +pending')
        self.release()
        self.wait(running)
        self.until_shown(reader, '0 free, 1 free', '2 ended')
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 0)

    def test_views_by_key(self):
        self.start_server()
        self.start_worker('--id', 'gpu-1')
        self.start_worker('--id', 'cpu-2', gpus=0)
        first = self.script('echo the first; ' + self.held(), name='alpha')
        second = self.script('echo the second', name='beta')
        self.wait(second)
        self.until_launched(first)
        process, reader = self.watch()
        self.until_shown(reader, '2 of 2 workers connected', 't tasks')
        os.write(reader, b't')
        self.assertRegex(self.until_shown(reader, 'tasks by id', 'alpha', 'beta'), r'> +2 +beta')
        os.write(reader, b'\x1b[B')
        self.until_shown(reader, '>   1  alpha')
        os.write(reader, b'l')
        self.until_shown(reader, 'what task 1 prints', 'the first')
        os.write(reader, b'ts')
        self.assertRegex(self.until_shown(reader, 'tasks by name'), r'alpha[^$]*beta')
        os.write(reader, b'/bet')
        self.until_shown(reader, 'find: bet')
        os.write(reader, b'\n')
        self.assertNotIn('alpha', self.until_shown(reader, 'beta', '/ find: bet'))
        os.write(reader, b'm')
        self.until_shown(reader, 'machine 1 of 2: cpu-2')
        os.write(reader, b'j')
        self.until_shown(reader, 'machine 2 of 2: gpu-1', 'T4', '16384')
        os.write(reader, b'p')
        self.until_shown(reader, 'pipelines that run', 'none')
        os.write(reader, b'o')
        self.until_shown(reader, '2 of 2 workers connected')
        os.write(reader, b'q')
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 0)
        self.release()

    def test_a_small_terminal_shows_the_top_and_does_not_scroll(self):
        self.start_server()
        self.start_worker(gpus=0)
        for i in range(9):
            self.script('true', gpus=1, name=f'the-task-number-{i}-with-a-long-name', flags=['--wait-for-machines'])
        _, reader = self.watch(rows=8, columns=40)
        picture = self.until_shown(reader, 'worker-1', 'more lines')
        lines = picture.replace('\r', '').rstrip('\n').split('\n')
        self.assertEqual(len(lines), 7)
        self.assertLessEqual(max(map(len, lines)), 40)
        self.assertTrue(lines[0].startswith('harmonics '))
        self.assertEqual(lines[-1], '… 11 more lines')

    def test_it_says_so_while_the_server_is_away_and_goes_on(self):
        server = self.start_server()
        process, reader = self.watch()
        self.until_shown(reader, '0 of 0 workers connected')
        self.kill(server)
        self.until_shown(reader, 'no server answers')
        self.start_server()
        self.until_shown(reader, '0 of 0 workers connected')
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 0)


if __name__ == '__main__':
    unittest.main()
