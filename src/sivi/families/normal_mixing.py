"""z ~ N(0, I)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_count, default_float
from .._types import Scalar
from .base import Mixing


class NormalMixing(Mixing):
    """Standard normal mixing variable of length `dim`: no parameters, z is the noise itself."""

    dim: int = eqx.field(static=True)

    def __init__(self, dim: int):
        self.dim = check_count("dim", dim)

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape latent"]:
        return jax.random.normal(key, (*shape, self.dim), default_float())

    def noise_log_prob(self, noise: Float[Array, " latent"]) -> Scalar:
        return jnp.sum(jax.scipy.stats.norm.logpdf(noise))

    def transform(self, noise: Float[Array, " latent"]) -> Float[Array, " latent"]:
        return noise
