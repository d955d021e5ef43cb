"""Unknowns that may not take every value: leaves of `like`, such as `sivi.positive((3,))`."""

from .base import Constraint
from .correlation_cholesky import correlation_cholesky
from .half_line import positive
from .interval import interval
from .ordered import ordered
from .real import real
from .simplex import simplex

__all__ = ["Constraint", "correlation_cholesky", "interval", "ordered", "positive", "real", "simplex"]
