"""What a critic f_ψ is, and the settings that one is made from."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from .._fields import module_field
from .._types import Scalar
from ..families import Family

#: From a point to a vector of the same length.
PointFunction: TypeAlias = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]


@runtime_checkable
class NoiseSource(Protocol):
    """Whatever draws parameter-free noise: a family, or a critic's own source."""

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Any:
        """The noise of as many draws as `shape` says."""
        ...


class Critic(eqx.Module):
    """f_ψ with its trainable arrays.

    It is a function of x at a family. It also knows how it is trained by denoising score matching, towards
    f_ψ(x) = −∇log q(x).

    Attributes:
        reads_family: Whether the function of x depends on the family's parameters.
    """

    reads_family: ClassVar[bool] = False

    @abc.abstractmethod
    def at(self, family: Any) -> PointFunction:
        """f_ψ as a function of one point, while the family has these parameters, which are held fixed."""

    @abc.abstractmethod
    def noise_source(self, family: Any) -> NoiseSource:
        """What draws the noise that `denoising_loss` takes: the family itself where it is noise of draws of x."""

    @abc.abstractmethod
    def denoising_loss(self, family: Any, noise: Any) -> Scalar:
        """Mean over the draws of Σ w (f_ψ(x) + ∇_x log q(x|z))², with one weight w per coordinate, about σ²."""


class CriticSettings(eqx.Module):
    """From a family to a critic."""

    @abc.abstractmethod
    def check(self, family: Family) -> None:
        """Refuse, with a sentence, a family that this critic does not fit; its arrays may be shapes only."""

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, family: Family) -> Critic:
        """A fresh critic for a family, at its start."""


def critic_field(default: CriticSettings) -> Any:
    """The field `critic` of an objective."""
    what = "the settings of a critic, such as sivi.critics.MLPCritic()"
    return module_field("critic", CriticSettings, what, default=default)
