"""The paper's λ and γ: a run of Stein variational gradient descent over weights and log precisions.

The paper takes estimates of SVGD with 100 particles. Its authors ran it as those of SVGD did: priors Gamma(1, 0.1) on
both precisions, one λ for all weights, 2000 steps of a minibatch of 100 rows, AdaGrad with rate 1e-3. At the end each
particle's γ is compared on the dev rows with the one that its own errors there suggest, and the likelier is kept. Those
errors are in the units of the dataset, and so is γ.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .. import optimizers
from .._programs import compiled
from .._types import Scalar
from ..optimizers import AdaGrad
from ..samplers._svgd import median_kernel, stein_field
from ..targets import GammaPrior, Target
from ._bnn_semi_implicit import BATCH_SIZE
from ._bnn_side_by_side import Process
from ._bnn_target import FilledNetwork

NUM_PARTICLES, NUM_STEPS = 100, 2000
_OPTIMIZER = AdaGrad(1e-3)
_PRIOR = GammaPrior(1.0, 0.1)
#: λ at the start is drawn from Gamma(1) times this; rows from which γ at the start is computed.
_START_SCALE, _START_ROWS = 0.1, 1000


class WithPrecisions(Target):
    """A network's weights with log γ and log λ behind them."""

    network: FilledNetwork

    @property
    def dim(self) -> int:
        return self.network.dim + 2

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        weights, log_noise, log_weight = x[:-2], x[-2], x[-1]
        network = self.network.with_precisions(jnp.exp(log_weight), jnp.exp(log_noise))
        prior = _PRIOR.log_density_of_log(x[-2:])
        return prior + network.log_prob(weights, batch)


class Stein(Process):
    """Particles of weights and log precisions, moved along the Stein field of a minibatch."""

    def start(self, key: PRNGKeyArray, target: FilledNetwork) -> tuple[Array, PyTree]:
        weight_key, precision_key = jax.random.split(key)
        weights = jax.vmap(target.model.random_start)(jax.random.split(weight_key, NUM_PARTICLES))
        some = target.first_rows(_START_ROWS)
        errors = jax.vmap(lambda w: _mean_square(some, w))(weights)
        log_weight = jnp.log(_START_SCALE * jax.random.gamma(precision_key, 1.0, (NUM_PARTICLES,), weights.dtype))
        particles = jnp.column_stack([weights, -jnp.log(errors), log_weight])
        return particles, optimizers.init(_OPTIMIZER, particles)

    def step(
        self, key: PRNGKeyArray, index: Int[Array, ""], state: tuple[Array, Any], target: FilledNetwork
    ) -> tuple[Array, PyTree]:
        particles, optimizer = state
        rows = target.window(index, BATCH_SIZE)
        joint = WithPrecisions(target)
        scores = jax.vmap(lambda x: joint.score(x, rows))(particles)
        field = stein_field(median_kernel(NUM_PARTICLES), particles, scores)
        particles, optimizer = optimizers.update(_OPTIMIZER, -field, optimizer, particles)
        return particles, optimizer


def log_precisions(
    particles: Float[Array, "particles dim"],
    target: FilledNetwork,
    dev_x: Float[Array, "dev features"],
    dev_y: Float[Array, " dev"],
) -> tuple[Scalar, Scalar]:
    """The means of log λ and of log γ, the latter after the comparison on dev rows in the units of the dataset."""
    model = target.model
    predictions = jax.vmap(lambda w: model.predict(model.point(w), dev_x))(particles[:, :-2])
    errors = jnp.mean((predictions - dev_y) ** 2, axis=1)

    def likelihood(log_noise: Array) -> Array:
        return 0.5 * (log_noise - jnp.exp(log_noise) * errors)

    log_noise, suggested = particles[:, -2], -jnp.log(errors)
    log_noise = jnp.where(likelihood(log_noise) > likelihood(suggested), log_noise, suggested)
    return jnp.mean(particles[:, -1]), jnp.mean(log_noise)


@compiled
def all_log_precisions(
    particles: Float[Array, "members particles dim"],
    targets: FilledNetwork,
    dev_x: Float[Array, "members dev features"],
    dev_y: Float[Array, "members dev"],
) -> tuple[Float[Array, " members"], Float[Array, " members"]]:
    """`log_precisions` of every member."""
    return eqx.filter_vmap(log_precisions)(particles, targets, dev_x, dev_y)


def _mean_square(target: FilledNetwork, weights: Float[Array, " dim"]) -> Scalar:
    """Of the errors at a target's own rows, in units of the network."""
    model = target.model
    squares = (model.outputs(model.point(weights), model.data["x"])[0] - model.data["y"]) ** 2
    is_own = jnp.arange(len(squares)) < target.num_rows
    return jnp.sum(jnp.where(is_own, squares, 0.0)) / target.num_rows
