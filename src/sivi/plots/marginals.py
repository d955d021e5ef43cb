"""Marginal distributions of two sample sets, variable by variable."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._types import ArrayLike
from .canvas import SAMPLE_COLOUR, TARGET_COLOUR, check_pair_of_labels, drawn_sets, pyplot, titles_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 60


def plot_marginals(
    draws: ArrayLike,
    reference: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    labels: tuple[str, str] = ("sivi", "exact"),
) -> "Figure":
    """Histograms of each coordinate: the fit filled, the reference as a line.

    Args:
        draws: (n, dim), from the fit.
        reference: (m, dim), exact or MCMC draws to compare with.
        names: A title for each coordinate.
        labels: Legend entries of the two.

    Returns:
        The figure.
    """
    points, *others = drawn_sets(draws, reference)
    truth = others[0] if others else None
    dim = points.shape[1]
    titles = titles_of(names, dim)
    check_pair_of_labels(labels)
    columns = min(dim, 4)
    rows = -(-dim // columns)
    figure, grid = pyplot().subplots(
        rows, columns, figsize=(3.0 * columns, 2.4 * rows), layout="constrained", squeeze=False
    )
    for i, ax in enumerate(grid.flat):
        if i >= dim:
            ax.set_axis_off()
            continue
        both = points[:, i] if truth is None else np.concatenate([points[:, i], truth[:, i]])
        low, high = np.quantile(both, [0.001, 0.999])
        margin = 0.0 if high > low else 1e-6 * max(abs(low), 1.0)  # of draws that are all the same
        bins = np.linspace(low - margin, high + margin, _BINS)
        ax.hist(points[:, i], bins, density=True, color=SAMPLE_COLOUR, alpha=0.55, label=labels[0])
        if truth is not None:
            ax.hist(
                truth[:, i],
                bins,
                density=True,
                color=TARGET_COLOUR,
                histtype="step",
                linewidth=1.3,
                label=labels[1],
            )
        ax.set(title=titles[i], yticks=[])
    if truth is not None:
        grid.flat[0].legend(loc="upper right", frameon=False)
    return figure
