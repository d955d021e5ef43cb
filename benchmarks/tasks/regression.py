"""Regressions: the paper's waveform data, nearly separable data, and data enough for minibatches."""

import functools

import jax
import numpy as np

import sivi
from sivi import datasets
from sivi.metrics import covariance_rmse, moment_errors
from sivi.targets import LinearRegression, LogisticRegression

from .task import Sizes, Task, exact_draws, flat

REFERENCE_DRAWS = 40_000


def waveform() -> LogisticRegression:
    return LogisticRegression(*datasets.load("waveform").train, prior_scale=10.0)


def measure_waveform(posterior: sivi.Posterior, key: int, rng: np.random.Generator, sizes: Sizes) -> dict[str, float]:
    reference = datasets.load_reference("waveform")
    draws = flat(posterior.sample(sizes.moments, key=key))
    errors = moment_errors(draws, (reference.mean, reference.cov))
    return {
        "cov_rmse": covariance_rmse(draws, reference.cov),
        "mean_error_sd": errors.largest_mean_error,
        "sd_error": errors.largest_sd_error,
    }


def separable(num: int = 60, dim: int = 10) -> LogisticRegression:
    """Correlated inputs, and labels that a plane separates but for one: the prior N(0, 5² I) decides the length."""
    rng = np.random.default_rng(10)
    inputs = rng.normal(size=(num, dim)) @ (np.eye(dim) + 0.6 * rng.normal(size=(dim, dim)))
    inputs = np.concatenate([np.ones((num, 1)), inputs[:, 1:] / inputs[:, 1:].std(0)], axis=1)
    logits = inputs @ rng.normal(size=dim)
    labels = (logits > 0).astype(float)
    labels[np.abs(logits).argmin()] = 1.0 - labels[np.abs(logits).argmin()]
    return LogisticRegression(inputs, labels, prior_scale=5.0)


@functools.cache
def separable_pool() -> np.ndarray:
    """Nearly independent draws by HMC: 400 chains, of which every one gives 100."""
    run = sivi.samplers.hmc(separable(), key=0, num_chains=400, num_samples=1000, num_leapfrog=30, progress=False)
    if run.rhat.max() > 1.01:
        raise RuntimeError(f"HMC has not converged: R-hat is {run.rhat.max():.3f}.")
    return run.draws[:, 9::10].reshape(REFERENCE_DRAWS, -1)


def separable_draws(rng: np.random.Generator, num: int) -> np.ndarray:
    return separable_pool()[rng.choice(REFERENCE_DRAWS, size=num, replace=False)]


def large_regression(num: int = 20_000, features: int = 10) -> LinearRegression:
    rng = np.random.default_rng(20_000)
    inputs = rng.normal(size=(num, features)) @ (np.eye(features) + 0.5 * rng.normal(size=(features, features)))
    return LinearRegression(inputs, inputs @ rng.normal(size=features) + 0.7 * rng.normal(size=num))


def large_draws(rng: np.random.Generator, num: int) -> dict[str, jax.Array]:
    return exact_draws(large_regression())(rng, num)


TASKS = [
    Task(
        "waveform",
        "the paper's logistic regression, 22 coefficients, 400 rows, prior N(0, 100 I); against 100,000 draws of HMC",
        lambda: (waveform(), {}),
        measure_waveform,
        {"cov_rmse": 0.003, "mean_error_sd": 0.05},
    ),
    Task(
        "separable",
        "logistic regression on 60 nearly separable rows, 10 coefficients, prior N(0, 25 I); against HMC",
        lambda: (separable(), {}),
        reference=separable_draws,
    ),
    Task(
        "linear-20000",
        "conjugate linear regression with unknown noise, 10 coefficients, 20,000 rows",
        lambda: (large_regression(), {}),
        reference=large_draws,
    ),
]
