"""The second part of `sivi demo`: a fit that is wrong, what the verdict says of it, and how refining mends it."""

import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._errors import FitWarning
from .._fitting.fit import fit
from ..plots import plot_samples
from ..targets import GaussianMixture
from ..verdict.check import check
from ..verdict.refine import refine
from ._output import save_figure

FIGURE = "refined.png"
_NUM_STEPS = 100
_NUM_SHOWN = 1500
_CORNERS = ((-6.5, -3.5), (6.0, 4.0))


def two_modes() -> GaussianMixture:
    """A round mode with 65 % of the probability, and a narrow one with the rest."""
    round_one, narrow = [[1.0, 0.0], [0.0, 1.0]], [[0.3, 0.2], [0.2, 0.5]]
    return GaussianMixture([[-3.0, 0.0], [3.0, 1.0]], [round_one, narrow], [0.65, 0.35])


def show_repair(seed: int, folder: Path | None) -> None:
    """Fit two modes with too few updates, print the verdict, refine, print that verdict; draw all if there is a folder.

    Args:
        seed: Random seed.
        folder: Where the figure is written; None for no figure.
    """
    target = two_modes()
    print(f"a fit that is wrong: two modes with 65 and 35 % of the probability, and only {_NUM_STEPS} updates")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the verdict says it better
        posterior = fit(target, key=seed, num_steps=_NUM_STEPS, progress=False)
    verdict = check(posterior, key=seed)
    print(f"\nits verdict: {verdict}")
    refined = refine(posterior, key=seed, verdict=verdict)
    print(f"\nrefined by chains on the exact target: {refined.verdict}")
    sets = {
        "fit": np.asarray(posterior.unconstrained(_NUM_SHOWN, seed)),
        "refined": np.asarray(refined.unconstrained(_NUM_SHOWN, seed)),
        "exact draws": np.asarray(jax.vmap(target.sample)(jax.random.split(jax.random.key(seed), _NUM_SHOWN))),
    }
    shares = ", ".join(f"{100 * float((points[:, 0] > 0).mean()):.0f} % of {name}" for name, points in sets.items())
    print(f"\nin the narrow mode, which has 35 % of the probability: {shares}\n")
    if folder is not None:
        save_figure(_figure(target, sets), folder / FIGURE)


def _figure(target: GaussianMixture, sets: dict[str, np.ndarray]) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(sets), figsize=(12.0, 3.8), sharey=True, layout="constrained")
    for ax, (name, points) in zip(axes, sets.items(), strict=True):
        plot_samples(points, target, ax=ax, corners=_CORNERS)
        ax.set_title(name)
    return figure
