"""What a target with exact draws is, and parts that several of them share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from battery.entry import Entry, Modes, Problem
from sivi.targets import BayesianModel, GaussianMixture, Target, as_target
from sivi.targets.base import TargetWrapper

Sample = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True, eq=False)
class Known:
    """A target whose exact draws are known.

    Attributes:
        name: Of the target.
        about: What it is, in a line.
        problem: Makes the target, or a function and its `dim` or `like`.
        exact: A generator and a number of draws → free numbers (num, dim).
        modes: Places and weights of separated modes.
        neck: For funnels, the unknown whose low values are the neck.
        batch_size: Of minibatches, where the target is a model with data.
    """

    name: str
    about: str
    problem: Callable[[], Problem]
    exact: Sample
    modes: Modes | None = None
    neck: int | None = None
    batch_size: int | None = None

    @cached_property
    def target(self) -> Target:
        """The same object always, so that its programs are compiled once."""
        function, what = self.problem()
        return as_target(function, **what)

    @property
    def dim(self) -> int:
        return self.target.dim


class Unscaled(TargetWrapper):
    """A model whose minibatches are not scaled to all data: the factor N/B is forgotten."""

    target: BayesianModel

    def log_prob(self, x: jax.Array, batch: jax.Array | None = None) -> jax.Array:
        value = self.target.log_prob(x, batch)
        if batch is None:
            return value
        prior = self.target.log_prior(x)
        return prior + (value - prior) * (batch.shape[0] / self.target.num_data)


def of_battery(entry: Entry, neck: int | None = None) -> Known:
    """A posterior of the battery that has exact draws."""
    if entry.exact is None:
        raise ValueError(f"entry must have exact draws; {entry.name} has none.")
    return Known(entry.name, entry.about, entry.problem, entry.exact, entry.modes, neck)


def gaussian(name: str, about: str, mean: np.ndarray, factor: np.ndarray) -> Known:
    """N(mean, L Lᵀ), written in standardised unknowns."""
    scale = np.sqrt((factor**2).sum(1))
    whitener, centre, sds = (jnp.asarray(a) for a in (np.linalg.inv(factor / scale[:, None]), mean, scale))

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        return mean + rng.normal(size=(num, len(mean))) @ factor.T

    def log_density(x: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum((whitener @ ((x - centre) / sds)) ** 2)

    return Known(name, about, lambda: (log_density, {"dim": len(mean)}), draws)


def mixture(name: str, about: str, means: np.ndarray, factors: np.ndarray, weights: np.ndarray) -> Known:
    """Σ w_k N(μ_k, L_k L_kᵀ), with modes that are far apart."""
    shares = np.asarray(weights, float) / np.sum(weights)
    covariances = factors @ np.swapaxes(factors, 1, 2)

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        component = rng.choice(len(shares), size=num, p=shares)
        return means[component] + np.einsum("nij,nj->ni", factors[component], rng.normal(size=(num, means.shape[1])))

    return Known(name, about, lambda: (GaussianMixture(means, covariances, shares), {}), draws, Modes(means, shares))


def funnel(name: str, dim: int, sd: float, slope: float = 0.5) -> Known:
    """v ~ N(0, sd²) and the others N(0, exp(2·slope·v)) given v."""

    def log_density(x: jax.Array) -> jax.Array:
        rest = -0.5 * jnp.sum((x[1:] * jnp.exp(-slope * x[0])) ** 2) - (dim - 1) * slope * x[0]
        return -0.5 * (x[0] / sd) ** 2 + rest

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        v = rng.normal(0.0, sd, size=(num, 1))
        return np.concatenate([v, np.exp(slope * v) * rng.normal(size=(num, dim - 1))], axis=1)

    about = f"funnel in {dim} dimensions, v ~ N(0, {sd:g}²), the others of sd exp({slope:g} v)"
    return Known(name, about, lambda: (log_density, {"dim": dim}), draws, neck=0)


def factor_of(seed: int, dim: int, coupling: float, scales: np.ndarray) -> np.ndarray:
    """A Cholesky factor with random correlations and these standard deviations."""
    mix = np.tril(coupling * np.random.default_rng(seed).normal(size=(dim, dim)), -1) + np.eye(dim)
    return (scales / np.sqrt((mix**2).sum(1)))[:, None] * mix


#: Shapes of the prior of a coin's chance of heads.
BETA = (1.5, 2.0)


class Coins(BayesianModel):
    """Logistic regression on one-hot inputs with the conjugate prior: σ(x_j) ~ Beta(a, b)."""

    data: tuple[jax.Array, jax.Array]
    dim: int = eqx.field(static=True)

    def log_prior(self, x: jax.Array) -> jax.Array:
        a, b = BETA
        return jnp.sum(a * jax.nn.log_sigmoid(x) + b * jax.nn.log_sigmoid(-x))

    def log_likelihood(self, x: jax.Array, datum: tuple[jax.Array, jax.Array]) -> jax.Array:
        group, sign = datum
        return jax.nn.log_sigmoid(sign * x[group])


def coins(name: str, dim: int, rows: int, seed: int, batch_size: int) -> Known:
    """Heads of `dim` coins in so many tosses, given as a model with minibatches."""
    rng = np.random.default_rng(seed)
    chance, group = rng.uniform(0.1, 0.9, size=dim), np.arange(rows) % dim
    heads = rng.uniform(size=rows) < chance[group]
    won, lost = (np.bincount(group[which], minlength=dim) for which in (heads, ~heads))
    a, b = BETA

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        first, second = rng.gamma(a + won, size=(num, dim)), rng.gamma(b + lost, size=(num, dim))
        return np.log(first) - np.log(second)

    def problem() -> Problem:
        return Coins((jnp.asarray(group), jnp.asarray(np.where(heads, 1.0, -1.0))), dim), {}

    about = f"logistic regression on {dim} groups with a conjugate prior, {rows} rows"
    return Known(name, about, problem, draws, batch_size=batch_size)
