"""What a warm-up found out about itself: a word for each fit of a Gaussian.

At the optimum of KL(q‖p) both E[r] and G = E[r uᵀ] = I − Lᵀ P L are zero, see `sivi.warmup.dense`. Over the last
quarter of the steps their means are therefore near zero, if q has settled. Where G stays positive, log p has no
curvature that would hold q: its standard deviations grow for ever.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._batches import BatchWindows

#: The status of a warm-up, by its code; the worse, the higher.
STATUS = ("settled", "not settled", "ran away", "never moved")
SETTLED, NOT_SETTLED, RAN_AWAY, NEVER_MOVED = range(4)

#: The status of coordinates that were given, and of those in a file that does not say.
NOT_RUN, UNKNOWN = "not run", "unknown"

#: All words of a status.
WORDS = (*STATUS, NOT_RUN, UNKNOWN)

#: Settled means: E[r] at most this per coordinate (root mean square), and eigenvalues of G at most that.
MAX_DRIFT, MAX_GAP = 0.3, 0.5

#: A q that still grows (an eigenvalue of G above the first) and has an sd or a mean above the second has run away.
MIN_GROWTH, FAR = 0.25, 1e4

#: Variance between the means of the starts, in units of the variance within one, above which they have found several
#: modes. Starts that found the same one agree to a few hundredths of a standard deviation.
MAX_DISTANCE = 0.25

#: Starts with less weight than this do not count.
MIN_WEIGHT = 0.02


class Evidence(NamedTuple):
    """Means of E[r] and G over the last quarter of the steps; of a diagonal q, the diagonal of G."""

    drift: Float[Array, " dim"]
    gap: Float[Array, " dim *rest"]

    @staticmethod
    def none(root: Float[Array, " dim *rest"]) -> "Evidence":
        """Before the first step."""
        return Evidence(jnp.zeros_like(root, shape=root.shape[:1]), jnp.zeros_like(root))

    def add(
        self, drift: Float[Array, " dim"], gap: Float[Array, " dim *rest"], step: Int[Array, ""], num_steps: int
    ) -> "Evidence":
        """With one more step, if it is of the last quarter."""
        count = step - (num_steps - max(1, num_steps // 4)) + 1
        share = jnp.where(count > 0, 1.0 / jnp.maximum(count, 1), 0.0).astype(drift.dtype)
        return Evidence(self.drift + share * (drift - self.drift), self.gap + share * (gap - self.gap))


def start_code(
    first: Float[Array, " dim"],
    mean: Float[Array, " dim"],
    root: Float[Array, " dim *rest"],
    evidence: Evidence,
    noise: float = 0.0,
) -> Int[Array, ""]:
    """The code of one start: from m₀ to m and L, or the scales of a diagonal q, with `noise` in the mean of E[r]."""
    values = evidence.gap if evidence.gap.ndim == 1 else jnp.linalg.eigvalsh(0.5 * (evidence.gap + evidence.gap.T))
    widest = jnp.max(jnp.abs(root))
    settled = (_rms(evidence.drift) <= MAX_DRIFT + 2.0 * noise) & (jnp.max(jnp.abs(values)) <= MAX_GAP)
    far = (widest > FAR) | (jnp.max(jnp.abs(mean)) > FAR)
    code = jnp.where(settled, SETTLED, NOT_SETTLED)
    code = jnp.where((jnp.max(values) > MIN_GROWTH) & far, RAN_AWAY, code)
    return jnp.where(jnp.all(mean == first), NEVER_MOVED, code)


def pooled_code(codes: Int[Array, " starts"], weights: Float[Array, " starts"], usable: Array) -> Int[Array, ""]:
    """The code of a mixture: the worst of its starts, or `NEVER_MOVED` if there is none."""
    worst = jnp.max(jnp.where(weights >= MIN_WEIGHT, codes, SETTLED))
    return jnp.where(usable, worst, NEVER_MOVED)


def drift_noise(windows: BatchWindows | None, num_steps: int) -> float:
    """The standard deviation that minibatches give to the mean of E[r] over `num_steps` steps, at the optimum.

    One batch has √(N/|batch|), see `sivi.warmup.dense.mean_rate`.
    """
    return 0.0 if windows is None else math.sqrt(windows.order.shape[0] / windows.size / max(1, num_steps))


def steps_code(drift: Float[Array, " dim"], gap: Float[Array, " dim"], noise: float = 0.0) -> Int[Array, ""]:
    """The code of a q in high dimension, where single entries of G are mostly noise: root mean squares."""
    settled = (_rms(drift) <= MAX_DRIFT + 2.0 * noise) & (_rms(gap) <= MAX_GAP)
    return jnp.where(settled, SETTLED, NOT_SETTLED)


def _rms(vector: Float[Array, " dim"]) -> Float[Array, ""]:
    return jnp.linalg.norm(vector) / jnp.sqrt(jnp.asarray(vector.shape[0], vector.dtype))


def status_words(codes: Int[Array | np.ndarray, " repeats"]) -> tuple[str, ...]:
    """The words of codes, by repeat."""
    return tuple(STATUS[int(code)] for code in jax.device_get(codes))
