"""Where pipelines that were saved under the former name look for their stages."""

from __future__ import annotations

from harmonics.spark.stages import HarmonicsEstimator, HarmonicsModel

__all__ = ['HarmonicsEstimator', 'HarmonicsModel']
