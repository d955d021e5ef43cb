"""x | z: independent Student-t coordinates with fixed degrees of freedom."""

from typing import Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_number
from .._networks import LocationScale, LocationScaleSettings
from .._types import KeyLike, Scalar
from .base import Conditional, ConditionalDistribution


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
        key: An int or a JAX key, of the initial weights.
        **networks: Settings of the networks μ and σ, such as `hidden`: those of `sivi.families.LocationScale`.
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
        key: KeyLike,
        **networks: Unpack[LocationScaleSettings],
    ):
        if not (df := check_number("df", df)) > 2:
            raise ValueError(f"df must be above 2, so that the variance exists; got {df}.")
        self.networks = LocationScale(latent_dim, dim, key=key, **networks)
        self.latent_dim, self.dim, self.df = int(latent_dim), int(dim), float(df)

    @property
    def varying_scale(self) -> bool:
        return self.networks.varying_scale

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape dim"]:
        return jax.random.t(key, self.df, (*shape, self.dim), float)

    def at(self, z: Float[Array, " latent"]) -> StudentTAt:
        mean, sigma = self.networks(z)
        return StudentTAt(mean, sigma, self.df)
