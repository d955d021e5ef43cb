"""The interfaces of maps from the coordinates u of a fit to those of its target; most are affine, x = m + L u."""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from .._arguments import as_real, check_finite, default_float
from .._types import Scalar


def as_array(name: str, value: object, *shape: int | None, finite: bool = True) -> Array:
    """`value` as an array of floats of this shape, with None for any length; values that JAX knows must be finite."""
    array = jnp.asarray(as_real(name, value))
    array = array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(default_float())
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} must have shape ({expected}{',' * (len(shape) == 1)}); got {array.shape}.")
    if finite and is_known(array):
        check_finite(name, np.asarray(array))
    return array


def is_known(*arrays: Array) -> bool:
    """Whether the values of arrays can be looked at: JAX is not tracing them."""
    return not any(isinstance(array, Tracer) for array in arrays)


class CoordinateMap(eqx.Module):
    """x = T(u), continuous, invertible and differentiable almost everywhere.

    Every map is a pytree of arrays, so several of one kind stack along a leading axis and are used under `vmap`.

    Attributes:
        mean: T(0).
    """

    mean: eqx.AbstractVar[Float[Array, " dim"]]

    @property
    def dim(self) -> int:
        return int(self.mean.shape[-1])

    @abc.abstractmethod
    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """x = T(u)."""

    @abc.abstractmethod
    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """u = T⁻¹(x)."""

    @abc.abstractmethod
    def log_det_at(self, u: Float[Array, " dim"]) -> Scalar:
        """log |det ∂T/∂u| at u."""

    @abc.abstractmethod
    def score_at(self, u: Float[Array, " dim"], score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """(∂T/∂u)ᵀ S + ∇ log |det ∂T/∂u|: the score of a density at x = T(u) becomes that of the same density of u."""

    @property
    @abc.abstractmethod
    def affine_part(self) -> "AffineMap":
        """What an affine map does before all else; its result has the unknowns of x in the same places."""

    @property
    @abc.abstractmethod
    def numbers_per_point(self) -> int:
        """Numbers in the largest array that one point needs: more points than fit go in blocks."""


class AffineMap(CoordinateMap):
    """x = m + L u with an invertible L.

    Attributes:
        mean: m, the image of u = 0.
        log_det: log |det L|.
    """

    log_det: eqx.AbstractVar[Scalar]

    @abc.abstractmethod
    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Lᵀ S: a gradient with respect to x becomes one with respect to u."""

    def log_det_at(self, u: Float[Array, " dim"]) -> Scalar:
        return self.log_det

    def score_at(self, u: Float[Array, " dim"], score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.pull_back(score)

    @property
    @abc.abstractmethod
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        """The diagonal of L Lᵀ: the variances of x when u ~ N(0, I)."""

    @property
    def affine_part(self) -> "AffineMap":
        return self

    @property
    def numbers_per_point(self) -> int:
        return 1
