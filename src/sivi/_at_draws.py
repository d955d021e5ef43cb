"""What a target says at draws of its unknowns: derived quantities, log likelihoods, new data, predictions."""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Array, Float, PyTree

from ._layout import Layout
from ._programs import compiled
from .targets import HasObservations, Target
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


@compiled
def log_likelihoods_at(target: HasObservations, points: Float[Array, "n dim"]) -> dict[str, Array]:
    """The log likelihood of every observation by name, with a leading axis of points."""
    return values_at(target.pointwise_log_likelihood, points, rows_of(target))
