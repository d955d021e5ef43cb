"""What the figures of the experiments share."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..plots.canvas import ARROW_COLOUR, SAMPLE_COLOUR, TARGET_COLOUR, pyplot
from ..plots.traces import draw_band, signed_log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Corners = tuple[tuple[float, float], tuple[float, float]]

#: Lower left and upper right corner of a picture of each target.
WINDOWS: dict[str, Corners] = {
    "banana": ((-4.0, -3.0), (4.0, 13.0)),
    "multimodal": ((-6.0, -4.5), (6.0, 4.5)),
    "x-shaped": ((-5.0, -5.0), (5.0, 5.0)),
}

_ARROWS = 20  # per side


def panels(rows: int, columns: int, *, size: tuple[float, float]) -> "tuple[Figure, np.ndarray]":
    """A figure and its axes (rows, columns), each panel of this size in inches."""
    return pyplot().subplots(
        rows, columns, figsize=(size[0] * columns, size[1] * rows), layout="constrained", squeeze=False
    )


def blank(size: tuple[float, float]) -> "Figure":
    """A figure without axes, of this size in inches."""
    return pyplot().figure(figsize=size, layout="constrained")


def around(corners: Corners, points: np.ndarray) -> Corners:
    """The window, widened where need be to show all but the most extreme of the points (n, 2)."""
    low, high = np.quantile(points, [0.001, 0.999], axis=0)
    margin = 0.08 * (high - low)
    (left, bottom), (right, top) = np.minimum(corners[0], low - margin), np.maximum(corners[1], high + margin)
    return (float(left), float(bottom)), (float(right), float(top))


def arrow_grid(corners: Corners) -> np.ndarray:
    """Points (n, 2) between two corners."""
    x, y = (np.linspace(low, high, _ARROWS) for low, high in zip(*corners, strict=True))
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(np.float32)


def legend_below(figure: "Figure", *, arrows: bool = False) -> None:
    """One legend for all panels with draws, under them."""
    from matplotlib.lines import Line2D

    entries: list[Any] = [
        Line2D([], [], color=SAMPLE_COLOUR, marker="o", linestyle="none", markersize=4, label="draws of the fit"),
        Line2D([], [], color=TARGET_COLOUR, linewidth=0.9, label="contours of the target"),
    ]
    if arrows:
        entries.append(
            Line2D([], [], color=ARROW_COLOUR, marker=r"$\rightarrow$", linestyle="none", markersize=12, label="critic")
        )
    figure.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False)


def common_legend(figure: "Figure", *, columns: int) -> None:
    """One legend under all panels, of what is drawn in any of them."""
    drawn: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            drawn.setdefault(label, handle)
    if drawn:
        figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=columns, frameon=False)


def plot_bands(ax: "Axes", bands: "dict[str, np.ndarray]", ylabel: str) -> None:
    """Means as lines and quantiles as bands, from arrays (4, windows): update, mean, low, high."""
    styles = [(TARGET_COLOUR, "-"), (SAMPLE_COLOUR, "--")]
    for (label, windows), (colour, line) in zip(bands.items(), styles, strict=True):
        draw_band(
            ax, windows, line_colour=colour, band_colour=colour, alpha=0.2, linestyle=line, linewidth=1.4, label=label
        )
    # Linear within the noise at the end.
    late = [np.abs(values[2:, -(len(values[0]) // 4 + 1) :]) for values in bands.values()]
    noise = max(float(np.median([values.max(axis=0) for values in late])), 1e-6)
    # Not below a millionth of the largest value: ticks of more decades on both sides would lie on each other at zero.
    largest = max(float(np.abs(values[1:]).max()) for values in bands.values())
    signed_log_scale(ax, 10.0 ** np.ceil(np.log10(max(noise, 1e-6 * largest))))
    ax.locator_params(axis="x", nbins=5)
    ax.set(xlabel="update", ylabel=ylabel, xlim=(0, max(values[0, -1] for values in bands.values())))
