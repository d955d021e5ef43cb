"""A bridge between separated modes, as a wrapper of any objective.

A method that moves draws along scores cannot weigh modes against each other once no mass is left between them: the
score in one mode says nothing of another's height. With a share δ of a wide base p₀ mixed in,

    p̃ = (1 − δ) p/Z + δ p₀ ∝ p + e^c p₀,    c = log Z + log(δ / (1 − δ)),

the space between the modes is filled, and mass flows through it until each mode has its weight. Z is not known and
need not be: the base's mean share of the density over draws of q, E_q[e^c p₀ / (p + e^c p₀)], equals δ at q = p̃. At
every update c is the number that makes it so over a few fresh draws, whatever constant log p has.

Above about ten unknowns the two components hardly overlap, and draws belong wholly to one or the other, so the
default call has no bridge there. It does not help with modes of very unequal width.
"""

from collections.abc import Callable, Collection
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree

from .._arguments import check_kind
from .._errors import MissingLogProb
from .._fields import count_field, module_field
from .._renamed import BRIDGED, NUM_DRAWS, old_arguments, old_names
from .._types import Metrics, Scalar
from ..families import Family
from ..schedules import RunLike, Schedule, as_share_schedule, replace_fields
from ..targets import BridgedTarget, Target
from ..targets.evaluate import check_log_prob
from .base import Curve, Objective, bound_of_target, on_the_way

_BISECTIONS = 30
#: Folded into the key, which the wrapped objective uses as it is: split(key)[1] is fold_in(key, 1).
_OWN_STREAM = 0x62726964


class BridgedState(eqx.Module):
    """State of `Bridged`: the updates done, δ so far, c, and the wrapped objective's state."""

    step: Int[Array, ""]
    share: Scalar
    log_odds: Scalar
    inner: PyTree


class Bridged(Objective):
    """Fit p + e^c · base, with a share δ of the base that falls to 0 along a schedule.

    δ is recorded in the history as `bridge`: until it is 0, the fit is to another target than yours. It never rises,
    so that a finished fit that is resumed with more updates does not build the bridge again.

    The shares need the log density on all data: a target that knows only its score is refused, and with minibatches
    there is no bridge.

    Args:
        objective: What is bridged.
        schedule: δ_t. It should stand while the learning rate is high, and be gone early enough for the rest of the
            run to fit p itself.
        base: A density as wide as the target with all its modes, or a little wider: for a whitened target
            `IsotropicGaussian(dim, 1.5)`.
        num_samples: Draws of the family from which c is found at an update.

    Example:
        >>> from sivi.objectives import Annealed, PathKL
        >>> from sivi.schedules import Ramp
        >>> from sivi.targets import IsotropicGaussian
        >>> bridged = Bridged(PathKL(), Ramp(0.2, 0.0, 0.4), base=IsotropicGaussian(2, 1.5))
        >>> objective = Annealed(bridged, base=IsotropicGaussian(2))
    """

    objective: Objective = eqx.field(converter=partial(check_kind, "objective", Objective, "a sivi objective"))
    schedule: Schedule = eqx.field(
        converter=partial(as_share_schedule, name="schedule", what="the base's share of the mass")
    )
    _: KW_ONLY
    base: Target = module_field("base", Target, "a sivi target")
    num_samples: int = count_field("num_samples", 64)

    __getattr__ = old_names(BRIDGED)

    def bind(self, plan: RunLike) -> "Bridged":
        return replace_fields(self, objective=self.objective.bind(plan), schedule=self.schedule.bind(plan))

    def check(self, family: Family, target: Target) -> None:
        if self.base.dim != target.dim:
            raise ValueError(f"base must have the target's dim, {target.dim}; got {self.base.dim}.")
        check_log_prob(self, target)
        if not self.base.knows_log_prob:
            raise MissingLogProb(f"base must know its log density; {type(self.base).__name__} knows only its score.")
        eqx.filter_eval_shape(self.schedule, 0)  # whether it can be called
        self.objective.check(family, target)
        self.objective.check(family, BridgedTarget(target, self.base, jnp.asarray(np.zeros((), np.float32))))

    def critic_function(
        self, state: BridgedState, target: Target, family: Family | None = None
    ) -> Callable[[Array], Array] | None:
        return self.objective.critic_function(state.inner, self._bridge(target, state.share, state.log_odds), family)

    def curves(self, recorded: Collection[str]) -> dict[str, Curve]:
        found = on_the_way(self.objective.curves(recorded), "bridge > 0: of another target")
        return found | {"bridge": Curve("share of the bridge", "falls to 0 well before the end, and stays there")}

    def init(self, key: PRNGKeyArray, family: Family, target: Target) -> BridgedState:
        share = self.schedule(0)
        log_odds = self._log_odds(key, family, target, share)
        inner = self.objective.init(key, family, self._bridge(target, share, log_odds))
        return BridgedState(jnp.zeros((), jnp.int32), share, log_odds, inner)

    def step(
        self,
        key: PRNGKeyArray,
        family: Any,
        state: BridgedState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[Any, BridgedState, Metrics]:
        if batch is not None:
            share = jnp.zeros_like(state.share)
            family, inner, metrics = self.objective.step(key, family, state.inner, target, batch)
            state = BridgedState(state.step + 1, share, state.log_odds, inner)
            return family, state, {**metrics, "bridge": share}
        share = jnp.minimum(state.share, self.schedule(state.step))
        log_odds = jax.lax.cond(share > 0.0, lambda: self._log_odds(key, family, target, share), lambda: state.log_odds)
        family, inner, metrics = self.objective.step(
            key, family, state.inner, self._bridge(target, share, log_odds), None
        )
        state = BridgedState(state.step + 1, share, log_odds, inner)
        return family, state, {**bound_of_target(metrics, share <= 0.0), "bridge": share}

    def _bridge(self, target: Target, share: Scalar, log_odds: Scalar) -> BridgedTarget:
        """The bridged target; without a share, the target itself."""
        return BridgedTarget(target, self.base, jnp.where(share > 0.0, log_odds, -jnp.inf))

    def _log_odds(self, key: PRNGKeyArray, family: Family, target: Target, share: Scalar) -> Scalar:
        """The c at which draws of the family have the mean share wanted, by bisection."""
        key = jax.random.fold_in(key, _OWN_STREAM)
        draws = jax.vmap(family.sample)(jax.random.split(key, self.num_samples))
        gaps = jax.vmap(lambda x: self.base.log_prob(x) - target.log_prob(x))(draws)
        finite = jnp.isfinite(gaps)  # not where p has no mass: of those draws the base has all, whatever c is
        gaps = jnp.where(finite, gaps, jnp.max(gaps, where=finite, initial=-jnp.inf))
        share = jnp.clip(share, 1e-3, 1.0 - 1e-3)
        logit = jnp.log(share) - jnp.log1p(-share)

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            low: Bool[Array, ""] = jnp.mean(jax.nn.sigmoid(middle + gaps)) < share
            return jnp.where(low, middle, ends[0]), jnp.where(low, ends[1], middle)

        # At these ends every single draw has a share below, or above, the one wanted.
        ends = logit - jnp.max(gaps), logit - jnp.min(gaps)
        low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, ends)
        return 0.5 * (low + high)


Bridged.__init__ = old_arguments("sivi.objectives.Bridged", NUM_DRAWS)(Bridged.__init__)
