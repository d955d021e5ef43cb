"""z ~ N(0, I)."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_count
from .._types import Scalar
from .base import Mixing, normal_noise


class NormalMixing(Mixing):
    """Standard normal mixing variable of length `dim`: no parameters, z is the noise itself."""

    dim: int = eqx.field(static=True, converter=partial(check_count, "dim"))

    @property
    def normal_noise_dim(self) -> int:
        return self.dim

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape latent"]:
        return normal_noise(key, shape, self.dim)

    def noise_log_prob(self, noise: Float[Array, " latent"]) -> Scalar:
        return jnp.sum(jax.scipy.stats.norm.logpdf(noise))

    def transform(self, noise: Float[Array, " latent"]) -> Float[Array, " latent"]:
        return noise
