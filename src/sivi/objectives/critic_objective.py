"""Two players, a family and a critic network, updated in turn.

The schedules of the critic's optimiser count critic updates. With `critic_steps` above one, a schedule that counted
family updates would run at another rate than its optimiser's own counter.
"""

import abc
from collections.abc import Callable, Collection
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from .. import optimizers
from .._types import Metrics, Scalar
from ..critics import Critic, CriticSettings
from ..critics.base import NoiseSource, PointFunction
from ..families import Family, SemiImplicit
from ..families.semi_implicit import check_semi_implicit
from ..optimizers import OptimizerLike
from ..schedules import RunLike, RunPlan, replace_fields
from ..targets import Target
from ._minimax import CriticFunction, CriticOfScore
from .base import Curve, Noise, Objective

#: Folded into the key, which the critic's settings split as it is: split(key)[1] is fold_in(key, 1).
_WARMUP_STREAM = 0x7761726D


class CriticState(eqx.Module):
    """State of the players.

    Attributes:
        step: Updates done.
        critic: The network f_ψ.
        optimizer: Optimiser state of the family.
        critic_optimizer: Optimiser state of the critic.
    """

    step: Int[Array, ""]
    critic: Critic
    optimizer: PyTree
    critic_optimizer: PyTree


class CriticObjective(Objective):
    """Alternate one step of the family with `critic_steps` steps of a critic network, on fresh noise each.

    A subclass lists these fields, with its defaults, and says what each of the two players descends. The critic has to
    keep up with the family, so its rate is the larger one by default.

    Attributes:
        num_particles: m, draws of x per family update.
        critic_steps: K, critic updates per family update.
        critic_particles: Draws per critic update; `num_particles` when left out.
        critic_warmup: Critic updates, on all data, before the family's first.
        optimizer: Of the family: `sivi.optimizers` settings or any Optax transform.
        critic_optimizer: Of the critic, likewise; its schedules count the critic's own updates.
        critic: Settings of the network f_ψ, such as `sivi.critics.MLPCritic`.
    """

    num_particles: eqx.AbstractVar[int]
    critic_steps: eqx.AbstractVar[int]
    critic_particles: eqx.AbstractVar[int]
    critic_warmup: eqx.AbstractVar[int]
    optimizer: eqx.AbstractVar[OptimizerLike]
    critic_optimizer: eqx.AbstractVar[OptimizerLike]
    critic: eqx.AbstractVar[CriticSettings]

    def __post_init__(self) -> None:
        if self.critic_particles is None:
            self.critic_particles = self.num_particles

    @abc.abstractmethod
    def full_critic(self, network: PointFunction, step: Int[Array, ""]) -> CriticFunction:
        """The critic g as a function of x, then of S(x), given f_ψ as a function of x."""

    @abc.abstractmethod
    def family_loss(
        self,
        family: SemiImplicit,
        critic: CriticOfScore,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Scalar, Metrics]:
        """What the family descends while the critic g is held fixed, and scalars to record.

        A `loss` among them is recorded in place of the value descended.
        """

    @abc.abstractmethod
    def critic_loss(
        self,
        critic: Critic,
        step: Int[Array, ""],
        family: SemiImplicit,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Any,
    ) -> Scalar:
        """What the critic descends while the family is held fixed."""

    def critic_noise_source(self, critic: Critic, family: SemiImplicit) -> NoiseSource:
        """What draws the noise that `critic_loss` takes: the family, unless a subclass says otherwise."""
        return family

    def check_family(self, family: SemiImplicit) -> None:
        """Refuse, with a sentence, a family that a subclass cannot fit."""

    def check_target(self, target: Target) -> None:
        """Refuse, with a sentence, a target that lacks what a subclass needs of it."""

    def bound_settings(self, plan: RunPlan) -> dict[str, Any]:
        """Fields of a subclass that follow the run, bound to it."""
        return {}

    def bind(self, plan: RunLike) -> "CriticObjective":
        plan = RunPlan.of(plan)
        return replace_fields(
            self,
            optimizer=optimizers.bind(self.optimizer, plan),
            # The critic's schedules count its own updates.
            critic_optimizer=optimizers.bind(self.critic_optimizer, plan.timeline * self.critic_steps),
            **self.bound_settings(plan),
        )

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)
        self.critic.check(family)
        self.check_family(family)
        self.check_target(target)

    def curves(self, recorded: Collection[str]) -> dict[str, Curve]:
        return {
            "loss": Curve("minimax loss", "falls, then flat near 0: a divergence, as far as the critic sees it"),
            "critic_norm": Curve(r"critic norm $E\Vert g\Vert^2$", "falls, then flat near 0, like the loss"),
        }

    def init(self, key: PRNGKeyArray, family: SemiImplicit, target: Target) -> CriticState:
        warmup_key = jax.random.fold_in(key, _WARMUP_STREAM)
        critic = self._warm(warmup_key, self.critic.init(key, family), family, target)
        return CriticState(
            step=jnp.zeros((), jnp.int32),
            critic=critic,
            optimizer=optimizers.init(self.optimizer, family),
            critic_optimizer=optimizers.init(self.critic_optimizer, critic),
        )

    def critic_function(
        self, state: CriticState, target: Target, family: Family | None = None
    ) -> Callable[[Array], Array]:
        """The critic g of a state as a function of one point; a critic that reads the family needs the family too."""
        g = self.full_critic(state.critic.at(family), state.step)
        return lambda x: g(x)(target.score(x))

    def step(
        self,
        key: PRNGKeyArray,
        family: SemiImplicit,
        state: CriticState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[SemiImplicit, CriticState, Metrics]:
        own_noise, critic_noise = self._noise(key, state.critic, family)
        g = self.full_critic(state.critic.at(family), state.step)
        (loss, metrics), grads = eqx.filter_value_and_grad(self.family_loss, has_aux=True)(
            family, g, target, batch, own_noise
        )
        family, optimizer = optimizers.update(self.optimizer, grads, state.optimizer, family)
        critic, critic_optimizer = state.critic, state.critic_optimizer
        for k in range(self.critic_steps):
            noise = jax.tree.map(lambda array, k=k: array[k], critic_noise)
            grads = eqx.filter_grad(self.critic_loss)(critic, state.step, family, target, batch, noise)
            critic, critic_optimizer = optimizers.update(self.critic_optimizer, grads, critic_optimizer, critic)
        state = CriticState(state.step + 1, critic, optimizer, critic_optimizer)
        return family, state, {"loss": loss, **metrics}

    def _warm(self, key: PRNGKeyArray, critic: Critic, family: SemiImplicit, target: Target) -> Critic:
        """The critic after `critic_warmup` updates at the family's start: a training run of its own."""
        if not self.critic_warmup:
            return critic
        # Its schedules are those of a run as long as the warm-up, however short the fit.
        optimizer = optimizers.bind(self.critic_optimizer, self.critic_warmup)
        arrays, static = eqx.partition((critic, optimizers.init(optimizer, critic)), eqx.is_array)
        zero = jnp.zeros((), jnp.int32)

        def update(i: Array, arrays: PyTree) -> PyTree:
            critic, state = eqx.combine(arrays, static)
            source = self.critic_noise_source(critic, family)
            noise = source.sample_noise(jax.random.fold_in(key, i), (self.critic_particles,))
            grads = eqx.filter_grad(self.critic_loss)(critic, zero, family, target, None, noise)
            return eqx.filter(optimizers.update(optimizer, grads, state, critic), eqx.is_array)

        arrays = jax.lax.fori_loop(0, self.critic_warmup, update, arrays)
        return eqx.combine(arrays, static)[0]

    def _noise(self, key: PRNGKeyArray, critic: Critic, family: SemiImplicit) -> tuple[Noise, Any]:
        """Fresh noise for the family's update and, with a leading axis K, for the critic's; in one draw if alike."""
        own, critic_shape = self.num_particles, (self.critic_steps, self.critic_particles)
        source = self.critic_noise_source(critic, family)
        if source is not family:
            own_key, critic_key = jax.random.split(key)
            return family.sample_noise(own_key, (own,)), source.sample_noise(critic_key, critic_shape)
        noise = family.sample_noise(key, (own + self.critic_steps * self.critic_particles,))
        return (
            jax.tree.map(lambda array: array[:own], noise),
            jax.tree.map(lambda array: array[own:].reshape(*critic_shape, *array.shape[1:]), noise),
        )
