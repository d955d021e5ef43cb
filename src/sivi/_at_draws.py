"""What a target says at draws of its unknowns: derived quantities, log likelihoods, new data, predictions."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ._errors import MissingFromModel
from ._layout import Layout
from ._programs import compiled
from .targets import BayesianModel, HasObservations, Target
from .targets.base import innermost
from .targets.evaluate import rows_of, values_at


@compiled
def derived_at(target: Target, points: Float[Array, "n dim"]) -> dict[str, Array]:
    """The derived quantities of a target by name, with a leading axis of points."""
    return values_at(target.derived, points, rows_of(target))


def with_derived(layout: Layout, draws: PyTree, derived: Mapping[str, Any]) -> dict[str, Any]:
    """Draws in the structure of a layout as a dict, and derived quantities beside them.

    A dict gets more keys; of another structure, such as a vector, the variables stand in it by their dotted names.
    """
    if not isinstance(draws, dict):
        draws = dict(zip(layout.names, layout.leaves(draws), strict=True))
    twice = sorted({*draws, *layout.names} & derived.keys())
    if twice:
        raise ValueError(f"a derived quantity must not have the name of a variable; got two called {twice[0]!r}.")
    return {**draws, **derived}


def observing(target: Target, points: Float[Array, "n dim"]) -> tuple[HasObservations, Float[Array, "n dim"]] | None:
    """The target with observations inside all wrappers, and its points; None if there is none."""
    inner, points = innermost(target, points)
    return (inner, points) if isinstance(inner, HasObservations) else None


def replicates_at(target: Target, key: PRNGKeyArray, points: Float[Array, "n dim"]) -> dict[str, Array]:
    """New observations at every point, by name."""
    found = observing(target, points)
    if found is None:
        raise MissingFromModel(
            "predictive needs a target with observations, such as a sivi.model with sample_datum; "
            f"got {type(innermost(target, points)[0]).__name__}."
        )
    inner, points = found
    return inner.replicates(key, points)


def predictions_at(target: Target, points: Float[Array, "n dim"], inputs: Any) -> PyTree:
    """What the model's `predict` says of new inputs, with a leading axis of points."""
    inner, points = innermost(target, points)
    if not isinstance(inner, BayesianModel):
        raise MissingFromModel(
            f"predict needs a model with a predict function, such as sivi.model(..., predict=); "
            f"got {type(inner).__name__}."
        )
    rows = inner.rows_of_inputs(inputs)
    if rows is not None:
        return _predictions(inner, points, rows, inner.predict_rows.__name__)
    return _predictions(inner, points, jax.tree.map(_as_array, _without_lists(inputs)), inner.predict.__name__)


@compiled
def _predictions(model: BayesianModel, points: Float[Array, "n dim"], inputs: PyTree, method: str) -> PyTree:
    def one(x: Float[Array, " dim"]) -> PyTree:
        return jax.tree.map(jnp.asarray, getattr(model, method)(model.point(x), inputs))

    # A block of points counts the numbers of its results like rows of data.
    results = jax.tree.leaves(jax.eval_shape(one, points[0]))
    numbers = max((leaf.size for leaf in (*results, *jax.tree.leaves(inputs)) if hasattr(leaf, "size")), default=1)
    return values_at(one, points, max(numbers, 1))


def _without_lists(inputs: Any) -> Any:
    """A list of numbers as an array: JAX would take it for a tree of as many."""
    return np.asarray(inputs) if isinstance(inputs, list) else inputs


def _as_array(leaf: Any) -> Any:
    """Arrays of other libraries as JAX's; what is no array stays as it is."""
    return jnp.asarray(np.asarray(leaf)) if hasattr(leaf, "__array__") and not isinstance(leaf, jax.Array) else leaf


@compiled
def log_likelihoods_at(target: HasObservations, points: Float[Array, "n dim"]) -> dict[str, Array]:
    """The log likelihood of every observation by name, with a leading axis of points."""
    return values_at(target.pointwise_log_likelihood, points, rows_of(target))
