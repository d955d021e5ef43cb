"""The step size of the chains, tuned on draws of its own and then frozen, and the lengths that go with it."""

import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..coordinates import AffineMap
from ..targets import Target
from . import limits
from .chains import advance


class Tuned(NamedTuple):
    """A step size in u, the longest trajectory for it, and what finding it took.

    Attributes:
        step_size: ε.
        max_leapfrog: Lmax.
        positions: Where the tuning chains ended, in x.
        acceptance: Mean acceptance in the last rounds.
        num_gradients: Of all tuning chains together.
    """

    step_size: float
    max_leapfrog: int
    positions: Float[np.ndarray, "n dim"]
    acceptance: float
    num_gradients: int


def longest_trajectory(step_size: float) -> int:
    """Leapfrog steps for a distance of about three standard deviations."""
    return int(np.clip(math.ceil(limits.TRAJECTORY / step_size), limits.MIN_LEAPFROG, limits.MAX_LEAPFROG))


def tune(
    key: PRNGKeyArray, target: Target, positions: Float[np.ndarray, "n dim"], affine: AffineMap, beta: float = 1.0
) -> Tuned:
    """A step size with a mean acceptance of about 0.8: rounds of three transitions, with steps that shrink.

    Args:
        key: Random key.
        target: p.
        positions: Starts of the tuning chains, in x: draws that are used for nothing else.
        affine: x = m + L u, as for the chains that are to have this step size.
        beta: Inverse temperature.
    """
    log_step = math.log(positions.shape[1] ** -0.25 / math.sqrt(beta))
    found, recent, gradients = [], [], 0
    for i in range(limits.TUNING_ROUNDS):
        step = math.exp(log_step)
        moved = advance(
            jax.random.fold_in(key, i),
            target,
            positions,
            affine,
            step_size=step,
            num_transitions=limits.TRANSITIONS_PER_ROUND,
            max_leapfrog=longest_trajectory(step * math.sqrt(beta)),
            beta=beta,
            small_share=0.0,
        )
        positions, gradients = moved.positions, gradients + moved.num_gradients
        acceptance = float(np.mean(moved.acceptance))
        log_step += (acceptance - limits.TARGET_ACCEPTANCE) * 2.0 / math.sqrt(1.0 + i / 2.0)
        found, recent = [*found, log_step], [*recent, acceptance]
    half = limits.TUNING_ROUNDS // 2
    step = math.exp(float(np.mean(found[-half:])))
    longest = longest_trajectory(step * math.sqrt(beta))
    return Tuned(step, longest, positions, float(np.mean(recent[-half:])), gradients)
