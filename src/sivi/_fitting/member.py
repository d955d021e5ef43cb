"""One repeat of a fit: the state it starts with, and one update of it."""

import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._batches import Batches
from .._types import Metrics
from ..coordinates import CoordinateMap
from ..families import Family
from ..objectives import Objective
from ..targets import Target
from ..targets.evaluate import values_at
from ..targets.whitened import in_fit_coordinates


def points_of(affine: CoordinateMap, u: Float[Array, "points dim"]) -> Float[Array, "points dim"]:
    """Points u in the coordinates of the target."""
    return values_at(affine.forward, u, affine.numbers_per_point)


def scores_in_u(
    affine: CoordinateMap, u: Float[Array, "points dim"], scores: Float[Array, "points dim"]
) -> Float[Array, "points dim"]:
    """Scores of the target at points u, in the coordinates of the fit."""
    return values_at(lambda pair: affine.score_at(*pair), (u, scores), affine.numbers_per_point)


def draws_of(num: int, family: Family, key: PRNGKeyArray) -> Float[Array, "points dim"]:
    """Draws of a family, in the coordinates of the fit."""
    return jax.vmap(family.sample)(jax.random.split(key, num))


def score_at_centre(target: Target, affine: CoordinateMap) -> Float[Array, " dim"]:
    """The score on all data at the centre of the coordinates: the control variate of minibatches."""
    return target.score(affine.mean)


def initial_state(
    objective: Objective, target: Target, key: PRNGKeyArray, family: Family, affine: CoordinateMap
) -> PyTree:
    """The objective's state at update zero."""
    return objective.init(key, family, in_fit_coordinates(target, affine))


def update(
    step: Int[Array, ""],
    objective: Objective,
    target: Target,
    family: Family,
    state: PyTree,
    affine: CoordinateMap,
    key: PRNGKeyArray,
    batch: tuple[Batches, Int[Array, " num_data"]] | None,
    centre_score: Float[Array, " dim"] | None,
) -> tuple[Family, PyTree, Metrics]:
    """One update: the family, the objective's state and the metrics after it, finite or not."""
    target = in_fit_coordinates(target, affine, centre_score)
    rows = None if batch is None else batch[0].batch(step, batch[1])
    return objective.step(jax.random.fold_in(key, step), family, state, target, rows)
