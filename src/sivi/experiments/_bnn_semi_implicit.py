"""SIVI-SM, SIVI and UIVI on a network as the paper's authors ran the first: the family's start, and its updates."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from .._types import Scalar
from ..families import DiagonalGaussian, Family, NormalMixing, SemiImplicit
from ..objectives import Objective, ScoreMatching, SurrogateELBO
from ..optimizers import Adam
from ..schedules import StepDecay, replace_fields
from ._bnn_side_by_side import Process
from ._bnn_target import FilledNetwork
from ._method import paper_family, unbiased, with_critic

#: z ~ N(0, I₃), μ of widths [3, 10, 10, dim], log σ² from −8, clamped at −20.
FAMILY = paper_family(3, (10, 10)) | {"sigma_init": math.exp(-4.0), "sigma_floor": math.exp(-10.0)}
BATCH_SIZE = 100

#: The start: Adam steps on the squared error of the prediction averaged over draws; then steps of the critic alone.
_START_STEPS, _START_RATE, _START_DRAWS, _CRITIC_STEPS = 99, 1e-2, 100, 100
#: Rows that the critic sees there: all of most sets, and few enough for a device's memory.
_CRITIC_ROWS = 500


def _rate(initial: float) -> StepDecay:
    return StepDecay(initial, factor=0.9, every=1000)


def sivi_sm() -> ScoreMatching:
    """SIVI-SM: 100 particles, critic of widths [dim, 16, 16, dim] without a share of the score, K = 1."""
    return with_critic(  # pyright: ignore[reportReturnType]
        ScoreMatching,
        16,
        num_particles=100,
        psi=0.0,
        critic_warmup=_CRITIC_STEPS,
        optimizer=Adam(_rate(2e-5), b1=0.9, b2=0.999),
        critic_optimizer=Adam(_rate(1e-2), b1=0.9, b2=0.99),
    )


def sivi() -> SurrogateELBO:
    """SIVI: L = 100 and 10 particles, as the paper says; its rate, which it does not say, is that of SIVI-SM."""
    optimizer = Adam(_rate(2e-5), b1=0.9, b2=0.999)
    return SurrogateELBO(num_particles=10, num_aux=100, block_size=100, optimizer=optimizer)


def uivi() -> Objective:
    """UIVI: one particle and the inner chain of section 4.3, as the paper says; its rate is that of SIVI-SM."""
    rate = _rate(2e-5)
    return replace_fields(unbiased(rate), optimizer=Adam(rate, b1=0.9, b2=0.999))


class FitState(eqx.Module):
    """A family, its objective's state, and how many updates were not finite, and so were skipped."""

    family: Family
    objective: PyTree
    skipped: Int[Array, ""]


class SemiImplicitFit(Process):
    """Updates of an objective on minibatches, from a family that predicts roughly.

    Attributes:
        objective: Bound to the run.
    """

    objective: Objective

    def start(self, key: PRNGKeyArray, target: FilledNetwork) -> FitState:
        family_key, fit_key, objective_key = jax.random.split(key, 3)
        conditional = DiagonalGaussian(dim=target.dim, **FAMILY, key=family_key)
        family = _predicting(fit_key, SemiImplicit(NormalMixing(conditional.latent_dim), conditional), target)
        state = self.objective.init(objective_key, family, target.first_rows(_CRITIC_ROWS))
        return FitState(family, state, jnp.int32(0))

    def step(self, key: PRNGKeyArray, index: Int[Array, ""], state: FitState, target: FilledNetwork) -> FitState:
        batch = target.window(index, BATCH_SIZE)
        family, objective, _ = self.objective.step(key, state.family, state.objective, target, batch)
        finite = _all_finite((family, objective))
        moved = _chosen(finite, (family, objective), (state.family, state.objective))
        return FitState(*moved, state.skipped + ~finite)


def draws_of(key: PRNGKeyArray, family: Family, num_draws: int) -> Float[Array, "draws dim"]:
    """Draws of a fitted family."""
    return jax.vmap(family.sample)(jax.random.split(key, num_draws))


def z_share(key: PRNGKeyArray, family: SemiImplicit, num_draws: int) -> Scalar:
    """The share of the variance of a draw x, summed over its coordinates, that comes from z.

    That is the variance of E[x|z] over that of x: 0 for a family that is a Gaussian, near 1 for one whose σ is small.
    """
    noise, eps = family.sample_noise(key, (num_draws,))
    x = jax.vmap(lambda n, e: family.joint(n, e).x)(noise, eps)
    mean = jax.vmap(lambda n: family.joint(n, jnp.zeros(family.dim, x.dtype)).x)(noise)
    return jnp.sum(jnp.var(mean, axis=0)) / jnp.sum(jnp.var(x, axis=0))


def _predicting(key: PRNGKeyArray, family: SemiImplicit, target: FilledNetwork) -> SemiImplicit:
    """A family whose draws, averaged, predict the targets roughly."""
    optimizer = optax.adam(_START_RATE)
    arrays, static = eqx.partition(family, eqx.is_inexact_array)
    model = target.model

    def error(arrays: PyTree, index: Array) -> Scalar:
        draws = draws_of(jax.random.fold_in(key, index), eqx.combine(arrays, static), _START_DRAWS)
        rows = target.window(index, BATCH_SIZE)
        x, y = model.data["x"][rows], model.data["y"][rows]
        outputs = jax.vmap(lambda w: model.outputs(model.point(w), x)[0])(draws)
        return jnp.mean((jnp.mean(outputs, axis=0) - y) ** 2)

    def update(index: Int[Array, ""], carry: tuple[PyTree, Any]) -> tuple[PyTree, Any]:
        arrays, state = carry
        updates, state = optimizer.update(jax.grad(error)(arrays, index), state)
        return optax.apply_updates(arrays, updates), state

    arrays, _ = jax.lax.fori_loop(0, _START_STEPS, update, (arrays, optimizer.init(arrays)))
    return eqx.combine(arrays, static)


def _all_finite(tree: PyTree) -> Bool[Array, ""]:
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def _chosen(condition: Bool[Array, ""], tree: PyTree, other: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b) if eqx.is_array(a) else a, tree, other)
