"""Where chains start, and what is checked there before anything runs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._arguments import default_float, describe
from .._types import ArrayLike
from ..targets import Target
from ..targets.evaluate import check_shapes, values_with_own_rows

#: Tries for a random start where the target is finite, as many as in Stan.
MAX_TRIES = 100

#: Chains start at this many times N(0, I), wider than a standardised posterior, so that R-hat can see them disagree.
OVERDISPERSION = 2.0


def starting_points(
    key: PRNGKeyArray,
    target: Target,
    num: int,
    init: ArrayLike | None,
    *,
    scale: float,
    needs_log_prob: bool,
    rows: Int[Array, "num batch"] | None = None,
) -> Float[Array, "num dim"]:
    """Points where the target is finite: those given, or N(0, scale²I).

    Args:
        key: Random key.
        target: The target.
        num: How many.
        init: Points given by the user, of shape (num, dim), or None.
        scale: Standard deviation of random ones.
        needs_log_prob: Whether the log density must be finite too, or the score alone.
        rows: Rows of data at which each point is evaluated; None means all rows.
    """
    check_shapes(target, log_prob=needs_log_prob)
    shape = (num, target.dim)
    if init is not None:
        points = _given(init, shape)
        good = np.asarray(_are_finite(points, target, needs_log_prob, rows))
        if not good.all():
            _refuse(points, good, needs_log_prob, "init: ")
        return points
    points = scale * jax.random.normal(key, shape, default_float())
    good = np.asarray(_are_finite(points, target, needs_log_prob, rows))
    for attempt in range(1, MAX_TRIES):
        if good.all():
            break
        others = scale * jax.random.normal(jax.random.fold_in(key, attempt), shape, default_float())
        points = jnp.where(good[:, None], points, others)
        good = np.asarray(_are_finite(points, target, needs_log_prob, rows))
    if not good.all():
        _refuse(points, good, needs_log_prob, "target: ", f" in {MAX_TRIES} tries each; give init")
    return points


@eqx.filter_jit
def _are_finite(
    points: Float[Array, "num dim"], target: Target, needs_log_prob: bool, rows: Int[Array, "num batch"] | None
) -> Bool[Array, " num"]:
    def is_finite(x: Array, batch: Array | None) -> Array:
        good = jnp.all(jnp.isfinite(target.score(x, batch)))
        return good & jnp.isfinite(target.log_prob(x, batch)) if needs_log_prob else good

    return values_with_own_rows(is_finite, target, points, rows)


def _given(init: ArrayLike, shape: tuple[int, int]) -> Float[Array, "num dim"]:
    array = np.asarray(init)
    if array.shape != shape or not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise ValueError(f"init must be an array of numbers of shape {shape}; got {describe(array)}.")
    return jnp.asarray(array, default_float())


def _refuse(points: Array, good: np.ndarray, needs_log_prob: bool, who: str, advice: str = "") -> None:
    what = "log density and the score" if needs_log_prob else "score"
    with np.printoptions(threshold=8, edgeitems=3):
        example = np.array2string(np.asarray(points[int(np.argmin(good))])).replace("\n", "")
    raise ValueError(
        f"{who}the {what} must be finite where the chains start; not so for {int((~good).sum())} of {len(good)} "
        f"chains, for example at {example}{advice}."
    )
