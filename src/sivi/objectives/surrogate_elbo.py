"""SIVI: a lower bound of the ELBO that needs no density of q, only of q(x|z).

    ELBO_L = E[ log p(x) − log (1/(L+1)) (q(x|z₀) + Σ_{l=1..L} q(x|z_l)) ],    x ~ q(x|z₀), z_l ~ q(z).

The generating z₀ stands among the L + 1 terms, which makes it a lower bound for every L; it rises to the ELBO with L.

The auxiliary z_l are shared by the particles of an update, as in Yin and Zhou's algorithm: networks run m + L times,
not m·L. The backward pass draws each block of them again from its key, so memory does not depend on L.
"""

import math
from collections.abc import Collection
from dataclasses import KW_ONLY
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .. import optimizers
from .._arguments import check_count, check_optional
from .._fields import count_field
from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..families.semi_implicit import check_semi_implicit
from ..optimizers import Adam, OptimizerLike, optimizer_field
from ..schedules import Constant, Cosine, RunLike, Schedule, replace_fields
from ..targets import Target
from ..targets.evaluate import check_log_prob
from .base import Curve, Noise, Objective
from .log_mixture import log_mixture

_MOST_AT_ONCE, _MOST_NUMBERS = 128, 4_000_000  # auxiliary draws in a block; particles × draws × dim


def _as_num_aux(num_aux: int | Schedule) -> Schedule:
    if not isinstance(num_aux, Schedule):
        return Constant(check_count("num_aux", num_aux, minimum=0))
    if num_aux.bounds is not None and not 0.0 <= num_aux.bounds[0] <= num_aux.bounds[1] < math.inf:
        raise ValueError(f"num_aux must be a finite number of draws at every step; got {num_aux}.")
    return num_aux


class SurrogateState(eqx.Module):
    """State of `SurrogateELBO`: updates done, and the optimiser's."""

    step: Int[Array, ""]
    optimizer: PyTree


class SurrogateELBO(Objective):
    """SIVI: ascend the bound E[log p(x) − log (1/(L+1)) Σ_{l=0..L} q(x|z_l)], with z₀ the one that generated x.

    The L auxiliary draws of z are fresh at every update and shared by its particles, so an update evaluates the
    networks m + L times and the conditional density m (L + 1) times. That is done in blocks of auxiliary draws,
    forwards and backwards, and memory does not grow with L. The recorded `loss` is minus the bound.

    Args:
        num_particles: m, draws of x per update.
        num_aux: L, a number or a `sivi.schedules.Schedule`, whose value is rounded.
        block_size: Auxiliary draws evaluated at once; when left out, as many, up to 128, as keep m · block · dim, the
            numbers held at once, below four million.
        optimizer: `sivi.optimizers` settings or any Optax transform.

    Example:
        >>> from sivi.schedules import Ramp
        >>> objective = SurrogateELBO(num_aux=Ramp(1, 200, until=0.5))

    Reference:
        Yin and Zhou, Semi-implicit variational inference (ICML 2018).
    """

    _: KW_ONLY
    num_particles: int = count_field("num_particles", 128)
    num_aux: Schedule = eqx.field(converter=_as_num_aux, default=128)
    block_size: int | None = eqx.field(
        static=True, converter=partial(check_optional, check_count, "block_size"), default=None
    )
    optimizer: OptimizerLike = optimizer_field("optimizer", Adam(Cosine(1e-3), b2=0.99))

    def bind(self, plan: RunLike) -> "SurrogateELBO":
        return replace_fields(self, num_aux=self.num_aux.bind(plan), optimizer=optimizers.bind(self.optimizer, plan))

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)
        check_log_prob(self, target)

    def curves(self, recorded: Collection[str]) -> dict[str, Curve]:
        return {
            "loss": Curve("minus surrogate ELBO", "falls, then flat: minus a lower bound of the log evidence"),
            "num_aux": Curve("L", "as its schedule says: the bound tightens with it"),
        }

    def init(self, key: PRNGKeyArray, family: Family, target: Target) -> SurrogateState:
        return SurrogateState(jnp.zeros((), jnp.int32), optimizers.init(self.optimizer, family))

    def step(
        self,
        key: PRNGKeyArray,
        family: SemiImplicit,
        state: SurrogateState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[SemiImplicit, SurrogateState, Metrics]:
        noise_key, aux_key = jax.random.split(key)
        noise = family.sample_noise(noise_key, (self.num_particles,))
        num_aux = jnp.maximum(jnp.round(self.num_aux(state.step)), 0.0).astype(jnp.int32)

        def loss_of(family: SemiImplicit) -> Scalar:
            return -jnp.mean(self.bounds(family, target, batch, noise, aux_key, num_aux))

        loss, grads = eqx.filter_value_and_grad(loss_of)(family)
        family, optimizer = optimizers.update(self.optimizer, grads, state.optimizer, family)
        metrics: Metrics = {"loss": loss}
        if not isinstance(self.num_aux, Constant):
            metrics["num_aux"] = num_aux.astype(loss.dtype)
        return family, SurrogateState(state.step + 1, optimizer), metrics

    def bounds(
        self,
        family: SemiImplicit,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
        key: PRNGKeyArray,
        num_aux: int | Int[Array, ""],
    ) -> Float[Array, " n"]:
        """log p(x) − log (1/(L+1)) Σ q(x|z_l) at the draws that given noise makes, with auxiliary draws from `key`."""

        def one(mixing_noise: Array, eps: Array) -> tuple[Array, Array, Array]:
            joint = family.joint(mixing_noise, eps)
            own = family.conditional.at(joint.z).log_prob(joint.x)
            return joint.x, own, target.log_prob(joint.x, batch)

        x, own, log_prob = jax.vmap(one)(*noise)
        return log_prob - log_mixture((family, x, own), key, num_aux, self._block_size(x))

    def _block_size(self, x: Float[Array, "n dim"]) -> int:
        """No larger than a constant L needs, with equal blocks."""
        largest = max(1, min(_MOST_AT_ONCE, _MOST_NUMBERS // x.size)) if self.block_size is None else self.block_size
        if not isinstance(self.num_aux, Constant):
            return largest
        total = max(round(self.num_aux.value), 1)
        return -(-total // -(-total // largest))
