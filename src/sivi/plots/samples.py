"""Samples over the contours of a two-dimensional target."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import default_float, describe
from .._programs import compiled
from .._types import ArrayLike
from ..targets import Target
from .canvas import SAMPLE_COLOUR, TARGET_COLOUR, axes_or_new, corners_or, mass_levels, points_in_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GRID = 200
#: Contours enclose these shares of the mass seen on the grid.
_MASS = (0.99, 0.95, 0.8, 0.5, 0.2)


def plot_samples(
    draws: ArrayLike,
    target: Target | None = None,
    *,
    ax: "Axes | None" = None,
    label: str | None = None,
    corners: tuple[ArrayLike, ArrayLike] | None = None,
) -> "Axes":
    """Scatter draws in the plane over contours of the target's density.

    The contours enclose 20, 50, 80, 95 and 99 per cent of the target's mass.

    Args:
        draws: (n, 2).
        target: A two-dimensional target that knows its log density; None leaves the contours out.
        ax: Axes to draw into; new ones when left out.
        label: Legend entry of the draws.
        corners: Lower left and upper right corner of the picture; around the draws when left out.

    Returns:
        The axes.
    """
    points = points_in_plane(draws)
    if target is not None and not isinstance(target, Target):
        raise TypeError(f"target must be a sivi target, or None; got {describe(target)}.")
    if target is not None and target.dim != 2:
        raise ValueError(f"target must have dim 2 for a contour plot; got {target.dim}.")
    (left, bottom), (right, top) = corners_or(corners, points)
    if not isinstance(label, str | None):
        raise TypeError(f"label must be a str, or None; got {describe(label)}.")
    ax = axes_or_new(ax)
    ax.scatter(*points.T, s=4, color=SAMPLE_COLOUR, alpha=0.6, linewidths=0, label=label, rasterized=True)
    if target is not None:
        x, y = np.linspace(left, right, _GRID), np.linspace(bottom, top, _GRID)
        density = _density(target, x, y)
        ax.contour(x, y, density, levels=mass_levels(density, _MASS), colors=TARGET_COLOUR, linewidths=0.9)
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel="$x_1$", ylabel="$x_2$")
    if label is not None:
        ax.legend(loc="upper right", markerscale=3)
    return ax


def _density(target: Target, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    grid = jnp.asarray(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), default_float())
    log_density = np.asarray(_log_probs(target, grid))
    return np.exp(log_density - log_density.max()).reshape(len(y), len(x))


@compiled
def _log_probs(target: Target, points: Float[Array, "points 2"]) -> Float[Array, " points"]:
    return jax.vmap(target.log_prob)(points)
