"""docs/COVERAGE.md tells the truth: every row names a test, and every test that it names is there and run."""

import functools
import json
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(os.environ.get('HARMONICS_SOURCE_DIR', Path(__file__).resolve().parents[2]))
PAGE = ROOT / 'docs/COVERAGE.md'
LINK = re.compile(r'\[[^\]]*\]\(([^)]+)\)')
RUN = re.compile(r'_(?:test|bench)\.(?:cc|py)$')
BENCH = re.compile(r'bench/\w+\.cc$')
CTEST = re.compile(r'[a-z_]+\.[a-z_0-9]+')


def rows(page):
    """(line number, promise, cell of tests) for every row of every table of the page."""
    for number, line in enumerate(page.splitlines(), 1):
        cells = re.fullmatch(r'\|(.+)\|([^|]+)\|', line)
        if cells and not re.fullmatch(r'[\s|-]+', line) and cells.group(2).strip() != 'test':
            yield number, cells.group(1).strip(), cells.group(2).strip()


def named(cell):
    """(file, names) for each link of a cell: the names in code that follow it and belong to it."""
    pieces = LINK.split(cell)
    yield None, re.findall(r'`([^`]+)`', pieces[0])
    for target, after in zip(pieces[1::2], pieces[2::2]):
        yield target, re.findall(r'`([^`]+)`', after)


def defines(source, suffix, name):
    """Whether the text of a test file defines the test (or, where only a suite is named, the suite)."""
    instance, _, case = name.rpartition('/')
    suite, _, test = case.partition('.')
    if suffix in ('.cc', '.h'):
        if instance and not re.search(rf'INSTANTIATE_TEST_SUITE_P\(\s*{instance},\s+{suite},', source):
            return False
        wanted = rf'\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*{suite},\s+{test or r"(?!DISABLED_)"}'
        return re.search(wanted + (r'\)' if test else ''), source) is not None
    if suffix == '.py':
        return re.search(rf'^ *def {name}\(', source, re.M) is not None
    return re.search(rf'@Test\s+(?:public\s+)?void {name}\(', source) is not None


@functools.lru_cache(maxsize=None)
def registered():
    """What ctest of this build runs: names, and the files of their commands."""
    listing = subprocess.run(['ctest', '--show-only=json-v1'], cwd=os.environ['HARMONICS_BINARY_DIR'],
                             capture_output=True, check=True, text=True).stdout
    tests = json.loads(listing)['tests']
    return {test['name'] for test in tests}, {word for test in tests for word in test.get('command', [])}


@functools.lru_cache(maxsize=None)
def parts_left_out():
    """Whether this build lacks an optional part, so that the tests of that part cannot be in ctest."""
    doctor = [os.environ['HARMONICS_BINARY_DIR'] + '/harmonics', 'doctor', '--output', 'json']
    built = subprocess.run(doctor, capture_output=True, check=True, text=True).stdout
    return not all(part['built'] for part in json.loads(built)['parts']) or not shutil.which('doxygen')


def is_run(path):
    names, commands = registered()
    return str(path) in commands or any(name.partition('.')[2] == path.stem for name in names)


def is_listed(path):
    """Whether the CMakeLists.txt of the file's folder, or of the one around it, names it: for builds without its part."""
    lists = next(folder / 'CMakeLists.txt' for folder in path.parents if (folder / 'CMakeLists.txt').exists())
    return re.search(rf'\b{path.stem}\b|\b{path.stem.removesuffix("_test")}\b', lists.read_text()) is not None


class Reader(unittest.TestCase):
    """The reader of the page notices what it is there to notice."""

    def test_rows_and_names(self):
        page = '| promise | test |\n|---|---|\n| a `b` | `x.y`, [t](t_test.cc): `A.B`, `C`; [u](u.py) |\n'
        (row,) = rows(page)
        self.assertEqual(row[:2], (3, 'a `b`'))
        self.assertEqual(list(named(row[2])), [(None, ['x.y']), ('t_test.cc', ['A.B', 'C']), ('u.py', [])])

    def test_definitions(self):
        source = ('TEST(A, B) {}\nTEST_P(Long,\n       Name) {}\nTEST(Off, DISABLED_X) {}\n'
                  'INSTANTIATE_TEST_SUITE_P(Here, Long, Values(1));\n')
        for name, there in {'A.B': True, 'A': True, 'Long.Name': True, 'A.Name': False, 'A.Bc': False,
                            'Off': False, 'Here/Long.Name': True, 'There/Long.Name': False}.items():
            self.assertEqual(defines(source, '.cc', name), there, name)
        self.assertTrue(defines('    def test_x(self):\n', '.py', 'test_x'))
        self.assertFalse(defines('    def test_xy(self):\n', '.py', 'test_x'))
        self.assertTrue(defines('  @Test\n  void works() {', '.java', 'works'))
        self.assertFalse(defines('  void works() {', '.java', 'works'))


class Coverage(unittest.TestCase):
    def setUp(self):
        self.rows = list(rows(PAGE.read_text()))
        self.findings = []

    def tearDown(self):
        self.assertFalse(self.findings, 'docs/COVERAGE.md\n  ' + '\n  '.join(self.findings))

    def expect(self, held, finding):
        if not held:
            self.findings.append(finding)

    def test_every_row_names_a_test(self):
        self.assertGreater(len(self.rows), 100)
        for number, promise, cell in self.rows:
            self.expect(LINK.search(cell) or '`' in cell, f'line {number}: no test for: {promise}')

    def test_every_test_that_is_named_exists(self):
        for number, _, cell in self.rows:
            for target, names in named(cell):
                for name in (name for name in names if not CTEST.fullmatch(name)):
                    self.expect(target and defines((PAGE.parent / target).read_text(),
                                                   Path(target).suffix, name),
                                f'line {number}: {target or "no link"} has no test {name}')

    def test_every_file_that_is_named_is_run(self):
        for number, _, cell in self.rows:
            for target in (target for target, _ in named(cell)
                           if target and (RUN.search(target) or BENCH.search(target))):
                path = (PAGE.parent / target).resolve()
                self.expect(is_run(path) or 'spark/' in target
                            or (parts_left_out() and is_listed(path)),
                            f'line {number}: ctest does not run {target}')

    def test_readme_says_about_how_many_tests_there_are(self):
        said = int(re.search(r'then (\d+) tests', (ROOT / 'README.md').read_text()).group(1))
        there = len(registered()[0])
        self.expect(parts_left_out() or 0.85 < there / said < 1.15, f'README says {said} tests, there are {there}')

    def test_every_name_of_ctest_is_known(self):
        listings = ' '.join(path.read_text() for path in ROOT.glob('*/**/CMakeLists.txt')
                            if not path.relative_to(ROOT).parts[0].startswith('build'))
        for number, _, cell in self.rows:
            for name in (name for _, names in named(cell) for name in names if CTEST.fullmatch(name)):
                in_cmake = name.partition('.')[2].rstrip('0123456789') in listings
                self.expect(name in registered()[0] or (parts_left_out() and in_cmake),
                            f'line {number}: ctest has no test {name}')


if __name__ == '__main__':
    unittest.main()
