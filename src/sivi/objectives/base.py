"""How a family is fitted: the interface of every method."""

import abc
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from .. import optimizers
from .._renamed import OBJECTIVE, old_names
from .._types import Metrics, Scalar
from ..families import Family
from ..optimizers import OptimizerLike
from ..schedules import RunLike, replace_fields
from ..targets import Target

#: Base noise of several draws: of the mixing layer and of the conditional.
Noise = tuple[Float[Array, "... noise"], Float[Array, "... dim"]]


class Curve(NamedTuple):
    """What a recorded metric is, and what its curve over the updates of a good run looks like.

    Attributes:
        label: What it is, for an axis.
        good: A few words under the plot, such as "falls, then flat".

    Example:
        >>> Curve("minus ELBO", "falls, then flat").label
        'minus ELBO'
    """

    label: str
    good: str


class Objective(eqx.Module):
    """A method: it owns its optimisers and auxiliary networks, and knows how to make one update.

    `fit` calls `bind` for every length of the run: before it starts, and inside the compiled loop, where a stop rule
    may have shortened it. It calls `check` before the warm-up and before anything compiles, `init` once, and `step`
    inside the compiled loop.

    `init` and `step` make a method. `bind`, `check` and `critic_function` are for methods that have schedules, that
    need more than a score, or that have a critic; `curves` is for plots.
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

    def curves(self, recorded: Collection[str]) -> dict[str, Curve]:
        """What the recorded metrics are, and how they look in a good run; of metrics that need no word, nothing.

        Args:
            recorded: The names of the metrics that a run has recorded, which may depend on its target.
        """
        return {"loss": Curve("loss", "falls, then flat")}

    if not TYPE_CHECKING:
        __getattr__ = old_names(OBJECTIVE)

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


def bound_of_target(metrics: Metrics, is_target: Bool[Array, ""]) -> Metrics:
    """The metrics of an update on the way to the target: its `negative_elbo` is not a number before that is reached."""
    if "negative_elbo" not in metrics:
        return metrics
    return {**metrics, "negative_elbo": jnp.where(is_target, metrics["negative_elbo"], jnp.nan)}


def on_the_way(curves: dict[str, Curve], what: str) -> dict[str, Curve]:
    """The curves of a method whose target changes: so does the meaning of its loss."""
    loss = curves.get("loss")
    return curves if loss is None else curves | {"loss": Curve(loss.label, f"{loss.good} ({what})")}


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
