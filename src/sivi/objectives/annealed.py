"""Annealing as a wrapper of any objective."""

from collections.abc import Callable, Collection
from dataclasses import KW_ONLY
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from .._fields import flag_field, module_field, optional_module_field
from .._types import Metrics, Scalar
from ..families import Family
from ..schedules import Ramp, RunLike, Schedule, as_share_schedule, replace_fields
from ..targets import Target, Tempered
from .base import Curve, Objective, bound_of_target, on_the_way


def _as_schedule(value: float | Schedule) -> Schedule:
    schedule = as_share_schedule(value, "schedule", "β, the power of the target")
    if schedule.bounds is not None and not schedule.bounds[1] > 0.0:
        raise ValueError(f"schedule must lead β up, to 1 for your target; got {schedule.bounds[1]} all the time.")
    return schedule


class AnnealedState(eqx.Module):
    """State of `Annealed`: the updates done, β so far, and the wrapped objective's state."""

    step: Int[Array, ""]
    beta: Scalar
    inner: PyTree


class Annealed(Objective):
    """Fit p^β, or p^β · base^(1−β), with β moving to 1 along a schedule.

    β is recorded in the history: until it is 1, the fit is to another target than yours. It never falls, so that a
    finished fit that is resumed with more updates, for which the schedule is longer, does not go back on the path.

    Args:
        objective: What is annealed.
        schedule: β_t; the paper's experiments used min(1, 0.1 + t/(T/2)), the default.
        base: Start of the geometric path; None tempers p alone.
        every_round: Whether β starts anew with every round of `sivi.Doubling`, so that modes can change their weights.

    Example:
        >>> from sivi.objectives import ScoreMatching
        >>> objective = Annealed(ScoreMatching())
    """

    objective: Objective = module_field("objective", Objective, "a sivi objective")
    schedule: Schedule = eqx.field(converter=_as_schedule, default=Ramp())
    base: Target | None = optional_module_field("base", Target, "a sivi target")
    _: KW_ONLY
    every_round: bool = flag_field("every_round", False)

    def bind(self, plan: RunLike) -> "Annealed":
        return replace_fields(self, objective=self.objective.bind(plan), schedule=self.schedule.bind(plan))

    def check(self, family: Family, target: Target) -> None:
        if self.base is not None and self.base.dim != target.dim:
            raise ValueError(f"base must have the target's dim, {target.dim}; got {self.base.dim}.")
        eqx.filter_eval_shape(self.schedule, 0)  # whether it can be called; which β it gives does not matter here
        self.objective.check(family, Tempered(target, jnp.asarray(np.ones((), np.float32)), self.base))

    def critic_function(
        self, state: AnnealedState, target: Target, family: Family | None = None
    ) -> Callable[[Array], Array] | None:
        return self.objective.critic_function(state.inner, Tempered(target, state.beta, self.base), family)

    def curves(self, recorded: Collection[str]) -> dict[str, Curve]:
        found = on_the_way(self.objective.curves(recorded), "β < 1: of another target")
        return found | {"beta": Curve("β", "reaches 1 well before the end of a round, and stays there")}

    def init(self, key: PRNGKeyArray, family: Family, target: Target) -> AnnealedState:
        beta = self.schedule(0)
        inner = self.objective.init(key, family, Tempered(target, beta, self.base))
        return AnnealedState(jnp.zeros((), jnp.int32), beta, inner)

    def step(
        self,
        key: PRNGKeyArray,
        family: Any,
        state: AnnealedState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[Any, AnnealedState, Metrics]:
        beta = self.schedule(state.step)
        if not self.every_round:
            beta = jnp.maximum(state.beta, beta)
        tempered = Tempered(target, beta, self.base)
        family, inner, metrics = self.objective.step(key, family, state.inner, tempered, batch)
        return (
            family,
            AnnealedState(state.step + 1, beta, inner),
            {**bound_of_target(metrics, beta >= 1.0), "beta": beta},
        )
