"""Regressions of a class: two classes, ordered ones, and a test's right and wrong answers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sivi

from ..entry import Entry, Problem
from .regressions import Unknowns, correlated_inputs


def logistic() -> Problem:
    """400 rows; the 21 inputs are neighbouring points of noisy waves, so that neighbours are correlated."""
    rng = np.random.default_rng(201)
    points = np.arange(1, 22)
    waves = np.stack([np.maximum(6.0 - np.abs(points - centre), 0.0) for centre in (7, 15, 11)])
    labels, share = rng.integers(2, size=400), rng.uniform(size=(400, 1))
    x = share * waves[labels] + (1.0 - share) * waves[labels + 1] + rng.normal(size=(400, 21))
    inputs, signs = jnp.asarray((x - x.mean(0)) / x.std(0)), jnp.asarray(2.0 * labels - 1.0)

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = norm.logpdf(p["intercept"], 0.0, 10.0) + jnp.sum(norm.logpdf(p["slopes"], 0.0, 10.0))
        return log_prior + jnp.sum(jax.nn.log_sigmoid(signs * (p["intercept"] + inputs @ p["slopes"])))

    return log_density, {"like": {"intercept": 0.0, "slopes": jnp.zeros(21)}}


def ordinal() -> Problem:
    """200 answers on a scale of five, proportional odds; the four cut points increase."""
    rng = np.random.default_rng(202)
    x = correlated_inputs(rng, 200, 4)
    latent = x @ np.array([1.0, -0.5, 0.3, 0.0]) + rng.logistic(size=200)
    inputs, answers = jnp.asarray(x), jnp.asarray(np.searchsorted([-2.0, -0.5, 0.8, 2.5], latent))

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = jnp.sum(norm.logpdf(p["slopes"], 0.0, 2.5)) + jnp.sum(norm.logpdf(p["cuts"], 0.0, 5.0))
        # log (σ(b) − σ(a)) = log σ(b) + log σ(−a) + log (1 − exp(a − b)), for a < b; the outer cuts are far away.
        cuts = jnp.concatenate([jnp.array([-1e4]), p["cuts"], jnp.array([1e4])])
        score = inputs @ p["slopes"]
        below, above = cuts[answers] - score, cuts[answers + 1] - score
        gap = jnp.log(-jnp.expm1(cuts[answers] - cuts[answers + 1]))
        return log_prior + jnp.sum(jax.nn.log_sigmoid(above) + jax.nn.log_sigmoid(-below) + gap)

    return log_density, {"like": {"slopes": jnp.zeros(4), "cuts": sivi.ordered(4)}}


def irt() -> Problem:
    """Twenty persons answer ten questions; the log odds of a right answer are a_j (ability_i − difficulty_j)."""
    rng = np.random.default_rng(203)
    ability, difficulty = rng.normal(size=20), np.linspace(-1.5, 1.5, 10)
    logits = np.exp(0.4 * rng.normal(size=10)) * (ability[:, None] - difficulty)
    signs = jnp.asarray(np.where(rng.uniform(size=(20, 10)) < 1.0 / (1.0 + np.exp(-logits)), 1.0, -1.0))

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = jnp.sum(norm.logpdf(p["ability"])) + jnp.sum(norm.logpdf(p["difficulty"], 0.0, 2.0))
        log_a = jnp.log(p["discrimination"])
        log_prior += jnp.sum(norm.logpdf(log_a, 0.0, 0.5) - log_a)  # log-normal
        logit = p["discrimination"] * (p["ability"][:, None] - p["difficulty"])
        return log_prior + jnp.sum(jax.nn.log_sigmoid(signs * logit))

    like = {"ability": jnp.zeros(20), "difficulty": jnp.zeros(10), "discrimination": sivi.positive(10)}
    return log_density, {"like": like}


ENTRIES = [
    Entry("logistic", "logistic regression, 22 coefficients, 400 rows of generated waves", logistic),
    Entry("ordinal", "proportional-odds regression of answers on a scale of five, 200 rows", ordinal),
    Entry("irt", "two-parameter item response model, 20 persons and 10 questions", irt),
]
