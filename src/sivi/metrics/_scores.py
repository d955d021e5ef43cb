"""The target's score at many points."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._arguments import default_float
from .._programs import compiled
from ..targets import Target, as_target
from ..targets.evaluate import check_shapes, scores_at
from ._draws import check_same_dim

TargetLike = Target | Callable[..., Array]


def target_for(target: TargetLike, **dims: int) -> Target:
    """A target, or a log density as one, that must have the dim of another argument, given as name=dim."""
    (dim,) = dims.values()
    if isinstance(target, Target):
        check_same_dim(**dims, target=target.dim)
        found = as_target(target)
    else:
        found = as_target(target, dim)
    check_shapes(found, log_prob=False)
    return found


def finite_scores(target: Target, points: np.ndarray) -> np.ndarray:
    """S at each row, in float64, or an error if it is not finite somewhere."""
    scores = np.asarray(_scores_at(target, jnp.asarray(points, default_float())), float)
    check_finite_scores(np.isfinite(scores).all(1))
    return scores


def check_finite_scores(finite: np.ndarray) -> None:
    """Refuse a target whose score is not finite at some draws."""
    if not finite.all():
        raise ValueError(
            f"target must have a finite score at every draw; at {(~finite).sum()} of {len(finite)} it has not."
        )


_scores_at = compiled(scores_at)
