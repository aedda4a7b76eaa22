"""The Python client when things go wrong: Ctrl-C, a killed server, a full queue, a wrong token; and asyncio."""

import asyncio
import signal
import threading
import unittest

import python_client
from cluster import TIMEOUT_S
from python_client import PythonClientTest

python_client.with_packages()

from harmonics import errors  # noqa: E402
from harmonics.async_client import AsyncClient  # noqa: E402
from harmonics.client import Client  # noqa: E402

PREAMBLE = '''
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from harmonics.client import Client
client = Client({scheduler!r}, state_dir={state!r}, patience=600)
'''


class Interrupts(PythonClientTest):
    def script(self, text, scheduler=None, **fields):
        head = PREAMBLE.format(scheduler=scheduler or f'localhost:{self.port}', state=str(self.state))
        return self.start_python(head + text.format(**fields))

    def assert_interrupted(self, process):
        process.send_signal(signal.SIGINT)
        code, said = self.ended_with(process)
        self.assertEqual(code, -signal.SIGINT, said)
        self.assertTrue(said.rstrip().endswith('KeyboardInterrupt'), said)

    def test_ctrl_c_ends_every_wait_and_no_task(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client()
        held = client.submit('sh', '-c', f'echo begun; {self.held()}', gpus=0)
        self.until_launched(held.first)
        waits = ['client.wait({task})', 'list(client.as_completed([{task}]))',
                 'from harmonics.submitted import SubmittedCall\nSubmittedCall(client, {task}).result()',
                 'list(client.logs({task}, follow=True))']
        running = [self.script('print("waits")\n' + text, task=held.first) for text in waits]
        for process in running:
            self.until_printed(process, 'waits')
        for process in running:
            self.assert_interrupted(process)
        self.assertEqual(held.task().state, 'active')
        self.release()
        self.assertTrue(held.wait(TIMEOUT_S).good)

    def test_ctrl_c_ends_the_wait_for_a_server(self):
        self.kill(self.server)
        calls = ['client.status()', 'client.submit("true")', 'client.submit_many([["true"]] * 10)']
        running = [self.script(text) for text in calls]
        for process in running:
            self.until_printed(process, 'no server answers')
            self.assert_interrupted(process)
        (self.state / 'token').unlink()
        process = self.start_python(PREAMBLE.format(scheduler=f'localhost:{self.port}', state=str(self.state)))
        self.until_printed(process, 'no server has made the token')
        self.assert_interrupted(process)

    def test_other_threads_run_while_one_waits(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client()
        held = client.submit('sh', '-c', self.held(), gpus=0)
        ends = []
        waiter = threading.Thread(target=lambda: ends.append(held.wait(TIMEOUT_S)))
        waiter.start()
        self.assertEqual(client.submit('echo', 'hi', gpus=0).wait(TIMEOUT_S).succeeded, 1)
        self.assertTrue(waiter.is_alive())
        self.release()
        waiter.join(TIMEOUT_S)
        self.assertEqual([one.succeeded for one in ends], [1])


class Outages(PythonClientTest):
    def test_a_killed_server_is_said_and_nothing_is_lost(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client(patience=0.5)
        acknowledged = [client.submit('sh', '-c', self.held(), gpus=0, name=f'task-{n}') for n in range(20)]
        self.kill(self.server)
        with self.assertRaisesRegex(ConnectionError, f'no server answers at localhost:{self.port}') as lost:
            client.submit('true', gpus=0, name='unheard')
        self.assertIsInstance(lost.exception, errors.Unavailable)
        for call in (lambda: client.wait(acknowledged), client.tasks, lambda: client.cancel(1),
                     lambda: list(client.as_completed(acknowledged)), lambda: client.logs(1)):
            with self.assertRaises(errors.Unavailable):
                call()
        with self.assertRaises(errors.Unavailable) as many:
            client.submit_many([['true']] * 5, gpus=0)
        self.assertEqual(many.exception.submitted, [None] * 5)
        self.start_server()
        key = lost.exception.key
        again = [client.submit('true', gpus=0, name='unheard', key=key) for _ in range(2)]
        self.assertEqual([task.already for task in again], [False, True])
        self.assertEqual(again[0].first, again[1].first)
        self.assertEqual([task.task().name for task in acknowledged], [f'task-{n}' for n in range(20)])
        self.release()
        self.assertEqual(client.wait([*acknowledged, again[0]], TIMEOUT_S).succeeded, 21)

    def test_a_kill_amid_submits_loses_and_doubles_nothing(self):
        client = self.client(patience=TIMEOUT_S)
        acknowledged, unsure = {}, {}
        enough = threading.Event()

        def hand_in(lane):
            for number in range(100):
                name = f'{lane}-{number}'
                try:
                    acknowledged[client.submit('true', gpus=8, name=name).first] = name
                except errors.Unavailable as error:
                    unsure[name] = error.key
                if len(acknowledged) >= 100:
                    enough.set()

        lanes = [threading.Thread(target=hand_in, args=(lane,)) for lane in range(4)]
        for lane in lanes:
            lane.start()
        self.assertTrue(enough.wait(TIMEOUT_S))
        self.kill(self.server)
        self.start_server()
        for lane in lanes:
            lane.join(TIMEOUT_S)
        for name, key in unsure.items():
            acknowledged[client.submit('true', gpus=8, name=name, key=key).first] = name
        self.assertEqual({task.id: task.name for task in client.all_tasks()}, acknowledged)
        self.assertEqual(len(set(acknowledged.values())), 400)

    def test_a_server_that_restarts_is_waited_for(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client(patience=TIMEOUT_S)
        held = client.submit('sh', '-c', self.held(), gpus=0)
        ends = []
        waiter = threading.Thread(target=lambda: ends.append(held.wait(TIMEOUT_S)))
        waiter.start()
        self.kill(self.server)
        self.start_server()
        self.release()
        waiter.join(TIMEOUT_S)
        self.assertEqual([one.succeeded for one in ends], [1])

    def test_a_full_queue(self):
        client = self.client()
        user = client.submit('true', gpus=8).task().user
        self.done('quota', user, '--waiting', 5)
        with self.assertRaises(errors.ResourceExhausted) as full:
            client.submit_many([['true']] * 8, gpus=8)
        taken = [task for task in full.exception.submitted if task is not None]
        self.assertEqual(len(taken), 4)
        with self.assertRaises(errors.ResourceExhausted) as again:
            client.submit('true', gpus=8)
        self.assertEqual(str(again.exception), self.call('submit', '--gpus', 8, '--', 'true').stderr.removeprefix(
            'harmonics: ').strip())
        self.assertEqual({task.id for task in client.all_tasks()}, {1, *(task.first for task in taken)})

    def test_a_wrong_token(self):
        token = self.folder / 'other.token'
        token.write_text('0' * 64)
        token.chmod(0o600)
        client = self.client(token_file=token)
        with self.assertRaisesRegex(errors.Unauthenticated, 'the server does not know this token') as refused:
            client.submit('true', gpus=0)
        self.assertIsInstance(refused.exception, PermissionError)
        self.assertEqual(self.client().tasks(), [])


class Certificates(PythonClientTest):
    def test_tls_and_what_is_missing_for_it(self):
        folder = self.folder / 'certificates'
        self.start('server', '--init', folder, '--init-host', 'localhost').wait(timeout=TIMEOUT_S)
        self.start_server('--tls', folder, '--state-dir', self.folder / 'other', port=0)
        scheduler = f'localhost:{self.port}'
        self.assertEqual(Client(scheduler, tls=folder).tasks(), [])
        with self.assertRaisesRegex(errors.Unavailable, 'speaks TLS and this end does not'):
            Client(scheduler, token_file=folder / 'admin.token').tasks()
        with self.assertRaisesRegex(errors.NotFound, 'there is no token in'):
            Client(scheduler, tls=self.folder)


class Asyncio(PythonClientTest, unittest.IsolatedAsyncioTestCase):
    async def test_many_calls_at_once(self):
        self.start_worker('--cpus', 8, gpus=0)
        async with AsyncClient(f'localhost:{self.port}', state_dir=self.state) as client:
            calls = await asyncio.gather(*(client.submit(divmod, number, 3) for number in range(10)))
            self.assertEqual(await asyncio.gather(*map(client.result, calls)), [divmod(n, 3) for n in range(10)])
            done = [one async for one in client.as_completed(calls)]
            self.assertEqual(set(map(id, done)), set(map(id, calls)))
            self.assertEqual(await client.results(await client.map(len, ['a', 'bb'])), [1, 2])
            task = await client.submit('sh', '-c', 'echo one; echo two', gpus=0, artifact='x')
            self.assertEqual([line async for line in client.follow(task)], ['one', 'two'])
            self.assertTrue((await client.wait(task)).good)
            self.assertEqual(await client.logs(task), 'one\ntwo\n')
            self.assertEqual((await client.task(task)).state, 'succeeded')
            self.assertEqual(await client.artifacts(task), [])
            self.assertEqual(len(await client.workers()), 1)
            with self.assertRaises(errors.NotFound):
                await client.why(999)
            with self.assertRaises(TypeError):
                await client.submit('true', gpus='x')

    async def test_a_cancelled_wait_lets_go_of_its_thread(self):
        async with AsyncClient(f'localhost:{self.port}', state_dir=self.state) as client:
            pending = await client.submit('true', gpus=8)
            waits = [asyncio.create_task(client.wait(pending)) for _ in range(64)]
            while not all(thread.is_alive() for thread in client._threads._threads) or len(
                    client._threads._threads) < 64:
                await asyncio.sleep(0)
            for one in waits:
                one.cancel()
            self.assertEqual(set(map(type, await asyncio.gather(*waits, return_exceptions=True))),
                             {asyncio.CancelledError})
            # All 64 threads were taken: this one gets through once the calls have ended.
            await asyncio.wait_for(client.cancel(pending), TIMEOUT_S)
            self.assertEqual((await client.task(pending)).state, 'cancelled')


if __name__ == '__main__':
    unittest.main()
