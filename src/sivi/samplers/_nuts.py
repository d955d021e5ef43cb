"""The No-U-Turn sampler, by BlackJAX: the reference that fits are compared with."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._arguments import as_key, check_count, check_flag
from .._programs import compiled, when_running
from .._progress import ProgressBar
from .._renamed import NUM_DRAWS, old_arguments
from .._types import ArrayLike, KeyLike, Scalar
from ..targets import Target, as_target
from ._kernel import Kept, Moved, SamplerKernel, run_kernel
from .adaptation import MIN_WARMUP
from .run import SamplerRun
from .starts import chain_starts
from .transition import check_acceptance


@old_arguments("sivi.samplers.nuts", NUM_DRAWS)
def nuts(
    target: Target | Callable[..., Array],
    dim: int | None = None,
    *,
    like: PyTree | None = None,
    key: KeyLike = 0,
    num_chains: int = 4,
    num_samples: int = 1000,
    num_warmup: int = 1000,
    target_acceptance: float = 0.8,
    max_doublings: int = 10,
    init: ArrayLike | None = None,
    chunk_size: int = 100,
    progress: bool = True,
) -> SamplerRun:
    """Draw from a log density by the No-U-Turn sampler of BlackJAX, an extra: `pip install 'sivi[mcmc]'`.

    NUTS is Hamiltonian Monte Carlo (see `hmc`) that doubles a trajectory until it turns back and draws a state of
    it. Each chain tunes its own step size and diagonal mass by BlackJAX's window adaptation, Stan's scheme.
    Before you trust a run, look at `rhat` (at most 1.01), `ess`, `divergences` and `max_depth_hits`. R-hat detects
    chains that are stuck in different modes, but not chains that are all stuck in the same one.

    Args:
        target: A `sivi.targets.Target`, or any JAX function x → log p(x), up to a constant.
        dim: Length of x, for a function of a vector.
        like: Instead of `dim`, an example pytree of floats that the function takes.
        key: An int or a JAX key. The result is a function of it and of the other arguments alone.
        num_chains: Independent chains. They run as one program, so a transition takes as long as its longest chain.
        num_samples: Draws of each that come back.
        num_warmup: Transitions before them.
        target_acceptance: What the step size is tuned to.
        max_doublings: A trajectory has at most 2^max_doublings leapfrog steps; `max_depth_hits` of the result counts
            those that this cut short.
        init: Where the chains start, (num_chains, dim); N(0, 4I) when left out.
        chunk_size: Transitions between two visits to Python; the warm-up is one visit. The result does not depend
            on it.
        progress: Show a progress bar on a terminal, and elsewhere log lines with the logger `"sivi"`.

    Returns:
        The draws, (num_chains, num_samples, dim), with R-hat, effective sample size, acceptance and divergences.

    Raises:
        MissingLogProb: The target knows only its score.
        ImportError: BlackJAX is not installed.

    Example:
        >>> import jax.numpy as jnp
        >>> run = nuts(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_samples=200, num_warmup=200, progress=False)
        >>> run.draws.shape, bool((run.rhat < 1.1).all()), run.divergences
        ((4, 200, 2), True, 0)

    Reference:
        Hoffman and Gelman, The No-U-Turn sampler: adaptively setting path lengths in Hamiltonian Monte Carlo
        (JMLR 2014).
    """
    _blackjax()
    num_chains, num_samples = check_count("num_chains", num_chains), check_count("num_samples", num_samples)
    num_warmup = check_count("num_warmup", num_warmup, MIN_WARMUP)
    max_doublings, chunk_size = check_count("max_doublings", max_doublings), check_count("chunk_size", chunk_size)
    target_acceptance = check_acceptance(target_acceptance)
    check_flag("progress", progress)
    target = as_target(target, dim, like)

    start_key, warmup_key, run_key = jax.random.split(as_key(key), 3)
    starts = chain_starts(start_key, target, num_chains, init)
    with ProgressBar(num_warmup + num_samples, 0, progress, "sivi.samplers.nuts") as bar:
        wanted = jnp.asarray(target_acceptance, starts.dtype)
        bar.phase("compiling")
        with when_running(lambda: bar.phase("warming up")):
            chains, tuned, num_gradients = _warm_up(starts, target, warmup_key, num_warmup, wanted, max_doublings)
        bar.update(num_warmup, {})
        kernel, state = (
            NUTSKernel(target, run_key, tuned, max_doublings),
            NUTSState(chains, jnp.int32(0), num_gradients),
        )
        kept = Kept.empty(num_samples, starts, has_trajectories=True)
        state, kept = run_kernel(kernel, state, kept, bar, chunk_size=chunk_size)
    counts = (int(state.num_cut_short), int(np.asarray(state.num_gradients, np.int64).sum()))
    return kept.as_run("nuts", target.layout, np.asarray(tuned["step_size"]), *counts)


class NUTSState(eqx.Module):
    """BlackJAX's states of the chains, how many trajectories `max_doublings` has cut short, and gradients by chain."""

    chains: PyTree
    num_cut_short: Int[Array, ""]
    num_gradients: Int[Array, " chains"]


