"""Models of others as graphs: Hugging Face folders, GGUF and ONNX files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from ._loading import load_core

if TYPE_CHECKING:
    from ._core import Graph

__all__ = ['ImportOptions', 'import_model']


class ImportOptions(TypedDict, total=False):
    """What `import_model` takes besides the path; the meaning is that of the flags of `harmonics import`."""

    name: str
    length: int
    classes: int
    shapes: Mapping[str, Sequence[int]]
    values: Mapping[str, Sequence[float]]
    batch: int


def import_model(path: str | os.PathLike[str], **options: Unpack[ImportOptions]) -> Graph:
    """The graph of a model and its weights, which stay in their file until something is learnt.

    `path` is a folder with config.json and safetensors, a GGUF file or an ONNX file.
    """
    graph: Graph = load_core()._import_model(os.fspath(path), dict(options))
    return graph
