"""Cholesky factors of correlation matrices."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._numerics import clipped, safe_exp
from .base import Constraint, check_length, check_shape


class CorrelationCholesky(Constraint):
    """Lower triangular L with a positive diagonal and rows of length one, so that L Lᵀ is a correlation matrix.

    With canonical partial correlations tanh(y_ij), i > j, and the length r_ij that the first entries of row i leave,

        L_ij = tanh(y_ij) r_ij,    L_ii = r_ii,    log r_ij = Σ_{k<j} log sech(y_ik);

    y lists its entries row by row. The density that goes with it is with respect to Lebesgue measure on the entries of
    L strictly below the diagonal, as in Stan, where `lkj_corr_cholesky` is such a density:

        log |det ∂L/∂y| = Σ_{i>j} (2 log sech(y_ij) + log r_ij).

    Args:
        n: Rows of a matrix.
        batch_shape: Leading axes: how many matrices.

    References:
        Lewandowski, Kurowicka and Joe, Generating random correlation matrices based on vines and extended onion
        method (Journal of Multivariate Analysis, 2009).
    """

    n: int = eqx.field(static=True, converter=check_length)
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    @property
    def event_shape(self) -> tuple[int, ...]:
        return (self.n, self.n)

    @property
    def free_shape(self) -> tuple[int, ...]:
        return (self.n * (self.n - 1) // 2,)

    @property
    def rule(self) -> str:
        return "lower triangular with a positive diagonal and rows of length 1"

    def contains(self, x: Float[np.ndarray, "*batch n n"]) -> Bool[np.ndarray, "*batch"] | np.bool_:
        info = np.finfo(x.dtype)
        lower = (np.triu(x, 1) == 0.0).all((-2, -1))
        lengths = (np.abs((x**2).sum(-1) - 1.0) <= np.sqrt(info.eps)).all(-1)
        return lower & lengths & (np.diagonal(x, axis1=-2, axis2=-1) >= info.tiny).all(-1)

    def _spread(self, y: Float[Array, "*batch free"]) -> tuple[Float[Array, "*batch n n"], Float[Array, "*batch n n"]]:
        """y as a strictly lower triangular matrix, and log r."""
        matrix = jnp.zeros((*y.shape[:-1], self.n, self.n), y.dtype)
        matrix = matrix.at[..., *np.tril_indices(self.n, -1)].set(y)
        nothing = jnp.zeros_like(matrix[..., :1])
        return matrix, jnp.concatenate([nothing, jnp.cumsum(_log_sech(matrix[..., :-1]), -1)], -1)

    def _forward(self, y: Float[Array, "*batch free"]) -> Float[Array, "*batch n n"]:
        matrix, log_left = self._spread(y)
        most = 1.0 - float(jnp.finfo(y.dtype).epsneg)
        partial = clipped(jnp.tanh(matrix), -most, most)
        return (partial + jnp.eye(self.n, dtype=y.dtype)) * safe_exp(log_left)

    def _inverse(self, x: Float[Array, "*batch n n"]) -> Float[Array, "*batch free"]:
        # r_ij from what follows in the row rather than from 1 − what precedes, and in logs, as squares underflow.
        squares = jnp.where(x == 0.0, -jnp.inf, 2.0 * jnp.log(jnp.abs(jnp.where(x == 0.0, 1.0, x))))
        log_left = 0.5 * jax.lax.cumlogsumexp(squares, axis=squares.ndim - 1, reverse=True)
        rows, columns = np.tril_indices(self.n, -1)
        # sinh(y_ij) = L_ij / r_i,j+1.
        return jnp.arcsinh(x[..., rows, columns] * jnp.exp(-log_left[..., rows, columns + 1]))

    def _log_det(self, y: Float[Array, "*batch free"]) -> Float[Array, "*batch free"]:
        _, log_left = self._spread(y)
        return 2.0 * _log_sech(y) + log_left[..., *np.tril_indices(self.n, -1)]


def _log_sech(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return math.log(2.0) - jnp.logaddexp(y, -y)


def correlation_cholesky(n: int, shape: tuple[int, ...] | list[int] | int = ()) -> CorrelationCholesky:
    """Cholesky factors L of n × n correlation matrices L Lᵀ, made from n(n − 1)/2 free numbers.

    A log density of them is with respect to the entries strictly below the diagonal. For an LKJ(η) prior add

        Σ_{i=1}^{n} (n − i + 2η − 2) log L_ii.

    Args:
        n: Rows of a matrix, at least 2.
        shape: Leading axes: the array has shape (*shape, n, n).

    Example:
        >>> correlation_cholesky(2).forward(jnp.zeros(1)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return CorrelationCholesky(n, shape)
