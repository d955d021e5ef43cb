"""Targets in the plane and on the line: the paper's three, separated modes and a badly scaled one."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sivi
from sivi.metrics import knn_kl
from sivi.targets import Banana, GaussianMixture, Multimodal, XShaped

from .task import Problem, Sizes, Task, exact_draws, flat

KL_BAR = 0.015
SECONDS_BAR = 45.0
#: A mode counts as found when its share of the draws is at least this part of its weight.
FOUND = 0.2


def kl_task(name: str, about: str, target: sivi.targets.ExactTarget) -> Task:
    """k-NN estimate of KL(target ‖ fit), whose noise at full size is about ±0.003."""

    def measure(posterior: sivi.Posterior, key: int, rng: np.random.Generator, sizes: Sizes) -> dict[str, float]:
        exact = flat(exact_draws(target)(rng, sizes.kl))
        return {"kl": knn_kl(exact, flat(posterior.sample(sizes.kl, key=key)), k=3)}

    bars = {"kl": KL_BAR, "seconds": SECONDS_BAR}
    return Task(name, about, lambda: (target, {}), measure, bars)


def modes_task(name: str, about: str, target: GaussianMixture, bars: dict[str, float]) -> Task:
    """The shares of draws by nearest mode, against the weights."""

    def measure(posterior: sivi.Posterior, key: int, rng: np.random.Generator, sizes: Sizes) -> dict[str, float]:
        draws = flat(posterior.sample(sizes.moments, key=key))
        weights = np.exp(np.asarray(target.log_weights, float))
        offsets = draws[:, None, :] - np.asarray(target.means, float)
        nearest = (offsets**2).sum(-1).argmin(1)
        shares = np.bincount(nearest, minlength=len(weights)) / len(draws)
        return {
            "missing_modes": float((shares < FOUND * weights).sum()),
            "weights_tv": float(0.5 * np.abs(shares - weights).sum()),
        }

    return Task(name, about, lambda: (target, {}), measure, bars, exact_draws(target))


def circle(num: int = 5, radius: float = 4.0, sd: float = 0.5) -> GaussianMixture:
    angles = 2 * np.pi * np.arange(num) / num
    means = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return GaussianMixture(means, [sd**2 * np.eye(2)] * num, np.arange(1.0, num + 1))


def three_in_ten() -> GaussianMixture:
    """Means about 8 standard deviations apart in random directions, every covariance its own."""
    rng = np.random.default_rng(3)
    directions = np.linalg.qr(rng.normal(size=(10, 3)))[0].T
    factors = np.eye(10) + 0.15 * rng.normal(size=(3, 10, 10))
    covariances = factors @ factors.transpose(0, 2, 1)
    return GaussianMixture(5.5 * directions, covariances, [0.5, 0.3, 0.2])


SCALE = np.array([1e3, 1e-3])


def scaled_banana() -> Problem:
    """The banana with its first coordinate in thousands and its second in thousandths."""
    scale = jnp.asarray(SCALE)
    return (lambda x: Banana().log_prob(x / scale)), {"dim": 2}


def scaled_banana_draws(rng: np.random.Generator, num: int) -> np.ndarray:
    return flat(exact_draws(Banana())(rng, num)) * SCALE


LINE = ([-2.0, 1.5], [0.5, 1.2], [0.35, 0.65])  # means, standard deviations, weights


def line() -> Problem:
    mean, sd, weight = (jnp.asarray(part) for part in LINE)

    def log_density(x: jnp.ndarray) -> jnp.ndarray:
        return jnp.logaddexp(*(jnp.log(weight) + norm.logpdf(x[0], mean, sd)))

    return log_density, {"dim": 1}


def line_draws(rng: np.random.Generator, num: int) -> np.ndarray:
    mean, sd, weight = (np.asarray(part) for part in LINE)
    component = rng.choice(2, size=num, p=weight)
    return rng.normal(mean[component], sd[component])[:, None]


TASKS = [
    kl_task("banana", "the paper's banana", Banana()),
    kl_task("multimodal", "the paper's two modes", Multimodal()),
    kl_task("x-shaped", "the paper's X", XShaped()),
    modes_task(
        "five-modes",
        "five modes of sd 0.5 on a circle of radius 4, weights 1:2:3:4:5",
        circle(),
        {"missing_modes": 0.0, "weights_tv": 0.15},
    ),
    modes_task("three-in-10d", "three Gaussians in 10 dimensions, weights .5, .3, .2", three_in_ten(), {}),
    Task("banana-scaled", "the banana times (1000, 0.001)", scaled_banana, reference=scaled_banana_draws),
    Task("line", "two overlapping components in one dimension", line, reference=line_draws),
]
