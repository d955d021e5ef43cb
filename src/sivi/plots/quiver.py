"""The critic as a field of arrows over samples."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._arguments import (
    check_finite,
    check_function,
    check_numbers,
    check_optional,
    check_positive,
    default_float,
    describe,
    output_of,
)
from .._programs import compiled
from .._types import ArrayLike
from .canvas import ARROW_COLOUR, SAMPLE_COLOUR, axes_or_new, corners_or, points_in_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ARROWS = 20  # per side


def plot_critic(
    field: Callable[[Array], Array],
    draws: ArrayLike,
    *,
    ax: "Axes | None" = None,
    scale: float | None = None,
    corners: tuple[ArrayLike, ArrayLike] | None = None,
) -> "Axes":
    """Arrows of the critic g(x) over draws from the family.

    At the optimum g = S − ∇log q: the arrows point to where the family lacks mass, and vanish as it converges.

    Args:
        field: A function from one point of the plane to a vector, such as `objective.critic_function(state, target)`.
        draws: (n, 2), from the family.
        ax: Axes to draw into; new ones when left out.
        scale: Length of g drawn as long as the spacing of two arrows; when left out, that which 95 per cent of
            the draws do not exceed. Longer ones, far from the draws, are cut to that length.
        corners: Lower left and upper right corner of the picture; around the draws when left out.

    Returns:
        The axes.
    """
    points = points_in_plane(draws)
    low, high = corners_or(corners, points)
    _check_field(field)
    scale = check_optional(check_positive, "scale", scale)
    ax = axes_or_new(ax)
    x, y = (np.linspace(low[i], high[i], _ARROWS) for i in range(2))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    arrows = np.asarray(compiled(jax.vmap(field))(jnp.asarray(grid, default_float())))
    if scale is None:
        at_draws = np.asarray(compiled(jax.vmap(field))(jnp.asarray(points[:2000], default_float())))
        scale = float(np.quantile(np.linalg.norm(at_draws, axis=1), 0.95))
    ax.scatter(*points.T, s=4, color=SAMPLE_COLOUR, alpha=0.6, linewidths=0, rasterized=True)
    plot_arrows(grid, arrows, ax=ax, scale=scale)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="$x_1$", ylabel="$x_2$")
    return ax


def plot_arrows(
    points: ArrayLike, arrows: ArrayLike, *, ax: "Axes | None" = None, scale: float | None = None
) -> "Axes":
    """A field of arrows on a grid in the plane.

    Args:
        points: (n, 2), the points of a regular grid.
        arrows: (n, 2), the field there.
        ax: Axes to draw into; new ones when left out.
        scale: Length that is drawn as long as the spacing of two points; the median when left out. Longer arrows
            are cut to it.

    Returns:
        The axes.
    """
    grid, field = check_numbers("points", points).astype(float), check_numbers("arrows", arrows).astype(float)
    if not grid.size or grid.ndim != 2 or grid.shape[1] != 2 or grid.shape != field.shape:
        raise ValueError(f"points and arrows must both have shape (n, 2); got {grid.shape} and {field.shape}.")
    scale = check_optional(check_positive, "scale", scale)
    check_finite("points", grid)
    check_finite("arrows", field)
    ax = axes_or_new(ax)
    length = np.linalg.norm(field, axis=1, keepdims=True)
    scale = max(float(np.median(length)) if scale is None else scale, 1e-12)
    field = field * np.minimum(1.0, scale / np.maximum(length, 1e-12))
    ax.quiver(
        *grid.T,
        *field.T,
        color=ARROW_COLOUR,
        angles="xy",
        scale_units="xy",
        scale=scale / _spacing(grid),
        width=0.004,
    )
    return ax


def _check_field(field: Callable[[Array], Array]) -> None:
    check_function("field", field, "a function from a point of the plane to a vector")
    out = output_of("field", field, "a point of the plane", jax.ShapeDtypeStruct((2,), default_float()))
    if getattr(out, "shape", None) != (2,):
        raise ValueError(f"field must return a vector of shape (2,); got {describe(out)}.")


def _spacing(grid: np.ndarray) -> float:
    """The smaller distance between neighbouring points of a grid."""
    steps = [np.diff(np.unique(column)) for column in grid.T]
    return float(min((step.min() for step in steps if step.size), default=1.0))
