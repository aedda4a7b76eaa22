"""What the Debian packages are made of; with HARMONICS_SOAK=1 and root also the packages themselves, in a bare root."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
DEBIAN = SOURCE_DIR / 'packaging' / 'debian'


class DebianTest(unittest.TestCase):
    def test_scripts_are_in_order(self):
        for script in (*DEBIAN.glob('harmonics.p*'), DEBIAN / 'check_installed.sh'):
            with self.subTest(script.name):
                self.assertTrue(os.access(script, os.X_OK))
                subprocess.run(['sh', '-n', script], check=True, timeout=60)
                self.assertIn('\nset -e', script.read_text())

    def test_purge_alone_takes_what_a_cluster_knows(self):
        text = (DEBIAN / 'harmonics.postrm').read_text()
        with tempfile.TemporaryDirectory() as scratch:
            here = pathlib.Path(scratch)
            for folder in ('etc/harmonics/server', 'var/lib/harmonics-server', 'var/lib/harmonics-worker', 'home/ann'):
                (here / folder).mkdir(parents=True)
                (here / folder / 'kept').touch()
            script = here / 'postrm'
            script.write_text(re.sub(r' /(etc|var)/', rf' {here}/\1/', text).replace('/usr/bin/deb-systemd-helper', '/nonexistent'))
            for how, left in (('remove', 4), ('upgrade', 4), ('purge', 1)):
                subprocess.run(['sh', script, how], check=True, timeout=60)
                self.assertEqual(len(list(here.glob('**/kept'))), left, how)

    def test_the_units_users_are_those_that_are_made(self):
        made = set(re.findall(r'make_user (\S+)', (DEBIAN / 'harmonics.postinst').read_text()))
        listed = set(re.findall(r'^u +(\S+)', (SOURCE_DIR / 'packaging/systemd/harmonics.sysusers.conf').read_text(), re.MULTILINE))
        used = {re.search(r'^User=(.*)$', unit.read_text(), re.MULTILINE).group(1)
                for unit in (SOURCE_DIR / 'packaging/systemd').glob('*.service.in')}
        self.assertEqual(made, listed)
        self.assertLessEqual(used, made)

    @unittest.skipUnless(shutil.which('systemd-analyze'), 'needs systemd-analyze')
    def test_systemd_takes_the_units(self):
        with tempfile.TemporaryDirectory() as scratch:
            for name in ('server', 'worker'):
                unit = pathlib.Path(scratch) / f'harmonics-{name}.service'
                source = SOURCE_DIR / 'packaging/systemd' / f'harmonics-{name}.service.in'
                unit.write_text(source.read_text().replace('@bindir@', str(BINARY_DIR)))
                done = subprocess.run(['systemd-analyze', 'verify', '--man=no', unit], capture_output=True, text=True, timeout=120)
                said = [line for line in done.stderr.splitlines() if 'DelegateSubgroup' not in line]  # systemd 254
                self.assertEqual((done.returncode, said), (0, []), done.stderr)

    @unittest.skipUnless(os.environ.get('HARMONICS_SOAK') == '1' and os.geteuid() == 0 and shutil.which('debootstrap'),
                         'a bare root takes root, debootstrap and HARMONICS_SOAK=1')
    def test_the_packages_in_a_bare_root(self):
        done = subprocess.run([SOURCE_DIR / 'scripts/test-deb.sh', '--no-build'], capture_output=True, text=True, timeout=3400)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-4000:])
        self.assertIn('test-deb: all well', done.stdout)


if __name__ == '__main__':
    unittest.main()
