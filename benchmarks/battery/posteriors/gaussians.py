"""The only two Gaussians: one far away, one badly scaled."""

import jax.numpy as jnp
import numpy as np

from ..entry import Entry, Problem

FAR = 1e4


def far() -> Problem:
    return (lambda x: -0.5 * jnp.sum((x - FAR) ** 2)), {"dim": 3}


def far_draws(rng: np.random.Generator, num: int) -> np.ndarray:
    return rng.normal(FAR, 1.0, size=(num, 3))


def _scaled() -> tuple[np.ndarray, np.ndarray]:
    """Mean and Cholesky factor: standard deviations 10⁻³ to 10³, correlated, means up to two of them away from 0."""
    rng = np.random.default_rng(801)
    mix = np.tril(0.4 * rng.normal(size=(10, 10)), -1) + np.eye(10)
    sds = rng.permutation(np.geomspace(1e-3, 1e3, 10))
    factor = (sds / np.sqrt((mix**2).sum(1)))[:, None] * mix
    return sds * rng.uniform(-2.0, 2.0, size=10), factor


def scaled() -> Problem:
    mean, factor = _scaled()
    centre, sds = jnp.asarray(mean), jnp.asarray(np.sqrt((factor**2).sum(1)))
    # Of the standardised offsets, so that float32 has nothing to lose.
    whitener = jnp.asarray(np.linalg.inv(factor / np.sqrt((factor**2).sum(1))[:, None]))
    return (lambda x: -0.5 * jnp.sum((whitener @ ((x - centre) / sds)) ** 2)), {"dim": 10}


def scaled_draws(rng: np.random.Generator, num: int) -> np.ndarray:
    mean, factor = _scaled()
    return mean + rng.normal(size=(num, 10)) @ factor.T


ENTRIES = [
    Entry("far", "N(10⁴, 1) in three dimensions", far, exact=far_draws),
    Entry("scaled", "10-d Gaussian, correlated, standard deviations from 10⁻³ to 10³", scaled, exact=scaled_draws),
]
