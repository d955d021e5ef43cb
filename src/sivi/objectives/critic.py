"""Critic networks f_ψ, and their settings.

A critic is a callable Equinox module from a point to a vector. One that is built around the family which it is the
critic of is a `FamilyCritic`: it becomes such a callable at the family's parameters of the moment.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_count
from .._networks import MLP, as_activation
from .._types import Activation, Scalar
from ..families import Family

#: From a point to a vector of the same length.
PointCritic: TypeAlias = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]


class FamilyCritic(eqx.Module):
    """A critic that reads the family's parameters: it is a function of x only at a family."""

    @abc.abstractmethod
    def at(self, family: Any) -> PointCritic:
        """f_ψ as a function of one point, while the family has these parameters."""


class DenoisingCritic(FamilyCritic):
    """A critic that knows a cheaper form of its σ²-weighted denoising loss than one over draws of x."""

    @abc.abstractmethod
    def sample_noise(self, key: PRNGKeyArray, family: Any, shape: tuple[int, ...]) -> tuple[Array, ...]:
        """The parameter-free noise that `denoising_loss` takes: of as many draws as `shape` says."""

    @abc.abstractmethod
    def denoising_loss(self, family: Any, noise: tuple[Array, ...]) -> Scalar:
        """Mean over the draws of Σ σ² (f_ψ(x) + ∇_x log q(x|z))²."""


#: Either kind.
Critic: TypeAlias = PointCritic | FamilyCritic


def critic_at(critic: Critic, family: Family | None) -> PointCritic:
    """A critic as a function of one point; one that reads the family does so at its values, held fixed."""
    if not isinstance(critic, FamilyCritic):
        return critic
    if family is None:
        raise TypeError(f"family must be given: {type(critic).__name__} is a function of x only at a family; got None.")
    arrays, static = eqx.partition(family, eqx.is_array)
    return critic.at(eqx.combine(jax.lax.stop_gradient(arrays), static))


class CriticSpec(eqx.Module):
    """From a family to a critic."""

    def check(self, family: Family) -> None:
        """Refuse, with a sentence, a family that this critic does not fit; its arrays may be shapes only."""

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, family: Family) -> Critic:
        """A fresh critic for a family, at its start."""


class MLPCritic(CriticSpec):
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

    hidden: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    skip: bool = eqx.field(static=True)
    final_scale: float = eqx.field(static=True)
    skip_scale: float | None = eqx.field(static=True)

    def __init__(
        self,
        hidden: Sequence[int] = (128, 128),
        activation: str | Activation = "silu",
        skip: bool = False,
        final_scale: float = 1.0,
        skip_scale: float = 0.0,
    ):
        self.hidden = tuple(check_count("hidden", width) for width in hidden)
        self.activation = as_activation(activation)
        self.skip, self.final_scale = bool(skip), float(final_scale)
        if skip_scale and not skip:
            raise ValueError(f"skip_scale must be 0 without skip; got {skip_scale}.")
        self.skip_scale = float(skip_scale) if skip else None

    def init(self, key: PRNGKeyArray, family: Family) -> MLP:
        return MLP(
            family.dim,
            family.dim,
            hidden=self.hidden,
            activation=self.activation,
            skip=self.skip,
            skip_scale=self.skip_scale or 0.0,
            final_scale=self.final_scale,
            key=key,
        )
