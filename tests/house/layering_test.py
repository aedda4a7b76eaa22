"""Builds tiny projects with cmake/HarmonicsModule.cmake and expects the order of modules to hold."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get('HARMONICS_SOURCE_DIR', Path(__file__).resolve().parents[2]))

PROJECT = '''\
cmake_minimum_required(VERSION 3.25)
project(layering LANGUAGES CXX)
include(GNUInstallDirs)
include({root}/cmake/HarmonicsModule.cmake)
set(CMAKE_CXX_STANDARD 20)
set(HARMONICS_BUILD_TESTS ON)
set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
set(HARMONICS_MODULES first second third)
add_subdirectory(first)
add_subdirectory(second)
'''
FIRST = 'harmonics_module(first HEADERS first.h SOURCES first.cc)\n'
SECOND = 'harmonics_module(second DEPS first HEADERS second.h SOURCES second.cc)\n'


class Layering(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.write('CMakeLists.txt', PROJECT.format(root=ROOT.as_posix()))
        for name, listing, below in (('first', FIRST, ''), ('second', SECOND, 'first')):
            self.write(f'{name}/CMakeLists.txt', listing)
            self.write(f'{name}/{name}.cc', f'#include <harmonics/{name}/{name}.h>\n')
            include = f'#include <harmonics/{below}/{below}.h>\n' if below else ''
            self.write(f'{name}/include/harmonics/{name}/{name}.h',
                       f'#pragma once\n{include}int {name}();\n')

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_cmake(self, *arguments):
        done = subprocess.run(['cmake', *arguments], cwd=self.root, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        # CMake wraps its messages: join them again.
        return done.returncode, ' '.join(done.stdout.split())

    def configure(self):
        return self.run_cmake('-S', '.', '-B', 'build')

    def build(self, target='all'):
        code, output = self.configure()
        self.assertEqual(code, 0, output)
        return self.run_cmake('--build', 'build', '--target', target)

    def test_a_module_may_use_what_stands_before_it(self):
        code, output = self.build()
        self.assertEqual(code, 0, output)

    def test_naming_a_later_module_stops_the_configuration(self):
        self.write('first/CMakeLists.txt', FIRST.replace('HEADERS', 'DEPS second HEADERS'))
        code, output = self.configure()
        self.assertNotEqual(code, 0)
        self.assertIn("module 'first' may not use 'second'", output)

    def test_naming_oneself_stops_the_configuration(self):
        self.write('first/CMakeLists.txt', FIRST.replace('HEADERS', 'DEPS first HEADERS'))
        code, output = self.configure()
        self.assertNotEqual(code, 0)
        self.assertIn("module 'first' may not use 'first'", output)

    def test_an_unknown_module_stops_the_configuration(self):
        self.write('second/CMakeLists.txt', SECOND.replace('DEPS first', 'DEPS frist'))
        code, output = self.configure()
        self.assertNotEqual(code, 0)
        self.assertIn("'frist' is not in HARMONICS_MODULES", output)

    def test_a_module_that_is_not_built_stops_the_configuration(self):
        self.write('CMakeLists.txt', PROJECT.format(root=ROOT.as_posix()).replace(
            'add_subdirectory(first)\n', ''))
        code, output = self.configure()
        self.assertNotEqual(code, 0)
        self.assertIn("module 'second' uses 'first', which is not built here", output)

    def test_including_a_later_module_does_not_compile(self):
        self.write('first/first.cc', '#include <harmonics/second/second.h>\n')
        code, output = self.build()
        self.assertNotEqual(code, 0)
        self.assertIn('harmonics/second/second.h: No such file', output)

    def test_a_header_that_leans_on_its_includer_does_not_compile(self):
        self.write('second/include/harmonics/second/second.h',
                   '#pragma once\nstd::string second();\n')
        self.write('second/second.cc', '#include <string>\n#include <harmonics/second/second.h>\n')
        code, output = self.build('lonely_headers')
        self.assertNotEqual(code, 0)
        self.assertIn('header_check/second.h.cc', output)


if __name__ == '__main__':
    unittest.main()
