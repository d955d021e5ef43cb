"""What a callback of a fit receives, and what its answer means."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import PyTree

from .._repeats import member_of
from .._run import Run
from ..coordinates import CoordinateMap
from ..families import Family
from ..objectives import Objective
from ..posterior import Posterior
from ..schedules import RunPlan
from ..targets import Target
from ..targets.whitened import in_fit_coordinates


@dataclass(frozen=True)
class FitReport:
    """What a callback receives after every chunk.

    With repeats, the arrays of `family`, `state` and the metrics have a leading axis for them, and `target` is None.

    Attributes:
        step: Updates done so far.
        num_steps: Updates asked for.
        family: The family now, in the coordinates u in which it is fitted.
        state: The objective's state now; its critic, as a function of u, is
            `objective.critic_function(state, target, family)`.
        objective: The objective, bound to this run.
        target: The target in the same coordinates.
        metrics: Every metric over the last chunk, one value per update.
        posterior: A function without arguments: the posterior so far.
    """

    step: int
    num_steps: int
    family: Family
    state: PyTree
    objective: Objective
    target: Target | None
    metrics: dict[str, np.ndarray]
    posterior: Callable[[], Posterior]


Callback = Callable[[FitReport], object]


def report_of(
    run: Run,
    target: Target,
    affine: CoordinateMap,
    metrics: dict[str, np.ndarray],
    posterior: Callable[[], Posterior],
) -> FitReport:
    """The report after a chunk."""
    settings, parts, own_target = run.settings, (run.state.families, run.state.states), None
    if settings.repeats == 1:
        parts, own_target = member_of(parts, 0), in_fit_coordinates(target, member_of(affine, 0))
    objective = settings.objective.bind(RunPlan.of(settings.num_steps, settings.batching))
    return FitReport(run.step, settings.num_steps, *parts, objective, own_target, metrics, posterior)


def is_true(answer: object) -> bool:
    """Whether a callback returned a true boolean, of Python, NumPy or JAX. Numbers and text do not count."""
    array = np.asarray(answer)
    return array.dtype == np.bool_ and array.shape == () and bool(array)
