"""Harmonics plans, places, runs and watches neural-network work across unlike machines.

    import harmonics as hm

    graph = hm.Graph.zoo('digits-mlp')
    runtime = hm.Runtime(graph, lr=0.01)
    runtime.fit({'image': images, 'label': labels}, epochs=10)
    runtime.infer({'image': images})['prediction']

Parts are loaded when they are first used, so that importing the package takes no time and loads no libtorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import errors
from ._built import VERSION as __version__
from .errors import Error

if TYPE_CHECKING:
    from ._core import (ConsumerNode, EpochReport, Evaluation, FitReport, Graph, GraphBuilder, LayerNode, ProducerNode,
                        StepReport, TrainingTap)
    from .async_client import AsyncClient
    from .calls import TaskFailed
    from .client import Client
    from .models import import_model
    from .runtime import Runtime
    from .submitted import Submitted, SubmittedCall, SubmittedMap
    from .task_options import TaskOptions
    from .task_views import Task

# Where each public name lies.
_PLACES: dict[str, str] = {
    'ConsumerNode': '_core', 'EpochReport': '_core', 'Evaluation': '_core', 'FitReport': '_core', 'Graph': '_core',
    'GraphBuilder': '_core', 'LayerNode': '_core', 'ProducerNode': '_core', 'StepReport': '_core',
    'TrainingTap': '_core',
    'AsyncClient': 'async_client', 'Client': 'client', 'Submitted': 'submitted', 'SubmittedCall': 'submitted',
    'SubmittedMap': 'submitted', 'Task': 'task_views', 'TaskFailed': 'calls', 'TaskOptions': 'task_options',
    'import_model': 'models',
    'Runtime': 'runtime',
}

__all__ = ['AsyncClient', 'Client', 'ConsumerNode', 'EpochReport', 'Error', 'Evaluation', 'FitReport', 'Graph',
           'GraphBuilder', 'LayerNode', 'ProducerNode', 'Runtime', 'StepReport', 'Submitted', 'SubmittedCall',
           'SubmittedMap', 'Task', 'TaskFailed', 'TaskOptions', 'TrainingTap', 'errors', 'import_model']


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'harmonics' has no attribute '{name}'")
    if place == '_core':
        from ._loading import load_core
        value = getattr(load_core(), name)
    else:
        value = getattr(importlib.import_module(f'harmonics.{place}'), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
