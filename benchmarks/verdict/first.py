"""The first set: targets on which the limits of the check may be chosen."""

import jax
import jax.numpy as jnp
import numpy as np

from battery.posteriors import POSTERIORS
from sivi.targets import LinearRegression

from .known import Known, coins, factor_of, gaussian, mixture, of_battery


def gammas() -> Known:
    """Six independent gammas, on the scale of their logarithms: skewed to the left, more so for small shapes."""
    shapes = np.array([0.5, 0.8, 1.5, 3.0, 6.0, 20.0])
    shape = jnp.asarray(shapes)

    def log_density(x: jax.Array) -> jax.Array:
        return jnp.sum(shape * x - jnp.exp(x))

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        # log G(a) = log G(a + 1) + log(U) / a, which does not underflow.
        return np.log(rng.gamma(shapes + 1.0, size=(num, 6))) + np.log(rng.uniform(size=(num, 6))) / shapes

    return Known("log-gamma", "six logarithms of gammas, shapes 0.5 to 20", lambda: (log_density, {"dim": 6}), draws)


def skewed() -> Known:
    """Skew-normal unknowns, coupled by a linear map."""
    skew, mix = 4.0, factor_of(11, 8, 0.5, np.geomspace(0.3, 3.0, 8))
    whitener = jnp.asarray(np.linalg.inv(mix))

    def log_density(x: jax.Array) -> jax.Array:
        u = whitener @ x
        return jnp.sum(-0.5 * u**2 + jax.scipy.special.log_ndtr(skew * u))

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        first, second = rng.normal(size=(2, num, 8))
        tilt = skew / np.sqrt(1.0 + skew**2)
        return (tilt * np.abs(first) + np.sqrt(1.0 - tilt**2) * second) @ mix.T

    return Known("skewed", "8-d, linear map of skew-normals", lambda: (log_density, {"dim": 8}), draws)


def regression() -> Known:
    """A linear regression with its conjugate prior: a normal–inverse-gamma posterior, with log σ among the unknowns."""
    rng = np.random.default_rng(12)
    inputs = rng.normal(size=(240, 6)) @ (np.eye(6) + 0.4 * rng.normal(size=(6, 6)))
    outputs = inputs @ np.array([1.0, -0.5, 0.0, 0.3, 0.0, 0.8]) + 1.2 * rng.normal(size=240)

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        model = LinearRegression(inputs, outputs)
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), num)
        return np.asarray(jax.vmap(model.sample)(keys), float)

    about = "conjugate linear regression, six slopes and log sigma, 240 rows"
    return Known("regression", about, lambda: (LinearRegression(inputs, outputs), {}), draws, batch_size=30)


def two_modes(dim: int, weight: float, distance: float) -> Known:
    means = np.zeros((2, dim))
    means[:, 0] = -0.5 * distance, 0.5 * distance
    means[:, 1] = -0.3 * distance, 0.3 * distance
    factors = np.stack([np.eye(dim), factor_of(13, dim, 0.3, np.linspace(0.6, 1.2, dim))])
    about = f"two modes in {dim} dimensions, weights {1 - weight:g} and {weight:g}"
    return mixture(f"two-modes-{dim}", about, means, factors, np.array([1.0 - weight, weight]))


def _chain(dim: int, correlation: float) -> np.ndarray:
    """The Cholesky factor of an autoregression."""
    lags = np.abs(np.arange(dim)[:, None] - np.arange(dim))
    return np.linalg.cholesky(correlation**lags)


_BATTERY = {"funnel-2": 0, "funnel-10": 0, "schools-centred": 1}  # with the unknown that makes the neck
_OTHERS = ("banana", "x-shaped", "curved-pairs", "student-t", "schools", "eight-even", "five-uneven", "scaled")

TARGETS = [
    gaussian("gaussian-2", "2-d Gaussian, correlation 0.9", np.array([1.0, -2.0]), _chain(2, 0.9)),
    gaussian("chain-20", "20-d Gaussian autoregression, correlation 0.9", np.zeros(20), _chain(20, 0.9)),
    gaussian(
        "gaussian-100",
        "100-d Gaussian, correlated, standard deviations 0.1 to 10",
        np.linspace(-1.0, 1.0, 100),
        factor_of(14, 100, 0.15, np.geomspace(0.1, 10.0, 100)),
    ),
    gammas(),
    skewed(),
    regression(),
    coins("coins-5", 5, 60, 15, 12),
    two_modes(2, 0.5, 8.0),
    two_modes(10, 0.2, 9.0),
    *(of_battery(POSTERIORS[name]) for name in _OTHERS),
    *(of_battery(POSTERIORS[name], neck) for name, neck in _BATTERY.items()),
]
