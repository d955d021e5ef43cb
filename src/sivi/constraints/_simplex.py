"""Vectors of positive numbers that sum to one, such as the weights of a mixture."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._types import Scalar
from ._numerics import safe_exp
from .base import Constraint, check_length, check_shape


class Simplex(Constraint):
    """x = softmax(V y), where the n − 1 columns of V are orthonormal and each sums to zero.

    This is the inverse of the isometric log-ratio transform, which Stan uses too. All entries of x are treated alike,
    unlike by stick-breaking, and y = 0 is the uniform x. The density that goes with it is with respect to Lebesgue
    measure on the first n − 1 entries of x, as is that of a Dirichlet distribution:

        log |det ∂(x₁, …, x_{n−1})/∂y| = Σ_{i≤n} log x_i + ½ log n.

    In float32 an entry is at least exp(−80), in float64 at least exp(−700).

    Args:
        n: Length of a vector.
        batch_shape: Leading axes: how many vectors.

    References:
        Egozcue, Pawlowsky-Glahn, Mateu-Figueras and Barceló-Vidal, Isometric logratio transformations for
        compositional data analysis (Mathematical Geology, 2003).
    """

    n: int = eqx.field(static=True, converter=check_length)
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    @property
    def event_shape(self) -> tuple[int, ...]:
        return (self.n,)

    @property
    def free_shape(self) -> tuple[int, ...]:
        return (self.n - 1,)

    @property
    def rule(self) -> str:
        return "positive numbers that sum to 1"

    def contains(self, x: Float[np.ndarray, "*batch n"]) -> Bool[np.ndarray, "*batch"] | np.bool_:
        info = np.finfo(x.dtype)
        return (x >= info.tiny).all(-1) & (np.abs(x.sum(-1) - 1.0) <= np.sqrt(info.eps))

    def log_ratios(self, y: Float[Array, "*batch free"]) -> Float[Array, "*batch n"]:
        """V y: the logarithm of each entry of x, less the mean of these logarithms."""
        # Column k of V: 1/√(k(k+1)) in the first k rows, −k/√(k(k+1)) in row k + 1, zero below.
        k = jnp.arange(1, self.n, dtype=y.dtype)
        scaled = y / jnp.sqrt(k * (k + 1))
        above = jnp.flip(jnp.cumsum(jnp.flip(scaled, -1), -1), -1)
        zero = jnp.zeros_like(y[..., :1])
        return jnp.concatenate([above, zero], -1) - jnp.concatenate([zero, k * scaled], -1)

    def _log_x(self, y: Float[Array, "*batch free"]) -> Float[Array, "*batch n"]:
        return jax.nn.log_softmax(self.log_ratios(y), axis=-1)

    def _forward(self, y: Float[Array, "*batch free"]) -> Float[Array, "*batch n"]:
        return safe_exp(self._log_x(y))

    def _inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch free"]:
        log_x = jnp.log(x)
        k = jnp.arange(1, self.n, dtype=x.dtype)
        means = jnp.cumsum(log_x[..., :-1], -1) / k
        return jnp.sqrt(k / (k + 1)) * (means - log_x[..., 1:])

    def _log_det(self, y: Float[Array, "*batch free"]) -> Float[Array, "*batch"] | Scalar:
        return jnp.sum(self._log_x(y), -1) + 0.5 * math.log(self.n)


def simplex(n: int, shape: tuple[int, ...] | list[int] | int = ()) -> Simplex:
    """Vectors of n positive numbers that sum to one, made from n − 1 free ones.

    A log density of them is with respect to the first n − 1 entries, as the usual formula of a Dirichlet density is.

    Args:
        n: Their length, at least 2.
        shape: Leading axes: the array has shape (*shape, n).

    Example:
        >>> simplex(4).forward(jnp.zeros(3)).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    return Simplex(n, shape)
