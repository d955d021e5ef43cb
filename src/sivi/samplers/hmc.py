"""Hamiltonian Monte Carlo: many chains in step, tuned in a warm-up."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from .._arguments import as_key, check_count, check_positive
from .._progress import ProgressBar
from .._types import ArrayLike, KeyLike, Scalar
from ..targets import Target, as_target
from ..targets.base import refuse_log_prob
from .adaptation import MIN_WARMUP, AdaptationState, warmup_windows
from .run import SamplerRun
from .starts import OVERDISPERSION, starting_points
from .transition import ChainState, check_acceptance, hmc_transition, start_chain


def hmc(
    target: Target | Callable[..., Array],
    dim: int | None = None,
    *,
    like: PyTree | None = None,
    key: KeyLike = 0,
    num_chains: int = 4,
    num_draws: int = 1000,
    num_warmup: int = 1000,
    num_leapfrog: int = 20,
    step_size: float | None = None,
    target_acceptance: float = 0.8,
    init: ArrayLike | None = None,
    chunk_size: int = 100,
    progress: bool = True,
) -> SamplerRun:
    """Draw from a log density by Hamiltonian Monte Carlo.

    A transition draws a momentum p ~ N(0, M) and follows H(x, p) = −log p(x) + ½ pᵀM⁻¹p by leapfrog steps,

        p ← p + (ε/2) S(x),    x ← x + ε M⁻¹ p,    p ← p + (ε/2) S(x),

    whose end is accepted with probability min(1, exp(−ΔH)), so the draws are of the target itself, whatever ε.
    The number of leapfrog steps is drawn anew for every transition, evenly from 1 to `num_leapfrog`: a fixed one
    can be a whole period of some direction, which then never moves.

    The warm-up tunes ε (dual averaging) and a diagonal M⁻¹ (variances of the draws, in windows that double), and
    is frozen after it. Both are shared by all chains and learnt from all of them, as is the number of leapfrog steps,
    so that no chain waits for another: many short chains cost little more than one.

    Args:
        target: A `sivi.targets.Target`, or any JAX function x → log p(x), up to a constant.
        dim: Length of x, for a function of a vector.
        like: Instead of `dim`, an example pytree of floats that the function takes.
        key: An int or a JAX key. The result is a function of it and of the other arguments alone.
        num_chains: Independent chains.
        num_draws: Draws of each that come back.
        num_warmup: Transitions before them.
        num_leapfrog: Most leapfrog steps of a transition; their mean is half of it.
        step_size: ε; tuned when left out. A number is kept as it is, with unit masses, and the warm-up is mere
            burn-in.
        target_acceptance: What the step size is tuned to.
        init: Where the chains start, (num_chains, dim); N(0, 4I) when left out.
        chunk_size: Transitions between two visits to Python. The result does not depend on it.
        progress: Show a progress bar on a terminal.

    Returns:
        The draws, (num_chains, num_draws, dim), with R-hat, effective sample size, acceptance and divergences.

    Raises:
        MissingLogProb: The target knows only its score.

    Example:
        >>> import jax.numpy as jnp
        >>> run = hmc(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_draws=200, num_warmup=200, progress=False)
        >>> run.draws.shape, bool((run.rhat < 1.1).all())
        ((4, 200, 2), True)

    References:
        Duane, Kennedy, Pendleton and Roweth, Hybrid Monte Carlo (Physics Letters B, 1987).

        Neal, MCMC using Hamiltonian dynamics (Handbook of Markov Chain Monte Carlo, 2011).
    """
    num_chains, num_draws = check_count("num_chains", num_chains), check_count("num_draws", num_draws)
    num_leapfrog, chunk_size = check_count("num_leapfrog", num_leapfrog), check_count("chunk_size", chunk_size)
    num_warmup = check_count("num_warmup", num_warmup, 0 if step_size is not None else MIN_WARMUP)
    target_acceptance = check_acceptance(target_acceptance)
    fixed = None if step_size is None else check_positive("step_size", step_size)
    whole = as_target(target, dim, like)
    if not whole.knows_log_prob:
        raise refuse_log_prob(whole)

    start_key, run_key = jax.random.split(as_key(key))
    starts = starting_points(start_key, whole, num_chains, init, scale=OVERDISPERSION, needs_log_prob=True)
    plan = _Plan(
        num_warmup=jnp.int32(num_warmup),
        num_leapfrog=jnp.int32(num_leapfrog),
        target_acceptance=jnp.asarray(target_acceptance, starts.dtype),
        windows=tuple(jnp.asarray(array) for array in warmup_windows(num_warmup)) if fixed is None else None,
    )
    carry = _Chains(
        chains=_start_chains(starts, whole),
        adaptation=AdaptationState.start(whole.dim, whole.dim**-0.25 if fixed is None else fixed),
        kept=jnp.zeros((num_draws, *starts.shape), starts.dtype),
        acceptance=jnp.zeros(num_chains, starts.dtype),
        diverging=jnp.zeros((num_draws, num_chains), bool),
    )
    total = num_warmup + num_draws
    with ProgressBar(total, 0, progress, "sivi.samplers.hmc") as bar:
        for first in range(0, total, chunk_size):
            last = min(first + chunk_size, total)
            carry = jax.block_until_ready(_run_chunk(carry, jnp.int32(first), jnp.int32(last), whole, plan, run_key))
            bar.update(last - first, {})
    return SamplerRun(
        draws=np.asarray(jnp.swapaxes(carry.kept, 0, 1)),
        layout=whole.layout,
        step_size=float(jnp.exp(carry.adaptation.log_step_mean)),
        acceptance=np.asarray(carry.acceptance / num_draws),
        diverging=np.asarray(carry.diverging.T),
    )


class _Plan(eqx.Module):
    """What a run is told: the windows are None where nothing is tuned."""

    num_warmup: Int[Array, ""]
    num_leapfrog: Int[Array, ""]
    target_acceptance: Scalar
    windows: tuple[Bool[Array, " num_warmup"], Bool[Array, " num_warmup"]] | None


class _Chains(eqx.Module):
    """What one transition hands to the next; the acceptance is a sum over the transitions after the warm-up."""

    chains: ChainState
    adaptation: AdaptationState
    kept: Float[Array, "draws chains dim"]
    acceptance: Float[Array, " chains"]
    diverging: Bool[Array, "draws chains"]


@eqx.filter_jit
def _start_chains(starts: Float[Array, "chains dim"], target: Target) -> ChainState:
    return jax.vmap(lambda x: start_chain(target.log_prob, x))(starts)


@eqx.filter_jit
def _run_chunk(
    carry: _Chains,
    first: Int[Array, ""],
    last: Int[Array, ""],
    target: Target,
    plan: _Plan,
    run_key: PRNGKeyArray,
) -> _Chains:
    """The transitions from `first` to `last`: one program for every chunk, before and after the end of the warm-up."""

    def body(loop: tuple[Array, _Chains]) -> tuple[Array, _Chains]:
        step, carry = loop
        tuned, warming_up = carry.adaptation, step < plan.num_warmup
        length_key, chain_key = jax.random.split(jax.random.fold_in(run_key, step))
        step_size = jnp.exp(jnp.where(warming_up, tuned.log_step, tuned.log_step_mean))
        num_leapfrog = jax.random.randint(length_key, (), 1, plan.num_leapfrog + 1)
        chains, info = jax.vmap(
            lambda key, state: hmc_transition(key, state, target.log_prob, step_size, num_leapfrog, tuned.inverse_mass)
        )(jax.random.split(chain_key, carry.acceptance.shape[0]), carry.chains)
        if plan.windows is not None:
            collect, close = (window[step] for window in plan.windows)  # the last entry, after the warm-up: not used
            tuned = jax.lax.cond(
                warming_up,
                lambda: tuned.update(chains.position, info.acceptance, plan.target_acceptance, collect, close),
                lambda: tuned,
            )
        # The states of the warm-up are written to the first place, which the first draw takes in the end.
        place = jnp.maximum(0, step - plan.num_warmup)
        new = _Chains(
            chains=chains,
            adaptation=tuned,
            kept=carry.kept.at[place].set(chains.position),
            acceptance=carry.acceptance + jnp.where(warming_up, 0.0, info.acceptance),
            diverging=carry.diverging.at[place].set(info.diverged),
        )
        return step + 1, new

    return jax.lax.while_loop(lambda loop: loop[0] < last, body, (first, carry))[1]
