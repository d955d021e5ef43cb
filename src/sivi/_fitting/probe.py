"""A look at a target where a fit has ended.

What it costs is compiling, not computing. So the target is evaluated by the program of the start of the run, a few
points at a time, draws come from the program of `Posterior.sample`, and the score of q from the means and scales of its
conditionals, by NumPy.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp

from .._arguments import default_float
from .._backend import matmul_precision
from .._draws import block_size, draws_of_noise, has_normal_noise, noise_dims, numbers_of
from .._networks import LocationScale
from .._programs import compiled
from .._repeats import across_repeats, repeat_keys
from .._types import RepeatKeys
from ..families import Components, Family
from ..families.dense_gaussian import DenseGaussianAt
from ..families.diagonal_gaussian import GaussianAt
from ..posterior import Posterior
from . import member
from .start import NUM_POINTS, look_at

#: Draws of the fit, and as many points of N(0, I) in u; fewer where an update sees only some of the data.
NUM_DRAWS, NUM_DRAWS_OF_MINIBATCHES = 256, 64


@dataclass(frozen=True, eq=False)
class EndProbe:
    """A target at draws of one fit, and at points of N(0, I), all in the coordinates u of the fit but for `x_scores`.

    Attributes:
        draws: Of the fit.
        normal: Points of N(0, I); the first is 0.
        x_scores: The target's score in x, at the draws and then at the normal points.
        u_scores: The same in u.
        log_probs: The log density there; NaN for a target that knows only its score.
        q_scores: The score, at the draws, of the mixture of their own conditionals; None for families of other kinds.
        own_weight: The mean weight of the generating component in it.
        sigma: Median over draws of the conditional's standard deviations; None where these are not known.
        sigma_floor: What they cannot fall below.
    """

    draws: Float[np.ndarray, "num dim"]
    normal: Float[np.ndarray, "num dim"]
    x_scores: Float[np.ndarray, "points dim"]
    u_scores: Float[np.ndarray, "points dim"]
    log_probs: Float[np.ndarray, " points"]
    q_scores: Float[np.ndarray, "num dim"] | None
    own_weight: float
    sigma: Float[np.ndarray, " dim"] | None
    sigma_floor: float | None

    @property
    def num(self) -> int:
        return len(self.draws)


def probes_of(posterior: Posterior) -> list[EndProbe]:
    """A look at every repeat of a fit."""
    target, settings, dim = posterior.target, posterior.run.settings, posterior.dim
    assert target is not None
    num, repeats = NUM_DRAWS if settings.batch_size is None else NUM_DRAWS_OF_MINIBATCHES, settings.repeats
    num = min(num, block_size(numbers_of(posterior.affines)))
    normal = np.random.default_rng(0).normal(size=(num, dim)).astype(default_float())
    normal[0] = 0.0
    with matmul_precision(settings.precision):
        drawn = _draws_of(posterior, num)
        u = np.concatenate([drawn[0], np.broadcast_to(normal, (repeats, num, dim))], axis=1)
        scores, u_scores, log_probs = np.empty_like(u), np.empty_like(u), np.full(u.shape[:2], np.nan)
        for first in range(0, u.shape[1], NUM_POINTS):
            block = slice(first, first + NUM_POINTS)
            values = jax.device_get(look_at(target, posterior.affines, jnp.asarray(u[:, block])))
            scores[:, block], u_scores[:, block] = values["score"].reshape(repeats, -1, dim), values["u score"]
            if "log density" in values:
                log_probs[:, block] = values["log density"].reshape(repeats, -1)
    found = []
    for i in range(repeats):
        draws, at = drawn[0][i], None
        if drawn[1] is not None:
            at = Components(jax.tree.map(lambda leaf, i=i: leaf[i], drawn[1])).first(num).stacked
        q_scores, own_weight = (None, np.nan) if at is None else _mixture_scores(draws, at)
        sigma = None if at is None else np.median(_in_basis(at).sigma.reshape(-1, dim), axis=0)
        floor = sigma_floor(posterior.families)
        found.append(EndProbe(draws, normal, scores[i], u_scores[i], log_probs[i], q_scores, own_weight, sigma, floor))
    return found


def sigma_floor(family: Family) -> float | None:
    """The least standard deviation that a family's conditional can have; None if it has no such number."""
    networks = getattr(getattr(family, "conditional", None), "networks", None)
    return float(np.exp(0.5 * networks.log_variance.floor)) if isinstance(networks, LocationScale) else None


def _draws_of(posterior: Posterior, num: int) -> tuple[np.ndarray, Any]:
    """Draws of every repeat, and the Gaussian conditionals that they are of; None for conditionals of other kinds."""
    families, repeats = posterior.families, posterior.repeats
    if not has_normal_noise(families):
        return np.asarray(_other_draws(families, repeat_keys(jax.random.key(1), repeats), num)), None
    source, lengths = np.random.default_rng(1), noise_dims(families)
    noise = [source.normal(size=(repeats, num, length)).astype(default_float()) for length in lengths]
    draws = jax.device_get(draws_of_noise(families, posterior.affines, *noise))
    return draws.u[:, :num], draws.at if isinstance(draws.at, GaussianAt | DenseGaussianAt) else None


@compiled
def _other_draws(families: Family, keys: RepeatKeys, num: int) -> Float[Array, "repeats num dim"]:
    return across_repeats(lambda family, key: member.draws_of(num, family, key), len(keys), families, keys)


def _in_basis(at: Any) -> Any:
    return at.in_basis if isinstance(at, DenseGaussianAt) else at


def _mixture_scores(draws: Float[np.ndarray, "num dim"], at: Any) -> tuple[Float[np.ndarray, "num dim"], float]:
    """The score at each draw of the mixture of all conditionals, and the mean weight of the generating one."""
    inner = _in_basis(at)
    inverse = None if inner is at else np.asarray(at.inverse, float)
    with np.errstate(all="ignore"):  # of a family that has run off
        y = draws.astype(float) if inverse is None else draws @ inverse.T
        mean = np.asarray(inner.mean, float)
        sigma = np.broadcast_to(np.asarray(inner.sigma, float), mean.shape)
        precision = sigma**-2
        offset = y - np.median(mean, axis=0)  # so that little cancels
        mean = mean - np.median(mean, axis=0)
        squares = (offset**2) @ precision.T - 2.0 * offset @ (mean * precision).T + np.sum(mean**2 * precision, axis=1)
        pairs = -0.5 * squares - np.sum(np.log(sigma), axis=1)
        weights = np.exp(pairs - logsumexp(pairs, axis=1, keepdims=True))
        scores = weights @ (mean * precision) - offset * (weights @ precision)
        own_weight = float(np.mean(np.diagonal(weights)))
    return scores if inverse is None else scores @ inverse, own_weight
