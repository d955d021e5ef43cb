"""A fresh network for the score of a family that is held fixed, by denoising score matching."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .. import optimizers
from .._arguments import default_float, describe
from .._programs import compiled
from .._types import Scalar
from ..critics import CriticSettings
from ..critics.base import PointFunction
from ..families import SemiImplicit
from ..optimizers import OptimizerLike
from ._draws import check_draws

_PILOT_DRAWS = 4096  # that the standardisation is taken from


class FamilyScore(eqx.Module):
    """s_ψ(x) = Wᵀ (network(u) − u), u = W (x − center): a network on top of the score of a Gaussian.

    With the moments of q in `center` and W, u has mean zero and unit covariance whatever the scale of x, and the
    network has to learn only how q differs from a Gaussian.
    """

    network: PointFunction
    center: Float[Array, " dim"]
    whitener: Float[Array, "dim dim"] | Float[Array, " dim"]  # W, or its diagonal

    def __call__(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        u = self.standardise(x)
        residual = self.network(u) - u
        return self.whitener * residual if self.whitener.ndim == 1 else self.whitener.T @ residual

    def standardise(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        offset = x - self.center
        return self.whitener * offset if self.whitener.ndim == 1 else self.whitener @ offset


def train_family_score(
    key: PRNGKeyArray,
    family: SemiImplicit,
    critic: CriticSettings,
    optimizer: OptimizerLike,
    num_steps: int,
    num_particles: int,
) -> FamilyScore:
    """s_ψ that minimises E‖s_ψ(x) − ∇_x log q(x|z)‖² over fresh draws: its minimum is at ∇log q."""
    pilot_key, network_key, run_key = jax.random.split(key, 3)
    center, root, whitener = _moments(pilot_key, family)
    made = critic.init(network_key, family)
    if made.reads_family:
        raise TypeError(
            "critic must be settings of a function of x alone, such as sivi.critics.MLPCritic(), since it sees "
            f"standardised draws; got {describe(critic)}."
        )
    start = FamilyScore(made.at(family), center, whitener)
    return _train(run_key, family, start, root, optimizers.bind(optimizer, num_steps), num_steps, num_particles)


def _moments(key: PRNGKeyArray, family: SemiImplicit) -> tuple[Array, Array, Array]:
    """Mean of the family, a root of its covariance, and the inverse root; of the diagonal, in high dimension."""
    draws = check_draws("draws of fit", np.asarray(_pilot(key, family)))
    mean, sd = draws.mean(0), draws.std(0)
    root, whitener = sd, 1.0 / sd
    # Ten draws per dimension, and not too thin a direction for float32.
    if 10 * family.dim <= _PILOT_DRAWS:
        correlation = np.corrcoef(draws / sd, rowvar=False).reshape(family.dim, family.dim)
        if np.linalg.eigvalsh(correlation)[0] > 1e-6:
            root = sd[:, None] * np.linalg.cholesky(correlation)
            whitener = np.linalg.inv(root)
    dtype = default_float()
    return jnp.asarray(mean, dtype), jnp.asarray(root, dtype), jnp.asarray(whitener, dtype)


@compiled
def _pilot(key: PRNGKeyArray, family: SemiImplicit) -> Float[Array, "n dim"]:
    return jax.vmap(family.joint)(*family.sample_noise(key, (_PILOT_DRAWS,))).x


@compiled
def _train(
    key: PRNGKeyArray,
    family: SemiImplicit,
    start: FamilyScore,
    root: Array,
    optimizer: OptimizerLike,
    num_steps: int,
    num_particles: int,
) -> FamilyScore:
    trained, static = eqx.partition(start.network, eqx.is_inexact_array)

    def loss(trained: PointFunction, step: Array) -> Scalar:
        network = eqx.combine(trained, static)
        noise = family.sample_noise(jax.random.fold_in(key, step), (num_particles,))
        joint = jax.vmap(family.joint)(*noise)
        u = jax.vmap(start.standardise)(joint.x)
        # In the coordinates of u, where every direction has the same weight, ∇_u = rootᵀ ∇_x.
        score = joint.score * root if root.ndim == 1 else joint.score @ root
        return jnp.mean(jnp.sum((jax.vmap(network)(u) - u - score) ** 2, axis=-1))

    def update(step: Array, carry: tuple[PointFunction, PyTree]) -> tuple[PointFunction, PyTree]:
        trained, state = carry
        trained, state = optimizers.update(optimizer, jax.grad(loss)(trained, step), state, trained)
        return trained, state

    carry = (trained, optimizers.init(optimizer, trained))
    trained, _ = jax.lax.fori_loop(0, num_steps, update, carry)
    return FamilyScore(eqx.combine(trained, static), start.center, start.whitener)
