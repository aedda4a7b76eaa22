"""A copy of the source tree, for tests that build it as a user would."""

import os
import shutil
from pathlib import Path

SOURCE = Path(os.environ['HARMONICS_SOURCE_DIR'])


def copy_source(folder):
    """Copies what is no build output into folder/source and gives that path."""
    target = Path(folder) / 'source'
    shutil.copytree(SOURCE, target,
                    ignore=shutil.ignore_patterns('build', 'build-*', '.git', '.cache', 'target', '__pycache__'))
    return target


def build_environment(tree):
    """The environment for a build of the copy: with ccache where that is there. Relative to the copy all
    paths are the same each time, so that a second run compiles nothing."""
    environment = dict(os.environ)
    ccache = shutil.which('ccache')
    if ccache:
        environment.update(CMAKE_CXX_COMPILER_LAUNCHER=ccache, CCACHE_BASEDIR=str(tree.resolve()),
                           CCACHE_NOHASHDIR='1',
                           CCACHE_SLOPPINESS='pch_defines,time_macros,include_file_mtime,include_file_ctime')
    return environment
