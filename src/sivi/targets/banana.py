"""The banana-shaped distribution of the SIVI-SM paper's toy examples."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import default_float
from .._fields import number_field
from .._types import Scalar
from .base import ExactTarget


class Banana(ExactTarget):
    """x = (v₁, v₁² + v₂ + 1) with v ~ N(0, Σ), unit variances and correlation 0.9.

    The map has unit Jacobian, so log p(x) = log N((x₁, x₂ − x₁² − 1); 0, Σ).

    Reference:
        Yu and Zhang, Semi-implicit variational inference via score matching (ICLR 2023), appendix E.
    """

    correlation: float = number_field("correlation", 0.9)
    dim: int = eqx.field(static=True, init=False, default=2)

    def __check_init__(self) -> None:
        if not -1.0 < self.correlation < 1.0:
            raise ValueError(f"correlation must be above -1 and below 1; got {self.correlation}.")

    def log_prob(self, x: Float[Array, " 2"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        rho = self.correlation
        v1 = x[0]
        residual = (x[1] - v1**2 - 1.0) - rho * v1  # v₂ − E[v₂ | v₁]
        log_norm = -jnp.log(2.0 * jnp.pi) - 0.5 * jnp.log1p(-(rho**2))
        return log_norm - 0.5 * v1**2 - 0.5 * residual**2 / (1.0 - rho**2)

    def sample(self, key: PRNGKeyArray) -> Float[Array, " 2"]:
        e1, e2 = jax.random.normal(key, (2,), default_float())
        v2 = self.correlation * e1 + jnp.sqrt(1.0 - self.correlation**2) * e2
        return jnp.stack([e1, e1**2 + v2 + 1.0])
