"""How a target is evaluated: its shapes before anything compiles, and many points in blocks.

There is one rule for blocks. Points are evaluated side by side, at most `MAX_POINTS` of them, and so few that points ×
rows of data stay below `MAX_POINTS_TIMES_ROWS`. More points than that go through in blocks, one after the other. A log
density given as a function has no rows, but its trace says how many numbers it computes for a point: the length of its
largest array counts like rows. A row of a network counts as often as its widest layer has units. On a CPU scores and
log densities of a network come in blocks that fit the caches: it goes through its units several times, where a
regression has one product. Some methods evaluate the points of an update in one block, so a function is refused if that
block alone would not fit into memory.

Half precision is refused: scores and conditional scores ε/σ overflow, or lose all digits, and the fit fails late. To
convert silently would hide that the user's function computes in it.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from .._arguments import check_count, default_float, describe
from .._backend import numbers_in_cache
from .._errors import MissingLogProb
from .._traced import traced_functions
from .base import Target
from .curvature import KnowsCurvature

#: Points in a block, at most: a divisor of round numbers, since a remainder is compiled as a second program.
MAX_POINTS = 5000

#: Points × rows of data in a block, at most: 64 MB for each number that the target keeps per point and row.
MAX_POINTS_TIMES_ROWS = 2**24

#: Bytes of one array of a function, at most, for all points of an update together.
MAX_BYTES_SIDE_BY_SIDE = 2**32


def values_at(
    function: Callable[[PyTree], PyTree], points: PyTree, num_rows: int = 1, most: int | None = None
) -> PyTree:
    """Any function of one point at many points, in blocks.

    Args:
        function: Takes one point: `points` without its leading axis.
        points: An array of points, or a pytree of arrays that share their leading axis.
        num_rows: Rows of data that the function goes through for every point.
        most: Points × rows in a block, if fewer than `MAX_POINTS_TIMES_ROWS`; see `most_at_once`.

    Returns:
        What the function returns, with a leading axis.
    """
    num_points = jax.tree.leaves(points)[0].shape[0]
    block = block_of(num_rows, most)
    if block >= num_points:
        return jax.vmap(function)(points)
    return jax.lax.map(function, points, batch_size=_even(block, num_points))


def block_of(num_rows: int, most: int | None = None) -> int:
    """How many points are evaluated side by side, if each needs so many rows of data, or numbers."""
    most = MAX_POINTS_TIMES_ROWS if most is None else min(most, MAX_POINTS_TIMES_ROWS)
    return max(1, min(MAX_POINTS, most // num_rows))


def most_at_once(target: Target) -> int | None:
    """Points × rows × units in a block of a network; None for other targets, which have no limit of their own."""
    return numbers_in_cache() if target.numbers_per_row > 1 else None


def _even(block: int, num_points: int) -> int:
    """A smaller block that leaves no remainder, which would be compiled once more; at least half as large."""
    return next((size for size in range(block, -(-block // 2) - 1, -1) if num_points % size == 0), block)


def at_points(
    target: Target,
    function: Callable[[Array], PyTree],
    points: Float[Array, "num dim"],
    rows: Int[Array, " size"] | None,
) -> PyTree:
    """A function of the target at many points, such as its score, all on the same rows of data; None for all rows."""
    num_rows = rows_of(target) if rows is None else int(rows.shape[0]) * target.numbers_per_row
    return values_at(function, points, num_rows, most_at_once(target))


def scores_at(
    target: Target, points: Float[Array, "*shape dim"], rows: Int[Array, " size"] | None = None
) -> Float[Array, "*shape dim"]:
    """Scores at many points, all on the same rows of data; None for all rows."""
    flat = points.reshape(-1, points.shape[-1])
    return at_points(target, lambda x: target.score(x, rows), flat, rows).reshape(points.shape)


def exact_scores_at(
    target: Target, points: Float[Array, "*shape dim"], rows: Int[Array, " size"] | None = None
) -> Float[Array, "*shape dim"]:
    """As `scores_at`, with products in full precision: for differences of scores, which lose leading digits."""
    with jax.default_matmul_precision("highest"):
        return scores_at(target, points, rows)


def log_probs_at(target: Target, points: Float[Array, "*shape dim"]) -> Float[Array, "*shape"]:
    """Log densities at many points, on all data."""
    flat = points.reshape(-1, points.shape[-1])
    return at_points(target, target.log_prob, flat, None).reshape(points.shape[:-1])


def values_with_own_rows(
    function: Callable[[Array, Array | None], Array],
    target: Target,
    points: Float[Array, "num dim"],
    rows: Int[Array, "num batch"] | None,
) -> Array:
    """function(x, rows) at many points, each with its own rows of the target's data; with None for all rows.

    The rows of a point are gathered for that point alone. So a row counts, in the rule for blocks, as many times as it
    has numbers.
    """
    if rows is None:
        return at_points(target, lambda x: function(x, None), points, None)
    arrays = jax.tree.leaves(eqx.filter(target, eqx.is_array))
    data = [array for array in arrays if array.ndim and array.shape[0] == target.num_data]
    numbers = max(target.numbers_per_row, sum(max(1, array.size // array.shape[0]) for array in data))
    each = max(1, rows.shape[1] * numbers)
    return values_at(lambda pair: function(*pair), (points, rows), each, most_at_once(target))


def rows_of(target: Target) -> int:
    """Rows of data that the target goes through for every point, or what counts like them in the rule for blocks."""
    return max((target.num_data or 1) * target.numbers_per_row, _largest_array(target))


def _largest_array(target: Target) -> int:
    """Numbers in the largest array that a user's function computes for one point; 1 if there is no such function."""
    return max((function.numbers_per_point for function in traced_functions(target)), default=1)


