"""A lower bound of the log evidence, log ∫ exp(log_prob), by importance weights of a semi-implicit family.

A batch has M mixing variables z_1, …, z_M ~ q(z), one draw x_i ~ q(x|z_i) of each, and the weights

    w_i = p̃(x_i) / ψ(x_i),    ψ(x) = (1/M) Σ_j q(x|z_j).

Given the z, the mean of the w_i has the expectation (1/M) Σ_i ∫ q(x|z_i) p̃(x)/ψ(x) dx = ∫ p̃ = Z, whatever the z are.
So the mean of all weights is unbiased for Z, and its logarithm is in expectation a lower bound of log Z. The generating
z_i must be among the terms of ψ: an estimate of q(x_i) without it would be too small, and the weights too large.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ._arguments import check_count
from ._errors import MissingLogProb
from ._host_random import fold_in
from ._pareto import MAX_K_HAT, k_hat
from ._programs import compiled
from ._repeats import across_repeats, repeat_keys
from ._types import RepeatKeys
from .coordinates import CoordinateMap
from .families import Components, Family, SemiImplicit
from .targets import Target
from .targets.evaluate import log_probs_at, values_at

#: Points × components × unknowns that are evaluated at once.
_MAX_NUMBERS = 2**24

_log_probs_at = compiled(log_probs_at)


@dataclass(frozen=True)
class LogEvidence:
    """An estimate of log Z = log ∫ exp(log_prob(x)) dx that is, in expectation, a lower bound.

    It exceeds log Z by t nats with a probability of at most e^(−t), whatever the fit. Where the fit has no draws, the
    bound lacks the mass, and neither `standard_error` nor `k_hat` can tell.

    Attributes:
        value: The logarithm of the mean importance weight.
        standard_error: Of `value`, from the variance of the weights; believe it only if `is_reliable`.
        elbo: The mean of the logarithms of the weights: a lower bound of the evidence lower bound of the fit, and so of
            log Z. The gap from `value` shows how far the fit is from the target, where it has draws.
        k_hat: The tail index of the weights, see `is_reliable`.
        effective_sample_size: (Σ w)² / Σ w²: so many equal weights would have the same noise.
        num_samples: How many weights.
        num_aux: M, components in the density of the fit at each draw.
    """

    value: float
    standard_error: float
    elbo: float
    k_hat: float
    effective_sample_size: float
    num_samples: int
    num_aux: int

    @property
    def is_reliable(self) -> bool:
        """Whether the noise of `value` can be known from the weights: k-hat is at most 0.7.

        Above, a few weights decide, and larger ones are to be expected among more of them.
        """
        return bool(self.k_hat <= MAX_K_HAT)

    def __str__(self) -> str:
        text = (
            f"log evidence ≥ {self.value:.6g} ± {self.standard_error:.2g} (a lower bound in expectation; "
            f"ELBO {self.elbo:.6g}, {self.effective_sample_size:,.0f} effective of {self.num_samples:,} draws, "
            f"k-hat {self.k_hat:.2f})"
        )
        if self.is_reliable:
            return text
        return f"{text}; not reliable: a few draws decide, so the error is larger than it says, and the bound is loose"


def log_evidence(
    families: Family,
    affines: CoordinateMap,
    target: Target,
    key: PRNGKeyArray,
    num_samples: int,
    num_aux: int,
    repeats: int,
) -> LogEvidence:
    """The bound by draws of the equal mixture of all repeats, whose components share each batch evenly.

    Args:
        families: The fitted families, in u, with a leading axis of repeats.
        affines: Their maps to x.
        target: Must know its log density.
        key: A JAX key.
        num_samples: Draws, at least; they fill batches.
        num_aux: M, mixing variables of a batch, which has as many draws.
        repeats: Number of repeats.
    """
    num_samples, num_aux = check_count("num_samples", num_samples, 2), check_count("num_aux", num_aux)
    _check(families, target)
    each = -(-min(num_aux, num_samples) // repeats)
    num_batches = -(-num_samples // (each * repeats))
    log_weights = np.concatenate(list(_batches(families, affines, target, key, num_batches, each, repeats)))
    return _summary(log_weights, each * repeats)


def _check(families: Family, target: Target) -> None:
    if not target.knows_log_prob:
        raise MissingLogProb(
            "log_evidence needs the target's log density, and this fit's target knows only its score: "
            f"{type(target).__name__}."
        )
    if not isinstance(families, SemiImplicit):
        raise TypeError(
            "log_evidence needs a SemiImplicit family, with a mixing layer and a conditional; "
            f"got {type(families).__name__}."
        )


def _batches(
    families: Family,
    affines: CoordinateMap,
    target: Target,
    key: PRNGKeyArray,
    num_batches: int,
    each: int,
    repeats: int,
) -> Iterator[Float[np.ndarray, " num"]]:
    """Log weights, a batch at a time. Where the log density is not a number or +∞, the weight is zero."""
    for i in range(num_batches):
        points, log_mixture = _draws(families, affines, repeat_keys(fold_in(key, i), repeats), each, repeats)
        log_weights = np.asarray(_log_probs_at(target, points), float) - np.asarray(log_mixture, float)
        yield np.where(np.isnan(log_weights) | (log_weights == np.inf), -np.inf, log_weights)


def _summary(log_weights: Float[np.ndarray, " num"], num_aux: int) -> LogEvidence:
    num, largest = len(log_weights), log_weights.max()
    if largest == -np.inf:
        return LogEvidence(-np.inf, np.nan, -np.inf, np.nan, 0.0, num, num_aux)
    weights = np.exp(log_weights - largest)
    mean = weights.mean()
    return LogEvidence(
        value=float(largest + np.log(mean)),
        standard_error=float(weights.std(ddof=1) / (mean * np.sqrt(num))),
        elbo=float(log_weights.mean()),
        k_hat=k_hat(log_weights),
        effective_sample_size=float(weights.sum() ** 2 / (weights**2).sum()),
        num_samples=num,
        num_aux=num_aux,
    )


@compiled
def _draws(
    families: SemiImplicit, affines: CoordinateMap, keys: RepeatKeys, each: int, repeats: int
) -> tuple[Float[Array, "num dim"], Float[Array, " num"]]:
    """Draws of all repeats in x, one of each component, and log ψ at them, ψ with all components of all repeats."""

    def drawn(family: SemiImplicit, affine: CoordinateMap, key: PRNGKeyArray) -> tuple[Array, Array, Components]:
        noise, eps = family.sample_noise(key, (each,))
        components = family.conditional.at_each(jax.vmap(family.mixing.transform)(noise))
        u = components.transform(eps)
        return values_at(affine.forward, u, affine.numbers_per_point), u, components

    points, own, components = across_repeats(drawn, repeats, families, affines, keys)
    points = points.reshape(repeats * each, -1)

    def of_repeat(affine: CoordinateMap, components: Components, own: Array, index: Array) -> Array:
        u = values_at(affine.inverse, points, affine.numbers_per_point)
        # Its own draws as they were made: x − m loses digits.
        u = jax.lax.dynamic_update_slice_in_dim(u, own, index * each, axis=0)
        return _log_mixture(components, u, each) - _log_dets(affine, u)

    by_repeat = across_repeats(of_repeat, repeats, affines, components, own, jnp.arange(repeats))
    return points, jax.nn.logsumexp(by_repeat, axis=0) - jnp.log(repeats * each)


def _log_dets(affine: CoordinateMap, u: Float[Array, "num dim"]) -> Float[Array, " num"]:
    return values_at(affine.log_det_at, u, affine.numbers_per_point)


def _log_mixture(components: Components, u: Float[Array, "num dim"], num_components: int) -> Float[Array, " num"]:
    """log Σ_j q(u|z_j), in blocks of points."""
    block = max(1, _MAX_NUMBERS // (num_components * u.shape[1]))
    if block >= len(u):
        return jax.nn.logsumexp(components.log_prob_pairs(u), axis=1)
    size = len(u) + -len(u) % block
    padded = jnp.concatenate([u, jnp.broadcast_to(u[-1:], (size - len(u), u.shape[1]))])
    blocks = padded.reshape(-1, block, u.shape[1])
    return jax.lax.map(lambda u: jax.nn.logsumexp(components.log_prob_pairs(u), axis=1), blocks).reshape(-1)[: len(u)]
