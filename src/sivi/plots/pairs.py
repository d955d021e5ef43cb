"""Marginal and pairwise densities of several unknowns: a triangle of panels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import gaussian_kde

from .._types import ArrayLike
from .canvas import SAMPLE_COLOUR, check_axes, check_pair_of_labels, drawn_sets, mass_levels, pyplot, titles_of, window

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_REFERENCE_COLOUR = "black"
_GRID = 60  # per side of a panel
_MASS = (0.95, 0.8, 0.5, 0.2)  # enclosed by the contours
_POINTS = 4000  # draws that a density is estimated from, at most


def plot_pairs(
    draws: ArrayLike,
    reference: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    labels: tuple[str, str] = ("sivi", "reference"),
    colour: str = SAMPLE_COLOUR,
    figure: "Figure | SubFigure | None" = None,
) -> "Figure | SubFigure":
    """Densities of every coordinate on the diagonal, and below it contours of every pair, of one or two sets of draws.

    Densities are Gaussian kernel estimates (Scott's bandwidth), which are a little wider than what the draws come from;
    by the same factor for either set if these are of one size. Contours enclose 20, 50, 80 and 95 per cent of the mass.

    Args:
        draws: (n, dim), from the fit.
        reference: (m, dim), exact or MCMC draws to compare with, drawn as thin black lines.
        names: A title for each coordinate.
        labels: Legend entries of the two.
        colour: Of the draws.
        figure: Where to draw, also part of a figure; a new one when left out.

    Returns:
        The figure.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> figure = plot_pairs(rng.normal(size=(500, 3)), rng.normal(size=(500, 3)))
        >>> len(figure.axes)
        6
    """
    check_pair_of_labels(labels)
    check_axes("figure", figure, "add_gridspec")
    styles = (("draws", colour, labels[0], 1.6), ("reference", _REFERENCE_COLOUR, labels[1], 0.9))
    points_of = drawn_sets(draws, reference)
    sets = [(_checked(name, points), *style) for (name, *style), points in zip(styles, points_of, strict=False)]
    dim = points_of[0].shape[1]
    titles = titles_of(names, dim)
    side = 1.0 + 1.5 * dim
    where: Any = pyplot().figure(figsize=(side, side), layout="constrained") if figure is None else figure
    low, high = window(np.concatenate([points for points, *_ in sets]))
    sides = np.linspace(low, high, _GRID).T
    grid = where.add_gridspec(dim, dim)
    handles: list[Any] = []
    for i in range(dim):
        for j in range(i + 1):
            ax = where.add_subplot(grid[i, j])
            for points, line_colour, label, width in sets:
                style: dict[str, Any] = {"color": line_colour, "linewidth": width}
                if i == j:
                    (line,) = ax.plot(sides[i], gaussian_kde(points[:, i])(sides[i]), label=label, **style)
                    handles += [line] * (i == 0)
                else:
                    density = _density(points[:, [j, i]], sides[j], sides[i])
                    levels = mass_levels(density, _MASS)
                    ax.contour(sides[j], sides[i], density, levels=levels, colors=line_colour, linewidths=width)
            _dress(ax, i, j, dim, titles, (low, high))
    if reference is not None:
        where.legend(handles=handles, loc="upper right", frameon=False)
    return where


def _density(points: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    grid = np.stack(np.meshgrid(x, y)).reshape(2, -1)
    return gaussian_kde(points.T)(grid).reshape(len(y), len(x))


def _checked(name: str, points: np.ndarray) -> np.ndarray:
    """Some of the draws: enough of them, and not on a line, so that their density can be estimated."""
    if points.shape[0] <= points.shape[1] or points.shape[1] < 2:
        raise ValueError(f"{name} must have shape (n, dim) with dim at least 2 and n above it; got {points.shape}.")
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = np.corrcoef(points, rowvar=False)
    if not (np.abs(correlations[~np.eye(len(correlations), dtype=bool)]) < 1.0 - 1e-12).all():
        raise ValueError(f"{name} must vary in every coordinate, and no two of them may be functions of each other.")
    return points[:: -(-len(points) // _POINTS)]


def _dress(ax: Any, row: int, column: int, dim: int, titles: Sequence[str], corners: tuple[Any, Any]) -> None:
    """Names and numbers at the left and the lower edge of the triangle alone."""
    low, high = corners
    ax.set_xlim(low[column], high[column])
    ax.tick_params(labelsize="x-small")
    ax.locator_params(nbins=3)
    if row == column:
        ax.set(yticks=[], ylim=(0, None), title=titles[row])
    else:
        ax.set_ylim(low[row], high[row])
    if row == dim - 1:
        ax.set_xlabel(titles[column])
    else:
        ax.tick_params(labelbottom=False)
    if column == 0 and row:
        ax.set_ylabel(titles[row])
    else:
        ax.tick_params(labelleft=False)
