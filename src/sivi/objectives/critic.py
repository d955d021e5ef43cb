"""Settings of the critic network f_ψ of the minimax."""

import abc
from collections.abc import Callable, Sequence

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import check_count
from .._networks import MLP, as_activation
from .._types import Activation

#: A critic is a callable Equinox module from a point to a vector of the same length.
Critic = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]


class CriticSpec(eqx.Module):
    """From a dimension to a critic network."""

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, dim: int) -> Critic:
        """A fresh critic for points of length `dim`."""


class MLPCritic(CriticSpec):
    """A perceptron from x to a vector of the same length.

    Args:
        hidden: Widths of the hidden layers.
        activation: A function or a name such as `"silu"`.
        skip: Add a linear map of x, started at zero.
        final_scale: Factor on the last layer's initial weights.
    """

    hidden: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    skip: bool = eqx.field(static=True)
    final_scale: float = eqx.field(static=True)

    def __init__(
        self,
        hidden: Sequence[int] = (128, 128),
        activation: str | Activation = "silu",
        skip: bool = False,
        final_scale: float = 1.0,
    ):
        self.hidden = tuple(check_count("hidden", width) for width in hidden)
        self.activation = as_activation(activation)
        self.skip, self.final_scale = bool(skip), float(final_scale)

    def init(self, key: PRNGKeyArray, dim: int) -> MLP:
        return MLP(
            dim,
            dim,
            hidden=self.hidden,
            activation=self.activation,
            skip=self.skip,
            skip_scale=0.0,
            final_scale=self.final_scale,
            key=key,
        )
