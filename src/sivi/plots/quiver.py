"""The critic as a field of arrows over samples."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._types import ArrayLike, default_float
from ._figure import ARROW_COLOUR, SAMPLE_COLOUR, axes_or_new
from .samples import window

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
        field: From one point of the plane to a vector: a critic network, or `objective.field(state, target)`.
        draws: (n, 2), from the family.
        ax: Axes to draw into; new ones when left out.
        scale: Length of g drawn as long as the spacing of two arrows; when left out, that which 95 per cent of
            the draws do not exceed. Longer ones, far from the draws, are cut to that length.
        corners: Lower left and upper right corner of the picture; around the draws when left out.

    Returns:
        The axes.
    """
    points = np.asarray(draws, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"draws must have shape (n, 2); got {points.shape}.")
    ax = axes_or_new(ax)
    low, high = window(points) if corners is None else (np.asarray(corner, float) for corner in corners)
    x, y = (np.linspace(low[i], high[i], _ARROWS) for i in range(2))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    arrows = np.asarray(eqx.filter_jit(jax.vmap(field))(jnp.asarray(grid, default_float())))
    if scale is None:
        at_draws = np.asarray(eqx.filter_jit(jax.vmap(field))(jnp.asarray(points[:2000], default_float())))
        scale = float(np.quantile(np.linalg.norm(at_draws, axis=1), 0.95))
    scale = max(scale, 1e-12)
    length = np.linalg.norm(arrows, axis=1, keepdims=True)
    arrows = arrows * np.minimum(1.0, scale / np.maximum(length, 1e-12))
    spacing = float(min(x[1] - x[0], y[1] - y[0]))
    ax.scatter(*points.T, s=4, color=SAMPLE_COLOUR, alpha=0.6, linewidths=0, rasterized=True)
    ax.quiver(
        *grid.T,
        *arrows.T,
        color=ARROW_COLOUR,
        angles="xy",
        scale_units="xy",
        scale=scale / spacing,
        width=0.004,
    )
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="$x_1$", ylabel="$x_2$")
    return ax
