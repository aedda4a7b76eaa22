"""The Python client: what users do with it, against a real server and worker."""

import json
import os
import re
import subprocess
import sys
import unittest

import python_client
from cluster import HARMONICS, SOURCE_DIR, TIMEOUT_S
from python_client import BINARY_DIR, PythonClientTest, packages

python_client.with_packages()

from harmonics import errors  # noqa: E402
from harmonics.calls import TaskFailed  # noqa: E402
from harmonics.client import Client  # noqa: E402


class Programs(PythonClientTest):
    def test_a_task_from_submit_to_its_files(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client()
        task = client.submit('sh', '-c', 'echo out; echo err >&2; echo made > made.txt; echo $HARMONICS_PARAM_LR',
                             gpus=0, name='first', param={'lr': 0.5}, artifact='made.txt', upload=[])
        ends = task.wait(TIMEOUT_S)
        self.assertTrue(ends.good)
        self.assertEqual((ends.succeeded, ends.unfinished), (1, 0))
        self.assertEqual(task.logs(), 'out\n0.5\n')
        self.assertEqual(task.logs('err'), 'err\n')
        view = task.task()
        self.assertEqual((view.id, view.name, view.state, view.ended), (task.first, 'first', 'succeeded', True))
        self.assertEqual((view.end.exit_code, view.attempts, view.source), (0, 1, None))
        self.assertEqual([(one.path, one.bytes) for one in task.artifacts()], [('made.txt', 5)])
        client.artifacts(task, to=self.folder / 'fetched')
        self.assertEqual((self.folder / 'fetched/made.txt').read_text(), 'made\n')
        self.assertEqual(client.read_artifact(task, 'made.txt'), b'made\n')
        with self.assertRaisesRegex(errors.NotFound, "left no artifact 'other'"):
            client.read_artifact(task, 'other')
        bad = client.submit(['sh', '-c', 'exit 3'], gpus=0)
        self.assertFalse(bad.wait(TIMEOUT_S).good)
        self.assertEqual(bad.task().end.exit_code, 3)

    def test_lines_come_while_the_task_runs(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client()
        before = client.submit('sh', '-c', self.held('begin'), gpus=0)
        task = client.submit('sh', '-c', f'echo one; {self.held()} echo two; printf end', gpus=0, after=before)
        with self.assertRaisesRegex(errors.FailedPrecondition, 'has not started yet'):
            client.logs(task)
        self.release('begin')
        lines = client.logs(task, follow=True)
        self.assertEqual(next(lines), 'one')
        self.assertEqual(client.task(task).state, 'active')
        self.release()
        self.assertEqual(list(lines), ['two', 'end'])

    def test_dependencies_why_and_cancel(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client()
        first = client.submit('sh', '-c', self.held(), gpus=0)
        array = client.submit('true', gpus=0, array=3, after=first)
        last = client.submit('true', gpus=0, after=[first, array])
        self.assertEqual(client.task(last).state, 'waiting')
        self.assertIn(str(first.first), str(client.why(last)))
        never = client.submit('true', gpus=64, wait_for_machines=True)
        self.assertIn('needs 64 devices', client.why(never).text)
        self.assertFalse(client.wait(last, 0).ended)
        self.release()
        self.assertEqual(client.wait([first, array, last], TIMEOUT_S).succeeded, 5)
        client.cancel(never)
        self.assertEqual(client.task(never).state, 'cancelled')
        with self.assertRaisesRegex(errors.NotFound, 'there is no task 999'):
            client.cancel([client.submit('sleep', '1000', gpus=0), 999])
        self.assertEqual(client.wait(never.first + 1, TIMEOUT_S).cancelled, 1)

    def test_tasks_come_page_by_page(self):
        client = self.client()
        array = client.submit('true', gpus=1, array=2500, name='many')
        self.assertEqual((array.count, len(array.ids)), (2500, 2500))
        self.assertEqual([task.id for task in client.all_tasks()], list(array.ids))
        self.assertEqual([task.id for task in client.tasks(limit=1100)], list(array.ids)[-1100:])
        self.assertEqual(list(client.all_tasks('active')), [])
        client.cancel(array)
        self.assertEqual(len(list(client.all_tasks(['cancelled', 'failed']))), 2500)
        self.assertEqual(client.status()['tasks']['ended'], 2500)

    def test_what_has_ended_comes_first(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client()
        late, soon = [client.submit('sh', '-c', self.held(name), gpus=0) for name in ('late', 'soon')]
        array = client.submit('true', gpus=0, array=4)
        ends = client.as_completed([late, soon, array], TIMEOUT_S)
        self.assertIs(next(ends), array)
        self.release('soon')
        self.assertIs(next(ends), soon)
        self.release('late')
        self.assertEqual(list(ends), [late])
        self.assertEqual(sorted(client.as_completed(array.ids)), list(array.ids))
        open_end = client.submit('sh', '-c', self.held('never'), gpus=0)
        with self.assertRaisesRegex(TimeoutError, '1 tasks have not ended in time'):
            list(client.as_completed([open_end], 0.1))

    @unittest.skipUnless((BINARY_DIR / 'harmonics-torch').exists(), 'built without libtorch')
    def test_the_built_in_trainer(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client()
        task = client.submit(name='digits', gpus=0, param={'epochs': 1})
        self.assertTrue(task.wait(TIMEOUT_S).good, task.logs('err'))
        self.assertIn('epoch', task.logs() + task.logs('err'))

    def test_many_submits_at_once(self):
        self.start_worker('--cpus', 8, gpus=0)
        client = self.client()
        taken = client.submit_many([['sh', '-c', f'echo {number}'] for number in range(300)], gpus=0)
        self.assertEqual(len({task.first for task in taken}), 300)
        self.assertEqual(client.wait(taken, TIMEOUT_S).succeeded, 300)
        self.assertEqual(taken[217].logs(), '217\n')


class Functions(PythonClientTest):
    def setUp(self):
        super().setUp()
        self.start_worker('--cpus', 8, gpus=0)

    def test_a_value_and_the_source(self):
        offset = 4

        def scaled(number, factor=10):
            return {'is': number * factor + offset}

        client = self.client()
        call = client.submit(scaled, 3)
        self.assertEqual(call.result(TIMEOUT_S), {'is': 34})
        self.assertIsNone(call.exception())
        self.assertTrue(call.done())
        view = call.task()
        self.assertEqual(view.name, 'scaled')
        self.assertTrue(view.source.startswith('def scaled(number, factor=10):\n    return'), view.source)
        self.assertIn("\ndef scaled(number, factor=10):\n    return {'is': number", self.done('task', call.first))

    def test_what_it_raised_is_raised_again(self):
        class Own(Exception):
            def __init__(self, one, two):
                super().__init__(f'{one} and {two}')

        def raises(which):
            if which == 'key':
                {}['missing']
            if which == 'own':
                raise Own(1, 2)
            raise SystemExit(which)

        client = self.client()
        with self.assertRaises(KeyError) as raised:
            client.submit(raises, 'key').result(TIMEOUT_S)
        self.assertIn("{}['missing']" if sys.version_info >= (3, 13) else 'in raises', str(raised.exception.__cause__))
        # One that cannot be made again here, and one that would end this program, are told.
        own = client.submit(raises, 'own')
        with self.assertRaisesRegex(TaskFailed, '1 and 2'):
            own.result(TIMEOUT_S)
        self.assertIsInstance(own.exception(), TaskFailed)
        self.assertIn('1 and 2', own.logs('err'))
        with self.assertRaisesRegex(TaskFailed, 'SystemExit: 9'):
            client.submit(raises, 9).result(TIMEOUT_S)

    def test_what_cannot_be_run_is_said(self):
        client = self.client()
        with self.assertRaisesRegex(TaskFailed, 'task 1 failed .*/nowhere/python'):
            client.submit(len, [1], python='/nowhere/python').result(TIMEOUT_S)
        with self.assertRaisesRegex(TypeError, 'cannot pickle'):
            client.submit(lambda: sys._getframe()).result(TIMEOUT_S)
        with self.assertRaisesRegex(errors.ResourceExhausted, 'put large data where the workers can read it'):
            client.submit(len, b'x' * (1 << 20))
        with self.assertRaisesRegex(TypeError, "'map' calls it for each"):
            client.submit(len, [1], array=3)
        held = client.submit(lambda: None, after=client.submit('sleep', '1000', gpus=0))
        with self.assertRaisesRegex(TimeoutError, f'task {held.first} has not ended in time'):
            held.result(0.1)
        held.cancel()
        with self.assertRaisesRegex(TaskFailed, f'task {held.first} cancelled'):
            held.result()

    def test_a_map_keeps_the_order_over_several_arrays(self):
        client = self.client()
        words = [str(number) * 6000 for number in range(9)]
        calls = client.map(len, words)
        self.assertGreater(len(calls.firsts), 1)
        self.assertEqual(list(calls.results(TIMEOUT_S)), [len(word) for word in words])
        self.assertEqual(calls[0].result(), 6000)
        self.assertEqual([call.first for call in calls], list(calls.ids))
        self.assertEqual(sorted(call.result() for call in client.as_completed(calls)), [6000] * 9)
        self.assertEqual(list(client.map(len, []).results()), [])
        failing = client.map(lambda number: 1 // number, [1, 0])
        self.assertEqual(failing[0].wait(TIMEOUT_S).succeeded, 1)
        with self.assertRaisesRegex(errors.FailedPrecondition, 'the first of an array'):
            failing[0].cancel()
        with self.assertRaises(ZeroDivisionError):
            list(failing.results(TIMEOUT_S))


class Arguments(PythonClientTest):
    def said_by_the_command_line(self, command, *words):
        result = self.call(command, *words)
        self.assertIn(result.returncode, (1, 2), result.stdout)
        return result.stderr.removeprefix('harmonics: ').split("\ntry '")[0].strip()

    def test_texts_are_those_of_the_command_line(self):
        client = self.client()
        cases = [
            (ValueError, {'gpus': -1}), (TypeError, {'gpus': 'two'}), (ValueError, {'gpus': 1.5}),
            (ValueError, {'array': 0}), (ValueError, {'on_disconnect': 'never'}), (ValueError, {'gang': 5000}),
            (TypeError, {'env': ['COLOUR']}), (ValueError, {'upload': '/nowhere'}), (ValueError, {'artifact': '../x'}),
            (ValueError, {'max_losses': 0}), (TypeError, {'gpu': 1}), (ValueError, {'after': 77}),
            (ValueError, {'config': 'task.json'}), (ValueError, {'set': {'lr': 'x'}}),
        ]
        for kind, options in cases:
            with self.subTest(options=options):
                [(key, value)] = options.items()
                value = next(iter(f'{one}={other}' for one, other in value.items())) if isinstance(value, dict) else (
                    value[0] if isinstance(value, list) else value)
                words = [f'--{key.replace("_", "-")}={value}', '--', 'true']
                with self.assertRaises((kind, errors.NotFound) if kind is ValueError else kind) as raised:
                    client.submit('true', **options)
                self.assertEqual(str(raised.exception), self.said_by_the_command_line('submit', *words))
        self.assertEqual(client.tasks(), [])

    def test_other_calls_say_the_same(self):
        client = self.client()
        cases = [
            (ValueError, lambda: client.wait(0), ['wait', '0']),
            (TypeError, lambda: client.wait('x'), ['wait', 'x']),
            (ValueError, lambda: client.wait(1, -1), ['wait', '1', '--timeout=-1']),
            (TypeError, lambda: client.wait(1, 'soon'), ['wait', '1', '--timeout=soon']),
            (errors.NotFound, lambda: client.task(9), ['task', '9']),
            (errors.NotFound, lambda: client.why(9), ['why', '9']),
            (errors.NotFound, lambda: client.logs(9), ['logs', '9']),
            (ValueError, lambda: client.logs(9, stream='in'), ['logs', '9', '--stream=in']),
            (ValueError, lambda: client.tasks('done'), ['tasks', '--state=done']),
            (ValueError, lambda: client.all_tasks('done'), ['tasks', '--state=done']),
            (ValueError, lambda: client.tasks(limit=0), ['tasks', '--limit=0']),
            (errors.NotFound, lambda: client.cancel(9), ['cancel', '9']),
        ]
        for kind, call, words in cases:
            with self.subTest(words=words):
                with self.assertRaises(kind) as raised:
                    call()
                self.assertEqual(str(raised.exception), self.said_by_the_command_line(*words))
        with self.assertRaises(ValueError) as raised:
            Client('nowhere')
        self.assertIn("'nowhere' is not of the form HOST:PORT", str(raised.exception))
        with self.assertRaisesRegex(TypeError, 'a word of a command is a str, and 3 is a int'):
            client.submit('sleep', 3)
        with self.assertRaises(TypeError):
            client.wait(True)

    def test_every_flag_is_a_keyword(self):
        from collections.abc import Iterable, Mapping, Sequence
        from typing import Literal

        from harmonics.task_options import KINDS
        from harmonics.task_refs import StrPath, TaskRef
        said = subprocess.run([HARMONICS, 'submit', '--help'], capture_output=True, text=True, timeout=TIMEOUT_S).stdout
        flags = {flag.replace('-', '_') for flag in re.findall(r'^ +(?:-\w,)?--([\w-]+)', said, re.MULTILINE)}
        own = {'help', 'wait', 'output', 'scheduler', 'token_file', 'state_dir', 'tls', 'patience'}
        own |= {'dag', 'no_reproducible'}  # several tasks; reproducible=False
        self.assertEqual(flags - own, KINDS.keys() - {'python'})
        kinds = {'name': str, 'gpus': int | float, 'max_losses': int | Literal['unlimited'], 'resource': Mapping[str, int],
                 'on_disconnect': Literal['continue', 'stop', 'forever'], 'variant': str | Sequence[str], 'trace': bool,
                 'stages': int | Literal['auto'], 'workdir': StrPath, 'upload': StrPath | Sequence[StrPath],
                 'after': TaskRef | Iterable[TaskRef], 'out': Mapping[str, str], 'set': Mapping[str, object]}
        self.assertEqual({name: KINDS[name] for name in kinds}, kinds)
        from harmonics import _cluster
        from harmonics.keywords import flags_of
        given = {'pipeline': 'digits-mlp', 'reproducible': False, 'set': {'shuffle': False, 'lr': 0.01}, 'trace': False}
        words = ['--pipeline=digits-mlp', '--no-reproducible', '--set=shuffle=false', '--set=lr=0.01']
        self.assertEqual(flags_of(given), words)
        _cluster.check(['submit', *words])
        with self.assertRaisesRegex(TypeError, 'after= for its edges'):
            self.client().submit('true', dag='tasks.json')

    def test_the_server_is_found_as_the_command_line_finds_it(self):
        text = 'import harmonics.client\nprint(harmonics.client.Client(patience=1).status()["workers"])\n'
        told = self.start_python(text, HARMONICS_SCHEDULER=f'localhost:{self.port}')
        self.assertEqual(self.ended_with(told), (0, '0\n'))
        config = self.folder / 'config' / 'harmonics'
        config.mkdir(parents=True)
        (config / 'client.yml').write_text(f'scheduler: localhost:{self.port}\ntoken_file: {self.state / "token"}\n')
        self.assertEqual(self.ended_with(self.start_python(text, XDG_STATE_HOME='/nowhere')), (0, '0\n'))


class Guide(PythonClientTest):
    def program(self):
        text = (SOURCE_DIR / 'docs/guides/python-cluster.md').read_text()
        return '\n'.join(re.findall(r'```python\n(.*?)```', text, re.DOTALL))

    def test_the_guide_runs_as_it_stands(self):
        self.start_worker('--cpus', 8, gpus=0)
        script = self.start_python(self.program(), HARMONICS_SCHEDULER=f'localhost:{self.port}')
        code, said = self.ended_with(script)
        self.assertEqual(code, 0, said)
        for text in ('hello\n', '999.0\n', 'def heavy(size', '[9.0, 99.0, 999.0]', 'True\nall done\n', '100\n',
                     '[9.0, 19.0, 29.0]', 'hi\n'):
            self.assertIn(text, said)
        self.assertEqual((self.folder / 'fetched/result.txt').read_text(), 'done\n')

    def notebook(self):
        return SOURCE_DIR / 'examples/notebooks/cluster_from_a_laptop.ipynb'

    def test_the_notebook_runs_as_it_stands(self):
        python = packages.interpreter('notebook', ['nbclient==0.10.2', 'ipykernel==6.30.1', 'cloudpickle==3.1.2'],
                                      'nbclient, ipykernel, cloudpickle')
        if python is None:
            self.skipTest('no package index')
        self.start_worker('--cpus', 8, gpus=0)
        ran = self.folder / 'ran.ipynb'
        text = f"""import nbclient, nbformat
notebook = nbformat.read({str(self.notebook())!r}, 4)
nbclient.NotebookClient(notebook, timeout={TIMEOUT_S}).execute()
nbformat.write(notebook, {str(ran)!r})"""
        result = subprocess.run([python, '-c', text], capture_output=True, text=True, cwd=self.folder, timeout=TIMEOUT_S,
                                env=dict(os.environ, PYTHONPATH=python_client.python_path(),
                                         JUPYTER_PLATFORM_DIRS='1', HARMONICS_SCHEDULER=f'localhost:{self.port}'))
        self.assertEqual(result.returncode, 0, result.stderr)
        said = ''.join(''.join(output.get('text', '')) for cell in json.loads(ran.read_text())['cells']
                       for output in cell.get('outputs', ()))
        for line in ('8 of 8: 3.1', 'pi is about 3.1', 'def inside_circle', 'step 3\n', 'the first one succeeded',
                     'raised here: division by zero', 'cancelled\n'):
            self.assertIn(line, said)

    def test_guide_and_notebook_are_typed(self):
        cells = [cell for cell in json.loads(self.notebook().read_text())['cells'] if cell['cell_type'] == 'code']
        for text in (self.program(), '\n'.join(''.join(cell['source']) + '\n' for cell in cells)):
            self.assert_typed(text)

    def assert_typed(self, text):
        (self.folder / 'guide.py').write_text(text)
        result = subprocess.run([sys.executable, '-m', 'mypy', '--strict', '--follow-imports=silent',
                                 '--cache-dir=/dev/null', 'guide.py'], capture_output=True, text=True, cwd=self.folder,
                                env=dict(os.environ, MYPYPATH=str(BINARY_DIR / 'python')), timeout=TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class Types(unittest.TestCase):
    def test_mypy_finds_nothing(self):
        modules = ['_cluster', '_flags', 'async_client', 'call_runner', 'calls', 'client', 'keywords', 'submitted', 'task_options',
                   'task_refs', 'task_views']
        result = subprocess.run([sys.executable, '-m', 'mypy', '--strict', '--follow-imports=silent', '--cache-dir=/dev/null',
                                 *(word for name in modules for word in ('-m', f'harmonics.{name}'))],
                                capture_output=True, text=True, cwd=BINARY_DIR / 'python', timeout=TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_every_public_name_is_documented(self):
        import inspect

        from harmonics import async_client, calls, client, submitted, task_options, task_refs, task_views
        for module in (async_client, calls, client, submitted, task_options, task_refs, task_views):
            self.assertTrue(module.__doc__)
            for name in module.__all__:
                one = getattr(module, name)
                if not inspect.isclass(one):
                    continue
                self.assertTrue(one.__doc__, name)
                for member, value in vars(one).items():
                    if not member.startswith('_') and (inspect.isfunction(value) or isinstance(value, property)):
                        self.assertTrue(value.__doc__, f'{name}.{member}')


if __name__ == '__main__':
    unittest.main()
