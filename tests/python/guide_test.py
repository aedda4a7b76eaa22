"""The guide's code runs, its first ten lines are ten, and every public name says what it is."""

import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

import harmonics as hm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages

SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
PACKAGE = BINARY_DIR / 'python/harmonics'
BLOCKS = re.findall(r'^```python\n(.*?)^```', (SOURCE_DIR / 'docs/guides/python.md').read_text(), re.M | re.S)


def members(thing):
    """Public methods and properties of a class, and what it inherits of ours; of attributes the reference has the words."""
    attributes = {name for one in thing.__mro__ for name in getattr(one, '__annotations__', ())}
    for name in dir(thing):
        member = inspect.getattr_static(thing, name)
        if name in attributes:
            continue
        if not name.startswith('_') and not isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            yield name, member


class GuideTest(unittest.TestCase):
    def test_the_guides_code_runs(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / 'examples').symlink_to(SOURCE_DIR / 'examples')
            (folder / 'guide.py').write_text('\n'.join(BLOCKS))
            done = subprocess.run([sys.executable, 'guide.py'], cwd=folder, capture_output=True, text=True, timeout=500)
            self.assertEqual(done.returncode, 0, done.stderr)
            accuracy = float(re.search(r'([\d.]+) of the digits', done.stdout).group(1))
            self.assertGreater(accuracy, 0.85)
            self.assertTrue((folder / 'digits.safetensors').exists())
            self.assertRegex(done.stdout, r'(?m)^[0-9a-f]{64} ')
            self.assertIn('(1797, 10)', done.stdout)
            self.assertIn('torch.Size([1797, 10])', done.stdout)

    def test_the_first_ten_lines_are_ten(self):
        self.assertLessEqual(len([line for line in BLOCKS[0].splitlines() if line]), 10)

    def test_every_public_name_is_documented(self):
        silent = []
        for name in hm.__all__:
            thing = getattr(hm, name)
            if not inspect.getdoc(thing):
                silent.append(name)
            if not inspect.isclass(thing):
                continue
            for member, value in members(thing):
                if not inspect.getdoc(value):
                    silent.append(f'{name}.{member}')
        self.assertEqual(silent, [])
        for one in hm.errors.__all__:
            self.assertTrue(inspect.getdoc(getattr(hm.errors, one)), one)
        self.assertLessEqual(set(hm.__all__), set(dir(hm)))

    def test_the_reference_has_every_public_name(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, SOURCE_DIR / 'tools/python_reference.py', '--package', PACKAGE, folder], check=True,
                           timeout=100)
            page = (pathlib.Path(folder) / 'python.html').read_text()
        for name in hm.__all__:
            thing = getattr(hm, name)
            if isinstance(thing, types.ModuleType):
                self.assertLessEqual({f'{name}.{one}' for one in thing.__all__}, set(re.findall(r'id="([^"]+)"', page)))
                continue
            self.assertTrue(f'id="{name}"' in page or f'id="errors.{name}"' in page, name)
            for member in vars(thing) if inspect.isclass(thing) else ():
                if not member.startswith('_') and callable(getattr(thing, member)):
                    self.assertRegex(page, f'id="(errors\\.)?{name}\\.{member}"')

    def test_the_async_client_has_the_members_of_the_client(self):
        for name in (name for name in vars(hm.Client) if not name.startswith('_')):
            here, there = getattr(hm.AsyncClient, name), getattr(hm.Client, name)
            self.assertTrue(inspect.iscoroutinefunction(here) or inspect.isasyncgenfunction(here), name)
            parameters = set(inspect.signature(there).parameters) - {'follow'}  # which is a member of its own
            self.assertEqual(set(inspect.signature(here).parameters), parameters, name)

    def test_a_public_name_without_a_word_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / 'harmonics'
            shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns('*.so'))
            models = copy / 'models.py'
            text = models.read_text().replace("__all__ = ['ImportOptions',", "__all__ = ['mute', 'ImportOptions',")
            models.write_text(text + '\n\ndef mute() -> None:\n    pass\n')
            done = subprocess.run([sys.executable, SOURCE_DIR / 'tools/python_reference.py', '--check', '--package', copy],
                                  capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stderr),
                         (1, 'python_reference: these say nothing of themselves: mute\n'))

    def test_every_public_name_stands_in_the_guide_or_is_a_report(self):
        guide = (SOURCE_DIR / 'docs/guides/python.md').read_text()
        for name in ('Dispatcher', 'Error', 'Graph', 'GraphBuilder', 'Runtime', 'from_torch', 'import_model', 'partition',
                     'plan', 'profile', 'to_torch', 'train_distributed'):
            self.assertIn(name, guide)


class TypesTest(unittest.TestCase):
    def test_the_stub_says_what_the_extension_has(self):
        nanobind = SOURCE_DIR / '.cache' / 'nanobind'
        if not nanobind.exists():
            self.skipTest('nanobind is not in .cache: scripts/nanobind.sh puts it there')
        environment = dict(os.environ, PYTHONPATH=f"{BINARY_DIR / 'python'}{os.pathsep}{nanobind}")
        done = subprocess.run([sys.executable, SOURCE_DIR / 'tools/python_stub.py', '--check', 'harmonics._core',
                               SOURCE_DIR / 'bindings/python/harmonics/_core.pyi'], env=environment, capture_output=True,
                              text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_mypy_strict_over_the_package_and_the_guide(self):
        python = packages.interpreter('mypy', ['mypy==1.18.2', 'numpy==1.26.4'], 'mypy, numpy')
        if python is None:
            self.skipTest('mypy is not here')
        with tempfile.TemporaryDirectory() as folder:
            guide = pathlib.Path(folder) / 'guide.py'
            guide.write_text('\n'.join(BLOCKS))
            cache = f"--cache-dir={BINARY_DIR / 'mypy-cache'}"
            # What is not installed here has no types.
            config = pathlib.Path(folder) / 'mypy.ini'
            config.write_text(''.join(f'[mypy-{name}.*]\nignore_missing_imports = True\n' for name in ('torch', 'pyspark', 'py4j')))
            done = subprocess.run([python, '-m', 'mypy', '--strict', '--python-version', '3.11', cache, '--config-file', config,
                                   '--explicit-package-bases', '-p', 'harmonics', '-p', 'harmonics_spark'], cwd=folder, env=dict(os.environ, MYPYPATH=str(BINARY_DIR / 'python')),
                                  capture_output=True, text=True, timeout=500)
            self.assertEqual(done.returncode, 0, done.stdout)
            done = subprocess.run([python, '-m', 'mypy', '--strict', '--python-version', '3.11', cache, '--config-file', config,
                                   guide], cwd=folder, env=dict(os.environ, MYPYPATH=str(BINARY_DIR / 'python')),
                                  capture_output=True, text=True, timeout=500)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == '__main__':
    unittest.main()
