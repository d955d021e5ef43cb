"""The two layers of a semi-implicit family, and the family itself.

Everything here is about one draw, and callers vectorise; only noise comes, as in `jax.random`, in any shape, since
one large draw is cheaper than many small ones.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .._random import noise_is_together, normals
from .._types import Scalar


def normal_noise(key: PRNGKeyArray, shape: tuple[int, ...], dim: int) -> Float[Array, "*shape dim"]:
    """Standard normal noise of one draw, which is that of `jax.random.normal`, or of many, which costs less."""
    if shape and noise_is_together():
        return normals(key, (*shape, dim))[0]
    return jax.random.normal(key, (*shape, dim), float)


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
        shared: Names of the fields that do not depend on z.
    """

    mean: eqx.AbstractVar[Float[Array, " dim"]]
    shared: ClassVar[tuple[str, ...]] = ()

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

    def log_prob_pairs(self, x: Float[Array, "n dim"]) -> Float[Array, "n components"]:
        """log q(x_i|z_j) of every pair, where `self` stands for many z, as in `Components`.

        A distribution for which all pairs are products of matrices overrides this.
        """
        axes = _axes(self)
        return jax.vmap(lambda point: jax.vmap(lambda at: at.log_prob(point), in_axes=(axes,))(self))(x)

    def weighted_score(self, x: Float[Array, "n dim"], weights: Float[Array, "n components"]) -> Float[Array, "n dim"]:
        """Σ_j w_ij ∇log q(x_i|z_j), where `self` stands for many z: the score of a mixture, for its weights at x_i.

        A distribution for which this is a product of matrices overrides it.
        """
        axes = _axes(self)

        def one(point: Float[Array, " dim"], weights: Float[Array, " components"]) -> Float[Array, " dim"]:
            return weights @ jax.vmap(lambda at: at.score(point), in_axes=(axes,))(self)

        return jax.vmap(one)(x, weights)


class Components(eqx.Module):
    """q(·|z_j) at many z: the components of a mixture.

    Attributes:
        stacked: One distribution for all of them, whose arrays have a leading axis; those of its `shared` fields have
            none.
    """

    stacked: ConditionalDistribution

    def first(self, num: int) -> "Components":
        """The first `num` components."""
        axes = _axes(self.stacked)
        return Components(
            jax.tree.map(
                lambda axis, leaf: leaf if axis is None else leaf[:num],
                axes,
                self.stacked,
                is_leaf=lambda axis: axis is None,
            )
        )

    def transform(self, eps: Float[Array, "components dim"]) -> Float[Array, "components dim"]:
        """One draw of each, from its own noise."""
        return jax.vmap(lambda at, eps: at.transform(eps), in_axes=(_axes(self.stacked), 0))(self.stacked, eps)

    def score_at(self, eps: Float[Array, "components dim"]) -> Float[Array, "components dim"]:
        """The score of each at the draw of its own noise."""
        return jax.vmap(lambda at, eps: at.score_at(eps), in_axes=(_axes(self.stacked), 0))(self.stacked, eps)

    def log_prob(self, x: Float[Array, "components dim"]) -> Float[Array, " components"]:
        """log q(x_j|z_j): of each at its own point."""
        return jax.vmap(lambda at, x: at.log_prob(x), in_axes=(_axes(self.stacked), 0))(self.stacked, x)

    def log_prob_pairs(self, x: Float[Array, "n dim"]) -> Float[Array, "n components"]:
        """log q(x_i|z_j) of every pair."""
        return self.stacked.log_prob_pairs(x)

    def weighted_score(self, x: Float[Array, "n dim"], weights: Float[Array, "n components"]) -> Float[Array, "n dim"]:
        """Σ_j w_ij ∇log q(x_i|z_j)."""
        return self.stacked.weighted_score(x, weights)


def _axes(stacked: ConditionalDistribution) -> PyTree:
    """The axis of the components in every array: 0, or None where all share it."""
    axes = jax.tree.map(lambda _: 0, stacked)
    if not stacked.shared:
        return axes
    nothing = [jax.tree.map(lambda _: None, getattr(axes, name)) for name in stacked.shared]
    return eqx.tree_at(lambda at: [getattr(at, name) for name in stacked.shared], axes, nothing)


class Conditional(eqx.Module):
    """The conditional layer q(x|z): explicit, reparameterised."""

    latent_dim: eqx.AbstractVar[int]
    dim: eqx.AbstractVar[int]

    @property
    def normal_noise_dim(self) -> int | None:
        """Length of the noise if `sample_noise` draws standard normals from the key as it is; None otherwise."""
        return None

    @property
    def varying_scale(self) -> bool:
        """Whether the width of q(x|z) depends on z."""
        return False

    @abc.abstractmethod
    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape dim"]:
        """The noise eps, from a distribution without parameters: one draw, or as many as `shape` says."""

    @abc.abstractmethod
    def at(self, z: Float[Array, " latent"]) -> ConditionalDistribution:
        """q(·|z)."""

    def at_each(self, z: Float[Array, "components latent"]) -> Components:
        """q(·|z_j) for many z."""
        axes = _axes(eqx.filter_eval_shape(self.at, z[0]))
        return Components(jax.vmap(self.at, out_axes=axes)(z))


class Family(eqx.Module):
    """A variational family: something with parameters that can be sampled by reparameterisation."""

    dim: eqx.AbstractVar[int]

    @property
    def varying_scale(self) -> bool:
        """Whether the width of q(x|z) depends on z, which a critic does not follow."""
        return False

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """One draw, differentiable in the parameters."""

    @abc.abstractmethod
    def log_prob(self, key: PRNGKeyArray, x: Float[Array, " dim"], num_aux: int) -> tuple[Scalar, Scalar]:
        """An estimate of log q(x) from `num_aux` auxiliary draws, and its standard error."""
