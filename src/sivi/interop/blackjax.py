"""A fit as the start of BlackJAX's kernels: positions, metric and log density."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import as_key, check_count
from .._host_random import fold_in
from .._types import KeyLike, Scalar
from ..posterior import Posterior
from ..targets.base import refuse_log_prob

#: Unknowns up to which the metric is dense unless the caller says otherwise.
MOST_DENSE = 200

#: Draws for the metric, per unknown and at least: no variance along any direction is then off by more than a third.
DRAWS_PER_UNKNOWN, FEWEST_DRAWS = 50, 2000

# Folded into the key, so that the draws of the metric are not the starts.
_METRIC = 5


class BlackJAXStart(NamedTuple):
    """What a kernel of BlackJAX takes.

    Attributes:
        positions: Draws of the fit, one per chain, as vectors of real numbers. `posterior.layout.unravel_many` gives
            them names and constraints, and so for the positions of the chains.
        inverse_mass_matrix: The covariance of the fit, as BlackJAX defines it: (dim,), its diagonal, or (dim, dim).
        logdensity_fn: Log density of the target at one such vector, Jacobian included.
    """

    positions: Float[Array, "chains dim"]
    inverse_mass_matrix: Float[Array, " dim"] | Float[Array, "dim dim"]
    logdensity_fn: Callable[[Array], Scalar]


def blackjax_start(posterior: Posterior, num_chains: int, key: KeyLike, *, dense: bool | None = None) -> BlackJAXStart:
    """Starts and metric for BlackJAX's HMC, NUTS and other kernels, so that they need no warm-up of the metric.

    The chains are right only if they mix: draws of a fit that misses a mode start no chain there.

    Args:
        posterior: The fit, with its target.
        num_chains: How many positions.
        key: An int or a JAX key.
        dense: Whether the metric is the whole covariance, or its diagonal; left out, dense up to 200 unknowns.

    Raises:
        ValueError: The fit was loaded without its target.
        MissingLogProb: The target knows only its score.

    Example:
        >>> import blackjax, jax, jax.numpy as jnp, sivi
        >>> posterior = sivi.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_steps=10, progress=False)
        >>> start = blackjax_start(posterior, num_chains=4, key=1)
        >>> start.positions.shape, start.inverse_mass_matrix.shape
        ((4, 2), (2, 2))
        >>> kernel = blackjax.nuts(start.logdensity_fn, 0.8, start.inverse_mass_matrix)
        >>> states = jax.vmap(kernel.init)(start.positions)
        >>> states, _ = jax.jit(jax.vmap(kernel.step))(jax.random.split(jax.random.key(2), 4), states)
        >>> states.position.shape
        (4, 2)
    """
    num_chains, target = check_count("num_chains", num_chains), posterior.target
    if target is None:
        raise ValueError("posterior must have its target; load it with sivi.load(path, target=...).")
    if not target.knows_log_prob:
        raise refuse_log_prob(target)
    dim = posterior.dim
    num_draws = max(FEWEST_DRAWS, DRAWS_PER_UNKNOWN * dim)
    draws = posterior.unconstrained(num_draws, fold_in(as_key(key), _METRIC))
    metric = jnp.cov(draws, rowvar=False).reshape(dim, dim) if _is_dense(dense, dim) else jnp.var(draws, axis=0)
    return BlackJAXStart(posterior.unconstrained(num_chains, key), metric, target.log_prob)


def _is_dense(dense: bool | None, dim: int) -> bool:
    return dim <= MOST_DENSE if dense is None else dense
