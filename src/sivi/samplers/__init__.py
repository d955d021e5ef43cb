"""Draws from a target itself: the reference that fits are compared with."""

from .diagnostics import effective_sample_size, split_rhat
from .hmc import hmc
from .nuts import nuts
from .run import SamplerRun
from .sgld import sgld

__all__ = ["SamplerRun", "effective_sample_size", "hmc", "nuts", "sgld", "split_rhat"]
