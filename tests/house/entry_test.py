"""The ways into the house: what people type first is there, and does what the documents say."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get('HARMONICS_SOURCE_DIR', Path(__file__).resolve().parents[2]))
TARGETS = ('all test demo bench lint format sanitize soak fuzz server worker submit monitor test-spark '
           'spark-demo reference install').split()
PRESETS = 'release debug asan tsan gpu-node'.split()


def make(*arguments):
    """What a make of its own prints, also when this test runs under one."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith('MAKE')}
    return subprocess.run(['make', *arguments], cwd=ROOT, env=mine, capture_output=True, text=True,
                          check=True).stdout


def recipe(target):
    """The commands of a make target, not run."""
    return make('--dry-run', target)


def help_text():
    return make()


class Entry(unittest.TestCase):
    def test_make_alone_lists_every_target(self):
        listed = re.findall(r'^  make (\S+) +\S', help_text(), re.M)
        for target in TARGETS:
            self.assertIn(target, listed)
            self.assertTrue(recipe(target).strip(), target)

    def test_the_four_programs_of_a_cluster_start_as_documented(self):
        expected = {'server': ('server --port=50051 --policy=balanced',),
                    'worker': ('worker --scheduler=localhost:50051', '--gpus=0,1',
                               '--models=RTX3090,RTX3090', '--memories=24576,24576'),
                    'submit': ('submit --scheduler=localhost:50051',),
                    'monitor': ('monitor --scheduler=localhost:50051', '--refresh=1')}
        for target, words in expected.items():
            typed = recipe(target)
            for word in words:
                self.assertIn(word, typed)
            # Only the programs that it starts, never the whole tree.
            self.assertRegex(typed, r'scripts/build.sh release harmonics harmonics-cluster( harmonics-torch)?\n')

    def test_two_builds_of_one_folder_wait_for_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            scripts = Path(folder) / 'scripts'
            scripts.mkdir()
            shutil.copy(ROOT / 'scripts/build.sh', scripts)
            stand_ins = {'scripts/setup.sh': 'exit 0',
                         'cmake': 'mkdir busy || echo overlap; sleep 0.2; rmdir busy; echo built'}
            for program, what in stand_ins.items():
                place = Path(folder) / program
                place.write_text(f'#!/bin/sh\n{what}\n')
                place.chmod(0o755)
            path = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
            builds = [subprocess.Popen(['scripts/build.sh', 'release'], cwd=folder, env=path, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(3)]
            said = [build.communicate(timeout=60)[0] for build in builds]
            self.assertEqual([build.returncode for build in builds], [0, 0, 0], said)
            for text in said:
                self.assertNotIn('overlap', text)
                self.assertEqual(text.count('built'), 2)
            self.assertIn('waiting for another build', ''.join(said))

    def test_make_test_is_the_script_and_ci_is_make_test(self):
        self.assertEqual(recipe('test').strip(), 'scripts/run-tests.sh Release')
        script = (ROOT / '.ci/run').read_text()
        first = next(line for line in script.splitlines() if not line.startswith('#'))
        self.assertEqual(first, 'make test && exit 0')
        wrong = subprocess.run(['scripts/run-tests.sh', 'Fast'], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('usage: scripts/run-tests.sh [Release|Debug]', wrong.stderr)

    def test_the_script_builds_and_tests_what_its_argument_says(self):
        with tempfile.TemporaryDirectory() as folder:
            scripts = Path(folder) / 'scripts'
            scripts.mkdir()
            shutil.copy(ROOT / 'scripts/run-tests.sh', scripts)
            shutil.copy(ROOT / 'scripts/build.sh', scripts)
            # Stand-ins that say how they were called.
            for program in ('scripts/setup.sh', 'scripts/test-spark.sh', 'cmake', 'ctest'):
                place = Path(folder) / program
                place.write_text(f'#!/bin/sh\necho {Path(program).name} "$@"\n')
                place.chmod(0o755)
            path = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")

            def run(*arguments):
                said = subprocess.run(['scripts/run-tests.sh', *arguments], cwd=folder, env=path,
                                      capture_output=True, text=True, check=True).stdout
                return re.sub(r' --parallel \d+', '', said).splitlines()
            release = ['setup.sh', 'cmake --preset release', 'cmake --build --preset release',
                       'ctest --preset release', 'test-spark.sh']
            self.assertEqual(run(), release)
            self.assertEqual(run('Release'), release)
            self.assertEqual(run('Debug', '-R', 'base')[1:],
                             ['cmake --preset debug', 'cmake --build --preset debug',
                              'ctest --preset debug -R base'])

    def test_every_preset_builds_in_its_own_folder(self):
        presets = {preset['name']: preset for preset in
                   json.loads((ROOT / 'CMakePresets.json').read_text())['configurePresets']}
        shown = subprocess.run(['cmake', '--list-presets'], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout
        for name in PRESETS:
            self.assertIn(f'"{name}"', shown)
        self.assertEqual(presets['release']['binaryDir'], '${sourceDir}/build-Release')
        folders = [preset['binaryDir'] for preset in presets.values() if 'binaryDir' in preset]
        self.assertEqual(len(folders), len(set(folders)))

    def test_scripts_parse_and_can_be_run(self):
        scripts = sorted((ROOT / 'scripts').glob('*.sh'))
        self.assertGreater(len(scripts), 5)
        for script in scripts:
            subprocess.run(['bash', '-n', script], check=True)
            self.assertTrue(os.access(script, os.X_OK), script)

    def test_make_soak_runs_every_campaign(self):
        campaign = re.compile(r'\bsoaks\(\)|\bcampaign\(|HARMONICS_SOAK')
        found = 0
        for path in [*ROOT.glob('src/**/*_test.cc'), *ROOT.glob('tests/*/*_test.py')]:
            if path.name != 'entry_test.py' and campaign.search(path.read_text()):
                listing = next(folder / 'CMakeLists.txt' for folder in path.parents
                               if (folder / 'CMakeLists.txt').exists()).read_text()
                self.assertRegex(listing, rf'harmonics_soak\(\w+\.{path.stem}\)', path)
                found += 1
        self.assertGreater(found, 5)

    def test_setup_says_what_is_missing_and_refuses_what_it_does_not_know(self):
        check = subprocess.run(['scripts/setup.sh', '--check'], cwd=ROOT, capture_output=True, text=True)
        self.assertRegex(check.stdout + check.stderr,
                         r'setup: (all \d+ packages are present|missing: \S|this is not a Debian system)')
        self.assertEqual(check.returncode, 0 if 'are present' in check.stdout else 1)
        unknown = subprocess.run(['scripts/setup.sh', '--cheque'], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(unknown.returncode, 2)


if __name__ == '__main__':
    unittest.main()
