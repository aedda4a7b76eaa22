"""The former name of `harmonics.spark`, for programs that import it: the same classes, and graphs by their old makers."""

from __future__ import annotations

import os
import warnings
from typing import Any

import harmonics
from harmonics.errors import Error as HarmonicsError
from harmonics.spark import Harmonics, HarmonicsEstimator, HarmonicsModel, TrainingJob, TrainingResult, builder, java_graph

__all__ = ['Harmonics', 'HarmonicsError', 'HarmonicsEstimator', 'HarmonicsModel', 'TrainingJob', 'TrainingResult', 'builder',
           'load', 'parse', 'zoo']

warnings.warn('harmonics_spark is now harmonics.spark, which takes the graphs of harmonics itself', DeprecationWarning,
              stacklevel=2)


def zoo(session: Any, name: str) -> Any:
    """A well-known network in the session's Java machine: `harmonics.Graph.zoo` needs no session."""
    return java_graph(session, harmonics.Graph.zoo(name))


def parse(session: Any, text: str) -> Any:
    """A graph of .harp text in the session's Java machine: `harmonics.Graph.parse` needs no session."""
    return java_graph(session, harmonics.Graph.parse(text))


def load(session: Any, path: str | os.PathLike[str]) -> Any:
    """The graph of a .harp file in the session's Java machine: `harmonics.Graph.load` needs no session."""
    return java_graph(session, harmonics.Graph.load(path))
