"""How a fit went: its metrics over the updates."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .canvas import SAMPLE_COLOUR, TARGET_COLOUR, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = {"loss": "minimax loss", "critic_norm": "critic norm $E\\Vert g\\Vert^2$"}
_POINTS = 150  # windows that a trace is averaged into


def plot_traces(history: Mapping[str, np.ndarray], names: Sequence[str] | None = None, *, axes: Any = None) -> "Figure":
    """One panel per metric: its mean over windows of updates, and the band between 5 and 95 per cent.

    With repeats there is one line for each of them, without the band.

    Args:
        history: `posterior.history`: arrays (steps,), or (repeats, steps).
        names: Which metrics, in order; all when left out.
        axes: A sequence of axes, one per metric; new ones when left out.

    Returns:
        The figure.
    """
    if names is None:
        names = sorted(history, key=lambda name: (name not in _LABELS, name != "loss", name))
    names = list(names)
    missing = [name for name in names if name not in history]
    if missing or not names:
        raise ValueError(f"names must be among the recorded metrics, {sorted(history)}; got {missing}.")
    if axes is None:
        axes = pyplot().subplots(1, len(names), figsize=(4.5 * len(names), 3.2), layout="constrained", squeeze=False)[
            1
        ][0]
    for ax, name in zip(axes, names, strict=True):
        _plot_trace(ax, np.atleast_2d(np.asarray(history[name], dtype=float)), _LABELS.get(name, name))
    return axes[0].figure


def _plot_trace(ax: Any, values: np.ndarray, label: str) -> None:
    for i, trace in enumerate(values):
        windows = trace_windows(trace, _POINTS)
        if len(values) == 1:
            draw_band(ax, windows, line_colour=TARGET_COLOUR, band_colour=SAMPLE_COLOUR, alpha=0.3, linewidth=1.2)
        else:
            ax.plot(windows[0], windows[1], color=f"C{i % 10}", linewidth=1.2)
    signed_log_scale(ax, max(float(np.nanquantile(np.abs(values), 0.5)), 1e-6))
    ax.set(xlabel="update", ylabel=label, xlim=(0, values.shape[1]))


def trace_windows(trace: np.ndarray, num_windows: int) -> np.ndarray:
    """(4, windows): last update, mean, 5 and 95 per cent of the finite values of each window; NaN if it has none."""
    parts = np.array_split(np.asarray(trace, float), min(num_windows, len(trace)))
    ends = np.cumsum([len(part) for part in parts])
    finite = [part[np.isfinite(part)] for part in parts]
    finite = [part if part.size else np.array([np.nan]) for part in finite]
    low, high = (np.array([np.quantile(part, share) for part in finite]) for share in (0.05, 0.95))
    return np.stack([ends, [part.mean() for part in finite], low, high])


def draw_band(
    ax: Any,
    windows: np.ndarray,
    *,
    line_colour: str,
    band_colour: str,
    alpha: float,
    **line: Any,
) -> None:
    """The means of `trace_windows` as a line, and between the quantiles a band."""
    ends, mean, low, high = windows
    ax.fill_between(ends, low, high, color=band_colour, alpha=alpha, linewidth=0)
    ax.plot(ends, mean, color=line_colour, **line)


def signed_log_scale(ax: Any, threshold: float) -> None:
    """For signed values that span decades: linear up to the threshold, logarithmic beyond, and a line at zero."""
    ax.set_yscale("symlog", linthresh=threshold)
    ax.axhline(0.0, color="black", linewidth=0.5)
