"""How a family is fitted: the interface of every method."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .. import optimizers
from .._errors import MissingLogProb
from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..optimizers import OptimizerLike
from ..schedules import RunLike
from ..targets import Target

#: Base noise of several draws: of the mixing layer and of the conditional.
Noise = tuple[Float[Array, "... noise"], Float[Array, "... dim"]]


class Objective(eqx.Module):
    """A method: it owns its optimisers and auxiliary networks, and knows how to make one update.

    `fit` calls `bind` for every length of the run: before it starts, and inside the compiled loop, where a stop rule
    may have shortened it. It calls `check` before the warm-up and before anything compiles, `init` once, and `step`
    inside the compiled loop.

    `init` and `step` make a method. `bind`, `check` and `critic_function` are for methods that have schedules, that
    need more than a score, or that have a critic.
    """

    def bind(self, plan: RunLike) -> "Objective":
        """This objective for a run, so that schedules can be relative to it.

        Args:
            plan: A `sivi.schedules.RunPlan`: how long the run is, and how minibatches follow each other. A number of
                updates stands for a plan with `batching="shuffle"`.
        """
        return self

    def check(self, family: Family, target: Target) -> None:
        """Refuse, with a sentence, a family or target that lacks what this objective needs.

        Their arrays may be shapes only: to try what needs values, use `equinox.filter_eval_shape`.
        """

    def critic_function(
        self, state: Any, target: Target, family: Family | None = None
    ) -> Callable[[Array], Array] | None:
        """The critic of a state as a function of one point; None for a method without a critic.

        A critic that reads the family's parameters needs the family too.
        """
        return None

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, family: Family, target: Target) -> PyTree:
        """The state carried between updates: optimisers, critics, counters."""

    @abc.abstractmethod
    def step(
        self,
        key: PRNGKeyArray,
        family: Any,
        state: Any,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[Any, Any, Metrics]:
        """One update: the new family, the new state, and scalars to record."""


class LossState(eqx.Module):
    """State of a `LossObjective`."""

    optimizer: PyTree


class LossObjective(Objective):
    """An objective whose update descends one differentiable loss of the family."""

    optimizer: eqx.AbstractVar[OptimizerLike]

    @abc.abstractmethod
    def loss(
        self, key: PRNGKeyArray, family: Any, target: Target, batch: Int[Array, " batch"] | None
    ) -> tuple[Scalar, Metrics]:
        """The stochastic loss and other scalars to record."""

    def bind(self, plan: RunLike) -> "LossObjective":
        return replace_fields(self, optimizer=optimizers.bind(self.optimizer, plan))

    def init(self, key: PRNGKeyArray, family: Family, target: Target) -> LossState:
        return LossState(optimizers.init(self.optimizer, family))

    def step(
        self,
        key: PRNGKeyArray,
        family: Any,
        state: LossState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[Any, LossState, Metrics]:
        def loss_of(family: Any) -> tuple[Scalar, Metrics]:
            return self.loss(key, family, target, batch)

        (loss, metrics), grads = eqx.filter_value_and_grad(loss_of, has_aux=True)(family)
        family, optimizer = optimizers.update(self.optimizer, grads, state.optimizer, family)
        return family, LossState(optimizer), {"loss": loss, **metrics}


_Module = TypeVar("_Module", bound=eqx.Module)


def replace_fields(module: _Module, **changes: Any) -> _Module:
    """A copy of a module with some fields changed; unlike `dataclasses.replace` it does not call `__init__`."""
    copy = object.__new__(type(module))
    for field in dataclasses.fields(module):  # pyright: ignore[reportArgumentType]
        object.__setattr__(copy, field.name, changes.get(field.name, getattr(module, field.name)))
    return copy


def check_score_derivative(objective: Objective, target: Target) -> None:
    """Refuse a target whose score cannot be differentiated (a callback without a derivative, say)."""

    def derivative(target: Target) -> Array:
        x = jnp.zeros(target.dim, float)
        batch = None if target.num_data is None else jnp.zeros(1, int)
        return jax.vjp(lambda y: target.score(y, batch), x)[1](x)[0]

    try:
        eqx.filter_eval_shape(derivative, target)
    except Exception as error:
        raise TypeError(
            f"{type(objective).__name__} differentiates the target's score, and this target's has no derivative "
            f"in JAX: {type(error).__name__}: {error}"
        ) from error


def check_log_prob(objective: Objective, target: Target) -> None:
    """Refuse a target that knows only its score."""
    if not target.knows_log_prob:
        # A target that wraps another names the one that lacks it.
        while isinstance(inner := getattr(target, "target", None), Target) and not inner.knows_log_prob:
            target = inner
        raise MissingLogProb(
            f"{type(objective).__name__} needs the target's log density, and {type(target).__name__} knows only its "
            "score; give the log density instead, or use an objective that needs the score alone, such as PathKL."
        )


def check_semi_implicit(objective: Objective, family: Family) -> None:
    """Refuse a family without the two layers that every semi-implicit method works with."""
    if not isinstance(family, SemiImplicit):
        raise TypeError(
            f"{type(objective).__name__} needs a SemiImplicit family, with a mixing layer and a conditional; "
            f"got {type(family).__name__}."
        )


def check_mixing_density(objective: Objective, family: SemiImplicit) -> None:
    """Refuse layers for which the density of the mixing noise given x cannot be differentiated in the noise."""

    def gradient(family: SemiImplicit) -> Array:
        x = jnp.zeros(family.dim, float)

        def log_density(noise: Array) -> Array:
            z = family.mixing.transform(noise)
            return family.mixing.noise_log_prob(noise) + family.conditional.at(z).log_prob(x)

        return jax.grad(log_density)(family.mixing.sample_noise(jax.random.key(0)))

    try:
        eqx.filter_eval_shape(gradient, family)
    except Exception as error:
        raise TypeError(
            f"{type(objective).__name__} needs the density of the mixing noise given x and its gradient, and "
            f"{type(family.mixing).__name__} with {type(family.conditional).__name__} has none in JAX: "
            f"{type(error).__name__}: {error}"
        ) from error
