"""Draws from a target itself: the reference that fits are compared with."""

from ._hmc import hmc
from ._nuts import nuts
from ._sgld import sgld
from ._svgd import svgd
from .diagnostics import effective_sample_size, split_rhat
from .run import SamplerRun
from .summary import Summary

__all__ = ["SamplerRun", "Summary", "effective_sample_size", "hmc", "nuts", "sgld", "split_rhat", "svgd"]
