"""Settings of training: the keys of a .harp file's train and data sections, which are the flags of the command line."""

from __future__ import annotations

import json
from typing import Any, TypedDict

__all__ = ['Settings']


class Settings(TypedDict, total=False):
    """What `Runtime` and `train_distributed` take as keywords: `lr=0.01` is `--lr 0.01` on the command line."""

    epochs: int
    batch_size: int
    micro_batches: int | str
    recompute: int | str
    threads: int
    seed: int
    parts: int
    replicas: int
    reduction: str
    shares: str
    pipeline: str
    backend: str
    reproducible: bool
    lr: float
    optimizer: str
    momentum: float
    weight_decay: float
    decay: str
    beta1: float
    beta2: float
    epsilon: float
    clip: float
    precision: str
    schedule: str
    warmup: int
    step_every: int
    step_factor: float
    test_split: float
    patience: int
    shuffle: bool


def settings_text(settings: Any) -> str:
    """The settings as the native half reads them."""
    return json.dumps({key: value for key, value in settings.items() if value is not None}, default=str)
