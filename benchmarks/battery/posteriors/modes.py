"""Separated modes in the plane."""

import numpy as np

from sivi.targets import GaussianMixture
from tasks.planar import circle

from ..entry import Bars, Entry, Modes, at_most


def modes(name: str, about: str, means: np.ndarray, sds: np.ndarray, weights: np.ndarray, bars: Bars) -> Entry:
    """Round Gaussians with these means, standard deviations and (after normalisation) weights."""
    shares = weights / weights.sum()

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        component = rng.choice(len(shares), size=num, p=shares)
        return means[component] + sds[component, None] * rng.normal(size=(num, 2))

    def problem():
        return GaussianMixture(means, sds[:, None, None] ** 2 * np.eye(2), weights), {}

    return Entry(name, about, problem, bars, draws, modes=Modes(means, shares), kl=True)


def ring(num: int, radius: float, name: str, uneven: bool) -> Entry:
    """Modes of standard deviation 0.5 on a circle."""
    means = np.asarray(circle(num, radius).means, float)
    weights = np.arange(1.0, num + 1) if uneven else np.ones(num)
    about = f"{num} modes of sd 0.5 on a circle of radius {radius:g}, weights {f'1 to {num}' if uneven else 'equal'}"
    bars = at_most(weights_tv=0.06, kl=0.15) if uneven else at_most(weights_tv=0.05, kl=0.10)
    return modes(name, about, means, np.full(num, 0.5), weights, bars)


ENTRIES = [
    ring(5, 4.0, "five-even", uneven=False),
    ring(5, 4.0, "five-uneven", uneven=True),
    ring(8, 5.0, "eight-even", uneven=False),
    ring(8, 5.0, "eight-uneven", uneven=True),
    modes(
        "row",
        "five modes of sd 0.5 in a row, 3 apart, weights 3:1:2:1:3",
        np.stack([np.arange(-6.0, 7.0, 3.0), np.zeros(5)], axis=1),
        np.full(5, 0.5),
        np.array([3.0, 1.0, 2.0, 1.0, 3.0]),
        at_most(),
    ),
    modes(
        "widths",
        "four modes of sds 0.2, 0.4, 0.8 and 1.2 on a square, weights equal",
        np.array([[-3.0, -3.0], [3.0, -3.0], [-3.0, 3.0], [3.0, 3.0]]),
        np.array([0.2, 0.4, 0.8, 1.2]),
        np.ones(4),
        at_most(),
    ),
]
