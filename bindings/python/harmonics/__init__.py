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
    from ._core import (ConsumerNode, EpochReport, Evaluation, FitReport, Graph, GraphBuilder, LayerNode, Plan,
                        PlanStage, ProducerNode, StepReport, TrainingTap)
    from .async_client import AsyncClient
    from .calls import TaskFailed
    from .client import Client
    from .custody import Verification, verify
    from .dispatching import DispatchedModel, Dispatcher
    from .distributed import DistributedReport, train_distributed
    from .drawing import loss_svg
    from .models import import_model
    from .planning import partition, plan, profile
    from .programs import program, run
    from .runtime import Runtime
    from .submitted import Submitted, SubmittedCall, SubmittedMap
    from .task_options import TaskOptions
    from .task_views import Task
    from .torch_modules import from_torch, to_torch

# Where each public name lies.
_PLACES: dict[str, str] = {
    **dict.fromkeys(('ConsumerNode', 'EpochReport', 'Evaluation', 'FitReport', 'Graph', 'GraphBuilder', 'LayerNode', 'Plan',
                     'PlanStage', 'ProducerNode', 'StepReport', 'TrainingTap'), '_core'),
    'AsyncClient': 'async_client', 'Client': 'client', 'Submitted': 'submitted', 'SubmittedCall': 'submitted',
    'Verification': 'custody', 'verify': 'custody',
    'SubmittedMap': 'submitted', 'Task': 'task_views', 'TaskFailed': 'calls', 'TaskOptions': 'task_options',
    'DispatchedModel': 'dispatching', 'Dispatcher': 'dispatching', 'loss_svg': 'drawing',
    'DistributedReport': 'distributed', 'train_distributed': 'distributed',
    'import_model': 'models',
    'partition': 'planning', 'plan': 'planning', 'profile': 'planning',
    'program': 'programs', 'run': 'programs',
    'Runtime': 'runtime',
    'from_torch': 'torch_modules', 'to_torch': 'torch_modules',
}

__all__ = ['AsyncClient', 'Client', 'ConsumerNode', 'DispatchedModel', 'Dispatcher', 'DistributedReport',
           'EpochReport', 'Error', 'Evaluation', 'FitReport', 'Graph', 'GraphBuilder', 'LayerNode', 'Plan',
           'PlanStage', 'ProducerNode', 'Runtime', 'StepReport', 'Submitted', 'SubmittedCall', 'SubmittedMap', 'Task',
           'TaskFailed', 'TaskOptions', 'TrainingTap', 'Verification', 'errors', 'from_torch', 'import_model', 'loss_svg',
           'partition', 'plan', 'profile', 'program', 'run', 'to_torch', 'train_distributed', 'verify']


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'harmonics' has no attribute '{name}'")
    if place == '_core':
        from ._loading import load_core
        value = getattr(load_core(), name)
    else:
        value = getattr(_module(place), name)
    globals()[name] = value
    return value


def _module(place: str) -> Any:
    try:
        return importlib.import_module(f'harmonics.{place}')
    except ImportError as missing:
        if missing.name != 'harmonics' or "'_cluster'" not in str(missing):
            raise
        from ._loading import absent
        raise absent('_cluster', 'gRPC (HARMONICS_WITH_GRPC=OFF): it has no client of a cluster') from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
