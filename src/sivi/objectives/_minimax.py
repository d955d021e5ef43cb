"""The minimax form of the Fisher divergence: its critic g, its value, and products of scores without bias.

The critic is g(x) = f_ψ(x) + ψ_t S(x). A critic with ψ ≠ 0 makes the value quadratic in S. The score of a minibatch is
unbiased, its square is not: the family would be drawn to where minibatches agree. So products of two scores are taken
between the halves of a batch.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._arguments import describe
from .._types import Metrics, Scalar
from ..critics.base import PointFunction
from ..families import SemiImplicit
from ..schedules import Constant, RunPlan, Schedule
from ..targets import Target
from .base import Noise

#: A critic g as a function of x, then of S(x): what depends on x alone is computed once for several scores.
CriticOfScore: TypeAlias = Callable[[Array], Callable[[Array], Array]]


class CriticFunction(eqx.Module):
    """g = f_ψ + ψ S as a function of x, then of S(x).

    Attributes:
        network: f_ψ as a function of one point.
        psi: ψ; None for 0, where the score is not needed, and 1.0 for the residual critic S + f_ψ.
    """

    network: PointFunction
    psi: Scalar | float | None

    def __call__(self, x: Float[Array, " dim"]) -> Callable[[Array], Array]:
        network, psi = self.network(x), self.psi
        if psi is None:
            return lambda score: network
        if isinstance(psi, float):
            return lambda score: score + network
        return lambda score: network + psi * score


def is_zero(psi: Schedule) -> bool:
    """Whether ψ_t ≡ 0, so that the critic is the network alone."""
    return isinstance(psi, Constant) and psi.value == 0.0


def critic_with_score(network: PointFunction, psi: Schedule, step: Int[Array, ""]) -> CriticFunction:
    """g = f_ψ + ψ_t S at a step."""
    return CriticFunction(network, None if is_zero(psi) else psi(step))


def check_split(split: object) -> bool | None:
    """The setting `split` of a minimax objective."""
    if split is not None and not isinstance(split, bool):
        raise TypeError(f"split must be True, False or None; got {describe(split)}.")
    return split


def splits(psi: Schedule, split: bool | None) -> bool:
    """Whether a minibatch is split; where the score is not squared there is no need."""
    return split is not False and not is_zero(psi)


def bound_settings(psi: Schedule, split: bool | None, plan: RunPlan) -> dict[str, Any]:
    """`psi` and `split` for a run.

    With rotating minibatches the same halves come back, and a family could find where they oppose each other: there is
    no split unless it was asked for.
    """
    return {"psi": psi.bind(plan), "split": False if split is None and plan.batching == "rotate" else split}


class ScorePairs(eqx.Module):
    """Pairs (weight, S₁, S₂): Σ weight · S₁S₂ is unbiased for the square of the full score."""

    weights: tuple[float, ...] = eqx.field(static=True)
    first: tuple[Float[Array, "*shape dim"], ...]
    second: tuple[Float[Array, "*shape dim"], ...]

    def __iter__(self) -> Iterator[tuple[float, Array, Array]]:
        return zip(self.weights, self.first, self.second, strict=True)

    @property
    def mean(self) -> Float[Array, "*shape dim"]:
        """The score itself, linear and so unbiased as it is."""
        return sum((0.5 * weight * (first + second) for weight, first, second in self), start=jnp.zeros(()))


def score_pairs(target: Target, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None, split: bool) -> ScorePairs:
    """Weighted pairs of scores whose products are unbiased for products of the full score with itself.

    For halves S₁, S₂ of a batch of B out of N rows drawn without replacement, and their mean S̄,
    E[S₁S₂] = S² − V b/(N − b) and E[S̄²] = S² + V (N − B)/(2 (N − b)), with b = B/2 and V the variance of a half's
    score; so (B/N) S̄S̄ + (1 − B/N) S₁S₂ has no bias. It is the plain product when the batch is all of the data.
    """
    if batch is None or not split or batch.shape[0] < 2:  # a single row is all of the data: `fit` sees to that
        score = target.score(x, batch)
        return ScorePairs((1.0,), (score,), (score,))
    half = batch.shape[0] // 2
    first, second = (target.score(x, part) for part in (batch[:half], batch[half : 2 * half]))
    mean = 0.5 * (first + second)
    share = 2 * half / (target.num_data or 1)
    return ScorePairs((share, 1.0 - share), (mean, first), (mean, second))


def minimax_value(
    pairs: ScorePairs, critic: CriticOfScore, x: Float[Array, " dim"], conditional_score: Float[Array, " dim"]
) -> tuple[Array, Array]:
    """2 g·(S − ∇log q(x|z)) − ‖g‖² and ‖g‖² at one draw, for g = critic(x)(S)."""
    value, norm = jnp.zeros(()), jnp.zeros(())
    at_x = critic(x)
    for weight, first, second in pairs:
        g, h = at_x(first), at_x(second)
        product = jnp.sum(g * h)
        cross = jnp.sum(g * (second - conditional_score)) + jnp.sum(h * (first - conditional_score))
        value += weight * (cross - product)
        norm += weight * product
    return value, norm


def minimax(
    family: SemiImplicit,
    critic: CriticOfScore,
    target: Target,
    batch: Int[Array, " batch"] | None,
    noise: Noise,
    *,
    split: bool = False,
) -> tuple[Scalar, Metrics]:
    """The Monte Carlo estimate of L(φ, g) and of E‖g‖².

    With `split`, products of two scores are taken between the halves of the batch, and L is unbiased for that of all
    data.

    Args:
        family: q_φ.
        critic: The critic g as a function of x, then of S(x).
        target: Provides S.
        batch: Data rows for S.
        noise: The base noise of n draws, from `family.sample_noise`.
        split: Whether the critic depends on S(x), so that a minibatch has to be split.

    Returns:
        L, and `{"critic_norm": E‖g‖²}`.
    """

    def one(mixing_noise: Array, eps: Array) -> tuple[Array, Array]:
        joint = family.joint(mixing_noise, eps)
        return minimax_value(score_pairs(target, joint.x, batch, split), critic, joint.x, joint.score)

    values, norms = jax.vmap(one)(*noise)
    return jnp.mean(values), {"critic_norm": jnp.mean(norms)}
