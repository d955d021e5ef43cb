"""Affine maps x = m + L u: between the coordinates of a target and those in which it looks like N(0, I)."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._arguments import check_count, default_float, describe
from ._rotation import AxisRotation
from ._types import Scalar


class AffineMap(eqx.Module):
    """x = m + L u with an invertible L.

    Every map is a pytree of arrays, so several of one kind stack along a leading axis and are used under `vmap`.

    Attributes:
        mean: m, the image of u = 0.
        log_det: log |det L|.
    """

    mean: eqx.AbstractVar[Float[Array, " dim"]]
    log_det: eqx.AbstractVar[Scalar]

    @property
    def dim(self) -> int:
        return int(self.mean.shape[-1])

    @abc.abstractmethod
    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """x = m + L u."""

    @abc.abstractmethod
    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """u = L⁻¹ (x − m)."""

    @abc.abstractmethod
    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Lᵀ S: a gradient with respect to x turned into one with respect to u."""

    @property
    @abc.abstractmethod
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        """The diagonal of L Lᵀ: the variances of x when u ~ N(0, I)."""


class IdentityMap(AffineMap):
    """x = u.

    Example:
        >>> IdentityMap(2).forward(jnp.ones(2)).tolist()
        [1.0, 1.0]
    """

    size: int = eqx.field(static=True)

    def __init__(self, dim: int):
        self.size = check_count("dim", dim)

    @property
    def mean(self) -> Float[Array, " dim"]:
        return jnp.zeros(self.size, default_float())

    @property
    def log_det(self) -> Scalar:
        return jnp.zeros((), default_float())

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return u

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return x

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return score

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return jnp.ones(self.size, default_float())


class DiagonalMap(AffineMap):
    """x = m + s ⊙ u.

    Args:
        mean: m.
        scale: s, without zeros.

    Example:
        >>> DiagonalMap(jnp.array([1.0, 0.0]), jnp.array([2.0, 3.0])).forward(jnp.ones(2)).tolist()
        [3.0, 3.0]
    """

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]

    @property
    def log_det(self) -> Scalar:
        return jnp.sum(jnp.log(jnp.abs(self.scale)))

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.mean + self.scale * u

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return (x - self.mean) / self.scale

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.scale * score

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return self.scale**2


class DenseMap(AffineMap):
    """x = m + L u with any invertible matrix L.

    Args:
        mean: m.
        matrix: L.
        inverse_matrix: L⁻¹; computed when left out.
        log_det: log |det L|; computed when left out.

    Example:
        >>> DenseMap(jnp.zeros(2), jnp.array([[1.0, 0.0], [1.0, 2.0]])).forward(jnp.ones(2)).tolist()
        [1.0, 3.0]
    """

    mean: Float[Array, " dim"]
    matrix: Float[Array, "dim dim"]
    # Kept, so that using the map in a loop costs products alone.
    inverse_matrix: Float[Array, "dim dim"]
    log_det: Scalar

    def __init__(
        self,
        mean: Float[Array, " dim"],
        matrix: Float[Array, "dim dim"],
        inverse_matrix: Float[Array, "dim dim"] | None = None,
        log_det: Scalar | None = None,
    ):
        self.mean, self.matrix = mean, matrix
        self.inverse_matrix = jnp.linalg.inv(matrix) if inverse_matrix is None else inverse_matrix
        self.log_det = jnp.linalg.slogdet(matrix)[1] if log_det is None else log_det

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.mean + self.matrix @ u

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.inverse_matrix @ (x - self.mean)

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return score @ self.matrix

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return jnp.sum(self.matrix**2, axis=-1)