def check_memory(target: Target, num_points: int) -> None:
    """Refuse a function whose arrays, for as many points side by side as an update has, would not fit into memory."""
    numbers = _largest_array(target)
    size = numbers * num_points * default_float().itemsize
    if size > MAX_BYTES_SIDE_BY_SIDE:
        raise ValueError(
            f"target: the log density computes an array of {numbers:,} numbers for one point, which would take "
            f"{size / 1e9:.0f} GB for the {num_points:,} points of an update. Give its data to a "
            "sivi.targets.BayesianModel, and batch_size to fit, so that an update sees some rows of them; an "
            "objective with fewer particles needs less memory too."
        )


def check_shapes(target: Target, *, log_prob: bool) -> None:
    """Refuse a target whose score, or log density, has a wrong shape or type; nothing is compiled."""
    quantities = [("score", (target.dim,), target.score)]
    if log_prob:
        quantities.insert(0, ("log density", (), target.log_prob))
    for name, shape, function in quantities:
        try:
            out = eqx.filter_eval_shape(function, jax.ShapeDtypeStruct((target.dim,), default_float()))
        except Exception as error:
            error.add_note(f"(raised by the target's {name}, called with a vector of shape ({target.dim},))")
            raise
        is_array = isinstance(out, jax.ShapeDtypeStruct) and bool(jnp.issubdtype(out.dtype, jnp.floating))
        if not is_array or out.shape != shape or out.dtype.itemsize < 4:
            raise ValueError(
                f"target: the {name} must be a float32 or float64 array of shape {shape}; got {describe(out)}."
            )
    _check_arrays(target)


def _check_arrays(target: Target) -> None:
    """Refuse a target that describes its unknowns wrongly."""
    if isinstance(target, KnowsCurvature):
        shapes = target.shapes
        is_shapes = isinstance(shapes, tuple) and all(isinstance(shape, tuple) for shape in shapes)
        if not is_shapes or sum(math.prod(shape) for shape in shapes) != target.dim:
            raise ValueError(
                f"target: shapes must be a tuple of shapes whose sizes add up to dim, {target.dim}, such as "
                f"(({target.dim},),); got {shapes!r}."
            )
    elif hasattr(type(target), "curvature_blocks"):
        raise TypeError(
            f"target: {type(target).__name__} has curvature_blocks, which is read only of a "
            "sivi.targets.KnowsCurvature: derive it from that class."
        )
    if target.layout.dim != target.dim:
        raise ValueError(f"target: layout must have dim = {target.dim} numbers; got {target.layout.dim}.")


def check_batch_size(target: Target, batch_size: int | None) -> None:
    """Refuse a minibatch of a target without data, and one larger than the data."""
    if batch_size is None:
        return
    batch_size = check_count("batch_size", batch_size)
    if target.num_data is None:
        raise ValueError(f"batch_size needs a target with data, such as a BayesianModel; got {batch_size}.")
    if batch_size > target.num_data:
        raise ValueError(f"batch_size must be at most the number of data, {target.num_data}; got {batch_size}.")


def check_log_prob(method: object, target: Target) -> None:
    """Refuse a target that knows only its score."""
    if not target.knows_log_prob:
        # A target that wraps another names the one that lacks it.
        while isinstance(inner := getattr(target, "target", None), Target) and not inner.knows_log_prob:
            target = inner
        raise MissingLogProb(
            f"{type(method).__name__} needs the target's log density, and {type(target).__name__} knows only its "
            "score; give the log density instead, or use an objective that needs the score alone, such as PathKL."
        )


def check_score_derivative(method: object, target: Target) -> None:
    """Refuse a target whose score cannot be differentiated (a callback without a derivative, say)."""

    def derivative(target: Target) -> Array:
        x = jnp.zeros(target.dim, float)
        batch = None if target.num_data is None else jnp.zeros(1, int)
        return jax.vjp(lambda y: target.score(y, batch), x)[1](x)[0]

    try:
        eqx.filter_eval_shape(derivative, target)
    except Exception as error:
        raise TypeError(
            f"{type(method).__name__} differentiates the target's score, and this target's has no derivative "
            f"in JAX: {type(error).__name__}: {error}"
        ) from error
