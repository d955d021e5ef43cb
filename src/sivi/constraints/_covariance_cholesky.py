"""Cholesky factors of covariance matrices."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._numerics import safe_exp
from .base import Constraint, check_length, check_shape


class CovarianceCholesky(Constraint):
    """Lower triangular L with a positive diagonal, so that L Lᵀ is a covariance matrix.

        L_ij = y_ij for i > j,    L_ii = exp(y_ii);

    back, y_ii = log L_ii. y lists its entries row by row, with the diagonal. The density that goes with it is with
    respect to Lebesgue measure on the entries of L on and below the diagonal, as for Stan's `cholesky_factor_cov` and
    NumPyro's `lower_cholesky`:

        log |det ∂L/∂y| = Σ_i y_ii.

    Args:
        n: Rows of a matrix.
        batch_shape: Leading axes: how many matrices.
    """

    n: int = eqx.field(static=True, converter=check_length)
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    @property
    def event_shape(self) -> tuple[int, ...]:
        return (self.n, self.n)

    @property
    def free_shape(self) -> tuple[int, ...]:
        return (self.n * (self.n + 1) // 2,)

    @property
    def rule(self) -> str:
        return "lower triangular with a positive diagonal"

    def contains(self, x: Float[np.ndarray, "*batch n n"]) -> Bool[np.ndarray, "*batch"] | np.bool_:
        lower = (np.triu(x, 1) == 0.0).all((-2, -1)) & np.isfinite(x).all((-2, -1))
        return lower & (np.diagonal(x, axis1=-2, axis2=-1) >= np.finfo(x.dtype).tiny).all(-1)

    def _diagonal(self) -> np.ndarray:
        """Which entries of y are on the diagonal."""
        rows, columns = np.tril_indices(self.n)
        return np.flatnonzero(rows == columns)

    def _forward(self, y: Float[Array, "*batch free"]) -> Float[Array, "*batch n n"]:
        diagonal = self._diagonal()
        entries = y.at[..., diagonal].set(safe_exp(y[..., diagonal]))
        return jnp.zeros((*y.shape[:-1], self.n, self.n), y.dtype).at[..., *np.tril_indices(self.n)].set(entries)

    def _inverse(self, x: Float[Array, "*batch n n"]) -> Float[Array, "*batch free"]:
        entries, diagonal = x[..., *np.tril_indices(self.n)], self._diagonal()
        return entries.at[..., diagonal].set(jnp.log(entries[..., diagonal]))

    def _log_det(self, y: Float[Array, "*batch free"]) -> Float[Array, "*batch n"]:
        return y[..., self._diagonal()]


def covariance_cholesky(n: int, shape: tuple[int, ...] | list[int] | int = ()) -> CovarianceCholesky:
    """Cholesky factors L of n × n covariance matrices L Lᵀ, made from n(n + 1)/2 free numbers.

    A log density of them is with respect to the entries on and below the diagonal. For a prior p(Σ) of the covariance
    matrix Σ = L Lᵀ itself, such as a Wishart or inverse Wishart distribution, add

        log |det ∂Σ/∂L| = n log 2 + Σ_{i=1}^{n} (n − i + 1) log L_ii.

    Args:
        n: Rows of a matrix, at least 2.
        shape: Leading axes: the array has shape (*shape, n, n).

    Example:
        >>> covariance_cholesky(2).forward(jnp.array([0.0, 0.5, 0.0])).tolist()
        [[1.0, 0.0], [0.5, 1.0]]
    """
    return CovarianceCholesky(n, shape)
