"""What a network's outputs say of the targets: normal or Student-t noise, or classes.

Everything is in the units of the stored data, and for many rows at once, which lie along the last axis: so the outputs
of a network are one matrix for all rows, and nothing is transposed.
"""

import abc
import math
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from .._types import Scalar


class OutputLikelihood(eqx.Module):
    """p(y | outputs of the network), row by row.

    Attributes:
        num_outputs: Outputs of the network for one row.
        has_noise: Whether there is a noise precision γ; without one it is not looked at.
    """

    num_outputs: eqx.AbstractVar[int]
    has_noise: ClassVar[bool] = True

    @abc.abstractmethod
    def log_densities(
        self, outputs: Float[Array, "outputs n"], targets: Num[Array, " n"], noise_precision: Scalar
    ) -> Float[Array, " n"]:
        """log p(y_n | outputs_n)."""

    @abc.abstractmethod
    def sample(
        self, key: PRNGKeyArray, outputs: Float[Array, "outputs n"], noise_precision: Scalar
    ) -> Num[Array, " n"]:
        """New targets."""

    @abc.abstractmethod
    def mean(self, outputs: Float[Array, "outputs n"]) -> Float[Array, "n *classes"]:
        """The mean of the targets, or the probabilities of the classes."""

    @abc.abstractmethod
    def functions(self, outputs: Float[Array, "outputs n"]) -> Float[Array, "functions n"]:
        """The outputs as far as the likelihood depends on them."""


@final
class NormalNoise(OutputLikelihood):
    """y = f(x) + e with e ~ N(0, 1/γ)."""

    num_outputs: int = eqx.field(static=True, default=1)

    def log_densities(
        self, outputs: Float[Array, "outputs n"], targets: Float[Array, " n"], noise_precision: Scalar
    ) -> Float[Array, " n"]:
        log_scale = 0.5 * (jnp.log(noise_precision) - math.log(2.0 * math.pi))
        return log_scale - 0.5 * noise_precision * (targets - outputs[0]) ** 2

    def sample(
        self, key: PRNGKeyArray, outputs: Float[Array, "outputs n"], noise_precision: Scalar
    ) -> Float[Array, " n"]:
        noise = jax.random.normal(key, outputs[0].shape, outputs.dtype)
        return outputs[0] + noise / jnp.sqrt(noise_precision)

    def mean(self, outputs: Float[Array, "outputs n"]) -> Float[Array, " n"]:
        return outputs[0]

    def functions(self, outputs: Float[Array, "outputs n"]) -> Float[Array, "functions n"]:
        return outputs


@final
class StudentTNoise(OutputLikelihood):
    """y = f(x) + t/√γ, where t has a Student-t distribution: γ is the precision of its scale."""

    degrees_of_freedom: float = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True, default=1)

    def log_densities(
        self, outputs: Float[Array, "outputs n"], targets: Float[Array, " n"], noise_precision: Scalar
    ) -> Float[Array, " n"]:
        df = self.degrees_of_freedom
        constant = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
        squares = noise_precision * (targets - outputs[0]) ** 2 / df
        return constant + 0.5 * jnp.log(noise_precision) - 0.5 * (df + 1.0) * jnp.log1p(squares)

    def sample(
        self, key: PRNGKeyArray, outputs: Float[Array, "outputs n"], noise_precision: Scalar
    ) -> Float[Array, " n"]:
        noise = jax.random.t(key, self.degrees_of_freedom, outputs[0].shape, outputs.dtype)
        return outputs[0] + noise / jnp.sqrt(noise_precision)

    def mean(self, outputs: Float[Array, "outputs n"]) -> Float[Array, " n"]:
        return outputs[0]

    def functions(self, outputs: Float[Array, "outputs n"]) -> Float[Array, "functions n"]:
        return outputs


@final
class Classes(OutputLikelihood):
    """P(y = k) = exp(f_k(x)) / Σ_j exp(f_j(x))."""

    num_outputs: int = eqx.field(static=True)
    has_noise: ClassVar[bool] = False

    def log_densities(
        self, outputs: Float[Array, "outputs n"], targets: Int[Array, " n"], noise_precision: Scalar
    ) -> Float[Array, " n"]:
        # A comparison in place of an index keeps scatters out of the derivative. A label that is no class has none.
        log_p = jax.nn.log_softmax(outputs, axis=0)
        chosen = jnp.arange(self.num_outputs)[:, None] == targets
        is_class = (targets >= 0) & (targets < self.num_outputs)
        return jnp.where(is_class, jnp.sum(jnp.where(chosen, log_p, 0.0), axis=0), -jnp.inf)

    def sample(
        self, key: PRNGKeyArray, outputs: Float[Array, "outputs n"], noise_precision: Scalar
    ) -> Int[Array, " n"]:
        return jax.random.categorical(key, outputs, axis=0).astype(jnp.int32)

    def mean(self, outputs: Float[Array, "outputs n"]) -> Float[Array, "n classes"]:
        return jax.nn.softmax(outputs, axis=0).T

    def functions(self, outputs: Float[Array, "outputs n"]) -> Float[Array, "functions n"]:
        """Log probabilities without their mean over the classes; the last, minus the sum of the others, is left out."""
        return (outputs - jnp.mean(outputs, axis=0))[:-1]
