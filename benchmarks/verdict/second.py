"""The second set: targets that are run once, after the limits of the check are frozen."""

import jax
import jax.numpy as jnp
import numpy as np

from .known import Known, coins, factor_of, funnel, gaussian, mixture


def twisted(name: str, dim: int, bend: float) -> Known:
    """A Gaussian whose second unknown is bent by the first, and the fourth by the third (sine), all then rotated."""
    rotation = np.linalg.qr(np.random.default_rng(21).normal(size=(dim, dim)))[0]
    turn = jnp.asarray(rotation)

    def log_density(x: jax.Array) -> jax.Array:
        u = turn.T @ x
        second, fourth = u[1] - bend * (u[0] ** 2 - 1.0), u[3] - 1.5 * jnp.sin(2.0 * u[2])
        others = jnp.sum(u[4:] ** 2) + u[0] ** 2 + u[2] ** 2
        return -0.5 * (others + (second / 0.5) ** 2 + (fourth / 0.5) ** 2)

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        u = rng.normal(size=(num, dim))
        u[:, 1] = 0.5 * u[:, 1] + bend * (u[:, 0] ** 2 - 1.0)
        u[:, 3] = 0.5 * u[:, 3] + 1.5 * np.sin(2.0 * u[:, 2])
        return u @ rotation.T

    return Known(name, f"{dim}-d, bent twice and rotated", lambda: (log_density, {"dim": dim}), draws)


def sinh_arcsinh() -> Known:
    """Marginals of many shapes: sinh((asinh(z) + e) / d) of normals, with skewness e and tails d."""
    skew, tail = np.linspace(-0.5, 0.5, 7), np.linspace(0.8, 1.3, 7)
    e, d = jnp.asarray(skew), jnp.asarray(tail)

    def log_density(x: jax.Array) -> jax.Array:
        w = d * jnp.arcsinh(x) - e
        return jnp.sum(-0.5 * jnp.sinh(w) ** 2 + jnp.log(jnp.cosh(w)) - 0.5 * jnp.log1p(x**2))

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        return np.sinh((np.arcsinh(rng.normal(size=(num, 7))) + skew) / tail)

    about = "seven sinh-arcsinh normals, skewed to either side, light and heavy tails"
    return Known("sinh-arcsinh", about, lambda: (log_density, {"dim": 7}), draws)


def logistics() -> Known:
    """Heavier tails than a Gaussian's, correlated: a linear map of logistic unknowns."""
    mix = factor_of(22, 30, 0.3, np.geomspace(0.01, 100.0, 30))
    scale = np.sqrt((mix**2).sum(1))
    whitener, sds = jnp.asarray(np.linalg.inv(mix / scale[:, None])), jnp.asarray(scale)

    def log_density(x: jax.Array) -> jax.Array:
        u = whitener @ (x / sds)
        return jnp.sum(jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u))

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        return rng.logistic(size=(num, 30)) @ mix.T

    about = "30-d linear map of logistic unknowns, standard deviations 0.02 to 200"
    return Known("logistics-30", about, lambda: (log_density, {"dim": 30}), draws)


def student_t_5() -> Known:
    """Five independent unknowns with six degrees of freedom."""
    centre = jnp.asarray(np.linspace(-3.0, 3.0, 5))

    def log_density(x: jax.Array) -> jax.Array:
        return -3.5 * jnp.sum(jnp.log1p((x - centre) ** 2 / 6.0))

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        return np.linspace(-3.0, 3.0, 5) + rng.standard_t(6.0, size=(num, 5))

    about = "five independent Student-t, six degrees of freedom"
    return Known("student-t-5", about, lambda: (log_density, {"dim": 5}), draws)


def ring() -> Known:
    """One mode that is a circle: the radius is normal, the angle uniform."""

    def log_density(x: jax.Array) -> jax.Array:
        radius = jnp.sqrt(x[0] ** 2 + x[1] ** 2)
        return -0.5 * ((radius - 4.0) / 0.5) ** 2 - jnp.log(jnp.maximum(radius, 1e-6)) - 0.5 * x[2] ** 2

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        radius, angle = rng.normal(4.0, 0.5, size=num), rng.uniform(0.0, 2.0 * np.pi, size=num)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=num)], axis=1)

    return Known("circle", "a circle of radius 4 and width 0.5, and a normal unknown", _in(log_density, 3), draws)


def _in(log_density, dim: int):
    return lambda: (log_density, {"dim": dim})


def three_modes() -> Known:
    means = 7.0 * np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, -1.0, 0.0, 0.0]])
    factors = np.stack([factor_of(23 + k, 5, 0.4, np.full(5, sd)) for k, sd in enumerate((0.6, 0.9, 1.2))])
    return mixture("three-modes-5", "three modes in 5 dimensions, weights 5:3:2", means, factors, np.array([5, 3, 2]))


def six_modes() -> Known:
    """Three in a row, on two lines."""
    means = np.array([[x, y] for y in (-3.0, 3.0) for x in (-5.0, 0.0, 5.0)])
    factors = np.stack([factor_of(30 + k, 2, 0.5, np.array([0.6, 0.4])) for k in range(6)])
    weights = np.array([3.0, 2.0, 3.0, 2.0, 3.0, 2.0])
    return mixture("six-modes-2", "six modes in the plane, weights 3:2:3:2:3:2", means, factors, weights)


def far_modes() -> Known:
    means = np.zeros((2, 20))
    means[1, 4], means[1, 11] = 7.0, -5.0
    factors = np.stack([np.eye(20), 0.7 * np.eye(20)])
    return mixture(
        "two-modes-20", "two modes in 20 dimensions, weights 0.65 and 0.35", means, factors, np.array([13, 7])
    )


_BLOCKS = np.kron(np.eye(5), np.linalg.cholesky(0.7 * np.ones((8, 8)) + 0.3 * np.eye(8)))

TARGETS = [
    twisted("twisted-6", 6, 0.7),
    sinh_arcsinh(),
    logistics(),
    student_t_5(),
    ring(),
    three_modes(),
    six_modes(),
    far_modes(),
    funnel("funnel-4", 4, 1.2),
    funnel("funnel-6-steep", 6, 0.7, slope=1.0),
    gaussian("blocks-40", "40-d Gaussian, five blocks of correlation 0.7", np.linspace(0.0, 5.0, 40), _BLOCKS),
    coins("coins-12", 12, 240, 24, 30),
]
