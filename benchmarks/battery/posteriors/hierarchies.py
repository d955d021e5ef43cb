"""Hierarchies and scale mixtures: eight schools in both forms, many groups, and the horseshoe."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sivi
from tasks import named

from ..entry import Entry, Problem, at_most, sd_ratios
from .regressions import Unknowns, correlated_inputs

NUM_GROUPS, NUM_COEFFICIENTS = 40, 12


def schools_draws(centred: bool):
    """Exact draws, as free numbers in the library's order, which is that of the names: eta, mu, log tau."""

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        drawn = (named.centred_schools_draws if centred else named.schools_draws)(rng, num)
        free = drawn | {"tau": np.log(drawn["tau"])}
        return np.concatenate([free[name].reshape(num, -1) for name in sorted(free)], axis=1)

    return draws


def hierarchy() -> Problem:
    """40 groups of eight rows with an intercept and a slope each, non-centred, and five slopes for all."""
    rng = np.random.default_rng(501)
    group = np.repeat(np.arange(NUM_GROUPS), 8)
    x, shared = rng.normal(size=320), correlated_inputs(rng, 320, 5)
    effects = np.array([1.0, -0.5]) + np.array([0.8, 0.3]) * rng.normal(size=(NUM_GROUPS, 2))
    y = effects[group, 0] + effects[group, 1] * x + shared @ np.array([0.5, 0.0, -0.3, 0.2, 0.0])
    groups, slope_input, inputs = jnp.asarray(group), jnp.asarray(x), jnp.asarray(shared)
    outputs = jnp.asarray(y + rng.normal(size=320))

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = jnp.sum(norm.logpdf(p["mean"], 0.0, 5.0)) + jnp.sum(norm.logpdf(p["scale"], 0.0, 2.0))
        log_prior += jnp.sum(norm.logpdf(p["z"])) + jnp.sum(norm.logpdf(p["slopes"], 0.0, 5.0))
        log_prior += norm.logpdf(p["sigma"], 0.0, 2.0)
        effect = (p["mean"] + p["scale"] * p["z"])[groups]
        location = effect[:, 0] + effect[:, 1] * slope_input + inputs @ p["slopes"]
        return log_prior + jnp.sum(norm.logpdf(outputs, location, p["sigma"]))

    like = {
        "mean": jnp.zeros(2),
        "scale": sivi.positive(2),
        "z": jnp.zeros((NUM_GROUPS, 2)),
        "slopes": jnp.zeros(5),
        "sigma": sivi.positive(),
    }
    return log_density, {"like": like}


def half_cauchy(x: jax.Array) -> jax.Array:
    return -jnp.log1p(x**2)


def horseshoe() -> Problem:
    """100 rows, twelve inputs of which three matter; coefficients tau · lambda_j · z_j."""
    rng = np.random.default_rng(502)
    x = correlated_inputs(rng, 100, NUM_COEFFICIENTS)
    slopes = np.zeros(NUM_COEFFICIENTS)
    slopes[:3] = [1.5, -1.0, 0.4]
    inputs, outputs = jnp.asarray(x), jnp.asarray(x @ slopes + rng.normal(size=100))

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = jnp.sum(norm.logpdf(p["z"])) + jnp.sum(half_cauchy(p["lambda"]))
        log_prior += half_cauchy(p["tau"] / 0.1) + norm.logpdf(p["sigma"], 0.0, 2.0)
        coefficients = p["tau"] * p["lambda"] * p["z"]
        return log_prior + jnp.sum(norm.logpdf(outputs, inputs @ coefficients, p["sigma"]))

    like = {
        "lambda": sivi.positive(NUM_COEFFICIENTS),
        "tau": sivi.positive(),
        "z": jnp.zeros(NUM_COEFFICIENTS),
        "sigma": sivi.positive(),
    }
    return log_density, {"like": like}


def horseshoe_coefficients(free: np.ndarray) -> np.ndarray:
    """tau · lambda_j · z_j; the free numbers are log lambda, log sigma, log tau, z."""
    log_lambda, log_tau, z = free[:, :12], free[:, 13:14], free[:, 14:]
    return np.exp(np.clip(log_tau + log_lambda, -80.0, 80.0)) * z


ENTRIES = [
    Entry("schools", "eight schools, non-centred", lambda: named.schools(centred=False), exact=schools_draws(False)),
    Entry("hierarchy-90", "regression with 40 groups, non-centred, 320 rows", hierarchy),
    Entry(
        "schools-centred",
        "eight schools, centred",
        lambda: named.schools(centred=True),
        bars=sd_ratios(0.85, 1.15),
        exact=schools_draws(True),
    ),
    Entry(
        "horseshoe",
        "regression with a horseshoe prior, 12 coefficients, which alone are judged",
        horseshoe,
        bars=at_most(mean_error=0.2),
        judged=horseshoe_coefficients,
        judged_names=tuple(f"coefficient[{j}]" for j in range(NUM_COEFFICIENTS)),
        nuts={"target_acceptance": 0.99, "num_samples": 10_000},
    ),
]
