"""The coordinates u of a fit, in which the target looks like N(0, I): affine maps x = m + L u, and others after one."""

from .base import AffineMap, CoordinateMap
from .composed import ComposedMap
from .dense import DenseMap
from .diagonal import DiagonalMap
from .identity import IdentityMap
from .low_rank import LowRankMap
from .rotated import RotatedMap

__all__ = [
    "AffineMap",
    "ComposedMap",
    "CoordinateMap",
    "DenseMap",
    "DiagonalMap",
    "IdentityMap",
    "LowRankMap",
    "RotatedMap",
]
