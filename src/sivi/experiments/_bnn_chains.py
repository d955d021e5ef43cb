"""What draws a network's weights by chains, or descends to them: Langevin, short HMC, and networks at optima."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ..samplers.adaptation import AdaptationState, warmup_windows
from ..samplers.transition import ChainState, hmc_transition, start_chain
from ..targets.evaluate import scores_at
from ._bnn_semi_implicit import BATCH_SIZE
from ._bnn_side_by_side import Process
from ._bnn_target import FilledNetwork

#: Of the paper, which chooses one by validation.
STEP_SIZES = (1e-4, 1e-5, 1e-6)
#: Of the paper; and those that choose here, since particles do not act on each other.
NUM_PARTICLES, NUM_TRIAL_PARTICLES = 100, 10

_TARGET_ACCEPTANCE, _MOST_LEAPFROG = 0.8, 40


class LangevinMember(eqx.Module):
    """What is sampled, in which steps: of one member, or stacked of all.

    Attributes:
        network: The posterior.
        step_size: h.
        num_steps: After so many the particles stay where they are.
    """

    network: FilledNetwork
    step_size: Float[Array, " *members"]
    num_steps: Int[Array, " *members"]


class LangevinState(eqx.Module):
    """Particles now, and as they were half way."""

    particles: Float[Array, "particles dim"]
    half_way: Float[Array, "particles dim"]


class Langevin(Process):
    """Stochastic gradient Langevin dynamics, x ← x + (h/2) S(x) + √h N(0, I).

    Attributes:
        half: The number of steps after which a copy is kept.
        num_particles: How many, all on the same minibatches.
    """

    half: Int[Array, ""]
    num_particles: int = eqx.field(static=True)

    def start(self, key: PRNGKeyArray, target: LangevinMember) -> LangevinState:
        particles = jax.vmap(target.network.model.random_start)(jax.random.split(key, self.num_particles))
        return LangevinState(particles, particles)

    def step(
        self, key: PRNGKeyArray, index: Int[Array, ""], state: LangevinState, target: LangevinMember
    ) -> LangevinState:
        def moved(x: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
            h = target.step_size
            score = scores_at(target.network, x, target.network.window(index, BATCH_SIZE))
            return x + 0.5 * h * score + jnp.sqrt(h) * jax.random.normal(key, x.shape, x.dtype)

        x = jax.lax.cond(index < target.num_steps, moved, lambda x: x, state.particles)
        return LangevinState(x, jnp.where(index + 1 == self.half, x, state.half_way))


class Descent(Process):
    """Networks that climb to optima of the log density from random starts, by Adam on minibatches.

    Attributes:
        num_networks: How many in an ensemble.
        num_steps: Over which the rate falls to zero.
        rate: The first one.
    """

    num_networks: int = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)
    rate: float = eqx.field(static=True)

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(self.rate, self.num_steps))

    def start(self, key: PRNGKeyArray, target: FilledNetwork) -> tuple[Array, PyTree]:
        weights = jax.vmap(target.model.random_start)(jax.random.split(key, self.num_networks))
        return weights, self._optimizer.init(weights)

    def step(
        self, key: PRNGKeyArray, index: Int[Array, ""], state: tuple[Array, Any], target: FilledNetwork
    ) -> tuple[Array, PyTree]:
        weights, optimizer = state
        rows = target.window(index, BATCH_SIZE)
        score = jax.vmap(lambda w: target.score(w, rows))(weights) / target.num_rows
        updates, optimizer = self._optimizer.update(-score, optimizer)
        return optax.apply_updates(weights, updates), optimizer  # pyright: ignore[reportReturnType]

    def run(self, key: PRNGKeyArray, target: FilledNetwork) -> Float[Array, "networks dim"]:
        """All steps at once."""
        start = self.start(key, target)
        return jax.lax.fori_loop(0, self.num_steps, lambda i, state: self.step(key, i, state, target), start)[0]


class HamiltonianState(eqx.Module):
    """Chains, what their warm-up has learnt, and the draws kept so far."""

    chains: ChainState
    adaptation: AdaptationState
    kept: Float[Array, "chains kept dim"]
    acceptance: Float[Array, ""]


class Hamiltonian(Process):
    """Hamiltonian Monte Carlo on all rows, with the transition and the warm-up of `sivi.samplers.hmc`.

    All members take as many leapfrog steps in a transition, so that none waits for another.

    Attributes:
        key: Of the numbers of leapfrog steps.
        num_warmup: Transitions that tune step size and mass.
        windows: Which of them teach the mass, and which end a window.
        thin: Transitions between two draws that are kept.
        num_chains: Of every member.
        num_kept: Draws kept of every chain.
        start_steps: Adam steps to where a chain starts.
    """

    precision: ClassVar[str | None] = "highest"  # a step is refused for an error in the log density
    key: PRNGKeyArray
    num_warmup: Int[Array, ""]
    windows: tuple[Bool[Array, " num_warmup"], Bool[Array, " num_warmup"]]
    thin: int = eqx.field(static=True)
    num_chains: int = eqx.field(static=True)
    num_kept: int = eqx.field(static=True)
    start_steps: int = eqx.field(static=True)

    @classmethod
    def of(
        cls, key: PRNGKeyArray, num_warmup: int, num_chains: int, num_kept: int, thin: int, start_steps: int
    ) -> "Hamiltonian":
        """With the windows of `sivi.samplers.hmc`."""
        windows = tuple(jnp.asarray(array) for array in warmup_windows(num_warmup))
        return cls(key, jnp.int32(num_warmup), windows, thin, num_chains, num_kept, start_steps)  # pyright: ignore[reportArgumentType]

    @property
    def num_steps(self) -> int:
        """Transitions in all."""
        return len(self.windows[0]) + 1 + (self.num_kept - 1) * self.thin

    def start(self, key: PRNGKeyArray, target: FilledNetwork) -> HamiltonianState:
        starts = Descent(self.num_chains, self.start_steps, 0.01).run(key, target)
        chains = jax.vmap(lambda x: start_chain(target.log_prob, x))(starts)
        kept = jnp.zeros((self.num_chains, self.num_kept, target.dim), starts.dtype)
        return HamiltonianState(chains, AdaptationState.start(target.dim, 0.01), kept, jnp.zeros((), starts.dtype))

    def step(
        self, key: PRNGKeyArray, index: Int[Array, ""], state: HamiltonianState, target: FilledNetwork
    ) -> HamiltonianState:
        tuned, warming_up = state.adaptation, index < self.num_warmup
        step_size = jnp.exp(jnp.where(warming_up, tuned.log_step, tuned.log_step_mean))
        num_leapfrog = jax.random.randint(jax.random.fold_in(self.key, index), (), 1, _MOST_LEAPFROG + 1)
        chains, info = jax.vmap(
            lambda key, chain: hmc_transition(key, chain, target.log_prob, step_size, num_leapfrog, tuned.inverse_mass)
        )(jax.random.split(key, self.num_chains), state.chains)
        collect, close = (window[index] for window in self.windows)
        adapted = tuned.update(chains.position, info.acceptance, _TARGET_ACCEPTANCE, collect, close)
        tuned = jax.tree.map(lambda new, old: jnp.where(warming_up, new, old), adapted, tuned)
        # Every state goes to the place of the next draw due; the one that is due stays, since no other follows.
        place = jnp.maximum(0, (index - self.num_warmup + self.thin - 1) // self.thin)
        kept = state.kept.at[:, place].set(chains.position)
        share = jnp.where(warming_up, 0.0, jnp.mean(info.acceptance)) / (self.num_steps - len(self.windows[0]))
        return HamiltonianState(chains, tuned, kept, state.acceptance + share)
