"""The second model of `sivi demo`: a drug taken by mouth, whose data two modes explain equally well.

One compartment, absorbed at the rate ka and eliminated at the rate ke = CL / V. Swapping the rates, with CL kept, gives
the same curve: ka' = CL / V, V' = CL / ka ("flip-flop kinetics"). The priors alone tell the two modes apart. The file
is written as a user would write a model.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, PyTree

from ..constraints import positive

DOSE = 100.0  # mg
HOURS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0])
#: mg/L; what `generated_concentrations` returns.
CONCENTRATIONS = np.array([0.782, 1.271, 1.691, 1.808, 1.831, 1.896, 1.678, 1.254, 0.825, 0.588, 0.341, 0.108])
TRUTH = {"ka": 0.15, "CL": 5.0, "V": 8.0, "sigma": 0.08}
#: Median and standard deviation of the logarithm: per hour, litres per hour, litres.
PRIORS = {"ka": (0.5, 1.0), "CL": (5.0, 0.5), "V": (15.0, 0.7)}
SIGMA_SCALE = 0.2  # of the half-normal prior of the noise of log concentrations


def unknowns() -> dict[str, Any]:
    """The `like=` of the model."""
    return {"ka": positive(), "CL": positive(), "V": positive(), "sigma": positive()}


def log_density(p: dict[str, Array]) -> Array:
    """Log of prior times likelihood, up to a constant.

    Args:
        p: The four unknowns.
    """
    prior = sum(_lognormal(p[name], *PRIORS[name]) for name in PRIORS) - 0.5 * (p["sigma"] / SIGMA_SCALE) ** 2
    fitted = jnp.log(concentration(p["ka"], p["CL"], p["V"], HOURS))
    return prior + jnp.sum(norm.logpdf(np.log(CONCENTRATIONS), fitted, p["sigma"]))


def concentration(ka: Any, clearance: Any, volume: Any, hours: Any) -> Array:
    """dose ka / (V (ka − ke)) (exp(−ke t) − exp(−ka t)), without the division by zero at ka = ke.

    Args:
        ka: Rate of absorption.
        clearance: Volume that is cleared of the drug in an hour.
        volume: Of distribution.
        hours: Time since the dose.
    """
    ke = clearance / volume
    slower, apart = jnp.minimum(ka, ke), jnp.maximum(jnp.abs(ka - ke), 1e-6)
    return DOSE * ka / volume * jnp.exp(-slower * hours) * -jnp.expm1(-apart * hours) / apart


def rates(draws: PyTree) -> tuple[np.ndarray, np.ndarray]:
    """ka and ke of named draws.

    Args:
        draws: As `Posterior.sample` returns them.
    """
    return np.asarray(draws["ka"], float), np.asarray(draws["CL"], float) / np.asarray(draws["V"], float)


def slow_share(draws: PyTree) -> float:
    """Share of the draws in the mode of slow absorption, ka < ke.

    Args:
        draws: As `Posterior.sample` returns them.
    """
    ka, ke = rates(draws)
    return float((ka < ke).mean())


def generated_concentrations(seed: int = 0) -> np.ndarray:
    """Concentrations at `TRUTH`, with log-normal noise, to three decimals.

    Args:
        seed: Of NumPy's generator.
    """
    noise = TRUTH["sigma"] * np.random.default_rng(seed).normal(size=len(HOURS))
    exact = np.asarray(concentration(TRUTH["ka"], TRUTH["CL"], TRUTH["V"], HOURS))
    return np.round(exact * np.exp(noise), 3)


def _lognormal(value: Array, median: float, sd: float) -> Array:
    return norm.logpdf(jnp.log(value), np.log(median), sd) - jnp.log(value)
