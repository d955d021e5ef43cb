"""Where chains start, and what is checked there before anything runs."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._arguments import check_numbers, default_float, describe
from .._programs import compiled
from .._types import ArrayLike
from ..targets import Target
from ..targets.base import refuse_log_prob
from ..targets.evaluate import check_shapes, values_with_own_rows

#: Tries for a random start where the target is finite, as many as in Stan.
MAX_TRIES = 100

#: Chains start at this many times N(0, I), wider than a standardised posterior, so that R-hat can see them disagree.
OVERDISPERSION = 2.0


def chain_starts(
    key: PRNGKeyArray, target: Target, num_chains: int, init: ArrayLike | None
) -> Float[Array, "chains dim"]:
    """Where the chains of a sampler that needs the log density start: `init`, or N(0, 4I)."""
    if not target.knows_log_prob:
        raise refuse_log_prob(target)
    return starting_points(key, target, num_chains, init, scale=OVERDISPERSION, needs_log_prob=True)


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
        is_finite = np.asarray(_are_finite(points, target, needs_log_prob, rows))
        if not is_finite.all():
            _refuse(points, is_finite, needs_log_prob, "init: ")
        return points
    points = scale * jax.random.normal(key, shape, default_float())
    is_finite = np.asarray(_are_finite(points, target, needs_log_prob, rows))
    for attempt in range(1, MAX_TRIES):
        if is_finite.all():
            break
        others = scale * jax.random.normal(jax.random.fold_in(key, attempt), shape, default_float())
        points = jnp.where(is_finite[:, None], points, others)
        is_finite = np.asarray(_are_finite(points, target, needs_log_prob, rows))
    if not is_finite.all():
        _refuse(points, is_finite, needs_log_prob, "target: ", f" in {MAX_TRIES} tries each; give init")
    return points


@compiled
def _are_finite(
    points: Float[Array, "num dim"], target: Target, needs_log_prob: bool, rows: Int[Array, "num batch"] | None
) -> Bool[Array, " num"]:
    def is_finite(x: Array, batch: Array | None) -> Array:
        has_score = jnp.all(jnp.isfinite(target.score(x, batch)))
        return has_score & jnp.isfinite(target.log_prob(x, batch)) if needs_log_prob else has_score

    return values_with_own_rows(is_finite, target, points, rows)


def _given(init: ArrayLike, shape: tuple[int, int]) -> Float[Array, "num dim"]:
    try:
        array = check_numbers("init", init)
    except TypeError:
        array = None
    if array is None or array.shape != shape:
        raise ValueError(
            f"init must be an array of numbers of shape {shape}; got {describe(init if array is None else array)}."
        )
    return jnp.asarray(array, default_float())


def _refuse(points: Array, is_finite: np.ndarray, needs_log_prob: bool, who: str, advice: str = "") -> None:
    what = "log density and the score" if needs_log_prob else "score"
    with np.printoptions(threshold=8, edgeitems=3):
        example = np.array2string(np.asarray(points[int(np.argmin(is_finite))])).replace("\n", "")
    counts = f"{int((~is_finite).sum())} of {len(is_finite)}"
    raise ValueError(
        f"{who}the {what} must be finite where the chains start; not so for {counts} chains, for example at "
        f"{example}{advice}."
    )
