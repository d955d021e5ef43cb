"""x | z ~ N(μ_φ(z), diag σ²), with σ a vector or a network of z."""

import math
from typing import Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._backend import matmul_highest
from .._networks import LocationScale, LocationScaleSettings
from .._types import KeyLike, Scalar
from .base import Conditional, ConditionalDistribution, normal_noise

#: Largest error, in nats, that rounding may make in a log density from products of matrices.
MAX_ROUNDING = 5e-3


class GaussianAt(ConditionalDistribution):
    """N(mean, diag sigma²)."""

    mean: Float[Array, " dim"]
    sigma: Float[Array, " dim"]

    def transform(self, eps: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.mean + self.sigma * eps

    def score_at(self, eps: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return -eps / self.sigma

    def log_prob(self, x: Float[Array, " dim"]) -> Scalar:
        return jnp.sum(jax.scipy.stats.norm.logpdf(x, self.mean, self.sigma))

    def score(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return (self.mean - x) / self.sigma**2

    def log_prob_pairs(self, x: Float[Array, "n dim"]) -> Float[Array, "n components"]:
        """By one product of matrices, −x²/2 · σ⁻² + x · (μ σ⁻²) + 1 · (−μ² σ⁻²/2 − Σ log σ).

        Its terms can be far larger than their sum, and rounding is a share of Σ x²/σ². Where σ is so small that this
        would show, the differences x − μ are taken one by one.
        """
        centre = jax.lax.stop_gradient(jnp.mean(self.mean, axis=0))
        x, mean, precision = x - centre, self.mean - centre, self.sigma**-2
        most = jnp.max(precision, axis=0)
        largest = jnp.maximum(jnp.max(x**2 @ most), jnp.max(mean**2 @ most))
        log_dets = jnp.sum(jnp.log(self.sigma), axis=-1) + 0.5 * x.shape[-1] * math.log(2.0 * math.pi)
        return jax.lax.cond(
            jax.lax.stop_gradient(jnp.finfo(x.dtype).eps * largest) < MAX_ROUNDING,
            _pairs_by_products,
            _pairs_one_by_one,
            *(x, mean, precision, log_dets),
        )

    def weighted_score(self, x: Float[Array, "n dim"], weights: Float[Array, "n components"]) -> Float[Array, "n dim"]:
        """By products of matrices, w · (μ σ⁻²) − x (w · σ⁻²)."""
        centre, precision = jnp.mean(self.mean, axis=0), self.sigma**-2
        sums = matmul_highest(weights, jnp.concatenate([(self.mean - centre) * precision, precision], axis=1))
        means, precisions = jnp.split(sums, 2, axis=1)
        return means - (x - centre) * precisions


def _pairs_by_products(
    x: Float[Array, "n dim"],
    mean: Float[Array, "components dim"],
    precision: Float[Array, "components dim"],
    log_dets: Float[Array, " components"],
) -> Float[Array, "n components"]:
    weighted = mean * precision
    constants = -0.5 * jnp.sum(mean * weighted, axis=-1) - log_dets
    points = jnp.concatenate([-0.5 * x**2, x, jnp.ones_like(x[:, :1])], axis=1)
    return matmul_highest(points, jnp.concatenate([precision, weighted, constants[:, None]], axis=1).T)


@jax.checkpoint  # or the backward pass would keep every difference
def _pairs_one_by_one(
    x: Float[Array, "n dim"],
    mean: Float[Array, "components dim"],
    precision: Float[Array, "components dim"],
    log_dets: Float[Array, " components"],
) -> Float[Array, "n components"]:
    return -0.5 * jnp.sum((x[:, None, :] - mean) ** 2 * precision, axis=-1) - log_dets


class DiagonalGaussian(Conditional):
    """Gaussian conditional with diagonal covariance.

    Args:
        latent_dim: Length of z.
        dim: Length of x.
        key: An int or a JAX key, of the initial weights.
        **networks: Settings of the networks μ and σ, such as `hidden`: those of `sivi.families.LocationScale`.

    Example:
        >>> conditional = DiagonalGaussian(3, 2, scale="network", key=jax.random.key(0))
        >>> at = conditional.at(jnp.zeros(3))
        >>> eps = conditional.sample_noise(jax.random.key(1))
        >>> bool(jnp.allclose(at.score_at(eps), at.score(at.transform(eps)), atol=1e-5))
        True
    """

    latent_dim: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    networks: LocationScale

    def __init__(self, latent_dim: int, dim: int, *, key: KeyLike, **networks: Unpack[LocationScaleSettings]):
        self.networks = LocationScale(latent_dim, dim, key=key, **networks)
        self.latent_dim, self.dim = int(latent_dim), int(dim)

    @property
    def normal_noise_dim(self) -> int:
        return self.dim

    @property
    def varying_scale(self) -> bool:
        return self.networks.varying_scale

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape dim"]:
        return normal_noise(key, shape, self.dim)

    def at(self, z: Float[Array, " latent"]) -> GaussianAt:
        return GaussianAt(*self.networks(z))
