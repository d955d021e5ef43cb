"""One map after another."""

from jaxtyping import Array, Float

from .._arguments import check_kind
from .._types import Scalar
from .base import AffineMap, CoordinateMap


class ComposedMap(CoordinateMap):
    """x = T(m + L u).

    Attributes:
        outer: T.
        inner: m + L u.

    Example:
        >>> import jax.numpy as jnp
        >>> from sivi.coordinates import DiagonalMap
        >>> twice = DiagonalMap(jnp.zeros(2), jnp.full(2, 2.0))
        >>> ComposedMap(twice, DiagonalMap(jnp.ones(2), jnp.ones(2))).forward(jnp.ones(2)).tolist()
        [4.0, 4.0]
    """

    outer: CoordinateMap
    inner: AffineMap

    def __check_init__(self) -> None:
        outer = check_kind("outer", CoordinateMap, "a map of sivi.coordinates", self.outer).dim
        inner = check_kind("inner", AffineMap, "an affine map of sivi.coordinates", self.inner).dim
        if outer != inner:
            raise ValueError(f"inner must have the dim of outer, {outer}; got {inner}.")

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def mean(self) -> Float[Array, " dim"]:
        return self.outer.forward(self.inner.mean)

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.outer.forward(self.inner.forward(u))

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.inner.inverse(self.outer.inverse(x))

    def log_det_at(self, u: Float[Array, " dim"]) -> Scalar:
        return self.outer.log_det_at(self.inner.forward(u)) + self.inner.log_det

    def score_at(self, u: Float[Array, " dim"], score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.inner.pull_back(self.outer.score_at(self.inner.forward(u), score))

    @property
    def affine_part(self) -> AffineMap:
        return self.inner

    @property
    def numbers_per_point(self) -> int:
        return self.outer.numbers_per_point
