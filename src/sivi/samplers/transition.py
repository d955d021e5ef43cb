"""One transition of Hamiltonian Monte Carlo, for one chain: what the reference sampler and UIVI's inner chain share."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._arguments import check_positive
from .._types import Scalar

LogDensityFunction = Callable[[Array], Array]


class ChainState(eqx.Module):
    """Where a chain is, with the log density and its gradient there, so that neither is computed twice."""

    position: Float[Array, " dim"]
    log_prob: Scalar
    grad: Float[Array, " dim"]


class TransitionInfo(eqx.Module):
    """What one transition did: its acceptance probability, whether it moved, and whether the energy blew up."""

    acceptance: Scalar
    accepted: Bool[Array, ""]
    diverged: Bool[Array, ""]


#: An energy error beyond this counts as a divergence of the integrator, as in Stan.
MAX_ENERGY_ERROR = 1000.0


def start_chain(log_density: LogDensityFunction, position: Float[Array, " dim"]) -> ChainState:
    """The state of a chain at a position."""
    return ChainState(position, *jax.value_and_grad(log_density)(position))


def hmc_transition(
    key: PRNGKeyArray,
    state: ChainState,
    log_density: LogDensityFunction,
    step_size: Scalar,
    num_leapfrog: int | Int[Array, ""],
    inverse_mass: Float[Array, " dim"] | float = 1.0,
) -> tuple[ChainState, TransitionInfo]:
    """A leapfrog trajectory from a fresh momentum, accepted or refused (Metropolis).

    Args:
        key: Random key.
        state: The chain now.
        log_density: Of one position, up to a constant.
        step_size: Of the integrator.
        num_leapfrog: Its number of steps; a traced one costs nothing, but cannot be differentiated in reverse.
        inverse_mass: Diagonal of the inverse mass matrix: the variances of the target, ideally.

    Returns:
        The chain after the transition, and what happened.
    """
    momentum_key, accept_key = jax.random.split(key)
    noise = jax.random.normal(momentum_key, state.position.shape, state.position.dtype)
    momentum = noise / jnp.sqrt(inverse_mass)

    def leapfrog(_: int | Array, carry: tuple[ChainState, Array]) -> tuple[ChainState, Array]:
        chain, momentum = carry
        half = momentum + 0.5 * step_size * chain.grad
        moved = start_chain(log_density, chain.position + step_size * inverse_mass * half)
        return moved, half + 0.5 * step_size * moved.grad

    proposal, end = jax.lax.fori_loop(0, num_leapfrog, leapfrog, (state, momentum))

    def kinetic(momentum: Array) -> Array:
        return 0.5 * jnp.sum(inverse_mass * momentum**2)

    change: Array = proposal.log_prob - kinetic(end) - (state.log_prob - kinetic(momentum))
    change = jnp.where(jnp.isfinite(change), change, -jnp.inf)
    acceptance = jnp.exp(jnp.minimum(change, 0.0))
    accepted = jax.random.uniform(accept_key, (), state.position.dtype) < acceptance
    new = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), proposal, state)
    return new, TransitionInfo(acceptance, accepted, change < -MAX_ENERGY_ERROR)


def check_acceptance(value: object) -> float:
    """A target acceptance rate: strictly between 0 and 1."""
    number = check_positive("target_acceptance", value)
    if number >= 1.0:
        raise ValueError(f"target_acceptance must be a probability below 1; got {value}.")
    return number
