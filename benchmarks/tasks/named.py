"""Models with named and positive unknowns whose posteriors can be drawn exactly."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sivi

from .task import Problem, Task, logs_of

COUNTS = np.array([0.0, 1.0, 4.0, 12.0, 60.0])
SHAPE, RATE = 1.0, 0.5  # of the prior of every rate

#: Estimated effects of coaching and their standard errors: Rubin, Estimation in parallel randomized experiments
#: (Journal of Educational Statistics, 1981), table 1.
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
PRIOR_SD, PRIOR_SCALE = 5.0, 5.0  # mu ~ N(0, 5²), tau ~ half-Cauchy(5)


def gamma_poisson() -> Problem:
    """One count per rate, y ~ Poisson(rate), rate ~ Gamma(1, 0.5)."""
    counts = jnp.asarray(COUNTS)

    def log_density(p: dict[str, jax.Array]) -> jax.Array:
        rate = p["rate"]
        return jnp.sum((SHAPE - 1.0 + counts) * jnp.log(rate) - (RATE + 1.0) * rate)

    return log_density, {"like": {"rate": sivi.positive((len(COUNTS),))}}


def gamma_poisson_draws(rng: np.random.Generator, num: int) -> dict[str, np.ndarray]:
    return {"rate": rng.gamma(SHAPE + COUNTS, 1.0 / (RATE + 1.0), size=(num, len(COUNTS)))}


def _hyperparameters(p: dict[str, jax.Array]) -> jax.Array:
    return norm.logpdf(p["mu"], 0.0, PRIOR_SD) - jnp.log1p((p["tau"] / PRIOR_SCALE) ** 2)


def schools(centred: bool) -> Problem:
    """Eight schools, y_j ~ N(theta_j, s_j²): theta_j ~ N(mu, tau²), or theta_j = mu + tau eta_j, eta_j ~ N(0, 1)."""
    effects, errors = jnp.asarray(EFFECTS), jnp.asarray(ERRORS)

    def centred_density(p: dict[str, jax.Array]) -> jax.Array:
        groups = norm.logpdf(p["theta"], p["mu"], p["tau"])
        return jnp.sum(norm.logpdf(effects, p["theta"], errors) + groups) + _hyperparameters(p)

    def density(p: dict[str, jax.Array]) -> jax.Array:
        theta = p["mu"] + p["tau"] * p["eta"]
        return jnp.sum(norm.logpdf(effects, theta, errors) + norm.logpdf(p["eta"])) + _hyperparameters(p)

    name = "theta" if centred else "eta"
    like: dict[str, Any] = {"mu": 0.0, "tau": sivi.positive(), name: jnp.zeros(len(EFFECTS))}
    return (centred_density if centred else density), {"like": like}


def schools_draws(rng: np.random.Generator, num: int) -> dict[str, np.ndarray]:
    """tau by inversion of its marginal on a fine grid, then mu given tau, then every eta given both: all Gaussian.

    Given tau, y ~ N(0, diag(s² + tau²) + 25 · 1 1ᵀ), whose determinant and inverse have closed forms.
    """
    log_tau = np.linspace(np.log(1e-7), np.log(1e5), 40_001)
    precision = 1.0 / (ERRORS**2 + np.exp(2 * log_tau)[:, None])
    total = precision.sum(1) + PRIOR_SD**-2
    weighted = precision @ EFFECTS
    log_marginal = 0.5 * (np.log(precision).sum(1) - np.log(total) - precision @ EFFECTS**2 + weighted**2 / total)
    # The prior's density times that of the grid's variable, log tau.
    log_marginal += log_tau - np.log1p((np.exp(log_tau) / PRIOR_SCALE) ** 2)
    density = np.exp(log_marginal - log_marginal.max())
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    tau = np.exp(np.interp(rng.uniform(size=num), cumulative / cumulative[-1], log_tau))

    precision = 1.0 / (ERRORS**2 + tau[:, None] ** 2)
    total = precision.sum(1) + PRIOR_SD**-2
    mu = rng.normal((precision @ EFFECTS) / total, total**-0.5)
    of_eta = 1.0 + (tau[:, None] / ERRORS) ** 2
    eta = rng.normal(tau[:, None] * (EFFECTS - mu[:, None]) / ERRORS**2 / of_eta, of_eta**-0.5)
    return {"mu": mu, "tau": tau, "eta": eta}


def centred_schools_draws(rng: np.random.Generator, num: int) -> dict[str, np.ndarray]:
    draws = schools_draws(rng, num)
    theta = draws["mu"][:, None] + draws["tau"][:, None] * draws["eta"]
    return {"mu": draws["mu"], "tau": draws["tau"], "theta": theta}


TASKS = [
    Task(
        "gamma-poisson",
        "five Poisson rates with Gamma(1, 0.5) priors, counts 0, 1, 4, 12, 60",
        gamma_poisson,
        reference=gamma_poisson_draws,
        unconstrain=logs_of("rate"),
        judged=True,
    ),
    Task(
        "nchn",
        "eight schools, non-centred",
        lambda: schools(centred=False),
        reference=schools_draws,
        unconstrain=logs_of("tau"),
        judged=True,
    ),
    Task(
        "chn",
        "eight schools, centred",
        lambda: schools(centred=True),
        reference=centred_schools_draws,
        unconstrain=logs_of("tau"),
    ),
]
