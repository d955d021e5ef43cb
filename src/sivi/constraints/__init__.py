"""Unknowns that may not take every value: leaves of `like`, such as `sivi.positive((3,))`."""

from ._correlation_cholesky import correlation_cholesky
from ._covariance_cholesky import covariance_cholesky
from ._half_line import lower, positive, upper
from ._mixed_bounds import interval
from ._ordered import ordered
from ._positive_ordered import positive_ordered
from ._real import real
from ._simplex import simplex
from ._unit_vector import unit_vector
from .base import Constraint

__all__ = [
    "Constraint",
    "correlation_cholesky",
    "covariance_cholesky",
    "interval",
    "lower",
    "ordered",
    "positive",
    "positive_ordered",
    "real",
    "simplex",
    "unit_vector",
    "upper",
]
