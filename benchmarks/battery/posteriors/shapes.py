"""Curved, funnel-shaped and heavy-tailed targets, and the paper's three."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from sivi.targets import Banana, ExactTarget, Multimodal, XShaped

from ..entry import Bars, Entry, Problem, at_most, sd_ratios

CORRELATION = 0.9  # of the banana


def toy(name: str, about: str, kind: type[ExactTarget]) -> Entry:
    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), num)
        return np.asarray(jax.vmap(kind().sample)(keys), float)

    return Entry(name, about, lambda: (kind(), {}), at_most(kl=0.015), draws, kl=True)


def funnel(name: str, dim: int, sd: float, bars: Bars) -> Entry:
    """Neal's funnel, v ~ N(0, sd²) and the others N(0, exp(v)) given v."""

    def log_density(x: jax.Array) -> jax.Array:
        return norm.logpdf(x[0], 0.0, sd) + jnp.sum(norm.logpdf(x[1:], 0.0, jnp.exp(0.5 * x[0])))

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        v = rng.normal(0.0, sd, size=(num, 1))
        return np.concatenate([v, np.exp(0.5 * v) * rng.normal(size=(num, dim - 1))], axis=1)

    about = f"Neal's funnel in {dim} dimensions, v ~ N(0, {sd:g}²)"
    return Entry(name, about, lambda: (log_density, {"dim": dim}), bars, draws, kl=dim == 2)


def curved_pairs() -> Problem:
    """Five independent bananas, the i-th in coordinates 2i and 2i + 1."""

    def log_density(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(Banana(CORRELATION).log_prob)(x.reshape(5, 2)))

    return log_density, {"dim": 10}


def curved_pairs_draws(rng: np.random.Generator, num: int) -> np.ndarray:
    first, noise = rng.normal(size=(2, num, 5))
    second = first**2 + CORRELATION * first + np.sqrt(1.0 - CORRELATION**2) * noise + 1.0
    return np.stack([first, second], axis=-1).reshape(num, 10)


DEGREES = 4.0


def _student_t() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(901)
    factor = np.tril(0.5 * rng.normal(size=(10, 10)), -1) + np.diag(np.geomspace(0.5, 2.0, 10))
    return 2.0 * rng.normal(size=10), factor


def student_t() -> Problem:
    location, factor = _student_t()
    centre, whitener = jnp.asarray(location), jnp.asarray(np.linalg.inv(factor))

    def log_density(x: jax.Array) -> jax.Array:
        return -0.5 * (DEGREES + 10) * jnp.log1p(jnp.sum((whitener @ (x - centre)) ** 2) / DEGREES)

    return log_density, {"dim": 10}


def student_t_draws(rng: np.random.Generator, num: int) -> np.ndarray:
    location, factor = _student_t()
    normal, chi_square = rng.normal(size=(num, 10)), rng.chisquare(DEGREES, size=(num, 1))
    return location + (normal / np.sqrt(chi_square / DEGREES)) @ factor.T


ENTRIES = [
    toy("banana", "the paper's banana", Banana),
    toy("multimodal", "the paper's two modes", Multimodal),
    toy("x-shaped", "the paper's X", XShaped),
    funnel("funnel-2", 2, 1.5, at_most(ks=0.03)),
    funnel("funnel-10", 10, 1.0, at_most(ks=0.06)),
    funnel("funnel-10-wide", 10, 3.0, at_most()),
    Entry(
        "curved-pairs",
        "five independent bananas in 10 dimensions",
        curved_pairs,
        sd_ratios(0.88, 1.12),
        curved_pairs_draws,
    ),
    Entry(
        "student-t",
        "10-d Student-t, four degrees of freedom, correlated",
        student_t,
        at_most(),
        student_t_draws,
    ),
]
