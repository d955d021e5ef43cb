"""Inputs at which a network is judged: rows of the data, and points in the gaps between and beyond them."""

import numpy as np
from jaxtyping import Float

#: Rows looked at, at most, evenly spaced.
_MOST_ROWS = 2000
#: Steps of the power iteration, which need find no more than a direction in which the rows are spread.
_STEPS = 30
#: How far beyond the rows the outer points lie: a row that is one from the mean of all gives one at this distance.
_BEYOND = 1.5


def judged_inputs(
    inputs: Float[np.ndarray, "num_data features"], most: int = 64
) -> Float[np.ndarray, "judged features"]:
    """At most `most` points, found without random numbers: half of them rows, a quarter between and a quarter beyond.

    The rows are evenly spaced in their order along the direction in which they are spread most. Between neighbours
    that are farthest from each other lie the points of the second kind. Those of the third are the rows farthest from
    the mean, moved further out.

    Args:
        inputs: In units in which every column has mean 0.
        most: How many points.

    Example:
        >>> rows = np.array([[-2.0], [-1.9], [1.9], [2.0]])  # with a gap in the middle
        >>> np.round(judged_inputs(rows, 8), 2).ravel().tolist()
        [-2.0, -1.9, 1.9, 2.0, 0.0, -1.95, -3.0, 3.0]
    """
    rows = np.asarray(inputs[:: -(-len(inputs) // _MOST_ROWS)], np.float64)
    rows = rows[np.argsort(rows @ _widest(rows), kind="stable")]
    num_rows, num_others = max(1, most // 2), most // 4
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, num_rows).round().astype(int))]
    gaps = np.argsort(-np.linalg.norm(np.diff(chosen, axis=0), axis=1), kind="stable")[:num_others]
    between = 0.5 * (chosen[gaps] + chosen[gaps + 1])
    beyond = _BEYOND * chosen[np.argsort(-np.linalg.norm(chosen, axis=1), kind="stable")[:num_others]]
    points = np.concatenate([chosen, between, beyond])
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)]


def _widest(rows: Float[np.ndarray, "num_data features"]) -> Float[np.ndarray, " features"]:
    """About the direction of the largest variance."""
    direction = 1.0 + np.arange(rows.shape[1]) / rows.shape[1]  # no symmetry that a column could be at right angles to
    for _ in range(_STEPS):
        moved = rows.T @ (rows @ direction)
        length = np.linalg.norm(moved)
        if length == 0.0:
            break
        direction = moved / length
    return direction
