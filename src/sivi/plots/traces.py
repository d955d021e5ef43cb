"""How a fit went: its metrics over the updates."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import check_numbers, describe
from ..objectives import Curve
from ..posterior import Posterior
from .canvas import SAMPLE_COLOUR, TARGET_COLOUR, check_axes, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 150  # windows that a trace is averaged into
_WIDTH = 46  # letters in a line under a panel


def plot_traces(
    history: Mapping[str, np.ndarray] | Posterior, names: Sequence[str] | None = None, *, axes: Any = None
) -> "Figure":
    """One panel per metric: its mean over windows of updates, and the band between 5 and 95 per cent.

    With repeats there is one line for each of them, without the band. Of a posterior, each panel also says what its
    metric is and what a good curve looks like, in the words of the objective, and dotted lines mark the ends of rounds.

    Args:
        history: A posterior; or `posterior.history` alone: arrays (steps,), or (repeats, steps).
        names: Which metrics, in order; all when left out, but of two that are the same only one.
        axes: A sequence of axes, one per metric; new ones when left out.

    Returns:
        The figure.
    """
    curves: Mapping[str, Curve] = {}
    ends: list[int] = []
    if isinstance(history, Posterior):
        objective, ends = history.objective, _round_ends(history)
        history = history.history
        curves = {} if objective is None else objective.curves(history.keys())
    if not isinstance(history, Mapping) or not history:
        raise TypeError(f"history must be a posterior, or its recorded metrics by name; got {describe(history)}.")
    for name, values in history.items():
        if (array := check_numbers(f"history[{name!r}]", values)).ndim not in (1, 2) or not array.size:
            raise ValueError(f"history[{name!r}] must have shape (steps,) or (repeats, steps); got {array.shape}.")
    is_names = isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(n, str) for n in names)
    if names is not None and not is_names:
        raise TypeError(f"names must be a sequence of str; got {describe(names)}.")
    if names is None:
        order = ["loss", *curves]
        names = sorted(history, key=lambda name: (order.index(name) if name in order else len(order), name))
        names = [name for i, name in enumerate(names) if not any(_same(history, name, other) for other in names[:i])]
    names = list(names)
    missing = [name for name in names if name not in history]
    if missing or not names:
        raise ValueError(f"names must be among the recorded metrics, {sorted(history)}; got {missing}.")
    if axes is not None and (not isinstance(axes, (list, tuple, np.ndarray)) or np.shape(axes) != (len(names),)):
        raise TypeError(f"axes must be a sequence, one for each of the {len(names)} metrics; got {describe(axes)}.")
    for ax in [] if axes is None else axes:
        check_axes("axes", ax, "plot")
    if axes is None:
        axes = pyplot().subplots(1, len(names), figsize=(4.5 * len(names), 3.5), layout="constrained", squeeze=False)[
            1
        ][0]
    for ax, name in zip(axes, names, strict=True):
        curve = curves.get(name, Curve(name, ""))
        _plot_trace(ax, np.atleast_2d(np.asarray(history[name], dtype=float)), curve.label)
        for end in ends:
            ax.axvline(end, color="grey", linestyle=":", linewidth=0.8, zorder=0)
        if curve.good:
            text = "\n".join(textwrap.wrap(f"good: {curve.good}", _WIDTH))
            marks = "\ndotted: ends of rounds" if ends and name == names[0] else ""
            ax.set_title(text + marks, fontsize="small", loc="left", color="dimgrey")
    return axes[0].figure


def _same(history: Mapping[str, np.ndarray], name: str, other: str) -> bool:
    return np.array_equal(history[name], history[other], equal_nan=True)


def _round_ends(posterior: Posterior) -> list[int]:
    """The updates after which rounds ended; none of a run that has gone on after its end, whose rounds are others."""
    rule = posterior.settings.stop_rule
    if rule is None or posterior.settings.rounds_from != 0:
        return []
    return [last for _, last in rule.round_ends(posterior.num_steps, posterior.step)]


def _plot_trace(ax: Any, values: np.ndarray, label: str) -> None:
    parts = [trace_windows(trace, _POINTS) for trace in values]
    for i, windows in enumerate(parts):
        if len(values) == 1:
            draw_band(ax, windows, line_colour=TARGET_COLOUR, band_colour=SAMPLE_COLOUR, alpha=0.3, linewidth=1.2)
        else:
            ax.plot(windows[0], windows[1], color=f"C{i % 10}", linewidth=1.2)
    if _spans_decades(np.array([windows[1] for windows in parts])):
        middle = max(float(np.nanquantile(np.abs(values), 0.5)), 1e-6)
        signed_log_scale(ax, 10.0 ** np.ceil(np.log10(middle)))  # else ticks of the linear part overlap
    ax.set(xlabel="update", ylabel=label, xlim=(0, values.shape[1]))


def _spans_decades(means: np.ndarray) -> bool:
    """Whether a linear scale would show nothing of the smaller values: those of one size and sign it shows better."""
    sizes = np.abs(means[np.isfinite(means)])
    return bool(sizes.size) and bool(
        np.nanmin(means) < 0.0 < np.nanmax(means) or sizes.max() > 10.0 * sizes.min() > 0.0
    )


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
