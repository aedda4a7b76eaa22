"""A copy of the source tree, for tests that build it as a user would."""

import os
import shutil
from pathlib import Path

SOURCE = Path(os.environ['HARMONICS_SOURCE_DIR'])


def copy_source(folder):
    """Copies what is no build output into folder/source and gives that path."""
    target = Path(folder) / 'source'
    shutil.copytree(SOURCE, target,
                    ignore=shutil.ignore_patterns('build', 'build-*', '.git', '__pycache__'))
    return target


def build_environment():
    """The environment for a build: with ccache where that is there, since the files are the same."""
    environment = dict(os.environ)
    ccache = shutil.which('ccache')
    if ccache:
        environment['CMAKE_CXX_COMPILER_LAUNCHER'] = ccache
        environment['CCACHE_NOHASHDIR'] = '1'
    return environment
