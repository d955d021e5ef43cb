"""The players of the minimax: a family and a critic network, updated in turn."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .. import optimizers
from .._errors import check_count
from .._types import Metrics, Scalar
from ..families import SemiImplicit
from ..optimizers import Adam, OptimizerLike, check_optimizer
from ..schedules import Constant, Cosine, Schedule, as_schedule
from ..targets import Target
from .base import Objective, replace_fields
from .critic import Critic, CriticSpec, MLPCritic

#: The critic g as a function of x and S(x).
Field = Callable[[Array, Array], Array]
#: Base noise of several draws: of the mixing layer and of the conditional.
Noise = tuple[Float[Array, "... noise"], Float[Array, "... dim"]]


def minimax(
    family: SemiImplicit,
    field: Field,
    target: Target,
    batch: Int[Array, " batch"] | None,
    noise: Noise,
    *,
    split: bool = False,
) -> tuple[Scalar, Metrics]:
    """The Monte Carlo estimate of L(φ, g) and of E‖g‖².

    A critic with ψ ≠ 0 makes L quadratic in S. The score of a minibatch is unbiased, its square is not: the family
    would be drawn to where minibatches agree. With `split`, products of two scores are taken between the halves of
    the batch, and L is unbiased for that of all data.

    Args:
        family: q_φ.
        field: The critic g as a function of x and S(x).
        target: Provides S.
        batch: Data rows for S.
        noise: The base noise of n draws, from `family.sample_noise`.
        split: Whether the field depends on S(x), so that a minibatch has to be split.

    Returns:
        L, and `{"critic_norm": E‖g‖²}`.
    """

    def one(mixing_noise: Array, eps: Array) -> tuple[Array, Array]:
        joint = family.joint(mixing_noise, eps)
        value, norm = jnp.zeros(()), jnp.zeros(())
        for weight, first, second in _score_pairs(target, joint.x, batch, split):
            g, h = field(joint.x, first), field(joint.x, second)
            product = jnp.sum(g * h)
            value += weight * (jnp.sum(g * (second - joint.score)) + jnp.sum(h * (first - joint.score)) - product)
            norm += weight * product
        return value, norm

    values, norms = jax.vmap(one)(*noise)
    return jnp.mean(values), {"critic_norm": jnp.mean(norms)}


def _score_pairs(
    target: Target, x: Array, batch: Int[Array, " batch"] | None, split: bool
) -> list[tuple[float, Array, Array]]:
    """Weighted pairs of scores whose products are unbiased for products of the full score with itself.

    For halves S₁, S₂ of a batch of B out of N rows drawn without replacement, and their mean S̄,
    E[S₁S₂] = S² − V b/(N − b) and E[S̄²] = S² + V (N − B)/(2 (N − b)), with b = B/2 and V the variance of a half's
    score; so (B/N) S̄S̄ + (1 − B/N) S₁S₂ has no bias. It is the plain product when the batch is all of the data.
    """
    if batch is None or not split:
        score = target.score(x, batch)
        return [(1.0, score, score)]
    half = batch.shape[0] // 2
    first, second = (target.score(x, part) for part in (batch[:half], batch[half : 2 * half]))
    mean = 0.5 * (first + second)
    share = 2 * half / (target.num_data or 1)
    return [(share, mean, mean), (1.0 - share, first, second)]


class MinimaxState(eqx.Module):
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
    """Alternate one descent step of the family with `critic_steps` ascent steps of the critic on L(φ, g).

    A subclass says what the family descends. The critic is g(x) = f_ψ(x) + ψ_t S(x).

    The critic has to keep up with the family. Momentum holds it back, so both optimisers have b1 = 0.5 unless told
    otherwise, and the critic the larger rate; a critic with more momentum than the family can make a fit diverge.

    Args:
        num_particles: m, draws of x per family update.
        critic_steps: K, critic updates per family update.
        critic_particles: Draws per critic update; `num_particles` when left out.
        optimizer: Of the family: `sivi.optimizers` settings or any Optax transform; Adam when left out.
        critic_optimizer: Of the critic, likewise; its schedules count the critic's own updates.
        critic: Settings of the network f_ψ.
        psi: ψ_t, a number or a `sivi.schedules.Schedule`.
    """

    num_particles: int = eqx.field(static=True)
    critic_steps: int = eqx.field(static=True)
    critic_particles: int = eqx.field(static=True)
    optimizer: OptimizerLike
    critic_optimizer: OptimizerLike
    critic: CriticSpec
    psi: Schedule

    def __init__(
        self,
        *,
        num_particles: int = 256,
        critic_steps: int = 1,
        critic_particles: int | None = None,
        optimizer: OptimizerLike | None = None,
        critic_optimizer: OptimizerLike | None = None,
        critic: CriticSpec | None = None,
        psi: float | Schedule = 1.0,
    ):
        self.num_particles = check_count("num_particles", num_particles)
        self.critic_steps = check_count("critic_steps", critic_steps)
        self.critic_particles = check_count(
            "critic_particles", num_particles if critic_particles is None else critic_particles
        )
        self.optimizer = Adam(Cosine(1e-3), b1=0.5, b2=0.99) if optimizer is None else optimizer
        self.critic_optimizer = Adam(Cosine(4e-3), b1=0.5, b2=0.99) if critic_optimizer is None else critic_optimizer
        check_optimizer("optimizer", self.optimizer)
        check_optimizer("critic_optimizer", self.critic_optimizer)
        self.critic = MLPCritic() if critic is None else critic
        self.psi = as_schedule(psi, "psi")

    @abc.abstractmethod
    def family_loss(
        self,
        family: SemiImplicit,
        field: Field,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Scalar, Metrics]:
        """What the family descends while the critic `field` is held fixed, and scalars to record."""

    def bind(self, num_steps: int) -> "CriticObjective":
        return replace_fields(
            self,
            optimizer=optimizers.bind(self.optimizer, num_steps),
            # The critic's schedules count its own updates.
            critic_optimizer=optimizers.bind(self.critic_optimizer, num_steps * self.critic_steps),
            psi=self.psi.bind(num_steps),
        )

    def init(self, key: PRNGKeyArray, family: SemiImplicit, target: Target) -> MinimaxState:
        critic = self.critic.init(key, family.dim)
        return MinimaxState(
            step=jnp.zeros((), jnp.int32),
            critic=critic,
            optimizer=optimizers.init(self.optimizer, family),
            critic_optimizer=optimizers.init(self.critic_optimizer, critic),
        )

    @property
    def ignores_score(self) -> bool:
        """Whether ψ_t ≡ 0, so that the critic is the network alone."""
        return isinstance(self.psi, Constant) and self.psi.value == 0.0

    def field(self, state: MinimaxState, target: Target) -> Callable[[Array], Array]:
        """The whole critic g(x) = f_ψ(x) + ψ_t S(x) of a state, as a function of one point."""
        whole = self._field(state.critic, state.step)
        return lambda x: whole(x, target.score(x))

    def step(
        self,
        key: PRNGKeyArray,
        family: SemiImplicit,
        state: MinimaxState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[SemiImplicit, MinimaxState, Metrics]:
        own_noise, critic_noise = self._noise(key, family)
        (loss, metrics), grads = eqx.filter_value_and_grad(self.family_loss, has_aux=True)(
            family, self._field(state.critic, state.step), target, batch, own_noise
        )
        family, optimizer = optimizers.update(self.optimizer, grads, state.optimizer, family)
        critic, critic_optimizer = state.critic, state.critic_optimizer
        for k in range(self.critic_steps):
            noise = jax.tree.map(lambda array, k=k: array[k], critic_noise)
            critic, critic_optimizer = self._ascend(critic, critic_optimizer, state.step, family, target, batch, noise)
        state = MinimaxState(state.step + 1, critic, optimizer, critic_optimizer)
        return family, state, {"loss": loss, **metrics}

    def _ascend(
        self,
        critic: Critic,
        critic_optimizer: PyTree,
        step: Int[Array, ""],
        family: SemiImplicit,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Critic, PyTree]:
        def loss(critic: Critic) -> Scalar:
            field, split = self._field(critic, step), not self.ignores_score
            return -minimax(family, field, target, batch, noise, split=split)[0]

        grads = eqx.filter_grad(loss)(critic)
        return optimizers.update(self.critic_optimizer, grads, critic_optimizer, critic)

    def _field(self, critic: Critic, step: Int[Array, ""]) -> Field:
        if self.ignores_score:
            return lambda x, score: critic(x)
        psi = self.psi(step)
        return lambda x, score: critic(x) + psi * score

    def _noise(self, key: PRNGKeyArray, family: SemiImplicit) -> tuple[Noise, Noise]:
        """Fresh noise for the family's update and, with a leading axis K, for the critic's, in one draw."""
        own, others = self.num_particles, self.critic_steps * self.critic_particles
        noise = family.sample_noise(key, (own + others,))
        critic_shape = (self.critic_steps, self.critic_particles)
        return (
            jax.tree.map(lambda array: array[:own], noise),
            jax.tree.map(lambda array: array[own:].reshape(*critic_shape, *array.shape[1:]), noise),
        )
