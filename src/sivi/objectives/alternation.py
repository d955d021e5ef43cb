"""Two players, a family and a critic network, updated in turn."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from .. import optimizers
from .._arguments import check_count
from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..optimizers import Adam, OptimizerLike, check_optimizer
from ..schedules import Cosine, Steps
from ..targets import Target
from .base import Noise, Objective, replace_fields
from .critic import Critic, CriticSpec, MLPCritic, PointCritic, critic_at
from .score_pairs import Field


class CriticState(eqx.Module):
    """State of the players.

    Attributes:
        step: Updates done.
        critic: The network f_ψ.
        optimizer: Optimiser state of the family.
        critic_optimizer: Optimiser state of the critic.
    """

    step: Int[Array, ""]
    critic: PyTree
    optimizer: PyTree
    critic_optimizer: PyTree


class CriticObjective(Objective):
    """Alternate one step of the family with `critic_steps` steps of a critic network, on fresh noise each.

    A subclass says what each of the two descends.

    Args:
        num_particles: m, draws of x per family update.
        critic_steps: K, critic updates per family update.
        critic_particles: Draws per critic update; `num_particles` when left out.
        critic_warmup: Critic updates, on all data, before the family's first.
        optimizer: Of the family: `sivi.optimizers` settings or any Optax transform; Adam when left out.
        critic_optimizer: Of the critic, likewise; its schedules count the critic's own updates.
        critic: Settings of the network f_ψ.
    """

    num_particles: int = eqx.field(static=True)
    critic_steps: int = eqx.field(static=True)
    critic_particles: int = eqx.field(static=True)
    critic_warmup: int = eqx.field(static=True)
    optimizer: OptimizerLike
    critic_optimizer: OptimizerLike
    critic: CriticSpec

    def __init__(
        self,
        *,
        num_particles: int = 256,
        critic_steps: int = 1,
        critic_particles: int | None = None,
        critic_warmup: int = 0,
        optimizer: OptimizerLike | None = None,
        critic_optimizer: OptimizerLike | None = None,
        critic: CriticSpec | None = None,
    ):
        self.num_particles = check_count("num_particles", num_particles)
        self.critic_steps = check_count("critic_steps", critic_steps)
        self.critic_particles = check_count(
            "critic_particles", num_particles if critic_particles is None else critic_particles
        )
        self.critic_warmup = check_count("critic_warmup", critic_warmup, minimum=0)
        self.optimizer = Adam(Cosine(1e-3), b1=0.5, b2=0.99) if optimizer is None else optimizer
        self.critic_optimizer = Adam(Cosine(4e-3), b1=0.5, b2=0.99) if critic_optimizer is None else critic_optimizer
        check_optimizer("optimizer", self.optimizer)
        check_optimizer("critic_optimizer", self.critic_optimizer)
        self.critic = MLPCritic() if critic is None else critic

    @abc.abstractmethod
    def field_of(self, critic: PointCritic, step: Int[Array, ""]) -> Field:
        """The whole critic g as a function of x, then of S(x), given f_ψ as a function of x."""

    @abc.abstractmethod
    def family_loss(
        self,
        family: SemiImplicit,
        field: Field,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Scalar, Metrics]:
        """What the family descends while the critic `field` is held fixed, and scalars to record.

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
        noise: Noise,
    ) -> Scalar:
        """What the critic descends while the family is held fixed."""

    def critic_noise(self, key: PRNGKeyArray, critic: Critic, family: SemiImplicit, shape: tuple[int, ...]) -> Any:
        """The noise that `critic_loss` takes, where that is not of draws of the family; None where it is."""
        return None

    def bind(self, num_steps: Steps) -> "CriticObjective":
        return replace_fields(
            self,
            optimizer=optimizers.bind(self.optimizer, num_steps),
            # The critic's schedules count its own updates.
            critic_optimizer=optimizers.bind(self.critic_optimizer, num_steps * self.critic_steps),
        )

    def init(self, key: PRNGKeyArray, family: SemiImplicit, target: Target) -> CriticState:
        critic = self._warm(jax.random.fold_in(key, 1), self.critic.init(key, family), family, target)
        return CriticState(
            step=jnp.zeros((), jnp.int32),
            critic=critic,
            optimizer=optimizers.init(self.optimizer, family),
            critic_optimizer=optimizers.init(self.critic_optimizer, critic),
        )

    def field(self, state: CriticState, target: Target, family: Family | None = None) -> Callable[[Array], Array]:
        """The whole critic g of a state, as a function of one point; a `FamilyCritic` needs the family too."""
        whole = self.field_of(critic_at(state.critic, family), state.step)
        return lambda x: whole(x)(target.score(x))

    def step(
        self,
        key: PRNGKeyArray,
        family: SemiImplicit,
        state: CriticState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[SemiImplicit, CriticState, Metrics]:
        own_noise, critic_noise = self._noise(key, state.critic, family)
        field = self.field_of(critic_at(state.critic, family), state.step)
        (loss, metrics), grads = eqx.filter_value_and_grad(self.family_loss, has_aux=True)(
            family, field, target, batch, own_noise
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
            noise_key, shape = jax.random.fold_in(key, i), (self.critic_particles,)
            noise = self.critic_noise(noise_key, critic, family, shape)
            noise = family.sample_noise(noise_key, shape) if noise is None else noise
            grads = eqx.filter_grad(self.critic_loss)(critic, zero, family, target, None, noise)
            return eqx.filter(optimizers.update(optimizer, grads, state, critic), eqx.is_array)

        arrays = jax.lax.fori_loop(0, self.critic_warmup, update, arrays)
        return eqx.combine(arrays, static)[0]

    def _noise(self, key: PRNGKeyArray, critic: Critic, family: SemiImplicit) -> tuple[Noise, Any]:
        """Fresh noise for the family's update and, with a leading axis K, for the critic's; in one draw if alike."""
        own, critic_shape = self.num_particles, (self.critic_steps, self.critic_particles)
        own_key, critic_key = jax.random.split(key)
        critic_noise = self.critic_noise(critic_key, critic, family, critic_shape)
        if critic_noise is not None:
            return family.sample_noise(own_key, (own,)), critic_noise
        noise = family.sample_noise(key, (own + self.critic_steps * self.critic_particles,))
        return (
            jax.tree.map(lambda array: array[:own], noise),
            jax.tree.map(lambda array: array[own:].reshape(*critic_shape, *array.shape[1:]), noise),
        )
