"""The interface of affine maps x = m + L u, from the coordinates u of a fit to those of its target."""

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
        """Lᵀ S: a gradient with respect to x becomes one with respect to u."""

    @property
    @abc.abstractmethod
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        """The diagonal of L Lᵀ: the variances of x when u ~ N(0, I)."""
