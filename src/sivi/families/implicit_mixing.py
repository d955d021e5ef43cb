"""z = h_ξ(γ) with a trainable network h_ξ."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_count, check_flag
from .._networks import MLP
from .._types import Activation, KeyLike, Scalar
from .base import Mixing, normal_noise


class ImplicitMixing(Mixing):
    """z = h_ξ(γ), γ ~ N(0, I), where h_ξ is a perceptron with trainable ξ: the density of z is implicit.

    Args:
        noise_dim: Length of γ.
        dim: Length of z.
        hidden: Widths of the hidden layers.
        activation: A function or a name such as `"silu"`.
        skip: Add a linear map of γ, started at the identity.
        key: An int or a JAX key, of the initial weights.
    """

    noise_dim: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    network: MLP

    def __init__(
        self,
        noise_dim: int,
        dim: int,
        *,
        hidden: Sequence[int] = (50, 50),
        activation: str | Activation = "silu",
        skip: bool = True,
        key: KeyLike,
    ):
        self.noise_dim, self.dim = check_count("noise_dim", noise_dim), check_count("dim", dim)
        check_flag("skip", skip)
        self.network = MLP(noise_dim, dim, hidden=hidden, activation=activation, skip=skip, key=key)

    @property
    def normal_noise_dim(self) -> int:
        return self.noise_dim

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape noise"]:
        return normal_noise(key, shape, self.noise_dim)

    def noise_log_prob(self, noise: Float[Array, " noise"]) -> Scalar:
        return jnp.sum(jax.scipy.stats.norm.logpdf(noise))

    def transform(self, noise: Float[Array, " noise"]) -> Float[Array, " latent"]:
        return self.network(noise)
