"""The store under a living server: full, read-only, torn, and led by another server."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import unittest

from cluster import TIMEOUT_S, ClusterTest
from postgres import Postgres


class SmallDisk(ClusterTest):
    """The state folder lies on a disk of its own, of a few megabytes."""

    def setUp(self):
        super().setUp()
        self.state.mkdir(mode=0o700)
        mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4m,mode=700', 'none', self.state],
                                 capture_output=True, text=True, timeout=TIMEOUT_S)
        if mounted.returncode != 0:
            self.skipTest(f'no file system may be mounted here: {mounted.stderr.strip()}')
        self.addCleanup(subprocess.run, ['umount', '--lazy', self.state], timeout=TIMEOUT_S)

    def fill(self):
        filler = self.state / 'filler'
        with open(filler, 'wb', buffering=0) as file:
            try:
                while True:
                    file.write(b'x' * 65536)
            except OSError:
                pass
        return filler

    def test_a_full_disk_stops_the_server_and_loses_nothing(self):
        server = self.start_server()
        tasks = [self.script('true') for _ in range(3)]
        filler = self.fill()
        refused = 0
        # What fits into the last block is still taken; nothing that is not on disk is.
        while server.poll() is None:
            answer = self.call('submit', '--output', 'quiet', '--name', 'x', '--gpus', 0, '--env',
                               'PAD=' + 'y' * 4000, '--', 'true')
            if answer.returncode == 0:
                tasks.append(int(answer.stdout))
            else:
                refused += 1
        self.assertEqual(server.wait(timeout=TIMEOUT_S), 1)
        self.assertGreater(refused, 0)
        self.assertIn('free some space', self.printed(server))
        filler.unlink()
        self.start_server()
        self.start_worker('--state-dir', self.folder / 'elsewhere', '--token-file',
                          self.state / 'token')
        self.assertEqual(self.wait(*tasks)['succeeded'], len(tasks))

    def test_a_read_only_store_is_refused_clearly_and_stays_whole(self):
        server = self.start_server()
        task = self.script('true')
        self.kill(server)
        remount = ['mount', '-o', 'remount,ro', self.state]
        subprocess.run(remount, check=True, timeout=TIMEOUT_S)
        refused = self.start('server', '--port', 0)
        self.assertEqual(refused.wait(timeout=TIMEOUT_S), 1)
        self.assertRegex(self.printed(refused), r"(?i)read-?only")
        remount[2] = 'remount,rw'
        subprocess.run(remount, check=True, timeout=TIMEOUT_S)
        self.start_server()
        self.assertEqual(self.state_of(task), 'pending')


class TornWrite(ClusterTest):
    def write_at_end(self, log, record):
        """After the records that count; what lies behind them is left from before."""
        whole = log.read_bytes()
        header, record_header, page = 32, 24, 4096
        salt, at = whole[16:24], header
        while whole[at + 8:at + 16] == salt:
            at += record_header + page
        self.assertGreater(at, header)
        log.write_bytes(whole[:at] + record + whole[at + len(record):])

    def test_half_a_write_at_the_end_is_not_there(self):
        server = self.start_server()
        tasks = [self.script('true') for _ in range(5)]
        self.kill(server)
        log = self.state / 'cluster.sqlite-wal'
        # The beginning of a further record, as a power cut leaves it.
        self.write_at_end(log, log.read_bytes()[32:32 + 2000])
        server = self.start_server()
        self.assertEqual([task['id'] for task in self.json('tasks')], tasks)
        self.kill(server)
        self.write_at_end(log, os.urandom(5000))
        self.start_server()
        self.start_worker()
        self.assertEqual(self.wait(*tasks)['succeeded'], 5)

    def test_a_damaged_store_is_refused_by_name(self):
        self.kill(self.start_server())
        file = self.state / 'cluster.sqlite'
        (self.state / 'cluster.sqlite-wal').unlink(missing_ok=True)
        file.write_bytes(b'not a database at all' * 100)
        refused = self.start('server', '--port', 0)
        self.assertEqual(refused.wait(timeout=TIMEOUT_S), 1)
        self.assertIn('cluster.sqlite', self.printed(refused))


    def test_a_damaged_row_is_found_before_it_listens(self):
        server = self.start_server()
        tasks = [self.script('true') for _ in range(3)]
        self.kill(server)
        with contextlib.closing(sqlite3.connect(self.state / 'cluster.sqlite')) as store:
            row, = store.execute('SELECT max(batch) FROM journal').fetchone()
            store.execute('UPDATE journal SET facts = zeroblob(length(facts)) WHERE batch = ?', (row,))
            store.commit()
        before = (self.state / 'cluster.sqlite').read_bytes()
        refused = self.start('server', '--port', 0)
        self.assertEqual(refused.wait(timeout=TIMEOUT_S), 1)
        said = self.printed(refused)
        self.assertNotIn('listening', said)
        self.assertIn(f'journal row {row}', said)
        self.assertIn(f'the last task that they know is {tasks[-2]}', said)
        self.assertIn('restore a copy', said)
        self.assertIn('--new-store', said)
        self.assertEqual((self.state / 'cluster.sqlite').read_bytes(), before)


class LostStore(ClusterTest):
    def move(self, source, target):
        target.mkdir(exist_ok=True)
        for file in source.glob('cluster.sqlite*'):
            file.rename(target / file.name)

    def test_a_store_that_is_gone_is_not_taken_for_a_new_one(self):
        server = self.start_server()
        self.start_worker()
        running = self.script(self.held())
        self.until_launched(running)
        self.kill(server)
        away = self.folder / 'away'
        self.move(self.state, away)
        refused = self.start('server', '--port', self.port)
        self.assertEqual(refused.wait(timeout=TIMEOUT_S), 1)
        said = self.printed(refused)
        self.assertNotIn('listening', said)
        self.assertIn('it was removed or emptied', said)
        self.assertIn('--new-store', said)
        # Nothing was killed meanwhile, and all is well once the store is back.
        (self.state / 'cluster.sqlite').write_bytes(b'')
        emptied = self.start('server', '--port', self.port)
        self.assertEqual(emptied.wait(timeout=TIMEOUT_S), 1)
        self.assertIn('it was removed or emptied', self.printed(emptied))
        self.move(away, self.state)
        refused = self.start('server', '--port', self.port, '--new-store')
        self.assertEqual(refused.wait(timeout=TIMEOUT_S), 1)
        self.assertIn('is in use', self.printed(refused))
        self.start_server()
        self.release()
        self.assertEqual(self.wait(running)['succeeded'], 1)
        self.assertEqual(self.task(running)['attempts'], 1)

    def test_a_new_store_is_begun_when_told_so(self):
        server = self.start_server()
        self.script('true')
        self.kill(server)
        self.move(self.state, self.folder / 'away')
        server = self.start_server('--new-store')
        self.assertEqual(self.json('tasks'), [])
        self.kill(server)
        self.start_server()


@unittest.skipIf(Postgres.missing(), Postgres.missing())
class FailOver(ClusterTest):
    """Two servers on one PostgreSQL, each with a folder and a port of its own."""

    def setUp(self):
        super().setUp()
        self.postgres = Postgres()
        self.addCleanup(self.postgres.stop)
        self.tokens = self.folder / 'tokens'
        self.tokens.write_text('admin,worker ann ' + 'a' * 32 + '\n')
        self.token = self.folder / 'ann.token'
        self.token.write_text('a' * 32)
        self.token.chmod(0o600)
        self.ports = {}

    def access(self):
        servers = ','.join(f'localhost:{port}' for port in self.ports.values())
        return ['--scheduler', servers, '--token-file', self.token]

    def start_named(self, name):
        return self.start('server', '--port', self.ports.get(name, 0), '--state-dir',
                          self.folder / name, '--store', self.postgres.url, '--tokens', self.tokens,
                          '--lease', 60)

    def listens(self, name, server):
        line = self.until(lambda: re.search(r'listening on \S+?:(\d+),', self.printed(server))
                          or self.ended(server), f'server {name} to lead')
        self.ports[name] = int(line.group(1))

    def waits(self, server):
        self.until(lambda: 'waiting to take over' in self.printed(server) or self.ended(server),
                   'the second server')

    def test_the_second_server_takes_over_and_nothing_is_lost(self):
        first, second = self.start_pair()
        marks = self.folder / 'marks'
        running = self.script(f'echo start >> {marks}; {self.held()} echo end >> {marks}', gpus=1)
        self.until_launched(running)
        waiting = [self.script('true', gpus=2) for _ in range(10)]
        waiter = self.start('wait', *self.access(), running, *waiting)
        self.kill(first)
        self.listens('second', second)
        self.until(lambda: self.ready_workers(), 'the worker to come over')
        # The first one is back, and may not lead.
        first = self.start_named('first')
        self.waits(first)
        more = self.script('true')
        self.release()
        self.assertEqual(self.wait(running, more, *waiting)['succeeded'], 12)
        self.assertEqual(waiter.wait(timeout=TIMEOUT_S), 0, self.printed(waiter))
        self.assertEqual(marks.read_text(), 'start\nend\n')
        self.assertEqual(self.task(running)['attempts'], 1)
        # And back again.
        self.kill(second)
        self.listens('first', first)
        self.assertEqual(len(self.json('tasks')), 12)

    def start_pair(self):
        first = self.start_named('first')
        self.listens('first', first)
        # The second one's port is not known before it leads: it is given one that is free.
        self.ports['second'] = self.free_port()
        second = self.start_named('second')
        self.waits(second)
        self.start_worker()
        return first, second

    def test_a_leader_that_hangs_is_replaced(self):
        first, second = self.start_pair()
        running = self.script(self.held(), gpus=1)
        self.until_launched(running)
        first.send_signal(signal.SIGSTOP)
        self.listens('second', second)
        self.until(lambda: self.ready_workers(), 'the worker to come over')
        more = self.script('true')
        self.release()
        self.assertEqual(self.wait(running, more)['succeeded'], 2)
        self.assertEqual(self.task(running)['attempts'], 1)
        # It wakes up, finds itself replaced and says nothing more to anyone.
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(timeout=TIMEOUT_S), 1)
        self.assertIn('another server leads now', self.printed(first))
        self.assertEqual(len(self.json('tasks')), 2)

    def test_servers_survive_a_restart_of_the_database(self):
        first, second = self.start_pair()
        running = self.script(self.held(), gpus=1)
        self.until_launched(running)
        self.postgres.restart()
        more = self.script('true')
        self.until(lambda: 'the database is back' in self.printed(first), 'the leader')
        self.assertIn('trying again for up to 60 s', self.printed(first))
        self.release()
        self.assertEqual(self.wait(running, more)['succeeded'], 2)
        self.assertEqual(self.task(running)['attempts'], 1)
        self.assertIsNone(first.poll())
        self.assertIsNone(second.poll())
        self.assertNotIn('listening', self.printed(second))
        self.kill(first)
        self.listens('second', second)
        self.assertEqual(len(self.json('tasks')), 2)


if __name__ == '__main__':
    unittest.main()
