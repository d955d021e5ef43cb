"""x | z ~ N(μ_φ(z), diag σ²), with σ a vector or a network of z."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import default_float
from .._types import Activation, Scalar
from .base import Conditional, ConditionalDistribution
from .location_scale import DEFAULT_FLOOR, LocationScale


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
        hidden: Widths of the hidden layers.
        activation: A function or a name such as `"silu"`.
        skip: Add a linear map A z to μ(z), A started at `skip_scale` times the identity.
        skip_scale: See `skip`.
        final_scale: Factor on the initial weights of the last layer of μ.
        scale: `"global"`, one trainable vector σ; or `"network"`, σ_φ(z).
        sigma_init: σ at the start.
        sigma_floor: σ never falls below this.
        floor: `"smooth"`, or `"clamp"`: the hard clamp the paper's experiments used, without gradient below.
        key: Random key of the initial weights.

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

    def __init__(
        self,
        latent_dim: int,
        dim: int,
        *,
        hidden: Sequence[int] = (64, 64),
        activation: str | Activation = "silu",
        skip: bool = True,
        skip_scale: float = 1.0,
        final_scale: float = 1.0,
        scale: str = "global",
        sigma_init: float = 1.0,
        sigma_floor: float = DEFAULT_FLOOR,
        floor: str = "smooth",
        key: PRNGKeyArray,
    ):
        self.networks = LocationScale(
            latent_dim,
            dim,
            hidden=hidden,
            activation=activation,
            skip=skip,
            skip_scale=skip_scale,
            final_scale=final_scale,
            scale=scale,
            sigma_init=sigma_init,
            sigma_floor=sigma_floor,
            floor=floor,
            key=key,
        )
        self.latent_dim, self.dim = int(latent_dim), int(dim)

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape dim"]:
        return jax.random.normal(key, (*shape, self.dim), default_float())

    def at(self, z: Float[Array, " latent"]) -> GaussianAt:
        return GaussianAt(*self.networks(z))
