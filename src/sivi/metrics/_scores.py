"""The target's score at many points."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import default_float
from ..targets import Target, as_target
from ._draws import check_same_dim

_POINTS = 1000  # at once; a divisor of round numbers, since a remainder is compiled as a loop of its own
_TERMS = 2**20  # likelihood terms at once, for a target with data

TargetLike = Target | Callable[..., Array]


def target_for(target: TargetLike, **dims: int) -> Target:
    """A target, or a log density as one, that must have the dim of another argument, given as name=dim."""
    (dim,) = dims.values()
    if isinstance(target, Target):
        check_same_dim(**dims, target=target.dim)
        return target
    return as_target(target, dim)


def points_at_once(target: Target) -> int:
    """How many points to evaluate side by side: fewer, the more data each of them goes through."""
    return max(1, min(_POINTS, _TERMS // (target.num_data or 1)))


def scores_at(target: Target, points: np.ndarray) -> np.ndarray:
    """S at each row, in float64, or an error if it is not finite somewhere."""
    scores = np.asarray(_scores(target, jnp.asarray(points, default_float())), float)
    check_finite_scores(np.isfinite(scores).all(1))
    return scores


def check_finite_scores(finite: np.ndarray) -> None:
    """Refuse a target whose score is not finite at some draws."""
    if not finite.all():
        raise ValueError(
            f"target must have a finite score at every draw; at {(~finite).sum()} of {len(finite)} it has not."
        )


@eqx.filter_jit
def _scores(target: Target, points: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
    return jax.lax.map(target.score, points, batch_size=points_at_once(target))
