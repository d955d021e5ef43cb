"""The coordinates u of a fit: affine maps x = m + L u in which the target looks like N(0, I)."""

from .base import AffineMap
from .dense import DenseMap
from .diagonal import DiagonalMap
from .identity import IdentityMap
from .low_rank import LowRankMap
from .rotated import RotatedMap

__all__ = ["AffineMap", "DenseMap", "DiagonalMap", "IdentityMap", "LowRankMap", "RotatedMap"]
