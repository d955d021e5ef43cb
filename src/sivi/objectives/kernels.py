"""Kernels of the kernel Stein discrepancy, evaluated between all pairs of particles."""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._fields import optional_positive_field, positive_field

#: Enough for a median distance. To sort the distances of all pairs would cost more than the rest of an update.
_MEDIAN_PARTICLES = 100
#: The default bandwidth, in median distances. A kernel as wide as the particles sees little of their shape.
DEFAULT_FACTOR = 0.5


class Kernel(eqx.Module):
    """A positive definite kernel k(x, y)."""

    @abc.abstractmethod
    def gram(self, x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
        """k(x_i, x_j) for all pairs, differentiable in x; a bandwidth chosen from x is differentiated too."""


class RadialKernel(Kernel):
    """A kernel of ‖x − y‖² / h² alone; a subclass says which function of it.

    Attributes:
        bandwidth: h; when left out, `factor` times the median distance between two of the first 100 particles,
            with its gradient.
        factor: See `bandwidth`.
    """

    bandwidth: eqx.AbstractVar[float | None]
    factor: eqx.AbstractVar[float]

    @abc.abstractmethod
    def profile(self, ratio: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """The kernel as a function of ‖x − y‖² / h²."""

    def gram(self, x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
        squares = _squared_distances(x)
        return self.profile(squares / _squared_bandwidth(squares, self.bandwidth, self.factor))


class GaussianKernel(RadialKernel):
    """k(x, y) = exp(−‖x − y‖² / (2h²)).

    Args:
        bandwidth: h; see `RadialKernel`.
        factor: See `bandwidth`.
    """

    bandwidth: float | None = optional_positive_field("bandwidth")
    factor: float = positive_field("factor", DEFAULT_FACTOR)

    def profile(self, ratio: Float[Array, "n n"]) -> Float[Array, "n n"]:
        return jnp.exp(-0.5 * ratio)


class IMQKernel(RadialKernel):
    """The inverse multiquadric k(x, y) = (1 + ‖x − y‖² / h²)^(−1/2), with heavier tails than the Gaussian.

    Args:
        bandwidth: h; see `RadialKernel`.
        factor: See `bandwidth`.
    """

    bandwidth: float | None = optional_positive_field("bandwidth")
    factor: float = positive_field("factor", DEFAULT_FACTOR)

    def profile(self, ratio: Float[Array, "n n"]) -> Float[Array, "n n"]:
        return (1.0 + ratio) ** -0.5


class RieszKernel(Kernel):
    """k(x, y) = ‖x‖₁ + ‖y‖₁ − ‖x − y‖₁, without a bandwidth.

    The negative distance alone is positive definite only on functions that integrate to zero; the first two terms
    correct this. It is a sum over single coordinates, so it misses pure interactions. Its gradient needs n² · dim
    numbers.
    """

    def gram(self, x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
        size = jnp.sum(jnp.abs(x), axis=-1)
        return size[:, None] + size - jnp.sum(jnp.abs(x[:, None] - x), axis=-1)


def _squared_distances(x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
    if x.shape[1] <= 3:  # no cancellation, and no product of thin matrices
        return jnp.sum((x[:, None] - x) ** 2, axis=-1)
    centred = x - jnp.mean(x, axis=0)
    norms = jnp.sum(centred**2, axis=-1)
    squares = norms[:, None] + norms - 2.0 * centred @ centred.T
    return jnp.where(jnp.eye(len(x), dtype=bool), 0.0, jnp.maximum(squares, 0.0))


def _squared_bandwidth(squares: Float[Array, "n n"], bandwidth: float | None, factor: float) -> Array:
    if bandwidth is not None:
        return jnp.asarray(bandwidth**2, squares.dtype)
    return factor**2 * jnp.median(squares[np.triu_indices(min(len(squares), _MEDIAN_PARTICLES), k=1)])
