"""How a fit went: its metrics over the updates."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._figure import SAMPLE_COLOUR, TARGET_COLOUR, pyplot

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
    num_steps = values.shape[1]
    for i, trace in enumerate(values):
        windows = [w[np.isfinite(w)] for w in np.array_split(trace, min(_POINTS, num_steps))]
        windows = [w if w.size else np.array([np.nan]) for w in windows]
        steps = np.linspace(0, num_steps, len(windows) + 1)[1:]
        if len(values) == 1:
            low, high = (np.array([np.quantile(w, share) for w in windows]) for share in (0.05, 0.95))
            ax.fill_between(steps, low, high, color=SAMPLE_COLOUR, alpha=0.3, linewidth=0)
        colour = TARGET_COLOUR if len(values) == 1 else f"C{i % 10}"
        ax.plot(steps, [w.mean() for w in windows], color=colour, linewidth=1.2)
    # Signed values that span decades: linear near zero, logarithmic beyond.
    threshold = max(float(np.nanquantile(np.abs(values), 0.5)), 1e-6)
    ax.set_yscale("symlog", linthresh=threshold)
    ax.axhline(0.0, color="black", linewidth=0.5)
    ax.set(xlabel="update", ylabel=label, xlim=(0, num_steps))
