"""A diagonal or low-rank map behind a rotation."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import check_kind, describe
from .._types import ArrayLike, Scalar
from .base import AffineMap, as_array, is_known
from .diagonal import DiagonalMap
from .low_rank import LowRankMap
from .rotation import AxisRotation


class RotatedMap(AffineMap):
    """x = m + c ⊙ Q (L' u), with a rotation Q along the axes of the arrays that x is made of.

    Where the curvature of a target is near a Kronecker product in these arrays, as that of a regression with several
    outputs is, a simple L' fits in the rotated coordinates that would not in x.

    Args:
        mean: m.
        scale: c, without zeros.
        rotation: Q.
        inner: L', a map whose own mean is zero.

    Example:
        >>> matrix = jnp.array([[0.6, -0.8], [0.8, 0.6]])
        >>> inner = DiagonalMap(jnp.zeros(2), jnp.array([10.0, 1.0]))
        >>> from sivi.coordinates.rotation import ArrayAsMatrix
        >>> rotation = AxisRotation((ArrayAsMatrix(0, (2,), 0),), ((None, matrix),))
        >>> affine = RotatedMap(jnp.zeros(2), jnp.ones(2), rotation, inner)
        >>> affine.forward(jnp.array([1.0, 0.0])).round(4).tolist()
        [6.0, 8.0]
    """

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    rotation: AxisRotation
    inner: DiagonalMap | LowRankMap

    def __init__(self, mean: ArrayLike, scale: ArrayLike, rotation: AxisRotation, inner: DiagonalMap | LowRankMap):
        self.mean = as_array("mean", mean, None)
        dim = len(self.mean)
        self.scale = as_array("scale", scale, dim)
        if is_known(self.scale) and not np.asarray(self.scale).all():
            raise ValueError(f"scale must have no zeros; got {describe(scale)}.")
        self.rotation = check_kind("rotation", AxisRotation, "an AxisRotation", rotation)
        if not isinstance(inner, (DiagonalMap, LowRankMap)):
            raise TypeError(f"inner must be a DiagonalMap or a LowRankMap; got {describe(inner)}.")
        self.inner = inner
        if (rotation.dim, inner.dim) != (dim, dim):
            raise ValueError(
                f"rotation and inner must have the dim of mean, {dim}; got {rotation.dim} and {inner.dim}."
            )

    @property
    def log_det(self) -> Scalar:
        return jnp.sum(jnp.log(jnp.abs(self.scale))) + self.inner.log_det

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.mean + self.scale * self.rotation.apply(self.inner.forward(u))

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.inner.inverse(self.rotation.undo((x - self.mean) / self.scale))

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.inner.pull_back(self.rotation.undo(self.scale * score))

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        inner = self.inner
        variances = self.rotation.variances(inner.scale**2)
        if isinstance(inner, LowRankMap):
            rotated = jax.vmap(self.rotation.apply, 1, 1)(inner.scale[:, None] * inner.directions)
            variances = variances + rotated**2 @ (inner.stretch**2 - 1.0)
        return self.scale**2 * variances
