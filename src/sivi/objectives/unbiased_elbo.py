"""UIVI: the ELBO's gradient with the score of q averaged over z given x, drawn by an inner Markov chain.

    ∇_φ ELBO = E[(S(x) − ∇log q_φ(x))ᵀ ∂x_φ(z, ε)/∂φ],    ∇log q_φ(x) = E_{q(z′|x)}[∇_x log q_φ(x|z′)].

The chain runs over the mixing layer's base noise γ′, whose density given x is proportional to q(γ′) q_φ(x|h(γ′)). It
starts at the noise that generated x, an exact draw, and so is stationary throughout; but until it has forgotten its
start the average is correlated with (z, ε), and the gradient is biased by that.

The inner loop has no branch: conditional scores of dropped iterations are computed and not used. An accelerator waits
for the host to decide a branch inside a loop, which takes longer than these scores.
"""

from collections.abc import Callable, Collection
from dataclasses import KW_ONLY
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .. import optimizers
from .._arguments import default_float
from .._backend import particles_in_turn
from .._fields import count_field, positive_field, share_field
from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..families.semi_implicit import check_mixing_density, check_semi_implicit
from ..optimizers import Adam, OptimizerLike, optimizer_field
from ..samplers.transition import check_acceptance, hmc_transition, start_chain
from ..schedules import Cosine, RunLike, replace_fields
from ..targets import Target
from ..targets.evaluate import at_points
from ._minimax import score_pairs
from .base import Curve, Noise, Objective

_ADAPTATION_RATE = 0.05  # of log step size per burn-in iteration and unit of acceptance


class UnbiasedState(eqx.Module):
    """State of `UnbiasedELBO`: the inner chain's step size, and the optimiser's."""

    log_step_size: Scalar
    optimizer: PyTree


