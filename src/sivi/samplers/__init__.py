"""Draws from a target itself: the reference that fits are compared with."""

from ._hmc import hmc
from ._nuts import nuts
from ._sgld import sgld
from .diagnostics import effective_sample_size, split_rhat
from .run import SamplerRun

__all__ = ["SamplerRun", "effective_sample_size", "hmc", "nuts", "sgld", "split_rhat"]
