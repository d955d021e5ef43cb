"""What the warm-up of HMC learns: a step size by dual averaging, and a diagonal mass from the draws seen.

Reference:
    Hoffman and Gelman, The No-U-Turn sampler (JMLR 2014), algorithm 5, for the step size; the Stan reference manual,
    section "Automatic parameter tuning", for the windows.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._arguments import default_float
from .._types import Scalar

#: t₀ and κ of dual averaging, Stan's.
_OFFSET, _DECAY = 10.0, 0.75

#: γ: Stan's until the first restart, when the step size may be far off; then twice that, with which it swings half as
#: far. Acceptance falls faster above the right step than it rises below, so a step whose acceptance is right on average
#: over wide swings has too high a one at rest.
_GAIN, _GAIN_NEAR = 0.05, 0.1

#: After a start-up phase the mass is learnt, in windows that double. In the final phase only the step size is tuned.
_START_UP, _FIRST_WINDOW, _FINAL = 75, 25, 50

#: Fewer steps cannot settle a step size.
MIN_WARMUP = 20


class AdaptationState(eqx.Module):
    """One step size and one diagonal inverse mass, shared by all chains.

    Attributes:
        log_step: Log step size of the next transition of the warm-up.
        log_step_mean: Its weighted mean, which is used after the warm-up.
        shrinkage_point: Stan's μ, which log_step is pulled to: the log of ten times the step size at the last restart.
        gain: γ; the larger, the less a shortfall moves log_step.
        shortfall: Mean of (target − acceptance) since the restart.
        updates: Their number.
        inverse_mass: Variances of the coordinates, by the last window closed.
        mean, spread, seen: Mean, sum of squared deviations and number of the draws in the window that is open.
    """

    log_step: Scalar
    log_step_mean: Scalar
    shrinkage_point: Scalar
    gain: Scalar
    shortfall: Scalar
    updates: Scalar
    inverse_mass: Float[Array, " dim"]
    mean: Float[Array, " dim"]
    spread: Float[Array, " dim"]
    seen: Scalar

    @staticmethod
    def start(dim: int, step_size: float) -> "AdaptationState":
        zero, zeros = jnp.zeros((), default_float()), jnp.zeros(dim, default_float())
        log_step = jnp.log(jnp.asarray(step_size, default_float()))
        return AdaptationState(
            log_step,
            log_step,
            log_step + np.log(10.0),
            zero + _GAIN,
            zero,
            zero,
            jnp.ones_like(zeros),
            zeros,
            zeros,
            zero,
        )

    def update(
        self,
        positions: Float[Array, "chains dim"],
        acceptance: Float[Array, " chains"],
        target_acceptance: Scalar | float,
        collect: Bool[Array, ""],
        close: Bool[Array, ""],
    ) -> "AdaptationState":
        """After one transition of all chains.

        Args:
            positions: Where the chains are.
            acceptance: The acceptance probabilities of the transition. M chains at one step size are one observation
                of its acceptance, their mean, and not M updates, which would raise the gain by √M.
            target_acceptance: What it should be.
            collect: Whether the draws belong to a window.
            close: Whether that window ends here: then the mass is set and both estimates start afresh.
        """
        stepped = self._dual_average(target_acceptance - jnp.mean(acceptance))
        seen = jax.lax.cond(collect, lambda s: s._see(positions), lambda s: s, stepped)
        return jax.lax.cond(close, lambda s: s._close(), lambda s: s, seen)

    def _dual_average(self, shortfall: Scalar) -> "AdaptationState":
        m = self.updates + 1.0
        mean_shortfall = self.shortfall + (shortfall - self.shortfall) / (m + _OFFSET)
        log_step = self.shrinkage_point - jnp.sqrt(m) / self.gain * mean_shortfall
        log_step_mean = self.log_step_mean + m**-_DECAY * (log_step - self.log_step_mean)
        return eqx.tree_at(
            lambda s: (s.log_step, s.log_step_mean, s.shortfall, s.updates),
            self,
            (log_step, log_step_mean, mean_shortfall, m),
        )

    def _see(self, positions: Float[Array, "chains dim"]) -> "AdaptationState":
        """Welford's update with a batch: the draws of all chains are pooled."""
        num = positions.shape[0]
        batch_mean = jnp.mean(positions, 0)
        seen = self.seen + num
        offset = batch_mean - self.mean
        spread = self.spread + jnp.sum((positions - batch_mean) ** 2, 0) + offset**2 * self.seen * num / seen
        return eqx.tree_at(lambda s: (s.mean, s.spread, s.seen), self, (self.mean + offset * num / seen, spread, seen))

    def _close(self) -> "AdaptationState":
        # Shrunk towards a small variance, as in Stan, so that a short window cannot claim a large scale.
        weight = self.seen / (self.seen + 5.0)
        inverse_mass = weight * self.spread / jnp.maximum(self.seen - 1.0, 1.0) + 1e-3 * (1.0 - weight)
        fresh = AdaptationState.start(self.mean.shape[0], 1.0)
        return eqx.tree_at(
            lambda s: (s.log_step, s.log_step_mean, s.shrinkage_point, s.gain, s.inverse_mass),
            fresh,
            (
                self.log_step_mean,
                self.log_step_mean,
                self.log_step_mean + np.log(10.0),
                jnp.full_like(self.gain, _GAIN_NEAR),
                inverse_mass,
            ),
        )


def warmup_windows(num_warmup: int) -> tuple[Bool[np.ndarray, " num_warmup"], Bool[np.ndarray, " num_warmup"]]:
    """Which steps of a warm-up belong to a window of the mass, and which of them close one.

    Example:
        >>> collect, close = warmup_windows(1000)
        >>> int(np.argmax(collect)), (np.flatnonzero(close) + 1).tolist()
        (75, [100, 150, 250, 450, 950])
    """
    first, size, final = _START_UP, _FIRST_WINDOW, _FINAL
    if first + size + final > num_warmup:
        first, final = int(0.15 * num_warmup), int(0.1 * num_warmup)
        size = num_warmup - first - final
    end = num_warmup - final
    start, closes = first, []
    while start < end:
        # A window that would leave less than its double behind it takes the rest.
        start = start + size if end - start >= 3 * size else end
        closes.append(start - 1)
        size *= 2
    steps = np.arange(num_warmup)
    return (steps >= first) & (steps < end), np.isin(steps, closes)