class UnbiasedELBO(Objective):
    """UIVI: ascend the ELBO with ∇log q(x) from Hamiltonian Monte Carlo over the mixing noise given x.

    One chain per particle, all in step. The score of the target is all it needs. The recorded `loss` is not minus
    the ELBO, which stays unknown, but an estimate of the Fisher divergence E‖S − ∇log q‖².

    Args:
        num_particles: m, draws of x per update; the paper's experiments had one.
        num_iterations: Transitions of the inner chain per update.
        burn_in: How many of them are dropped; the step size is adapted during these.
        num_leapfrog: Leapfrog steps of a transition.
        step_size: Of the leapfrog integrator at the start; it is carried from update to update.
        target_acceptance: What the adaptation aims at.
        jitter: Every transition's step size is drawn evenly from step size × (1 ± jitter). With 0, which is what the
            paper's experiments had, a trajectory can be half or all of an orbit, and the chain never forgets its
            start in that direction.
        optimizer: `sivi.optimizers` settings or any Optax transform.

    Example:
        >>> objective = UnbiasedELBO(num_particles=1)

    Reference:
        Titsias and Ruiz, Unbiased implicit variational inference (AISTATS 2019).
    """

    _: KW_ONLY
    num_particles: int = count_field("num_particles", 64)
    num_iterations: int = count_field("num_iterations", 10)
    burn_in: int = count_field("burn_in", 5, minimum=0)
    num_leapfrog: int = count_field("num_leapfrog", 5)
    step_size: float = positive_field("step_size", 0.2)
    target_acceptance: float = eqx.field(static=True, converter=check_acceptance, default=0.9)
    jitter: float = share_field("jitter", 0.2)
    optimizer: OptimizerLike = optimizer_field("optimizer", Adam(Cosine(1e-3), b2=0.99))

    def __check_init__(self) -> None:
        if self.burn_in >= self.num_iterations:
            raise ValueError(f"burn_in must be below num_iterations, {self.num_iterations}; got {self.burn_in}.")

    def bind(self, plan: RunLike) -> "UnbiasedELBO":
        return replace_fields(self, optimizer=optimizers.bind(self.optimizer, plan))

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)
        check_mixing_density(self, family)

    def curves(self, recorded: Collection[str]) -> dict[str, Curve]:
        return {
            "loss": Curve("Fisher divergence", "falls, then flat near 0"),
            "acceptance": Curve("acceptance", f"near {self.target_acceptance:g}: the inner chains move"),
            "step_size": Curve("step size", "settles"),
        }

    def init(self, key: PRNGKeyArray, family: Family, target: Target) -> UnbiasedState:
        log_step_size = jnp.log(jnp.asarray(self.step_size, default_float()))
        return UnbiasedState(log_step_size, optimizers.init(self.optimizer, family))

    def step(
        self,
        key: PRNGKeyArray,
        family: SemiImplicit,
        state: UnbiasedState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[SemiImplicit, UnbiasedState, Metrics]:
        noise_key, chain_key = jax.random.split(key)
        noise = family.sample_noise(noise_key, (self.num_particles,))
        x = jax.vmap(lambda *one: family.joint(*one).x)(*noise)
        score, log_step_size, acceptance = self.average_score(chain_key, family, x, noise[0], state.log_step_size)
        grads, loss = eqx.filter_grad(surrogate, has_aux=True)(family, target, batch, noise, score)
        family, optimizer = optimizers.update(self.optimizer, grads, state.optimizer, family)
        metrics = {"loss": loss, "acceptance": acceptance, "step_size": jnp.exp(log_step_size)}
        return family, UnbiasedState(log_step_size, optimizer), metrics

    def average_score(
        self,
        key: PRNGKeyArray,
        family: SemiImplicit,
        x: Float[Array, "n dim"],
        noise: Float[Array, "n noise"],
        log_step_size: Scalar,
    ) -> tuple[Float[Array, "n dim"], Scalar, Scalar]:
        """∇_x log q(x|z′) averaged over the kept draws of z′ given x, the step size after it, and the acceptance.

        Args:
            key: Random key.
            family: q_φ; nothing is differentiated.
            x: The points given which z′ is drawn.
            noise: Where each chain starts: the mixing noise that generated the point.
            log_step_size: Of the integrator.
        """

        def log_density(x: Array, noise: Array) -> Array:
            at = family.conditional.at(family.mixing.transform(noise))
            return family.mixing.noise_log_prob(noise) + at.log_prob(x)

        def score_at(x: Array, noise: Array) -> Array:
            return family.conditional.at(family.mixing.transform(noise)).score(x)

        def iterate(i: Array, carry: tuple[PyTree, Array, Array, Array]) -> tuple[PyTree, Array, Array, Array]:
            chains, log_step_size, total, accepted = carry
            step_key, chain_key = jax.random.split(jax.random.fold_in(key, i))
            keys = jax.random.split(chain_key, len(x))
            spread = jax.random.uniform(step_key, (len(x),), x.dtype, 1.0 - self.jitter, 1.0 + self.jitter)
            step_sizes = jnp.exp(log_step_size) * spread

            def move(key: PRNGKeyArray, x: Array, chain: PyTree, step_size: Array) -> tuple[PyTree, Array]:
                chain, info = hmc_transition(key, chain, lambda n: log_density(x, n), step_size, self.num_leapfrog)
                return chain, info.acceptance

            chains, acceptances = _over_particles(move, keys, x, chains, step_sizes)
            acceptance, burning = jnp.mean(acceptances), i < self.burn_in
            change = jnp.where(burning, _ADAPTATION_RATE * (acceptance - self.target_acceptance), 0.0)
            # No branch: an accelerator would wait for the host to take it, which lasts longer than a score.
            scores = jax.vmap(score_at)(x, chains.position)
            total = total + jnp.where(burning, 0.0, scores)
            return chains, log_step_size + change, total, accepted + acceptance

        chains = jax.vmap(lambda x, n: start_chain(lambda n: log_density(x, n), n))(x, noise)
        start = (chains, log_step_size, jnp.zeros_like(x), jnp.zeros((), x.dtype))
        _, log_step_size, total, accepted = jax.lax.fori_loop(0, self.num_iterations, iterate, start)
        return total / (self.num_iterations - self.burn_in), log_step_size, accepted / self.num_iterations


def _over_particles(move: Callable[..., Any], *arguments: PyTree) -> Any:
    """`move` at every particle: all at once, or one after the other where that is faster."""
    if particles_in_turn(len(arguments[0])):
        return jax.lax.map(lambda one: move(*one), arguments)
    return jax.vmap(move)(*arguments)


def surrogate(
    family: SemiImplicit,
    target: Target,
    batch: Int[Array, " batch"] | None,
    noise: Noise,
    score: Float[Array, "n dim"],
) -> tuple[Scalar, Scalar]:
    """A function whose gradient is minus that of the ELBO when `score` is ∇log q at the draws; and the loss recorded.

    With draws of z′ independent of z given x, (S − score)ᵀ(S − ∇_x log q(x|z)) averages to the Fisher divergence.
    """
    joint = jax.vmap(family.joint)(*noise)
    x, conditional_score = jax.lax.stop_gradient((joint.x, joint.score))
    pairs = at_points(target, lambda x: score_pairs(target, x, batch, split=True), x, batch)
    value = -jnp.mean(jnp.sum((pairs.mean - score) * joint.x, axis=-1))
    products = sum(
        0.5 * weight * ((first - score) * (second - conditional_score) + (second - score) * (first - conditional_score))
        for weight, first, second in pairs
    )
    return value, jnp.mean(jnp.sum(products, axis=-1))
