"""What the tests of the Python client share: the package of the build folder, and a client of a real cluster."""

import importlib.util
import os
import pathlib
import subprocess
import sys

from cluster import BINARY_DIR, SOURCE_DIR, TIMEOUT_S, ClusterTest, environment

sys.path[:0] = [str(SOURCE_DIR / 'tests'), str(BINARY_DIR / 'python')]

import packages  # noqa: E402


def with_packages():
    """Goes on in an interpreter that has cloudpickle and mypy; ends well, after a line, where they cannot be had."""
    if importlib.util.find_spec('cloudpickle') is not None and importlib.util.find_spec('mypy') is not None:
        return
    python = packages.interpreter('client', ['cloudpickle==3.1.2', 'mypy==1.18.2'], 'cloudpickle, mypy')
    if python is None:
        sys.exit(0)
    os.execv(python, [str(python), *sys.argv])


def python_path():
    return os.pathsep.join([str(BINARY_DIR / 'python'), *filter(None, [os.environ.get('PYTHONPATH')])])


class PythonClientTest(ClusterTest):
    """Every test has a fresh server; this process speaks with it."""

    def setUp(self):
        super().setUp()
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(environment(self.folder))
        for name in ('HARMONICS_SCHEDULER', 'HARMONICS_TLS', 'HARMONICS_TOKEN_FILE'):
            os.environ.pop(name, None)
        self.server = self.start_server()

    def client(self, **options):
        from harmonics.client import Client
        return Client(f'localhost:{self.port}', state_dir=self.state, **options)

    def start_python(self, text, **variables):
        """A program of its own in Python; killed at the end of the test."""
        log = open(self.folder / f'output-{len(self.output)}', 'w+')
        self.addCleanup(log.close)
        script = self.folder / f'script-{len(self.output)}.py'
        script.write_text(text)
        process = subprocess.Popen([sys.executable, '-u', str(script)], stdout=log, stderr=log, cwd=self.folder,
                                   env=dict(os.environ, PYTHONPATH=python_path(), **variables))
        self.output[process] = pathlib.Path(log.name)
        self.addCleanup(self.kill, process)
        return process

    def until_printed(self, process, text):
        self.until(lambda: text in self.printed(process) or (process.poll() is not None and self.fail(
            f'ended with {process.returncode}: {self.printed(process)}')), f"'{text}'")

    def ended_with(self, process):
        """How it ended, and what it printed."""
        code = process.wait(timeout=TIMEOUT_S)
        return code, self.printed(process)
