"""Settings of training: the keys of a .harp file's train and data sections, which are the flags of the command line."""

from __future__ import annotations

import json
from typing import Any

from ._flags import TrainFlags

__all__ = ['Settings']


class Settings(TrainFlags, total=False):
    """What `Runtime` and `train_distributed` take as keywords: `lr=0.01` is `--lr 0.01` on the command line."""


def settings_text(settings: Any) -> str:
    """The settings as the native half reads them."""
    return json.dumps({key: value for key, value in settings.items() if value is not None}, default=str)
