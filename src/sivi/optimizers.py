"""Optimiser settings that can be stored in a fit file.

Objectives take one of these or any Optax transform. The difference: these are known by name and value,
so a saved fit can be resumed without giving them again, and schedules in them follow the run's length.
"""

import abc
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int, PyTree

from ._arguments import describe
from ._fields import positive_field, share_field
from .schedules import RunLike, Schedule, as_positive_schedule


class Optimizer(eqx.Module):
    """Settings from which an Optax transform is built."""

    @abc.abstractmethod
    def build(self) -> optax.GradientTransformation:
        """The Optax transform."""

    @abc.abstractmethod
    def bind(self, run: RunLike) -> "Optimizer":
        """These settings for a run: a number of updates, a `Timeline` or a `RunPlan`."""


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015).

    Args:
        learning_rate: A number or a `sivi.schedules.Schedule`.
        b1: Decay of the first moment.
        b2: Decay of the second moment.
        eps: Added to the root of the second moment.

    Example:
        >>> from sivi.schedules import StepDecay
        >>> optimizer = Adam(StepDecay(1e-3, factor=0.9, every=1000), b2=0.99)
    """

    learning_rate: Schedule = eqx.field(converter=partial(as_positive_schedule, name="learning_rate"))
    b1: float = share_field("b1", 0.9)
    b2: float = share_field("b2", 0.999)
    eps: float = positive_field("eps", 1e-8)

    def bind(self, run: RunLike) -> "Adam":
        return Adam(self.learning_rate.bind(run), self.b1, self.b2, self.eps)

    def build(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, self.b1, self.b2, self.eps)


class RMSProp(Optimizer):
    """RMSProp (Tieleman and Hinton, 2012), without momentum.

    Args:
        learning_rate: A number or a `sivi.schedules.Schedule`.
        decay: Of the average of squared gradients, which starts at zero.
        eps: Added to the root of that average.

    Example:
        >>> optimizer = RMSProp(1e-3, decay=0.9, eps=1.0)
    """

    learning_rate: Schedule = eqx.field(converter=partial(as_positive_schedule, name="learning_rate"))
    decay: float = share_field("decay", 0.9)
    eps: float = positive_field("eps", 1e-8)

    def bind(self, run: RunLike) -> "RMSProp":
        return RMSProp(self.learning_rate.bind(run), self.decay, self.eps)

    def build(self) -> optax.GradientTransformation:
        return optax.rmsprop(self.learning_rate, self.decay, self.eps, eps_in_sqrt=False)


class AdaGrad(Optimizer):
    """AdaGrad (Duchi, Hazan and Singer, 2011) with an average in place of the sum of squared gradients.

    This is how Stein variational gradient descent is run: a₁ = g₁², a_t = decay · a_{t−1} + (1 − decay) · g_t², and the
    step is learning_rate · g_t / (√a_t + eps). A sum would let the steps fade before the particles are in place. Unlike
    that of `RMSProp`, the average starts at the first squared gradient, and the first step has length `learning_rate`.

    Args:
        learning_rate: A number or a `sivi.schedules.Schedule`.
        decay: Of the average.
        eps: Added to the root of the average.

    Example:
        >>> optimizer = AdaGrad(0.05)
    """

    learning_rate: Schedule = eqx.field(converter=partial(as_positive_schedule, name="learning_rate"))
    decay: float = share_field("decay", 0.9)
    eps: float = positive_field("eps", 1e-6)

    def bind(self, run: RunLike) -> "AdaGrad":
        return AdaGrad(self.learning_rate.bind(run), self.decay, self.eps)

    def build(self) -> optax.GradientTransformation:
        scale = _scale_by_average_of_squares(self.decay, self.eps)
        return optax.chain(scale, optax.scale_by_learning_rate(self.learning_rate))


class _AverageOfSquares(NamedTuple):
    """The average of squared gradients, and how many it is of."""

    count: Int[Array, ""]
    average: PyTree


def _scale_by_average_of_squares(decay: float, eps: float) -> optax.GradientTransformation:
    """Divide by the root of an average that starts at the first squared gradient."""

    def init(params: PyTree) -> _AverageOfSquares:
        return _AverageOfSquares(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        kept = jnp.where(state.count == 0, 0.0, decay)
        average = jax.tree.map(lambda a, g: (kept * a + (1.0 - kept) * g**2).astype(g.dtype), state.average, updates)
        scaled = jax.tree.map(lambda g, a: g / (jnp.sqrt(a) + eps), updates, average)
        return scaled, _AverageOfSquares(optax.safe_increment(state.count), average)

    return optax.GradientTransformation(init, update)


OptimizerLike = Optimizer | optax.GradientTransformation


def check_optimizer(name: str, optimizer: object) -> OptimizerLike:
    """`optimizer` itself; anything that is neither settings of this module nor an Optax transform is refused."""
    if not isinstance(optimizer, (Optimizer, optax.GradientTransformation)):
        raise TypeError(f"{name} must be a sivi.optimizers.Optimizer or an Optax transform; got {describe(optimizer)}.")
    return optimizer


def optimizer_field(name: str, default: Optimizer) -> Any:
    """The field of a module that holds an optimiser."""
    return eqx.field(converter=partial(check_optimizer, name), default=default)


def bind(optimizer: OptimizerLike, run: RunLike) -> OptimizerLike:
    """`optimizer` for a run; an Optax transform stays as it is."""
    return optimizer.bind(run) if isinstance(optimizer, Optimizer) else optimizer


def init(optimizer: OptimizerLike, module: PyTree) -> PyTree:
    """The optimiser's state for the floating-point arrays of a module."""
    params = eqx.filter(module, eqx.is_inexact_array)
    if isinstance(optimizer, Optimizer):
        return optimizer.build().init(ravel_pytree(params)[0])
    return optimizer.init(params)


def update(optimizer: OptimizerLike, grads: PyTree, state: PyTree, module: PyTree) -> tuple[PyTree, PyTree]:
    """One descent step: the module and the optimiser's state after it.

    The optimisers of this module act on each number alone, so they see one long vector: one operation where there was
    one for every array.
    """
    params, rest = eqx.partition(module, eqx.is_inexact_array)
    if not isinstance(optimizer, Optimizer):
        updates, state = optimizer.update(grads, state, params)
        return eqx.apply_updates(module, updates), state
    vector, unravel = ravel_pytree(params)
    updates, state = optimizer.build().update(ravel_pytree(grads)[0], state, vector)
    return eqx.combine(unravel(optax.apply_updates(vector, updates)), rest), state
