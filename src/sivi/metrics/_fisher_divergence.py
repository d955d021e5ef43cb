"""Fisher divergence of a fitted family to its target, estimated with a critic trained for it."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._arguments import as_key, check_count, check_function, default_float, describe, output_of
from .._programs import compiled
from .._renamed import NUM_DRAWS, old_arguments
from .._types import KeyLike
from ..coordinates import CoordinateMap, IdentityMap
from ..critics import CriticSettings, MLPCritic
from ..families import Family, SemiImplicit
from ..optimizers import Adam, OptimizerLike, check_optimizer
from ..schedules import Cosine
from ..targets import Target, Whitened
from ..targets.evaluate import rows_of, values_at
from ._family_score import train_family_score
from ._scores import TargetLike, check_finite_scores, target_for

ScoreOfFamily = Callable[[Array], Array]


@dataclass(frozen=True)
class FisherEstimate:
    """An estimate of E_q‖S − ∇log q‖².

    Attributes:
        value: The estimate: unbiased with an exact score of q, otherwise of a lower bound, which can be negative.
        standard_error: Monte Carlo standard error of `value`; it does not know of the critic's error.
        critic_norm: E‖g‖² of the critic g: the same as `value`, up to noise, for the optimal one. A gap between the two
            shows a critic that is not trained; see `fisher_divergence` for what no gap means.
    """

    value: float
    standard_error: float
    critic_norm: float


@old_arguments("sivi.metrics.fisher_divergence", NUM_DRAWS)
def fisher_divergence(
    fit: object,
    target: TargetLike,
    *,
    key: KeyLike,
    score_q: ScoreOfFamily | None = None,
    num_samples: int = 10_000,
    num_steps: int = 4000,
    num_particles: int = 512,
    critic: CriticSettings | None = None,
    optimizer: OptimizerLike | None = None,
) -> FisherEstimate:
    """E_q‖S(x) − ∇log q(x)‖², where S is the target's score and q a fitted family.

    If ∇log q is known, give it as `score_q`: the estimate is then a plain average. Otherwise a fresh network s_ψ,
    which knows nothing of the critic that the family was fitted with, learns ∇log q from draws of the family
    (denoising score matching). With g = S − s_ψ, draws that were not trained on give

        value = E[ 2 g·(S − ∇_x log q(x|z)) − ‖g‖² ] = E_q‖S − ∇log q‖² − E_q‖s_ψ − ∇log q‖²,

    a lower bound of the divergence. With r = ∇log q − s_ψ the critic's error, the gap `critic_norm − value` is
    2 E[g·r]: beyond the noise, it shows a critic that is not trained. No gap does not prove a good one, since a
    network that has learnt all it can has errors orthogonal to what it can express. More steps or a wider network
    tell: the value rises as long as the critic improves; trust it once it has stopped rising.

    The standard error falls as 1/√num_samples. With a trained critic it grows as the conditional narrows, since
    ∇_x log q(x|z) is of the order of 1/σ: a small divergence then needs many draws.

    Args:
        fit: A family, or a posterior with one repeat (anything with a `family`). Without `score_q` the family has to
            be semi-implicit. A posterior is judged in the coordinates u in which it was fitted, x = m + L u: the value
            is E_q‖Lᵀ(S(x) − ∇log q(x))‖², which does not depend on the units of x.
        target: A `Target`, or a log density of one vector.
        key: An int or a JAX key.
        score_q: ∇log q as a JAX function of one point.
        num_samples: Draws that the value is the average of.
        num_steps: Updates of the critic.
        num_particles: Fresh draws per update of the critic.
        critic: Settings of the network; two hidden layers of 128 and a linear map when left out. It sees draws
            standardised by the family's moments, and adds to the score of a Gaussian.
        optimizer: Of the critic; Adam with a cosine schedule from 3e-3 when left out.

    Returns:
        The value, its standard error and the critic's norm.

    Example:
        >>> from sivi import DiagonalGaussian, NormalMixing
        >>> from sivi.targets import IsotropicGaussian
        >>> family = SemiImplicit(NormalMixing(2), DiagonalGaussian(2, 2, hidden=(8,), key=jax.random.key(0)))
        >>> estimate = fisher_divergence(family, IsotropicGaussian(2), key=1, num_steps=200, critic=MLPCritic((16,)))
        >>> abs(estimate.critic_norm - estimate.value) < 0.1 * estimate.value  # the critic is trained
        True

    Reference:
        Yu and Zhang, Semi-implicit variational inference via score matching (ICLR 2023), Theorem 1; Vincent, A
        connection between score matching and denoising autoencoders (Neural Computation, 2011).
    """
    family = getattr(fit, "family", fit)
    if not isinstance(family, Family):
        raise TypeError(f"fit must be a sivi family, or a posterior with one; got {describe(fit)}.")
    target = target_for(target, fit=family.dim)
    affine = getattr(fit, "affine", None)
    if isinstance(affine, CoordinateMap) and not isinstance(affine, IdentityMap):
        target, score_q = Whitened(target, affine), _in_fit_coordinates(score_q, affine)
    counts = [("num_samples", num_samples, 2), ("num_steps", num_steps, 1), ("num_particles", num_particles, 1)]
    num_samples, num_steps, num_particles = (check_count(*count) for count in counts)
    train_key, test_key = jax.random.split(as_key(key))
    if score_q is not None:
        _check_score(check_function("score_q", score_q), family.dim)
        values, norms, finite = _exact(test_key, family, target, score_q, num_samples)
    else:
        if not isinstance(family, SemiImplicit):
            raise TypeError(f"fit must be semi-implicit, or score_q given; got {describe(family)}.")
        if critic is not None and not isinstance(critic, CriticSettings):
            raise TypeError(f"critic must be settings such as sivi.critics.MLPCritic(); got {describe(critic)}.")
        critic = MLPCritic((128, 128), skip=True, final_scale=0.0) if critic is None else critic
        optimizer = Adam(Cosine(3e-3), b2=0.99) if optimizer is None else optimizer
        check_optimizer("optimizer", optimizer)
        score = train_family_score(train_key, family, critic, optimizer, num_steps, num_particles)
        values, norms, finite = _minimax(test_key, family, target, score, num_samples)
    check_finite_scores(np.asarray(finite))
    each = np.asarray(values, float)
    return FisherEstimate(
        value=float(each.mean()),
        standard_error=float(each.std(ddof=1) / np.sqrt(num_samples)),
        critic_norm=float(np.asarray(norms, float).mean()),
    )


def _in_fit_coordinates(score_q: ScoreOfFamily | None, affine: CoordinateMap) -> ScoreOfFamily | None:
    """A score of x as one of u."""
    return None if score_q is None else lambda u: affine.score_at(u, score_q(affine.forward(u)))


def _check_score(score_q: ScoreOfFamily, dim: int) -> None:
    output = output_of("score_q", score_q, "one point", jax.ShapeDtypeStruct((dim,), default_float()))
    if getattr(output, "shape", None) != (dim,):
        raise ValueError(f"score_q must return a vector of shape ({dim},); got {describe(output)}.")


@compiled
def _exact(
    key: PRNGKeyArray, family: Family, target: Target, score_q: ScoreOfFamily, num_samples: int
) -> tuple[Array, Array, Array]:
    def one(key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        x = family.sample(key)
        score = target.score(x)
        value = jnp.sum((score - score_q(x)) ** 2)
        return value, value, jnp.isfinite(score).all()

    return values_at(one, jax.random.split(key, num_samples), rows_of(target))


@compiled
def _minimax(
    key: PRNGKeyArray, family: SemiImplicit, target: Target, score_q: ScoreOfFamily, num_samples: int
) -> tuple[Array, Array, Array]:
    def one(noise: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        joint = family.joint(*noise)
        score = target.score(joint.x)
        g = score - score_q(joint.x)
        norm = jnp.sum(g**2)
        return 2.0 * jnp.sum(g * (score - joint.score)) - norm, norm, jnp.isfinite(score).all()

    return values_at(one, family.sample_noise(key, (num_samples,)), rows_of(target))
