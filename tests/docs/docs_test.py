"""What the documents show must be true: their C++ is compiled by a test."""

import os
import re
import textwrap
import unittest
from pathlib import Path

ROOT = Path(os.environ.get('HARMONICS_SOURCE_DIR', Path(__file__).resolve().parents[2]))
PAGES = {'CONTRIBUTING.md': 'tests/docs/contributing_test.cc', 'README.md': 'examples/consumer/consumer.cc',
         # cluster.policy_library_test builds and loads what the page shows.
         'docs/guides/cluster.md': 'docs/guides/cluster.md',
         'docs/guides/data-parallel.md': 'src/schedule/replicas/data_parallel_guide_test.cc',
         'docs/guides/custody.md': 'src/schedule/secure/secure_test.cc src/proven/proven_parts_test.cc',
         'docs/guides/planning.md': 'src/plan/plan_test.cc',
         'docs/guides/dispatch.md': 'src/dispatch/guide_test.cc',
         'docs/guides/transports.md': 'src/transport/guide_test.cc',
         'docs/guides/streams.md': 'tests/docs/streams_program.cc',
         'docs/guides/serving.md': 'tests/docs/serving_program.cc',
         'docs/guides/two-machines.md': 'tests/docs/two_machines_program.cc',
         'docs/Datasets.md': 'src/data/datasets_doc_test.cc',
         'README_Profiler.md': 'src/place/profile_test.cc'}
# Not ours, or not in the tree.
SKIPPED = ('build', '.', 'node_modules')


def pages_with_code():
    """Every page of the tree that shows C++."""
    for folder, below, files in os.walk(ROOT):
        below[:] = sorted(name for name in below if not name.startswith(SKIPPED))
        for path in sorted(Path(folder, name) for name in files if name.endswith('.md')):
            if '```cpp' in path.read_text():
                yield str(path.relative_to(ROOT))


def flat(text):
    return re.sub(r'\s+', ' ', textwrap.dedent(text)).strip()


class Docs(unittest.TestCase):
    def test_every_page_is_listed(self):
        self.assertEqual(sorted(PAGES), sorted(pages_with_code()))

    def test_every_block_is_compiled_by_a_test(self):
        for page, source in PAGES.items():
            compiled = flat(' '.join((ROOT / one).read_text() for one in source.split()))
            blocks = re.findall(r'^```cpp\n(.*?)^```', (ROOT / page).read_text(), re.M | re.S)
            self.assertTrue(blocks, f'{page} has no C++ example')
            for block in blocks:
                self.assertIn(flat(block), compiled, f'{page}: this block is not in {source}')

    def test_what_adding_one_touches_is_there(self):
        rows = re.findall(r'^\| ([a-z ]+) \| (\d+) \| (`.*`) \|$', (ROOT / 'CONTRIBUTING.md').read_text(), re.M)
        self.assertGreaterEqual(len(rows), 6)
        for what, most, files in rows:
            names = re.findall(r'`([^`]+)`', files)
            self.assertLessEqual(len(names), int(most), what)
            for name in names:
                # What is new has a folder to lie in.
                place = re.sub(r'/x(_|/).*', '', name)
                self.assertTrue(any(ROOT.glob(place)), f'one more {what}: {name} is not there')

    def test_files_that_architecture_names_are_there(self):
        """As a path, below `src/`, or as an include of a module."""
        names = re.findall(r'`(\w[\w-]*/[\w./-]+\.(?:cc|h|py))`', (ROOT / 'docs/ARCHITECTURE.md').read_text())
        self.assertGreater(len(names), 90)
        for name in names:
            module = name.partition('/')[0]
            places = (name, f'src/{name}', f'src/{module}/include/harmonics/{name}')
            self.assertTrue(any((ROOT / place).exists() for place in places), f'{name} is not there')

    def test_the_reference_shows_includes_as_users_write_them(self):
        settings = dict(re.findall(r'^(\w+)\s*= *(.*)$', (ROOT / 'docs/Doxyfile').read_text(), re.M))
        folders = [place for place in settings['INPUT'].split() if (ROOT / place).is_dir()]
        self.assertIn('src/dispatch/include', folders)
        for folder in folders:
            self.assertIn(folder, settings['STRIP_FROM_INC_PATH'].split(),
                          f"the reference would say <{folder[4:]}/harmonics/…>")

    def test_there_is_one_version(self):
        """CMakeLists.txt has it; what Maven and pip need as text says the same."""
        version = re.search(r'^project\(harmonics VERSION ([\d.]+)', (ROOT / 'CMakeLists.txt').read_text(), re.M).group(1)
        ours = r'<(?:artifactId>harmonics-parent</artifactId>\s*<)version>([^<]*)<'
        places = {**{name: ours for name in ('pom.xml', 'spark/pom.xml', 'spark/examples/pom.xml', 'bindings/jvm/pom.xml')},
                  **{name: r'(?m)^version = "([^"]*)"' for name in ('pyproject.toml',)},
                  'docs/guides/spark.md': r'harmonics-\w+-(\d+\.\d+\.\d+)[-\w]*\.jar',
                  'bindings/python/harmonics/spark/__init__.py': r'harmonics-\w+-(\d+\.\d+\.\d+)\.jar'}
        for name, pattern in places.items():
            self.assertEqual(set(re.findall(pattern, (ROOT / name).read_text())), {version}, name)
        sections = re.findall(r'(?m)^## \[([^\]]+)\]', (ROOT / 'CHANGELOG.md').read_text())
        self.assertEqual(sections[:2], ['Unreleased', version], 'CHANGELOG.md: what has come since, then this version')


if __name__ == '__main__':
    unittest.main()
