"""The two layers of a semi-implicit family, and the family itself.

Everything here is about one draw, and callers vectorise; only noise comes, as in `jax.random`, in any shape, since
one large draw is cheaper than many small ones.
"""

import abc

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Scalar


class Mixing(eqx.Module):
    """The mixing layer q(z): base noise and a map z = h(noise)."""

    dim: eqx.AbstractVar[int]

    @property
    def normal_noise_dim(self) -> int | None:
        """Length of the noise if `sample_noise` draws standard normals from the key as it is; None otherwise."""
        return None

    @abc.abstractmethod
    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape noise"]:
        """Base noise, from a distribution without parameters: one draw, or as many as `shape` says."""

    @abc.abstractmethod
    def noise_log_prob(self, noise: Float[Array, " noise"]) -> Scalar:
        """log density of the base noise."""

    @abc.abstractmethod
    def transform(self, noise: Float[Array, " noise"]) -> Float[Array, " latent"]:
        """z = h(noise), differentiable in the layer's parameters."""


class ConditionalDistribution(eqx.Module):
    """q(x|z) at one z, with the networks already evaluated.

    Attributes:
        mean: E[x|z].
    """

    mean: eqx.AbstractVar[Float[Array, " dim"]]

    @abc.abstractmethod
    def transform(self, eps: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """x as a function of the conditional's noise: the reparameterisation."""

    @abc.abstractmethod
    def score_at(self, eps: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """∇_x log q(x|z) at x = transform(eps), written in eps so that nothing cancels."""

    @abc.abstractmethod
    def log_prob(self, x: Float[Array, " dim"]) -> Scalar:
        """log q(x|z)."""

    @abc.abstractmethod
    def score(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """∇_x log q(x|z)."""


class Conditional(eqx.Module):
    """The conditional layer q(x|z): explicit, reparameterised."""

    latent_dim: eqx.AbstractVar[int]
    dim: eqx.AbstractVar[int]

    @property
    def normal_noise_dim(self) -> int | None:
        """Length of the noise if `sample_noise` draws standard normals from the key as it is; None otherwise."""
        return None

    @abc.abstractmethod
    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape dim"]:
        """The noise eps, from a distribution without parameters: one draw, or as many as `shape` says."""

    @abc.abstractmethod
    def at(self, z: Float[Array, " latent"]) -> ConditionalDistribution:
        """q(·|z)."""


class Family(eqx.Module):
    """A variational family: something with parameters that can be sampled by reparameterisation."""

    dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """One draw, differentiable in the parameters."""

    @abc.abstractmethod
    def log_prob(self, key: PRNGKeyArray, x: Float[Array, " dim"], num_aux: int) -> tuple[Scalar, Scalar]:
        """An estimate of log q(x) from `num_aux` auxiliary draws, and its standard error."""
