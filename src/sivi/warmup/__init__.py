"""The Gaussian warm-up: finds the coordinates of a fit from scores, before anything flexible is fitted."""

from .._renamed import WARMUP, renamed
from .gaussian import gaussian_warmup

__all__ = ["gaussian_warmup"]

__getattr__ = renamed("sivi.warmup", WARMUP)
