"""Where the posterior is and how wide, before anything flexible is fitted: the affine map x = m + L u."""

from .._affine import AffineMap, DenseMap, DiagonalMap, IdentityMap, LowRankMap, RotatedMap
from .gaussian import gaussian_warmup

__all__ = ["AffineMap", "DenseMap", "DiagonalMap", "IdentityMap", "LowRankMap", "RotatedMap", "gaussian_warmup"]
