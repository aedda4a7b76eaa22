"""Chains of custody: what a signed run did, checked."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, Unpack

from ._flags import VerifyFlags
from .keywords import flags_of
from .programs import run

__all__ = ['Verification', 'VerifyOptions', 'verify']


class VerifyOptions(VerifyFlags, total=False):
    """How a chain is checked: each keyword is the flag of `harmonics verify` with that name."""


@dataclasses.dataclass(frozen=True)
class Verification:
    """What chains, in which everything holds, say of their run."""

    run: str
    """The run's id."""
    signers_known: bool
    """Whether all signers are in the folder of keys; False only with `allow_unknown`."""
    links: int
    """Signed links between what was sent, received and learnt."""
    stages: list[dict[str, Any]]
    """Of each stage its signer, graph, data, first and last weights."""
    figures: Mapping[str, Any]
    """All that `harmonics verify --output json` says."""


def verify(*files: str | os.PathLike[str], **options: Unpack[VerifyOptions]) -> Verification:
    """Checks the chains of a run that was signed (`Runtime(secure=True)`, `train_distributed(secure=True)`), all of them
    together.

    What does not hold is an `Error` that names the first broken link, as are signers who are not in `keys`. With `graph`
    and `data`, `weights`, or `recompute` what is signed is compared with yours, or computed again. A model's signature is
    checked by `run('verify', file)`.
    """
    figures = json.loads(run('verify', '--output=json', *flags_of(options), '--', *files))
    return Verification(figures['run'], figures['signers_known'], figures['links'], figures['stages'], figures)
