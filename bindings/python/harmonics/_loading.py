"""Loads the native half, whose libtorch must be the one that Python's torch uses."""

from __future__ import annotations

import importlib
import importlib.metadata
import pathlib
import sys
from types import ModuleType

from . import _built


def check_torch(version: str) -> None:
    """Raises an ImportError unless this version of torch can share the process with the native half."""
    if _numbers(version) != _numbers(_built.TORCH):
        raise ImportError(
            f'harmonics {_built.VERSION} was built with libtorch {_built.TORCH} and cannot share a process with torch '
            f'{version}: install torch {_built.TORCH}, or build harmonics-ml with the torch that is here '
            '(pip install --no-build-isolation .)')


def _numbers(version: str) -> str:
    """'1.13.1' of '1.13.1+cpu' or '1.13.0a0'."""
    return '.'.join(version.split('+')[0].split('.')[:2])


class _LaterTorch:
    """Looks at the torch that is imported after the native half was loaded, before its libraries are."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Finds nothing; raises what `check_torch` raises."""
        if name != 'torch':
            return
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return
        check_torch(version)


def load_core() -> ModuleType:
    """The extension harmonics._core."""
    loaded = sys.modules.get('harmonics._core')
    if loaded is not None:
        return loaded
    torch = sys.modules.get('torch')
    if torch is not None:
        check_torch(str(torch.__version__))
    try:
        core = importlib.import_module('harmonics._core')
    except ModuleNotFoundError as missing:
        if missing.name != 'harmonics._core':
            raise
        raise absent('_core', 'libtorch (HARMONICS_WITH_TORCH=OFF): it has no graphs and no runtime') from None
    if torch is None:
        sys.meta_path.insert(0, _LaterTorch())
    return core


def absent(name: str, lacks: str) -> ImportError:
    """What to raise where an extension is not there: it was left out of the build, or built for another Python."""
    found = sorted(pathlib.Path(__file__).parent.glob(f'{name}.*.so'))
    if not found:
        return ImportError(f'this harmonics was built without {lacks}')
    here = '%d.%d' % sys.version_info[:2]
    return ImportError(f'this harmonics was built for another Python ({found[0].name}) and cannot be loaded by '
                       f'{sys.executable} ({here}): install it with this one (pip install .)')
