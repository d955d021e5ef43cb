"""What the plots, and the figures of the experiments, share: the optional import, axes, colours, windows, levels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import check_finite, check_numbers, describe
from .._types import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that keep their order of brightness in grey.
TARGET_COLOUR = "#1b3a5c"
SAMPLE_COLOUR = "#e07b28"
ARROW_COLOUR = "#4d4d4d"


def pyplot() -> Any:
    """matplotlib.pyplot, or a sentence that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'sivi[plot]'") from error
    return plt


def axes_or_new(ax: "Axes | None", size: tuple[float, float] = (4.5, 4.5)) -> "Axes":
    """The given axes, or those of a new figure."""
    check_axes("ax", ax, "scatter")
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def points_in_plane(draws: ArrayLike) -> np.ndarray:
    """`draws` as an array (n, 2), or an error that names the argument, the rule and the value."""
    points = check_numbers("draws", draws).astype(float)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"draws must have shape (n, 2); got {points.shape}.")
    return check_finite("draws", points)


def drawn_sets(draws: ArrayLike, reference: ArrayLike | None) -> list[np.ndarray]:
    """The draws, and the reference if there is one, as finite arrays (n, dim) of one dim."""
    sets = []
    for name, given in (("draws", draws), ("reference", reference)):
        if given is None and name == "reference":
            continue
        points = check_numbers(name, given).astype(float)
        if points.ndim != 2 or points.size == 0:
            raise ValueError(f"{name} must have shape (n, dim); got {points.shape}.")
        sets.append(check_finite(name, points))
    dims = [points.shape[1] for points in sets]
    if dims[0] != dims[-1]:
        raise ValueError(f"draws and reference must have the same dim; got {dims[0]} and {dims[1]}.")
    return sets


def titles_of(names: Sequence[str] | None, dim: int) -> list[str]:
    """A title for each coordinate."""
    if names is None:
        return [f"$x_{{{i + 1}}}$" for i in range(dim)]
    if isinstance(names, str) or not isinstance(names, Sequence) or any(not isinstance(name, str) for name in names):
        raise TypeError(f"names must be a sequence of str; got {describe(names)}.")
    if len(names) != dim:
        raise ValueError(f"names must have one entry per coordinate, {dim}; got {len(names)}.")
    return list(names)


def check_axes(name: str, ax: object, method: str) -> None:
    """Refuse what Matplotlib cannot draw into: `method` is the one that is needed."""
    if ax is not None and not hasattr(ax, method):
        raise TypeError(f"{name} must be of Matplotlib, or None; got {describe(ax)}.")


def check_pair_of_labels(labels: object) -> None:
    """Refuse anything but two legend entries."""
    if not isinstance(labels, (tuple, list)) or len(labels) != 2 or any(not isinstance(each, str) for each in labels):
        raise TypeError(f"labels must be two str; got {describe(labels)}.")


def corners_or(corners: object, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower left and upper right corner of a picture: those given, or around the draws."""
    if corners is None:
        return window(points)
    array = check_numbers("corners", corners, "two points of the plane").astype(float)
    if array.shape != (2, 2) or not np.isfinite(array).all() or not (array[0] < array[1]).all():
        raise ValueError(f"corners must be the lower left and the upper right corner; got {describe(corners)}.")
    return array[0], array[1]


def window(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower left and upper right corner around all but the most extreme draws, with a margin."""
    low, high = np.quantile(points, [0.002, 0.998], axis=0)
    margin = 0.15 * np.maximum(high - low, 1e-6)
    return low - margin, high + margin


def mass_levels(density: np.ndarray, shares: Sequence[float]) -> list[float]:
    """The values of a density on a grid above which these shares of its mass lie, ascending."""
    ordered = np.sort(density.ravel())[::-1]
    mass = np.cumsum(ordered) / ordered.sum()
    return sorted({float(ordered[min(np.searchsorted(mass, share), len(ordered) - 1)]) for share in shares})
