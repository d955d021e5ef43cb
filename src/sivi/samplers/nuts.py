"""The No-U-Turn sampler, by BlackJAX: the reference that fits are compared with."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from .._arguments import as_key, check_count
from .._progress import ProgressBar
from .._types import ArrayLike, KeyLike, Scalar
from ..targets import Target, as_target
from ..targets.base import refuse_log_prob
from .adaptation import MIN_WARMUP
from .run import SamplerRun
from .starts import OVERDISPERSION, starting_points
from .transition import check_acceptance


def nuts(
    target: Target | Callable[..., Array],
    dim: int | None = None,
    *,
    like: PyTree | None = None,
    key: KeyLike = 0,
    num_chains: int = 4,
    num_draws: int = 1000,
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
    Before believing a run, look at `rhat` (at most 1.01), `ess`, `divergences` and `max_depth_hits`. Chains that never
    leave their modes agree neither with each other nor with the target; only the first can be seen in R-hat.

    Args:
        target: A `sivi.targets.Target`, or any JAX function x → log p(x), up to a constant.
        dim: Length of x, for a function of a vector.
        like: Instead of `dim`, an example pytree of floats that the function takes.
        key: An int or a JAX key. The result is a function of it and of the other arguments alone.
        num_chains: Independent chains. They run as one program, so a transition takes as long as its longest chain.
        num_draws: Draws of each that come back.
        num_warmup: Transitions before them.
        target_acceptance: What the step size is tuned to.
        max_doublings: A trajectory has at most 2^max_doublings leapfrog steps; `max_depth_hits` of the result counts
            those that this cut short.
        init: Where the chains start, (num_chains, dim); N(0, 4I) when left out.
        chunk_size: Transitions between two visits to Python; the warm-up is one visit. The result does not depend
            on it.
        progress: Show a progress bar on a terminal.

    Returns:
        The draws, (num_chains, num_draws, dim), with R-hat, effective sample size, acceptance and divergences.

    Raises:
        MissingLogProb: The target knows only its score.
        ImportError: BlackJAX is not installed.

    Example:
        >>> import jax.numpy as jnp
        >>> run = nuts(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_draws=200, num_warmup=200, progress=False)
        >>> run.draws.shape, bool((run.rhat < 1.1).all()), run.divergences
        ((4, 200, 2), True, 0)

    Reference:
        Hoffman and Gelman, The No-U-Turn sampler: adaptively setting path lengths in Hamiltonian Monte Carlo
        (JMLR 2014).
    """
    _blackjax()
    num_chains, num_draws = check_count("num_chains", num_chains), check_count("num_draws", num_draws)
    num_warmup = check_count("num_warmup", num_warmup, MIN_WARMUP)
    max_doublings, chunk_size = check_count("max_doublings", max_doublings), check_count("chunk_size", chunk_size)
    target_acceptance = check_acceptance(target_acceptance)
    whole = as_target(target, dim, like)
    if not whole.knows_log_prob:
        raise refuse_log_prob(whole)

    start_key, warmup_key, run_key = jax.random.split(as_key(key), 3)
    starts = starting_points(start_key, whole, num_chains, init, scale=OVERDISPERSION, needs_log_prob=True)
    with ProgressBar(num_warmup + num_draws, 0, progress, "sivi.samplers.nuts") as bar:
        states, tuned = jax.block_until_ready(
            _warm_up(starts, whole, warmup_key, num_warmup, jnp.asarray(target_acceptance, starts.dtype), max_doublings)
        )
        bar.update(num_warmup, {})
        carry = _Trajectories(
            states=states,
            kept=jnp.zeros((num_draws, *starts.shape), starts.dtype),
            acceptance=jnp.zeros(num_chains, starts.dtype),
            diverging=jnp.zeros((num_draws, num_chains), bool),
            cut_short=jnp.int32(0),
        )
        for first in range(0, num_draws, chunk_size):
            last = min(first + chunk_size, num_draws)
            carry = jax.block_until_ready(
                _run_chunk(carry, jnp.int32(first), jnp.int32(last), whole, tuned, run_key, max_doublings)
            )
            bar.update(last - first, {})
    return SamplerRun(
        draws=np.asarray(jnp.swapaxes(carry.kept, 0, 1)),
        layout=whole.layout,
        step_size=np.asarray(tuned["step_size"]),
        acceptance=np.asarray(carry.acceptance / num_draws),
        diverging=np.asarray(carry.diverging.T),
        max_depth_hits=int(carry.cut_short),
    )


class _Trajectories(eqx.Module):
    """What one transition hands to the next: BlackJAX's states, the draws, and sums over the transitions."""

    states: PyTree
    kept: Float[Array, "draws chains dim"]
    acceptance: Float[Array, " chains"]
    diverging: Bool[Array, "draws chains"]
    cut_short: Int[Array, ""]


@eqx.filter_jit
def _warm_up(
    starts: Float[Array, "chains dim"],
    target: Target,
    key: PRNGKeyArray,
    num_warmup: int,
    target_acceptance: Scalar,
    max_doublings: int,
) -> tuple[PyTree, dict[str, Array]]:
    """The states of the chains after the warm-up, and the step size and inverse mass of each."""
    blackjax = _blackjax()
    warmup = blackjax.window_adaptation(
        blackjax.nuts,
        target.log_prob,
        target_acceptance_rate=target_acceptance,
        adaptation_info_fn=lambda *_: None,  # by default it keeps every trajectory
        max_num_doublings=max_doublings,
    )

    def one_chain(key: PRNGKeyArray, start: Array) -> tuple[PyTree, dict[str, Array]]:
        (state, tuned), _ = warmup.run(key, start, num_warmup)
        return state, {name: tuned[name] for name in ("step_size", "inverse_mass_matrix")}

    return jax.vmap(one_chain)(jax.random.split(key, starts.shape[0]), starts)


@eqx.filter_jit
def _run_chunk(
    carry: _Trajectories,
    first: Int[Array, ""],
    last: Int[Array, ""],
    target: Target,
    tuned: dict[str, Array],
    run_key: PRNGKeyArray,
    max_doublings: int,
) -> _Trajectories:
    kernel = _blackjax().nuts.build_kernel()

    def transition(key: PRNGKeyArray, state: PyTree, tuned: dict[str, Array]) -> tuple[PyTree, Any]:
        return kernel(key, state, target.log_prob, **tuned, max_num_doublings=max_doublings)

    def body(loop: tuple[Array, _Trajectories]) -> tuple[Array, _Trajectories]:
        step, carry = loop
        keys = jax.random.split(jax.random.fold_in(run_key, step), carry.acceptance.shape[0])
        states, info = jax.vmap(transition)(keys, carry.states, tuned)
        # It stops doubling when the trajectory turns back, when it diverges, or else because it may not go on.
        cut_short = ~(info.is_turning | info.is_divergent)
        new = _Trajectories(
            states=states,
            kept=carry.kept.at[step].set(states.position),
            acceptance=carry.acceptance + info.acceptance_rate,
            diverging=carry.diverging.at[step].set(info.is_divergent),
            cut_short=carry.cut_short + jnp.sum(cut_short, dtype=jnp.int32),
        )
        return step + 1, new

    return jax.lax.while_loop(lambda loop: loop[0] < last, body, (first, carry))[1]


def _blackjax() -> ModuleType:
    try:
        import blackjax
    except ImportError as error:
        raise ImportError("nuts needs BlackJAX: pip install 'sivi[mcmc]'") from error
    return blackjax
