"""μ_φ(z) and σ_φ(z): what the location-scale conditionals share."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_count, default_float, describe
from .._networks import MLP
from .._types import Activation

#: Far below the scale of most posteriors, and far above what float32 can square and divide by.
DEFAULT_FLOOR = 1e-3


class LogVariance(eqx.Module):
    """log σ² from an unconstrained number, kept above a floor.

    `"smooth"` is floor + softplus(raw − floor), which always has a gradient. `"clamp"` is max(raw, floor), what
    the paper ran: below the floor the gradient is zero, and a coordinate that crosses it stays there.
    """

    floor: float = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.kind not in ("smooth", "clamp"):
            raise ValueError(f"floor must be 'smooth' or 'clamp'; got {describe(self.kind)}.")

    def __call__(self, raw: Float[Array, " dim"]) -> Float[Array, " dim"]:
        if self.kind == "clamp":
            return jnp.maximum(raw, self.floor)
        return self.floor + jax.nn.softplus(raw - self.floor)

    def inverse(self, log_variance: float) -> float:
        if self.kind == "clamp":
            return log_variance
        excess = log_variance - self.floor
        return self.floor + excess + math.log(-math.expm1(-excess))


class LocationScale(eqx.Module):
    """The networks (μ_φ(z), σ_φ(z)), with σ a trainable vector or a network of z.

    Args:
        latent_dim: Length of z.
        dim: Length of x.
        hidden: Widths of the hidden layers.
        activation: A function or a name such as `"silu"`.
        skip: Add a linear map A z to μ, A started at `skip_scale` times the identity.
        skip_scale: See `skip`.
        final_scale: Factor on the initial weights of the last layer of μ.
        scale: `"global"`, one trainable vector σ; or `"network"`, σ_φ(z).
        sigma_init: σ at the start.
        sigma_floor: σ never falls below this.
        floor: `"smooth"` or `"clamp"`; see `LogVariance`.
        key: Random key of the initial weights.
    """

    mean: MLP
    raw_scale: Float[Array, " dim"] | MLP
    raw_init: float = eqx.field(static=True)
    log_variance: LogVariance

    def __init__(
        self,
        latent_dim: int,
        dim: int,
        *,
        hidden: Sequence[int],
        activation: str | Activation,
        skip: bool,
        skip_scale: float = 1.0,
        final_scale: float = 1.0,
        scale: str = "global",
        sigma_init: float = 1.0,
        sigma_floor: float = DEFAULT_FLOOR,
        floor: str = "smooth",
        key: PRNGKeyArray,
    ):
        latent_dim, dim = check_count("latent_dim", latent_dim), check_count("dim", dim)
        if not 0 < sigma_floor < sigma_init < math.inf:
            raise ValueError(
                "sigma_floor and sigma_init must satisfy 0 < sigma_floor < sigma_init; "
                f"got {sigma_floor} and {sigma_init}."
            )
        if scale not in ("global", "network"):
            raise ValueError(f"scale must be 'global' or 'network'; got {describe(scale)}.")
        mean_key, scale_key = jax.random.split(key)
        self.mean = MLP(
            latent_dim,
            dim,
            hidden=hidden,
            activation=activation,
            skip=skip,
            skip_scale=skip_scale,
            final_scale=final_scale,
            key=mean_key,
        )
        self.log_variance = LogVariance(2 * math.log(sigma_floor), floor)
        raw_init = self.log_variance.inverse(2 * math.log(sigma_init))
        if scale == "global":
            self.raw_init = 0.0
            self.raw_scale = jnp.full((dim,), raw_init, default_float())
        else:
            self.raw_init = raw_init
            self.raw_scale = MLP(latent_dim, dim, hidden=hidden, activation=activation, final_scale=0.01, key=scale_key)

    def __call__(self, z: Float[Array, " latent"]) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        raw = self.raw_init + self.raw_scale(z) if isinstance(self.raw_scale, MLP) else self.raw_scale
        return self.mean(z), jnp.exp(0.5 * self.log_variance(raw))
