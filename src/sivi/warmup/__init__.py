"""The Gaussian warm-up: finds the coordinates of a fit from scores, before anything flexible is fitted."""

from .gaussian import gaussian_warmup

__all__ = ["gaussian_warmup"]
