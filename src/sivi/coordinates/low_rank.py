"""A diagonal, and a few directions with their own scales."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import ArrayLike, Scalar
from .base import AffineMap, as_array, is_known

_ROUNDING = 1e-3  # by which the products of orthonormal columns may be off


class LowRankMap(AffineMap):
    """x = m + L u with L = diag(s) Q diag(a, 1): a diagonal and r further directions, in O(dim · r).

    Q is orthogonal and its first r columns are the directions W, so the first r coordinates of u run along those
    directions, in which x differs most from its diagonal. The covariance is diag(s) (I + W (diag(a)² − I) Wᵀ) diag(s).

    Q is never formed. With the top block W₁ = U S Vᵀ, R = −V Uᵀ and B = W R − E (E: the first r columns of I),
    BᵀE = −(I + U S Uᵀ) = −½ BᵀB, so the block reflector H = I − 2 B (BᵀB)⁻¹ Bᵀ, which is symmetric and orthogonal,
    maps E to W R, and Q = H diag(Rᵀ, I). BᵀB = 2 (I + U S Uᵀ) has a condition number of at most 2.

    Args:
        mean: m.
        scale: s, positive.
        directions: W, with orthonormal columns; r < dim.
        stretch: a, positive: the standard deviation along each direction, in units of s.

    Example:
        >>> W = jnp.array([[0.6], [0.8], [0.0]])
        >>> affine = LowRankMap(jnp.zeros(3), jnp.ones(3), W, jnp.array([10.0]))
        >>> affine.forward(jnp.array([1.0, 0.0, 0.0])).round(4).tolist()
        [6.0, 8.0, 0.0]
    """

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    stretch: Float[Array, " rank"]
    reflector: Float[Array, "dim rank"]
    rotation: Float[Array, "rank rank"]

    def __init__(
        self,
        mean: ArrayLike,
        scale: ArrayLike,
        directions: ArrayLike,
        stretch: ArrayLike,
    ):
        self.mean = as_array("mean", mean, None)
        self.scale = as_array("scale", scale, len(self.mean))
        directions = as_array("directions", directions, len(self.mean), None)
        rank = directions.shape[1]
        self.stretch = as_array("stretch", stretch, rank)
        _check_values(self.scale, directions, self.stretch)
        left, sizes, right = jnp.linalg.svd(directions[:rank])
        self.rotation = -left @ right  # Rᵀ
        offset = (directions @ self.rotation.T).at[jnp.arange(rank), jnp.arange(rank)].add(-1.0)
        # H = I − B' B'ᵀ with B' = B (I + U S Uᵀ)^(−1/2).
        self.reflector = offset @ (left / jnp.sqrt(1.0 + sizes)) @ left.T

    @property
    def rank(self) -> int:
        return int(self.stretch.shape[-1])

    @property
    def directions(self) -> Float[Array, "dim rank"]:
        """W."""
        rows = jnp.arange(self.rank)
        image = (-self.reflector @ self.reflector[: self.rank].T).at[rows, rows].add(1.0)  # H E = W R
        return image @ self.rotation

    @property
    def log_det(self) -> Scalar:
        return jnp.sum(jnp.log(self.scale)) + jnp.sum(jnp.log(self.stretch))

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        first = self.rotation @ (self.stretch * u[: self.rank])
        return self.mean + self.scale * self._reflect(jnp.concatenate([first, u[self.rank :]]))

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        reflected = self._reflect((x - self.mean) / self.scale)
        return jnp.concatenate([(reflected[: self.rank] @ self.rotation) / self.stretch, reflected[self.rank :]])

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        reflected = self._reflect(self.scale * score)
        return jnp.concatenate([self.stretch * (reflected[: self.rank] @ self.rotation), reflected[self.rank :]])

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return self.scale**2 * (1.0 + self.directions**2 @ (self.stretch**2 - 1.0))

    def _reflect(self, v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return v - self.reflector @ (v @ self.reflector)


def _check_values(scale: Array, directions: Array, stretch: Array) -> None:
    dim, rank = directions.shape
    if not 0 < rank < dim:
        raise ValueError(f"directions must have at least one column, and fewer than the {dim} unknowns; got {rank}.")
    if not is_known(scale, directions, stretch):
        return
    for name, array in (("scale", np.asarray(scale)), ("stretch", np.asarray(stretch))):
        if not (array > 0).all():
            raise ValueError(f"{name} must be positive; the least is {float(array.min())}.")
    columns = np.asarray(directions)
    if not np.abs(columns.T @ columns - np.eye(rank)).max() < _ROUNDING:
        raise ValueError("directions must have orthonormal columns; they have not.")
