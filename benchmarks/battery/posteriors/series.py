"""Time series: autoregression and changing volatility."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sivi

from ..entry import Entry, Problem
from .regressions import Unknowns


def ar() -> Problem:
    """150 values, two lags, given the first two values."""
    rng = np.random.default_rng(601)
    y = np.zeros(250)
    for i in range(2, 250):
        y[i] = 0.5 + 0.9 * y[i - 1] - 0.35 * y[i - 2] + 0.7 * rng.normal()
    series = jnp.asarray(y[-150:])

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = norm.logpdf(p["constant"], 0.0, 5.0) + jnp.sum(norm.logpdf(p["lags"])) - p["sigma"]
        location = p["constant"] + p["lags"][0] * series[1:-1] + p["lags"][1] * series[:-2]
        return log_prior + jnp.sum(norm.logpdf(series[2:], location, p["sigma"]))

    return log_density, {"like": {"constant": 0.0, "lags": jnp.zeros(2), "sigma": sivi.positive()}}


def garch() -> Problem:
    """300 returns, h_t = ω + α e²_{t−1} + β h_{t−1}; (α, β, 1 − α − β) is uniform on the simplex."""
    rng = np.random.default_rng(602)
    omega, alpha, beta = 0.1, 0.25, 0.6
    y, variance = np.zeros(400), omega / (1 - alpha - beta)
    for i in range(400):
        y[i] = 0.1 + np.sqrt(variance) * rng.normal()
        variance = omega + alpha * (y[i] - 0.1) ** 2 + beta * variance
    returns, first = jnp.asarray(y[-300:]), float(np.var(y[-300:]))

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = norm.logpdf(p["mean"]) + norm.logpdf(p["omega"])
        errors = returns - p["mean"]

        def next_variance(variance: jax.Array, error: jax.Array) -> tuple[jax.Array, jax.Array]:
            return p["omega"] + p["shares"][0] * error**2 + p["shares"][1] * variance, variance

        _, variances = jax.lax.scan(next_variance, jnp.full_like(p["omega"], first), errors)
        return log_prior + jnp.sum(norm.logpdf(errors, 0.0, jnp.sqrt(variances)))

    return log_density, {"like": {"mean": 0.0, "omega": sivi.positive(), "shares": sivi.simplex(3)}}


ENTRIES = [
    Entry("ar", "autoregression of order two with unknown noise, 150 values", ar),
    Entry("garch", "GARCH(1,1), 300 returns", garch),
]
