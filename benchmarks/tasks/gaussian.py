"""Gaussians that are far away, ill-conditioned or large, and a Student-t."""

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from sivi.metrics import moment_errors

from .task import Problem, Reference, Sizes, Task, flat


def moments_task(name: str, about: str, problem, mean: np.ndarray, sd: np.ndarray, bars, keys=None) -> Task:
    """Largest errors over all coordinates, against the exact moments."""

    def measure(posterior: sivi.Posterior, key: int, rng: np.random.Generator, sizes: Sizes) -> dict[str, float]:
        errors = moment_errors(flat(posterior.sample(sizes.moments, key=key)), (mean, sd))
        return {
            "mean_error_sd": errors.largest_mean_error,
            "sd_error": errors.largest_sd_error,
            "mean_sd_ratio": float(errors.sd_ratio.mean()),
        }

    return Task(name, about, problem, measure, bars, keys=keys)


def gaussian_50(dim: int = 50, condition: float = 1000.0, away: float = 20.0) -> Task:
    """Log-spaced eigenvalues in random directions; every coordinate's mean is ±20 of its own standard deviations."""
    rng = np.random.default_rng(50)
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    eigenvalues = np.geomspace(condition**-0.5, condition**0.5, dim)
    sd = np.sqrt((basis**2) @ eigenvalues)
    mean = away * sd * rng.choice([-1.0, 1.0], size=dim)

    def problem() -> Problem:
        whitener = jnp.asarray(basis.T / np.sqrt(eigenvalues)[:, None])
        centre = jnp.asarray(mean)
        return (lambda x: -0.5 * jnp.sum((whitener @ (x - centre)) ** 2)), {"dim": dim}

    about = f"{dim}-d Gaussian, condition number {condition:.0f}, every mean ±{away:.0f} of its own sd from 0"
    return moments_task("gaussian-50", about, problem, mean, sd, {"mean_error_sd": 0.05, "sd_error": 0.03})


def gaussian_2000(dim: int = 2000, rank: int = 20) -> Task:
    """Covariance F Fᵀ + D, its inverse applied by Woodbury's identity; means N(0, 3²) in units of their own sd."""
    rng = np.random.default_rng(2000)
    factor, diagonal = rng.normal(size=(dim, rank)), rng.uniform(0.5, 2.0, size=dim)
    sd = np.sqrt((factor**2).sum(1) + diagonal)
    mean = 3.0 * sd * rng.normal(size=dim)

    def problem() -> Problem:
        # (F Fᵀ + D)⁻¹ = D⁻¹ − D⁻¹ F (I + Fᵀ D⁻¹ F)⁻¹ Fᵀ D⁻¹
        core = np.linalg.inv(np.linalg.cholesky(np.eye(rank) + factor.T @ (factor / diagonal[:, None])))
        inner = jnp.asarray(core @ (factor / diagonal[:, None]).T)
        precision, centre = jnp.asarray(1.0 / diagonal), jnp.asarray(mean)

        def log_density(x: jax.Array) -> jax.Array:
            offset = x - centre
            return 0.5 * (jnp.sum((inner @ offset) ** 2) - jnp.sum(precision * offset**2))

        return log_density, {"dim": dim}

    about = f"{dim}-d Gaussian, covariance F Fᵀ + D with {rank} columns, means N(0, 3²) of their own sd from 0"
    bars = {"sd_error": 0.05, "peak_gb": 3.0, "seconds": 600.0}
    return moments_task("gaussian-2000", about, problem, mean, sd, bars, keys=(0,))


def student_t(dim: int = 5, degrees: float = 4.0) -> Task:
    """Multivariate Student-t: location + A n / √(χ²/ν), n ~ N(0, I), scale matrix A Aᵀ."""
    rng = np.random.default_rng(5)
    factor = np.tril(rng.normal(size=(dim, dim)), -1) + np.diag(np.geomspace(0.5, 2.0, dim))
    location = 3.0 * rng.normal(size=dim)

    def problem() -> Problem:
        whitener, centre = jnp.asarray(np.linalg.inv(factor)), jnp.asarray(location)

        def log_density(x: jax.Array) -> jax.Array:
            return -0.5 * (degrees + dim) * jnp.log1p(jnp.sum((whitener @ (x - centre)) ** 2) / degrees)

        return log_density, {"dim": dim}

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        normal, chi_square = rng.normal(size=(num, dim)), rng.chisquare(degrees, size=(num, 1))
        return location + (normal / np.sqrt(chi_square / degrees)) @ factor.T

    reference: Reference = draws
    about = f"{dim}-d Student-t, {degrees:.0f} degrees of freedom, correlated"
    return Task(f"student-t-{dim}", about, problem, reference=reference, judged=True)


TASKS = [gaussian_50(), gaussian_2000(), student_t()]
