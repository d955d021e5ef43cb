"""Regressions of a number: with normal noise, with outliers, and of survival times."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm, t

import sivi

from ..entry import Entry, Problem

Unknowns = dict[str, jax.Array]


def correlated_inputs(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Inputs of unit variance that are correlated with each other."""
    inputs = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.4 * rng.normal(size=(columns, columns)))
    return (inputs - inputs.mean(0)) / inputs.std(0)


def linear() -> Problem:
    """80 rows, five inputs: weak priors, and a half-normal one for the noise."""
    rng = np.random.default_rng(104)
    x = correlated_inputs(rng, 80, 5)
    y = 1.5 + x @ np.array([0.8, -0.5, 0.0, 1.2, 0.3]) + 1.3 * rng.normal(size=80)
    inputs, outputs = jnp.asarray(x), jnp.asarray(y)

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = norm.logpdf(p["intercept"], 0.0, 10.0) + jnp.sum(norm.logpdf(p["slopes"], 0.0, 5.0))
        log_prior += norm.logpdf(p["sigma"], 0.0, 5.0)
        return log_prior + jnp.sum(norm.logpdf(outputs, p["intercept"] + inputs @ p["slopes"], p["sigma"]))

    return log_density, {"like": {"intercept": 0.0, "slopes": jnp.zeros(5), "sigma": sivi.positive()}}


def robust() -> Problem:
    """100 rows, a tenth of them outliers; the degrees of freedom are unknown, Gamma(2, 0.1) a priori."""
    rng = np.random.default_rng(105)
    x = correlated_inputs(rng, 100, 4)
    y = -0.7 + x @ np.array([1.0, 0.4, -0.6, 0.0]) + 0.5 * rng.standard_t(5.0, size=100)
    y[::10] += rng.choice([-2.5, 2.5], size=10)
    inputs, outputs = jnp.asarray(x), jnp.asarray(y)

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = norm.logpdf(p["intercept"], 0.0, 5.0) + jnp.sum(norm.logpdf(p["slopes"], 0.0, 5.0))
        log_prior += norm.logpdf(p["sigma"], 0.0, 5.0) + jnp.log(p["degrees"]) - 0.1 * p["degrees"]
        location = p["intercept"] + inputs @ p["slopes"]
        return log_prior + jnp.sum(t.logpdf(outputs, p["degrees"], location, p["sigma"]))

    like = {
        "intercept": 0.0,
        "slopes": jnp.zeros(4),
        "sigma": sivi.positive(),
        "degrees": sivi.interval(1.0, None),
    }
    return log_density, {"like": like}


def weibull() -> Problem:
    """150 times to an event, a third of them censored; log scale linear in three inputs."""
    rng = np.random.default_rng(103)
    x = correlated_inputs(rng, 150, 3)
    times = np.exp(1.0 + x @ np.array([0.5, -0.3, 0.1])) * rng.weibull(1.6, size=150)
    ends = rng.uniform(0.5, 8.0, size=150)
    inputs, seen = jnp.asarray(x), jnp.asarray((times <= ends).astype(float))
    log_time = jnp.asarray(np.log(np.minimum(times, ends)))

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = norm.logpdf(p["intercept"], 0.0, 5.0) + jnp.sum(norm.logpdf(p["slopes"], 0.0, 2.0)) - p["shape"]
        z = p["shape"] * (log_time - p["intercept"] - inputs @ p["slopes"])  # log of the cumulative hazard
        return log_prior + jnp.sum(seen * (jnp.log(p["shape"]) + z) - jnp.exp(z))

    return log_density, {"like": {"intercept": 0.0, "slopes": jnp.zeros(3), "shape": sivi.positive()}}


ENTRIES = [
    Entry("linear", "linear regression with unknown noise, 80 rows", linear),
    Entry("robust", "Student-t regression with unknown degrees of freedom, 100 rows with outliers", robust),
    Entry("weibull", "Weibull survival regression, 150 rows, a third censored", weibull),
]
