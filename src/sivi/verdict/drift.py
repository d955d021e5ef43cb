"""Do chains on the exact target stay where the draws are: short runs, longer where they are slow."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..targets import Target
from . import limits
from .chains import advance
from .effects import estimate
from .frame import Frame
from .quantities import Quantities
from .tuning import Tuned


class Drift(NamedTuple):
    """Where chains from the draws have gone.

    Attributes:
        starts: Of the chains, in x.
        start_log_prob: log p there.
        late: Late snapshots, in x.
        late_log_prob: log p there.
        memory: The largest slope of a late statistic on its start: 0 for chains that have forgotten where they began.
        acceptance: Mean over all chains and transitions.
        num_gradients: Of all chains together.
        budget_spent: Whether the chains were still slow when the budget was.
    """

    starts: Float[np.ndarray, "n dim"]
    start_log_prob: Float[np.ndarray, " n"]
    late: Float[np.ndarray, "snapshots n dim"]
    late_log_prob: Float[np.ndarray, "snapshots n"]
    memory: float
    acceptance: float
    num_gradients: int
    budget_spent: bool


def run_drift(
    key: PRNGKeyArray,
    target: Target,
    frame: Frame,
    tuned: Tuned,
    starts: Float[np.ndarray, "n dim"],
    start_log_prob: Float[np.ndarray, " n"],
    *,
    gradients_first: float = limits.GRADIENTS_FIRST,
    gradients_all: float = limits.GRADIENTS_ALL,
    before: Drift | None = None,
    judged: tuple[Quantities, Frame] | None = None,
) -> Drift:
    """Run the chains; while they remember their starts and the budget allows, twice as far again.

    Args:
        key: Random key.
        target: p.
        frame: Coordinates from other draws.
        tuned: Step size, frozen: draws of p then stay draws of p.
        starts: Draws of q, in x.
        start_log_prob: log p there.
        gradients_first: Gradients of a chain in the first 16 snapshots, about.
        gradients_all: Most gradients of a chain, about.
        before: An earlier run of these chains, which goes on from its end.
        judged: What the chains should forget, with its scale and axes; the unknowns by default.
    """
    of_memory = frame if judged is None else judged[1]

    def quantities(x: np.ndarray) -> np.ndarray:
        return x if judged is None else judged[0].at(x)

    first = quantities(starts)
    positions, total, acceptance = starts, 0, []
    if before is not None:
        positions, total = before.late[-1], before.num_gradients
    planned, round_number, done = gradients_first, 0, total
    while True:
        # A transition has half its longest trajectory on average, and a fine one in three is four times as long.
        mean_length = tuned.max_leapfrog * (1.0 - (1.0 - limits.FINE_LENGTH) / limits.FINE_EVERY) / 2.0 + 0.5
        per_snapshot = max(1, round(planned / (limits.SNAPSHOTS * mean_length)))
        moved = advance(
            jax.random.fold_in(key, round_number),
            target,
            positions,
            frame.affine,
            step_size=tuned.step_size,
            num_transitions=limits.SNAPSHOTS * per_snapshot,
            max_leapfrog=tuned.max_leapfrog,
            fine_every=limits.FINE_EVERY,
        )
        positions = moved.positions
        total += moved.num_gradients
        spent = (total - done) / len(starts)
        acceptance.append(float(moved.acceptance.mean()))
        half = limits.SNAPSHOTS // 2
        late, late_log_prob = moved.snapshots[half:], moved.snapshot_log_prob[half:]
        memory = memory_of(of_memory, first, start_log_prob, quantities(late), late_log_prob)
        planned, round_number = 2.0 * planned, round_number + 1
        if memory <= limits.ENOUGH_MEMORY or spent + planned > gradients_all:
            break
    slow = memory > limits.ENOUGH_MEMORY
    return Drift(starts, start_log_prob, late, late_log_prob, memory, float(np.mean(acceptance)), total, slow)


def memory_of(
    frame: Frame, starts: np.ndarray, start_log_prob: np.ndarray, late: np.ndarray, late_log_prob: np.ndarray
) -> float:
    """The largest slope, of location and scale of every unknown and axis, and of log p where it is known."""
    has_log_prob = not np.isnan(start_log_prob).all()

    def values(x: np.ndarray, log_prob: np.ndarray) -> np.ndarray:
        z = np.clip(frame.standardised(x), -limits.CLIP, limits.CLIP)
        u = np.clip(z @ frame.axes, -limits.CLIP, limits.CLIP)
        columns = [z, z**2, u, u**2]
        if has_log_prob:
            known = np.nan_to_num(log_prob, nan=0.0, neginf=-1e30)[:, None]
            columns.append(np.argsort(np.argsort(known, axis=0), axis=0))
        return np.concatenate(columns, axis=1)

    first = values(starts, start_log_prob)
    last = np.mean([values(x, log_prob) for x, log_prob in zip(late, late_log_prob, strict=True)], axis=0)
    return float(estimate(first, last, first.mean(0), float(len(first))).slope.max())
