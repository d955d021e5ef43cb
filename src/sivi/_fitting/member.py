"""One repeat of a fit: the state it starts with, and one update of it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from .._batches import Batches
from .._types import Metrics
from ..coordinates import AffineMap
from ..families import Family
from ..objectives import Objective
from ..targets import Target
from ..targets.whitened import in_fit_coordinates


def points_of(affine: AffineMap, u: Float[Array, "points dim"]) -> Float[Array, "points dim"]:
    """Points u in the coordinates of the target."""
    return jax.vmap(affine.forward)(u)


def draws_of(num: int, family: Family, affine: AffineMap, key: PRNGKeyArray) -> Float[Array, "points dim"]:
    """Draws of a family, in the coordinates of the target."""
    return jax.vmap(lambda k: affine.forward(family.sample(k)))(jax.random.split(key, num))


def score_at_centre(target: Target, affine: AffineMap) -> Float[Array, " dim"]:
    """The score on all data at the centre of the coordinates: the control variate of minibatches."""
    return target.score(affine.mean)


def initial_state(objective: Objective, target: Target, key: PRNGKeyArray, family: Family, affine: AffineMap) -> PyTree:
    """The objective's state at update zero."""
    return objective.init(key, family, in_fit_coordinates(target, affine))


def update(
    step: Int[Array, ""],
    objective: Objective,
    target: Target,
    family: Family,
    state: PyTree,
    skipped: Int[Array, ""],
    streak: Int[Array, ""],
    affine: AffineMap,
    key: PRNGKeyArray,
    batch: tuple[Batches, Int[Array, " num_data"]] | None,
    centre_score: Float[Array, " dim"] | None,
) -> tuple[Family, PyTree, Int[Array, ""], Int[Array, ""], Metrics]:
    """One update: the family, the objective's state, the two counts of skipped updates, and the metrics.

    An update that is not finite is skipped: the family and the state stay as they were.
    """
    target = in_fit_coordinates(target, affine, centre_score)
    rows = None if batch is None else batch[0].batch(step, batch[1])
    before = (family, state)
    *after, metrics = objective.step(jax.random.fold_in(key, step), family, state, target, rows)
    after = tuple(after)
    finite = _all_finite(after)
    kept = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old),
        *(eqx.filter(pair, eqx.is_array) for pair in (after, before)),
    )
    family, state = eqx.combine(kept, eqx.filter(after, eqx.is_array, inverse=True))
    return family, state, skipped + ~finite, jnp.where(finite, 0, streak + 1), metrics


def _all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether all numbers are finite: their sum is, short of an overflow near 10³⁸."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.isfinite(sum(jnp.sum(leaf) for leaf in leaves))
