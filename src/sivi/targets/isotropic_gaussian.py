"""N(0, sd² I)."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import check_count, check_positive, default_float
from .._types import Scalar
from .base import ExactTarget


class IsotropicGaussian(ExactTarget):
    """A Gaussian around the origin with the same standard deviation in every direction.

    Its use is as the start of an annealing path; see `sivi.objectives.Annealed`.
    """

    dim: int = eqx.field(static=True, converter=partial(check_count, "dim"))
    sd: float = eqx.field(static=True, converter=partial(check_positive, "sd"), default=1.0)

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        return -0.5 * jnp.sum((x / self.sd) ** 2) - self.dim * (math.log(self.sd) + 0.5 * math.log(2 * math.pi))

    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return self.sd * jax.random.normal(key, (self.dim,), default_float())
