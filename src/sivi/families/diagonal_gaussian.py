"""x | z ~ N(μ_φ(z), diag σ²), with σ a vector or a network of z."""

from typing import Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._networks import LocationScale, LocationScaleSettings
from .._types import Scalar
from .base import Conditional, ConditionalDistribution


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


class DiagonalGaussian(Conditional):
    """Gaussian conditional with diagonal covariance.

    Args:
        latent_dim: Length of z.
        dim: Length of x.
        key: Random key of the initial weights.
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

    def __init__(self, latent_dim: int, dim: int, *, key: PRNGKeyArray, **networks: Unpack[LocationScaleSettings]):
        self.networks = LocationScale(latent_dim, dim, key=key, **networks)
        self.latent_dim, self.dim = int(latent_dim), int(dim)

    @property
    def normal_noise_dim(self) -> int:
        return self.dim

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape dim"]:
        return jax.random.normal(key, (*shape, self.dim), float)

    def at(self, z: Float[Array, " latent"]) -> GaussianAt:
        return GaussianAt(*self.networks(z))
