"""x | z: independent Student-t coordinates with fixed degrees of freedom."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import default_float
from .._types import Activation, Scalar
from .base import Conditional, ConditionalDistribution
from .location_scale import DEFAULT_FLOOR, LocationScale


class StudentTAt(ConditionalDistribution):
    """mean + sigma · t with t_i ~ Student-t(df), independent."""

    mean: Float[Array, " dim"]
    sigma: Float[Array, " dim"]
    df: float = eqx.field(static=True)

    def transform(self, eps: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.mean + self.sigma * eps

    def score_at(self, eps: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return -(self.df + 1.0) * eps / ((self.df + eps**2) * self.sigma)

    def log_prob(self, x: Float[Array, " dim"]) -> Scalar:
        return jnp.sum(jax.scipy.stats.t.logpdf(x, self.df, self.mean, self.sigma))

    def score(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.score_at((x - self.mean) / self.sigma)


class StudentT(Conditional):
    """Student-t conditional: heavier tails than a Gaussian one can reach.

    Args:
        latent_dim: Length of z.
        dim: Length of x.
        df: Degrees of freedom, above 2 so that the variance exists.
        hidden: Widths of the hidden layers.
        activation: A function or a name such as `"silu"`.
        skip: Add a linear map A z to the location, A started at `skip_scale` times the identity.
        skip_scale: See `skip`.
        final_scale: Factor on the initial weights of the last layer of μ.
        scale: `"global"`, one trainable vector σ; or `"network"`, σ_φ(z).
        sigma_init: σ at the start.
        sigma_floor: σ never falls below this.
        floor: `"smooth"` or `"clamp"`.
        key: Random key of the initial weights.
    """

    latent_dim: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    df: float = eqx.field(static=True)
    networks: LocationScale

    def __init__(
        self,
        latent_dim: int,
        dim: int,
        *,
        df: float = 5.0,
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
        if not df > 2:
            raise ValueError(f"df must be above 2, so that the variance exists; got {df}.")
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
        self.latent_dim, self.dim, self.df = int(latent_dim), int(dim), float(df)

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape dim"]:
        return jax.random.t(key, self.df, (*shape, self.dim), default_float())

    def at(self, z: Float[Array, " latent"]) -> StudentTAt:
        mean, sigma = self.networks(z)
        return StudentTAt(mean, sigma, self.df)
