"""A latent function: counts along a line, whose log rate is a Gaussian process."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sivi

from ..entry import Entry, Problem
from .regressions import Unknowns

JITTER = 1e-6


def gp_poisson() -> Problem:
    """Ten counts at the points 0, …, 9; in float32 the Cholesky factor fails where the lengthscale is large."""
    rng = np.random.default_rng(401)
    places = np.arange(10.0)
    counts = jnp.asarray(rng.poisson(np.exp(1.5 + np.sin(0.9 * places))).astype(float))
    squares = jnp.asarray((places[:, None] - places) ** 2)
    identity = jnp.eye(10)

    def log_density(p: Unknowns) -> jax.Array:
        amplitude, lengthscale = p["amplitude"], p["lengthscale"]
        log_prior = norm.logpdf(amplitude) + norm.logpdf(jnp.log(lengthscale), 0.4, 0.4) - jnp.log(lengthscale)
        log_prior += norm.logpdf(p["mean"], 0.0, 3.0) + jnp.sum(norm.logpdf(p["values"]))
        kernel = amplitude**2 * jnp.exp(-0.5 * squares / lengthscale**2) + JITTER * identity
        log_rate = p["mean"] + jnp.linalg.cholesky(kernel) @ p["values"]
        return log_prior + jnp.sum(counts * log_rate - jnp.exp(log_rate))

    like = {"amplitude": sivi.positive(), "lengthscale": sivi.positive(), "mean": 0.0, "values": jnp.zeros(10)}
    return log_density, {"like": like}


ENTRIES = [Entry("gp-poisson", "Gaussian process with Poisson counts at ten points, kernel's Cholesky", gp_poisson)]
