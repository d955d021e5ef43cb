"""The figure of the kinetics: what the two modes say of the data, and the marginal of a rate."""

from typing import Any

import numpy as np

from ..plots.canvas import SAMPLE_COLOUR
from ._kinetics import CONCENTRATIONS, HOURS, concentration, rates, slow_share
from ._kinetics_exact import Exact

_BINS = np.linspace(np.log(0.1), np.log(1.1), 61)
_SLOW_COLOUR, _FAST_COLOUR, _CHAIN_COLOUR = "tab:orange", "tab:green", "black"


def plot_kinetics(truth: Exact, draws: Any, reference: Any, name: str) -> Any:
    """Data with the curve of each mode; then ka by `sivi.infer` and by the chains over its exact density.

    Args:
        truth: The exact marginals.
        draws: Named draws of `sivi.infer`.
        reference: Named draws of the chains, of any shape.
        name: Of the sampler.
    """
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    _plot_curves(left, draws)
    _plot_marginal(right, truth, draws, reference, name)
    return figure


def _plot_curves(ax: Any, draws: Any) -> None:
    ka, ke = rates(draws)
    hours = np.linspace(0.02, HOURS[-1], 200)
    modes = (
        ("slow absorption", ka < ke, _SLOW_COLOUR, "-", 3.5),
        ("fast absorption", ka >= ke, _FAST_COLOUR, "--", 1.5),
    )
    for label, kept, colour, style, width in modes:
        if not kept.any():
            continue
        typical = {key: np.exp(np.log(np.asarray(value)[kept]).mean()) for key, value in draws.items()}
        curve = concentration(typical["ka"], typical["CL"], typical["V"], hours)
        text = f"{label}: ka {typical['ka']:.2f}, ke {typical['CL'] / typical['V']:.2f}, V {typical['V']:.0f} L"
        ax.plot(hours, curve, style, color=colour, linewidth=width, label=text)
    ax.plot(HOURS, CONCENTRATIONS, "o", color="black", markersize=4)
    ax.set(xlabel="hours since the dose", ylabel="concentration, mg/L", title="Two modes, one curve", ylim=(0, 2.6))
    ax.legend(loc="upper right", frameon=False)


def _plot_marginal(ax: Any, truth: Exact, draws: Any, reference: Any, name: str) -> None:
    marginal = truth.density.sum(1) * (truth.log_rates[1] - truth.log_rates[0])
    ax.fill_between(np.exp(truth.log_rates), marginal, color="0.8", label=f"exact: {truth.slow_share:.0%} slow")
    for label, points, colour, width in (
        (name, reference, _CHAIN_COLOUR, 1.0),
        ("sivi.infer", draws, SAMPLE_COLOUR, 1.6),
    ):
        density, edges = np.histogram(np.log(rates(points)[0]), _BINS)
        share = density / rates(points)[0].size / (edges[1] - edges[0])
        ax.stairs(share, np.exp(edges), color=colour, linewidth=width, label=f"{label}: {slow_share(points):.0%} slow")
    ax.set(xscale="log", xlim=tuple(np.exp(_BINS[[0, -1]])), ylim=(0, None))
    ticks = [0.1, 0.2, 0.3, 0.5, 1.0]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set(xlabel="rate of absorption ka, per hour", ylabel="density of log ka", title="How probable each is")
    ax.legend(loc="upper center", frameon=False)
