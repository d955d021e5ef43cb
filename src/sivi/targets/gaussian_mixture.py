"""Finite mixtures of Gaussians, and a single Gaussian as the mixture of one."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import check_finite, check_numbers, default_float, describe
from .._types import ArrayLike, Scalar
from .base import ExactTarget

_ROUNDING = 1e-5  # relative error up to which a matrix, maybe computed in float32, is symmetric


class GaussianMixture(ExactTarget):
    """Σ_k w_k N(x; μ_k, Σ_k).

    Args:
        means: (components, dim).
        covariances: (components, dim, dim), positive definite.
        weights: (components,), positive; equal when left out. They are normalised.

    Example:
        >>> target = GaussianMixture([[0.0, 0.0]], [[[1.0, 0.0], [0.0, 1.0]]])
        >>> round(float(target.log_prob(jnp.zeros(2))), 4)
        -1.8379
    """

    means: Float[Array, "components dim"]
    cholesky: Float[Array, "components dim dim"]
    whitener: Float[Array, "components dim dim"]
    log_weights: Float[Array, " components"]
    log_norms: Float[Array, " components"]

    def __init__(self, means: ArrayLike, covariances: ArrayLike, weights: ArrayLike | None = None):
        mean, covariance = check_numbers("means", means), check_numbers("covariances", covariances)
        if mean.ndim != 2 or mean.size == 0 or covariance.shape != (*mean.shape, mean.shape[1]):
            raise ValueError(
                "means must have shape (components, dim) and covariances (components, dim, dim); "
                f"got {mean.shape} and {covariance.shape}."
            )
        mean, covariance = (
            check_finite("means", mean).astype(float),
            check_finite("covariances", covariance).astype(float),
        )
        weight = np.ones(len(mean)) if weights is None else check_numbers("weights", weights).astype(float)
        if weight.shape != (len(mean),) or not ((weight > 0) & np.isfinite(weight)).all():
            raise ValueError(f"weights must be {len(mean)} positive numbers; got {describe(weights)}.")
        cholesky = _roots(covariance)
        log_det = np.log(np.diagonal(cholesky, axis1=1, axis2=2)).sum(1)
        dtype = default_float()
        self.means = jnp.asarray(mean, dtype)
        self.cholesky = jnp.asarray(cholesky, dtype)
        self.whitener = jnp.asarray(np.linalg.inv(cholesky), dtype)
        self.log_weights = jnp.asarray(np.log(weight / weight.sum()), dtype)
        self.log_norms = jnp.asarray(-log_det - 0.5 * mean.shape[1] * math.log(2 * math.pi), dtype)

    @property
    def dim(self) -> int:
        return int(self.means.shape[-1])

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        offsets = x - self.means
        # In the plane, sums are cheaper than the products of tiny matrices that XLA would make of them.
        if self.dim <= 3:
            u = jnp.sum(self.whitener * offsets[:, None, :], axis=-1)
        else:
            u = jnp.einsum("kij,kj->ki", self.whitener, offsets)
        terms = self.log_weights + self.log_norms - 0.5 * jnp.sum(u**2, axis=-1)
        return jax.nn.logsumexp(terms)

    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        component_key, noise_key = jax.random.split(key)
        component = jax.random.categorical(component_key, self.log_weights)
        noise = jax.random.normal(noise_key, (self.dim,), default_float())
        return self.means[component] + self.cholesky[component] @ noise


def _roots(covariances: np.ndarray) -> np.ndarray:
    """The Cholesky factors of symmetric, positive definite matrices; others are refused."""
    sizes = np.abs(covariances).max((1, 2), keepdims=True)
    wrong = np.flatnonzero((np.abs(covariances - covariances.swapaxes(1, 2)) > _ROUNDING * sizes).any((1, 2)))
    if wrong.size:
        raise ValueError(f"covariances must be symmetric; number {wrong[0]} is not.")
    roots = []
    for i, covariance in enumerate(covariances):
        try:
            roots.append(np.linalg.cholesky(covariance))
        except np.linalg.LinAlgError:
            raise ValueError(f"covariances must be positive definite; number {i} is not.") from None
    return np.stack(roots)


class MixtureTarget(ExactTarget):
    """A named target that is a particular Gaussian mixture."""

    mixture: eqx.AbstractVar[GaussianMixture]

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        return self.mixture.log_prob(x, batch)

    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return self.mixture.sample(key)

    @property
    def dim(self) -> int:
        return self.mixture.dim
