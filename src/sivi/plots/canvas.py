"""What the plots, and the figures of the experiments, share: the optional import, axes, colours, windows, levels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def points_in_plane(draws: ArrayLike) -> np.ndarray:
    """`draws` as an array (n, 2), or an error that names the argument, the rule and the value."""
    points = np.asarray(draws, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"draws must have shape (n, 2); got {points.shape}.")
    return points


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
