"""A critic that is a perceptron of x."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_flag, check_number
from .._fields import flag_field, number_field
from .._networks import MLP, as_activation, as_widths
from .._types import Activation, Scalar
from ..families import Family, SemiImplicit
from .base import Critic, CriticSettings

_FEWEST_WEIGHED = 8  # draws; the mean square of fewer can be next to nothing


class MLPCritic(CriticSettings):
    """A perceptron from x to a vector of the same length.

    Args:
        hidden: Widths of the hidden layers.
        activation: A function or a name such as `"silu"`.
        skip: Add a linear map of x, started at `skip_scale` times the identity.
        final_scale: Factor on the last layer's initial weights.
        skip_scale: See `skip`. With 1, and a small `final_scale`, the residual critic f_ψ ≈ −∇log q is right from the
            start for a family that starts as N(0, I).

    Example:
        >>> critic = MLPCritic((64, 64), skip=True, skip_scale=1.0, final_scale=0.01)
    """

    hidden: tuple[int, ...] = eqx.field(static=True, converter=as_widths, default=(128, 128))
    activation: Activation = eqx.field(static=True, converter=as_activation, default="silu")
    skip: bool = flag_field("skip", False)
    final_scale: float = number_field("final_scale", 1.0)
    skip_scale: float | None = eqx.field(static=True, default=0.0)

    def __post_init__(self) -> None:
        skip = check_flag("skip", self.skip)
        scale = 0.0 if self.skip_scale is None else check_number("skip_scale", self.skip_scale)
        if scale and not skip:
            raise ValueError(f"skip_scale must be 0 without skip; got {scale}.")
        self.skip_scale = scale if skip else None

    def check(self, family: Family) -> None:
        """Any family will do."""

    def init(self, key: PRNGKeyArray, family: Family) -> "NetworkCritic":
        network = MLP(
            family.dim,
            family.dim,
            hidden=self.hidden,
            activation=self.activation,
            skip=self.skip,
            skip_scale=self.skip_scale or 0.0,
            final_scale=self.final_scale,
            key=key,
        )
        return NetworkCritic(network)


class NetworkCritic(Critic):
    """What `MLPCritic` sets up: a network that is f_ψ itself."""

    network: MLP

    def __call__(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.network(x)

    def at(self, family: Family | None) -> MLP:
        return self.network

    def noise_source(self, family: SemiImplicit) -> SemiImplicit:
        return family

    def denoising_loss(self, family: SemiImplicit, noise: tuple[Array, Array]) -> Scalar:
        joint = jax.vmap(family.joint)(*noise)
        error = jax.vmap(self.network)(joint.x) + joint.score
        return jnp.mean(jnp.sum(_weights(joint.score) * error**2, axis=-1))


def _weights(conditional_score: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
    """For every draw, one over the mean square of ∇_x log q(x|z) among the others, by coordinate.

    For a Gaussian with a global σ that is about σ²: a narrow coordinate does not outweigh a wide one. The weight is
    independent of the draw it weighs, so the regression's minimum stays where it is. A weight that follows the draw's
    own z, or counts the draw itself, would move it.
    """
    count = len(conditional_score)
    if count < _FEWEST_WEIGHED:
        return jnp.ones_like(conditional_score)
    squares = conditional_score**2
    return (count - 1) / (jnp.sum(squares, axis=0) - squares)
