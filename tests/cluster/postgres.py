"""A PostgreSQL of the test's own, reached through a socket in a scratch folder."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile


def find_programs():
    found = sorted(pathlib.Path('/usr/lib/postgresql').glob('*/bin/postgres'))
    return found[-1].parent if found else None


class Postgres:
    """Started by construction; None of it is left after `stop`. `missing()` says why it cannot be."""

    @staticmethod
    def missing():
        if find_programs() is None:
            return 'PostgreSQL is not installed here (Debian: postgresql)'
        if os.geteuid() == 0 and 'postgres' not in {user.pw_name for user in pwd.getpwall()}:
            return 'there is no user postgres to run PostgreSQL as'
        return None

    def __init__(self):
        programs = find_programs()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='harmonics-pg-'))
        self.user = 'postgres' if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user, self.user)
        data = self.folder / 'data'
        subprocess.run([programs / 'initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync',
                        '--no-instructions'], check=True, capture_output=True, cwd='/', user=self.user)
        self.url = f'postgresql:///postgres?host={self.folder}&user=postgres'
        self.launch()

    def launch(self):
        self.process = subprocess.Popen(
            [find_programs() / 'postgres', '-D', self.folder / 'data', '-k', self.folder, '-c',
             'listen_addresses=', '-c', 'fsync=off'], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, cwd='/', user=self.user)
        for line in self.process.stderr:
            if 'ready to accept connections' in line:
                break

    def end(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.stderr.close()
        self.process.wait()

    def restart(self):
        """Cuts every connection; the data stay."""
        self.end()
        self.launch()

    def stop(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
