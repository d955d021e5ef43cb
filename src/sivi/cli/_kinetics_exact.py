"""The posterior of the kinetics without Monte Carlo: quadrature over both rates and the noise, in float64.

Given the rates and the noise, the log density is a quadratic in log V: of the data, of the prior of V and of that of
CL = ke V. That integral is a closed form, so a grid of three dimensions is left.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ._kinetics import CONCENTRATIONS, DOSE, HOURS, PRIORS, SIGMA_SCALE

_RATES, _SIGMAS = (-4.0, 2.0), (-4.5, 0.5)  # ranges of the logarithms


class Exact(NamedTuple):
    """The marginal posterior of the logarithms of both rates.

    Attributes:
        log_rates: The points of either axis, the same for both.
        density: Of (log ka, log ke) on the grid, with integral 1.
        slow_share: Probability of slow absorption, ka < ke.
    """

    log_rates: Float[np.ndarray, " rates"]
    density: Float[np.ndarray, "rates rates"]
    slow_share: float


def exact(num_rates: int = 301, num_sigmas: int = 61) -> Exact:
    """The exact answer, by the trapezoidal rule.

    Args:
        num_rates: Points of either log rate. With 301 they are half a standard deviation of a mode apart.
        num_sigmas: Points of log sigma.
    """
    log_rates, log_sigmas = np.linspace(*_RATES, num_rates), np.linspace(*_SIGMAS, num_sigmas)
    log_ka, log_ke = np.meshgrid(log_rates, log_rates, indexing="ij")
    misfit = np.log(CONCENTRATIONS) - _log_curve(log_ka, log_ke)
    offset, spread = misfit.mean(-1), misfit.var(-1) * len(HOURS)
    log_density = np.full(log_ka.shape, -np.inf)
    for log_sigma in log_sigmas:
        given = _given_sigma(np.exp(log_sigma), log_ka, log_ke, offset, spread)
        log_density = np.logaddexp(log_density, given + log_sigma)
    density = np.exp(log_density - log_density.max())
    share = density[log_ka < log_ke].sum() / density[log_ka != log_ke].sum()
    spacing = log_rates[1] - log_rates[0]
    return Exact(log_rates, density / density.sum() / spacing**2, float(share))


def _log_curve(log_ka: np.ndarray, log_ke: np.ndarray) -> np.ndarray:
    """Log concentrations of V = 1, (..., hours)."""
    ka, ke = np.exp(log_ka)[..., None], np.exp(log_ke)[..., None]
    apart = np.where(ka == ke, 1e-9, ka - ke)
    # sinh(u) / u at u = (ka − ke) t / 2, which is even in the difference of the rates.
    half = 0.5 * np.abs(apart) * HOURS
    log_sinh = half + np.log(-np.expm1(-2.0 * half)) - np.log(2.0 * half)
    return np.log(DOSE * ka * HOURS) - 0.5 * (ka + ke) * HOURS + log_sinh


def _given_sigma(
    sigma: float, log_ka: np.ndarray, log_ke: np.ndarray, offset: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Log density of rates and sigma, with log V integrated out."""
    (ka_median, ka_sd), (clearance, clearance_sd), (volume, volume_sd) = (PRIORS[name] for name in ("ka", "CL", "V"))
    # Three Gaussian factors in log V: the data's mean misfit is −log V, the prior of V, and log CL = log ke + log V.
    precisions = np.array([len(HOURS) / sigma**2, volume_sd**-2, clearance_sd**-2])
    centres = np.stack([-offset, np.full_like(offset, np.log(volume)), np.log(clearance) - log_ke])
    mean = np.tensordot(precisions, centres, 1) / precisions.sum()
    quadratic = np.tensordot(precisions, (centres - mean) ** 2, 1) + spread / sigma**2
    prior = ((log_ka - np.log(ka_median)) / ka_sd) ** 2 + (sigma / SIGMA_SCALE) ** 2
    return -0.5 * (quadratic + prior + np.log(precisions.sum())) - len(HOURS) * np.log(sigma)
