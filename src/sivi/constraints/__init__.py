"""Unknowns that may not take every value: leaves of `like`, such as `sivi.positive((3,))`."""

from ._correlation_cholesky import correlation_cholesky
from ._half_line import positive
from ._interval import interval
from ._ordered import ordered
from ._real import real
from ._simplex import simplex
from .base import Constraint

__all__ = ["Constraint", "correlation_cholesky", "interval", "ordered", "positive", "real", "simplex"]
