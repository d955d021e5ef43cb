"""Data from two components: independent, and as the states of a Markov chain."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sivi

from ..entry import Entry, Problem
from .regressions import Unknowns


def mixture() -> Problem:
    """150 values from two normal components, whose means are ordered."""
    rng = np.random.default_rng(701)
    first = rng.uniform(size=150) < 0.35
    values = jnp.asarray(np.where(first, rng.normal(-1.5, 0.7, size=150), rng.normal(1.5, 1.1, size=150)))

    def log_density(p: Unknowns) -> jax.Array:
        log_prior = jnp.sum(norm.logpdf(p["means"], 0.0, 3.0)) + jnp.sum(norm.logpdf(p["sds"], 0.0, 2.0))
        log_weights = jnp.stack([jnp.log(p["weight"]), jnp.log1p(-p["weight"])])
        log_prior += jnp.sum(log_weights)  # Beta(2, 2)
        return log_prior + jnp.sum(
            jax.nn.logsumexp(log_weights + norm.logpdf(values[:, None], p["means"], p["sds"]), 1)
        )

    like = {"means": sivi.ordered(2), "sds": sivi.positive(2), "weight": sivi.interval(0.0, 1.0)}
    return log_density, {"like": like}


def hmm() -> Problem:
    """200 values; two states with ordered means, each with a probability to stay, Beta(4, 2); forward algorithm."""
    rng = np.random.default_rng(702)
    state, y = 0, np.zeros(200)
    for i in range(200):
        state = state if rng.uniform() < (0.9, 0.8)[state] else 1 - state
        y[i] = rng.normal((-0.8, 1.2)[state], 0.8)
    values = jnp.asarray(y)

    def log_density(p: Unknowns) -> jax.Array:
        stay = p["stay"]
        log_prior = jnp.sum(norm.logpdf(p["means"], 0.0, 3.0)) + norm.logpdf(p["sigma"], 0.0, 2.0)
        log_prior += jnp.sum(3.0 * jnp.log(stay) + jnp.log1p(-stay))
        log_stay, log_leave = jnp.log(stay), jnp.log1p(-stay)
        log_moves = jnp.array([[log_stay[0], log_leave[0]], [log_leave[1], log_stay[1]]])
        log_seen = norm.logpdf(values[:, None], p["means"], p["sigma"])

        def forward(log_alpha: jax.Array, seen: jax.Array) -> tuple[jax.Array, None]:
            return jnp.logaddexp(log_alpha[0] + log_moves[0], log_alpha[1] + log_moves[1]) + seen, None

        log_alpha, _ = jax.lax.scan(forward, log_seen[0] - jnp.log(2.0), log_seen[1:])
        return log_prior + jnp.logaddexp(log_alpha[0], log_alpha[1])

    like = {"means": sivi.ordered(2), "sigma": sivi.positive(), "stay": sivi.interval(0.0, 1.0, (2,))}
    return log_density, {"like": like}


ENTRIES = [
    Entry("mixture", "two normal components with ordered means, 150 values", mixture),
    Entry("hmm", "hidden Markov model with two states, 200 values", hmm),
]