class NUTSKernel(SamplerKernel):
    """One transition of every chain, at the step size and mass that each has been tuned to.

    Attributes:
        target: Whose log density is drawn from.
        key: Of all transitions.
        tuned: Step size and inverse mass of every chain.
        max_doublings: A trajectory has at most 2^max_doublings leapfrog steps.
    """

    target: Target
    key: PRNGKeyArray
    tuned: dict[str, Array]
    max_doublings: int = eqx.field(static=True)

    def step(self, index: Int[Array, ""], state: NUTSState) -> tuple[NUTSState, Moved]:
        kernel = _blackjax().nuts.build_kernel()

        def transition(key: PRNGKeyArray, chain: PyTree, tuned: dict[str, Array]) -> tuple[PyTree, Any]:
            return kernel(key, chain, self.target.log_prob, **tuned, max_num_doublings=self.max_doublings)

        keys = jax.random.split(jax.random.fold_in(self.key, index), self.tuned["step_size"].shape[0])
        chains, info = jax.vmap(transition)(keys, state.chains, self.tuned)
        # It stops doubling when the trajectory turns back, when it diverges, or else because it may not continue.
        is_cut_short = ~(info.is_turning | info.is_divergent)
        num_cut_short = state.num_cut_short + jnp.sum(is_cut_short, dtype=jnp.int32)
        num_gradients = state.num_gradients + info.num_integration_steps.astype(jnp.int32)
        moved = Moved(chains.position, info.acceptance_rate, info.is_divergent)
        return NUTSState(chains, num_cut_short, num_gradients), moved


@compiled
def _warm_up(
    starts: Float[Array, "chains dim"],
    target: Target,
    key: PRNGKeyArray,
    num_warmup: int,
    target_acceptance: Scalar,
    max_doublings: int,
) -> tuple[PyTree, dict[str, Array], Int[Array, " chains"]]:
    """The states of the chains after the warm-up, the step size and inverse mass of each, and its gradients."""
    blackjax = _blackjax()
    warmup = blackjax.window_adaptation(
        blackjax.nuts,
        target.log_prob,
        target_acceptance_rate=target_acceptance,
        adaptation_info_fn=lambda _, info, *__: info.num_integration_steps,  # by default it keeps every trajectory
        max_num_doublings=max_doublings,
    )

    def one_chain(key: PRNGKeyArray, start: Array) -> tuple[PyTree, dict[str, Array], Int[Array, ""]]:
        (state, tuned), gradients = warmup.run(key, start, num_warmup)
        kept = {name: tuned[name] for name in ("step_size", "inverse_mass_matrix")}
        return state, kept, jnp.sum(gradients, dtype=jnp.int32)

    return jax.vmap(one_chain)(jax.random.split(key, starts.shape[0]), starts)


def _blackjax() -> ModuleType:
    try:
        import blackjax
    except ImportError as error:
        raise ImportError("nuts needs BlackJAX: pip install 'sivi[mcmc]'") from error
    return blackjax
