"""Reverse KL by its path gradient, with the score of the family learnt by a critic.

The reverse KL and its gradient by reparameterisation, where the expected score of q_φ itself drops out, are

    KL(q_φ ‖ p) = E_q[log q_φ(x) − log p(x)],
    ∇_φ KL = −E_{z, ε}[(S(x) − ∇log q_φ(x))ᵀ ∂x_φ(z, ε)/∂φ].

The one unknown, ∇log q_φ(x) = E[∇_x log q_φ(x|z) | x], is a regression: s = argmin E‖s(x) − ∇_x log q_φ(x|z)‖².
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import check_positive
from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..optimizers import Adam, OptimizerLike
from ..schedules import Cosine
from ..targets import Target
from .alternation import CriticObjective
from .base import Noise, check_semi_implicit
from .critic import Critic, CriticSpec, DenoisingCritic, MLPCritic, PointCritic, critic_at
from .score_pairs import Field, minimax_value, score_pairs

_FEWEST_WEIGHED = 8  # draws; the mean square of fewer can be next to nothing


class PathKL(CriticObjective):
    """Descend the reverse KL by the path gradient −E[stop(S(x) − s_ψ(x)) · ∂x/∂φ], with s_ψ ≈ ∇log q.

    The critic g = S + f_ψ is that of `ScoreMatching` in its residual form, f_ψ ≈ −∇log q, trained by denoising score
    matching. The target's score is evaluated and never differentiated, so any score will do. The recorded `loss` is
    not the KL, which stays unknown, but, as for `ScoreMatching`, an estimate of the Fisher divergence.

    Args:
        num_particles: m, draws of x per family update.
        critic_steps: K, critic updates per family update.
        critic_particles: Draws per critic update; `num_particles` when left out.
        critic_warmup: Critic updates before the family's first: with no idea of ∇log q, the family would start by
            collapsing to the mode.
        optimizer: Of the family: `sivi.optimizers` settings or any Optax transform.
        critic_optimizer: Of the critic, likewise; its schedules count the critic's own updates.
        critic: Settings of the network f_ψ.
        clip: A draw's S − s is shortened to this size, its root mean square in units of the conditional's own
            score, so that one draw in a steep place does not make the step; None leaves it as it is. On all data a
            finished fit has none to shorten; the noise of small minibatches can be that long.

    Example:
        >>> objective = PathKL(num_particles=100, critic_steps=1)

    Reference:
        Roeder, Wu and Duvenaud, Sticking the landing (NeurIPS 2017), for the path gradient; Vincent, A connection
        between score matching and denoising autoencoders (Neural Computation 2011), for the critic.
    """

    clip: float | None = eqx.field(static=True)

    def __init__(
        self,
        *,
        num_particles: int = 256,
        critic_steps: int = 2,
        critic_particles: int | None = None,
        critic_warmup: int = 500,
        optimizer: OptimizerLike | None = None,
        critic_optimizer: OptimizerLike | None = None,
        critic: CriticSpec | None = None,
        clip: float | None = 10.0,
    ):
        super().__init__(
            num_particles=num_particles,
            critic_steps=critic_steps,
            critic_particles=critic_particles,
            critic_warmup=critic_warmup,
            optimizer=Adam(Cosine(1e-3), b1=0.9, b2=0.99) if optimizer is None else optimizer,
            critic_optimizer=Adam(Cosine(4e-3), b1=0.9, b2=0.99) if critic_optimizer is None else critic_optimizer,
            critic=MLPCritic(skip=True) if critic is None else critic,
        )
        self.clip = None if clip is None else check_positive("clip", clip)

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)
        self.critic.check(family)

    def field_of(self, critic: PointCritic, step: Int[Array, ""]) -> Field:
        def field(x: Array) -> Callable[[Array], Array]:
            network = critic(x)
            return lambda score: score + network

        return field

    def family_loss(
        self,
        family: SemiImplicit,
        field: Field,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Scalar, Metrics]:
        joint = jax.vmap(family.joint)(*noise)
        x, conditional_score = jax.lax.stop_gradient((joint.x, joint.score))
        pairs = jax.vmap(lambda x: score_pairs(target, x, batch, split=True))(x)
        values, norms = jax.vmap(lambda *draw: minimax_value(draw[0], field, *draw[1:]))(pairs, x, conditional_score)
        g = jax.lax.stop_gradient(jax.vmap(lambda x, score: field(x)(score))(x, pairs.mean))
        if self.clip is not None:
            units = jnp.sqrt(jnp.mean(conditional_score**2, axis=0))  # 1/σ for a Gaussian with a global σ
            size = jnp.sqrt(jnp.mean((g / units) ** 2, axis=-1, keepdims=True))
            g = g * (self.clip / jnp.maximum(size, self.clip))
        surrogate = -jnp.mean(jnp.sum(g * joint.x, axis=-1))
        # Only the surrogate's gradient has a meaning; its value has none.
        return surrogate, {"loss": jnp.mean(values), "critic_norm": jnp.mean(norms)}

    def critic_loss(
        self,
        critic: Critic,
        step: Int[Array, ""],
        family: SemiImplicit,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> Scalar:
        if isinstance(critic, DenoisingCritic):
            return critic.denoising_loss(family, noise)
        joint = jax.vmap(family.joint)(*noise)
        error = jax.vmap(critic_at(critic, family))(joint.x) + joint.score
        return jnp.mean(jnp.sum(_weights(joint.score) * error**2, axis=-1))

    def critic_noise(self, key: PRNGKeyArray, critic: Critic, family: SemiImplicit, shape: tuple[int, ...]) -> Any:
        return critic.sample_noise(key, family, shape) if isinstance(critic, DenoisingCritic) else None


def _weights(conditional_score: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
    """For every draw, one over the mean square of ∇_x log q(x|z) among the others, by coordinate.

    For a Gaussian with a global σ that is about σ²: a narrow coordinate does not outweigh a wide one. The weight is
    independent of the draw it weighs, so the regression's minimum stays where it is. A weight that follows the draw's
    own z, or counts the draw itself, would move it.
    """
    count = len(conditional_score)
    if count < _FEWEST_WEIGHED:
        return jnp.ones_like(conditional_score)
    squares = conditional_score**2
    return (count - 1) / (jnp.sum(squares, axis=0) - squares)
