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

    Args:
        history: `posterior.history`.
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
        _plot_trace(ax, np.asarray(history[name], dtype=float), _LABELS.get(name, name))
    return axes[0].figure


def _plot_trace(ax: Any, values: np.ndarray, label: str) -> None:
    windows = [w[np.isfinite(w)] for w in np.array_split(values, min(_POINTS, len(values)))]
    windows = [w if w.size else np.array([np.nan]) for w in windows]
    steps = np.linspace(0, len(values), len(windows) + 1)[1:]
    low, high = (np.array([np.quantile(w, share) for w in windows]) for share in (0.05, 0.95))
    ax.fill_between(steps, low, high, color=SAMPLE_COLOUR, alpha=0.3, linewidth=0)
    ax.plot(steps, [w.mean() for w in windows], color=TARGET_COLOUR, linewidth=1.2)
    # Signed values that span decades: linear near zero, logarithmic beyond.
    threshold = max(float(np.nanquantile(np.abs(values), 0.5)), 1e-6)
    ax.set_yscale("symlog", linthresh=threshold)
    ax.axhline(0.0, color="black", linewidth=0.5)
    ax.set(xlabel="update", ylabel=label, xlim=(0, len(values)))
