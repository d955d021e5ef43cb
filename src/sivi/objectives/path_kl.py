"""Reverse KL by its path gradient, with the score of the family learnt by a critic.

The reverse KL and its gradient by reparameterisation, where the expected score of q_φ itself drops out, are

    KL(q_φ ‖ p) = E_q[log q_φ(x) − log p(x)],
    ∇_φ KL = −E_{z, ε}[(S(x) − ∇log q_φ(x))ᵀ ∂x_φ(z, ε)/∂φ].

The one unknown, ∇log q_φ(x) = E[∇_x log q_φ(x|z) | x], is a regression: s = argmin E‖s(x) − ∇_x log q_φ(x|z)‖².

The value of what is descended, the KL, is unknown. The recorded `loss` is an estimate of E‖S − ∇log q‖², from numbers
at hand, so that the histories of score-based methods read alike. The critic is trained for `critic_warmup` updates
before the family moves: with an untrained one the first path gradients are those of log p alone, which pull the
family to a mode.
"""

from dataclasses import KW_ONLY
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._fields import count_field, optional_positive_field
from .._types import Metrics, Scalar
from ..critics import Critic, CriticSettings, MLPCritic
from ..critics.base import NoiseSource, PointFunction, critic_field
from ..families import SemiImplicit
from ..optimizers import Adam, OptimizerLike, optimizer_field
from ..schedules import Cosine
from ..targets import Target
from ..targets.evaluate import at_points
from ._minimax import CriticFunction, CriticOfScore, minimax_value, score_pairs
from .base import Noise
from .critic_objective import CriticObjective


class PathKL(CriticObjective):
    """Descend the reverse KL by the path gradient −E[stop(S(x) − s_ψ(x)) · ∂x/∂φ], with s_ψ ≈ ∇log q.

    The critic g = S + f_ψ is that of `ScoreMatching` in its residual form, f_ψ ≈ −∇log q, trained by denoising score
    matching. The target's score is evaluated and never differentiated, so any score will do. The recorded `loss` is
    not the KL, which stays unknown, but, as for `ScoreMatching`, an estimate of the Fisher divergence.

    Takes the settings of `CriticObjective`, and one more. By default the critic is warmed up: without an
    estimate of ∇log q the family would collapse to the mode.

    Args:
        clip: Upper bound of the size of a draw's S − s: its root mean square, in units of the conditional's score. So
            one draw in a steep region cannot dominate a step. None turns it off. On all data a finished fit clips
            nothing; small minibatches can be noisy enough to be clipped.

    Example:
        >>> objective = PathKL(num_particles=100, critic_steps=1)

    Reference:
        Roeder, Wu and Duvenaud, Sticking the landing (NeurIPS 2017), for the path gradient; Vincent, A connection
        between score matching and denoising autoencoders (Neural Computation 2011), for the critic.
    """

    _: KW_ONLY
    num_particles: int = count_field("num_particles", 256)
    critic_steps: int = count_field("critic_steps", 2)
    critic_particles: int = count_field("critic_particles", None)
    critic_warmup: int = count_field("critic_warmup", 500, minimum=0)
    optimizer: OptimizerLike = optimizer_field("optimizer", Adam(Cosine(1e-3), b1=0.9, b2=0.99))
    critic_optimizer: OptimizerLike = optimizer_field("critic_optimizer", Adam(Cosine(4e-3), b1=0.9, b2=0.99))
    critic: CriticSettings = critic_field(MLPCritic(skip=True))
    clip: float | None = optional_positive_field("clip", 10.0)

    def check_family(self, family: SemiImplicit) -> None:
        if family.varying_scale:
            raise TypeError(
                "PathKL needs a family whose σ is the same for all z: where σ(z) is small, its critic lags behind, and "
                "the family collapses or runs off. Use scale='global', or MixtureKL, which has no critic."
            )

    def full_critic(self, network: PointFunction, step: Int[Array, ""]) -> CriticFunction:
        return CriticFunction(network, 1.0)

    def family_loss(
        self,
        family: SemiImplicit,
        critic: CriticOfScore,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Scalar, Metrics]:
        joint = jax.vmap(family.joint)(*noise)
        x, conditional_score = jax.lax.stop_gradient((joint.x, joint.score))
        pairs = at_points(target, lambda x: score_pairs(target, x, batch, split=True), x, batch)
        values, norms = jax.vmap(lambda *draw: minimax_value(draw[0], critic, *draw[1:]))(pairs, x, conditional_score)
        g = jax.lax.stop_gradient(jax.vmap(lambda x, score: critic(x)(score))(x, pairs.mean))
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
        noise: Any,
    ) -> Scalar:
        return critic.denoising_loss(family, noise)

    def critic_noise_source(self, critic: Critic, family: SemiImplicit) -> NoiseSource:
        return critic.noise_source(family)
