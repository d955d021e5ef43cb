"""Hamiltonian Monte Carlo: many chains in step, tuned in a warm-up.

Step size, masses and trajectory length are shared by the chains, so that none waits for another.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from .._arguments import as_key, check_count, check_flag, check_positive
from .._programs import compiled
from .._progress import ProgressBar
from .._renamed import NUM_DRAWS, old_arguments
from .._types import ArrayLike, KeyLike, Scalar
from ..targets import Target, as_target
from ._kernel import Kept, Moved, SamplerKernel, run_kernel
from .adaptation import MIN_WARMUP, AdaptationState, warmup_windows
from .run import SamplerRun
from .starts import chain_starts
from .transition import ChainState, check_acceptance, hmc_transition, start_chain


@old_arguments("sivi.samplers.hmc", NUM_DRAWS)
def hmc(
    target: Target | Callable[..., Array],
    dim: int | None = None,
    *,
    like: PyTree | None = None,
    key: KeyLike = 0,
    num_chains: int = 4,
    num_samples: int = 1000,
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

    The warm-up tunes ε (dual averaging) and a diagonal M⁻¹ (variances of the draws, in windows that double). Both are
    then frozen. They are shared by all chains and learnt from all of them. The chains also share the number of leapfrog
    steps, so no chain waits for another: many short chains cost little more than one.

    Args:
        target: A `sivi.targets.Target`, or any JAX function x → log p(x), up to a constant.
        dim: Length of x, for a function of a vector.
        like: Instead of `dim`, an example pytree of floats that the function takes.
        key: An int or a JAX key. The result is a function of it and of the other arguments alone.
        num_chains: Independent chains.
        num_samples: Draws of each that come back.
        num_warmup: Transitions before them.
        num_leapfrog: Most leapfrog steps of a transition; their mean is half of it.
        step_size: ε; tuned when left out. A number is kept as it is, with unit masses, and the warm-up is mere
            burn-in.
        target_acceptance: What the step size is tuned to.
        init: Where the chains start, (num_chains, dim); N(0, 4I) when left out.
        chunk_size: Transitions between two visits to Python. The result does not depend on it.
        progress: Show a progress bar on a terminal, and elsewhere log lines with the logger `"sivi"`.

    Returns:
        The draws, (num_chains, num_samples, dim), with R-hat, effective sample size, acceptance and divergences.

    Raises:
        MissingLogProb: The target knows only its score.

    Example:
        >>> import jax.numpy as jnp
        >>> run = hmc(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_samples=200, num_warmup=200, progress=False)
        >>> run.draws.shape, bool((run.rhat < 1.1).all())
        ((4, 200, 2), True)

    References:
        Duane, Kennedy, Pendleton and Roweth, Hybrid Monte Carlo (Physics Letters B, 1987).

        Neal, MCMC using Hamiltonian dynamics (Handbook of Markov Chain Monte Carlo, 2011).
    """
    num_chains, num_samples = check_count("num_chains", num_chains), check_count("num_samples", num_samples)
    num_leapfrog, chunk_size = check_count("num_leapfrog", num_leapfrog), check_count("chunk_size", chunk_size)
    num_warmup = check_count("num_warmup", num_warmup, 0 if step_size is not None else MIN_WARMUP)
    target_acceptance = check_acceptance(target_acceptance)
    fixed_step = None if step_size is None else check_positive("step_size", step_size)
    check_flag("progress", progress)
    target = as_target(target, dim, like)

    start_key, run_key = jax.random.split(as_key(key))
    starts = chain_starts(start_key, target, num_chains, init)
    kernel = HMCKernel(
        target=target,
        key=run_key,
        num_warmup=jnp.int32(num_warmup),
        num_leapfrog=jnp.int32(num_leapfrog),
        target_acceptance=jnp.asarray(target_acceptance, starts.dtype),
        windows=tuple(jnp.asarray(array) for array in warmup_windows(num_warmup)) if fixed_step is None else None,
    )
    state = HMCState(
        chains=_start_chains(starts, target),
        adaptation=AdaptationState.start(target.dim, target.dim**-0.25 if fixed_step is None else fixed_step),
        num_gradients=jnp.int32(1),
    )
    kept = Kept.empty(num_samples, starts, has_trajectories=True)
    with ProgressBar(num_warmup + num_samples, 0, progress, "sivi.samplers.hmc") as bar:
        state, kept = run_kernel(kernel, state, kept, bar, num_burn_in=num_warmup, chunk_size=chunk_size)
    step_size, num_gradients = float(jnp.exp(state.adaptation.log_step_mean)), num_chains * int(state.num_gradients)
    return kept.as_run("hmc", target.layout, step_size, num_gradients=num_gradients)


class HMCState(eqx.Module):
    """What one transition hands to the next; `num_gradients` are those of each chain so far."""

    chains: ChainState
    adaptation: AdaptationState
    num_gradients: Int[Array, ""]


class HMCKernel(SamplerKernel):
    """One transition of every chain, and while warming up, what it teaches of step size and mass.

    Attributes:
        target: Whose log density is drawn from.
        key: Of all transitions.
        num_warmup: Transitions of the warm-up.
        num_leapfrog: Most leapfrog steps of a transition.
        target_acceptance: What the step size is tuned to.
        windows: Which transitions teach the mass, and which end a window; None where nothing is tuned.
    """

    target: Target
    key: PRNGKeyArray
    num_warmup: Int[Array, ""]
    num_leapfrog: Int[Array, ""]
    target_acceptance: Scalar
    windows: tuple[Bool[Array, " num_warmup"], Bool[Array, " num_warmup"]] | None

    def step(self, index: Int[Array, ""], state: HMCState) -> tuple[HMCState, Moved]:
        tuned, warming_up = state.adaptation, index < self.num_warmup
        length_key, chain_key = jax.random.split(jax.random.fold_in(self.key, index))
        step_size = jnp.exp(jnp.where(warming_up, tuned.log_step, tuned.log_step_mean))
        num_leapfrog = jax.random.randint(length_key, (), 1, self.num_leapfrog + 1)
        log_prob = self.target.log_prob
        chains, info = jax.vmap(
            lambda key, chain: hmc_transition(key, chain, log_prob, step_size, num_leapfrog, tuned.inverse_mass)
        )(jax.random.split(chain_key, state.chains.position.shape[0]), state.chains)
        if self.windows is not None:
            collect, close = (window[index] for window in self.windows)  # after the warm-up the last entry, not used
            tuned = jax.lax.cond(
                warming_up,
                lambda: tuned.update(chains.position, info.acceptance, self.target_acceptance, collect, close),
                lambda: tuned,
            )
        num_gradients = state.num_gradients + num_leapfrog.astype(jnp.int32)
        return HMCState(chains, tuned, num_gradients), Moved(chains.position, info.acceptance, info.diverged)


@compiled
def _start_chains(starts: Float[Array, "chains dim"], target: Target) -> ChainState:
    return jax.vmap(lambda x: start_chain(target.log_prob, x))(starts)