class LowRankMap(AffineMap):
    """x = m + L u with L = diag(s) Q diag(a, 1): a diagonal, and r directions of their own, in O(dim · r).

    Q is orthogonal and its first r columns are the directions W, so the first r coordinates of u ARE those
    directions, where x is least like its diagonal. The covariance is diag(s) (I + W (diag(a)² − I) Wᵀ) diag(s).

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
        mean: Float[Array, " dim"],
        scale: Float[Array, " dim"],
        directions: Float[Array, "dim rank"],
        stretch: Float[Array, " rank"],
    ):
        rank = directions.shape[1]
        left, sizes, right = jnp.linalg.svd(directions[:rank])
        self.mean, self.scale, self.stretch = mean, scale, stretch
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
        turned = self._reflect((x - self.mean) / self.scale)
        return jnp.concatenate([(turned[: self.rank] @ self.rotation) / self.stretch, turned[self.rank :]])

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        turned = self._reflect(self.scale * score)
        return jnp.concatenate([self.stretch * (turned[: self.rank] @ self.rotation), turned[self.rank :]])

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return self.scale**2 * (1.0 + self.directions**2 @ (self.stretch**2 - 1.0))

    def _reflect(self, v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return v - self.reflector @ (v @ self.reflector)


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
        >>> turn = jnp.array([[0.6, -0.8], [0.8, 0.6]])
        >>> inner = DiagonalMap(jnp.zeros(2), jnp.array([10.0, 1.0]))
        >>> from sivi._rotation import AxisView
        >>> rotation = AxisRotation((AxisView(0, (2,), 0),), ((None, turn),))
        >>> affine = RotatedMap(jnp.zeros(2), jnp.ones(2), rotation, inner)
        >>> affine.forward(jnp.array([1.0, 0.0])).round(4).tolist()
        [6.0, 8.0]
    """

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    rotation: AxisRotation
    inner: DiagonalMap | LowRankMap

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
            turned = jax.vmap(self.rotation.apply, 1, 1)(inner.scale[:, None] * inner.directions)
            variances = variances + turned**2 @ (inner.stretch**2 - 1.0)
        return self.scale**2 * variances


def as_affine_map(value: object, dim: int) -> AffineMap:
    """The map of a user's `whiten=(m, L)`, L a vector (diagonal) or a matrix; or an `AffineMap` itself.

    Example:
        >>> type(as_affine_map(([0.0, 1.0], [1.0, 2.0]), 2)).__name__
        'DiagonalMap'
    """
    if isinstance(value, AffineMap):
        if value.dim != dim:
            raise ValueError(f"whiten must be a map of the target's dim, {dim}; got one of {value.dim}.")
        return value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"whiten must be a pair (m, L) of an array each, or an AffineMap; got {describe(value)}.")
    mean, root = (_numbers(part, name) for part, name in zip(value, ("m", "L"), strict=True))
    if mean.shape != (dim,):
        raise ValueError(f"whiten=(m, L): m must have shape ({dim},); got {mean.shape}.")
    if root.shape not in ((dim,), (dim, dim)):
        raise ValueError(f"whiten=(m, L): L must have shape ({dim},) or ({dim}, {dim}); got {root.shape}.")
    dtype = default_float()
    if root.ndim == 1:
        if not root.all():
            raise ValueError(f"whiten=(m, L): a diagonal L must have no zeros; got one at {int(np.argmin(root != 0))}.")
        return DiagonalMap(jnp.asarray(mean, dtype), jnp.asarray(root, dtype))
    # The units of x do not matter: rows are brought to length one first.
    lengths = np.linalg.norm(root, axis=1, keepdims=True)
    condition = np.linalg.cond(root / lengths) if lengths.all() else np.inf
    if not condition < 1.0 / np.finfo(dtype).eps:
        raise ValueError(
            f"whiten=(m, L): L must be invertible in {dtype}; got a matrix with condition number {condition:.1e}."
        )
    return DenseMap(jnp.asarray(mean, dtype), jnp.asarray(root, dtype))


def _numbers(value: object, name: str) -> np.ndarray:
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"whiten=(m, L): {name} must be an array of numbers; got {describe(value)}.") from None
    if not np.isfinite(array).all():
        raise ValueError(f"whiten=(m, L): {name} must be finite; got {int((~np.isfinite(array)).sum())} that are not.")
    return array
