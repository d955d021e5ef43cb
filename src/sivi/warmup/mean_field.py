"""A mean-field Gaussian by the gradient of its evidence lower bound, with few draws a step: for expensive scores."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..targets import Target
from ..targets.evaluate import exact_scores_at
from .dense import Fitted
from .status import Evidence

#: Pairs ±u per step, and the learning rate of means and log scales at first.
NUM_PAIRS, RATE = 4, 0.05


def fit_mean_field(
    key: PRNGKeyArray, target: Target, mean: Float[Array, " dim"], scale: Float[Array, " dim"], num_steps: int
) -> Fitted:
    """Adam on the lower bound in m and log s, from a start; a step that is not finite is not taken.

    With r = s ⊙ S(m + s ⊙ u) + u the gradients are E[r]/s and E[r ⊙ u], which have no noise where q = p is a Gaussian.
    Steps of Adam have a size that noise does not change, so a few draws do where natural gradients, as in
    `sivi.warmup.low_rank`, need many.

    Args:
        key: Random key.
        target: The target.
        mean: m at first.
        scale: s at first.
        num_steps: How many steps; the rate falls to zero over them along half a cosine.
    """
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, num_steps), b2=0.99)

    def step(state: tuple[tuple[Array, Array], optax.OptState, Evidence], t: Int[Array, ""]) -> tuple[tuple, None]:
        (m, log_s), memory, evidence = state
        s, half = jnp.exp(log_s), jax.random.normal(jax.random.fold_in(key, t), (NUM_PAIRS, target.dim), mean.dtype)
        u = jnp.concatenate([half, -half])
        residuals = s * exact_scores_at(target, m + s * u) + u
        drift, gap = jnp.mean(residuals, axis=0), jnp.mean(residuals * u, axis=0)
        finite = jnp.all(jnp.isfinite(residuals))
        drift, gap = jnp.where(finite, drift, 0.0), jnp.where(finite, gap, 0.0)
        change, moved = optimizer.update((-drift / s, -gap), memory)
        new = optax.apply_updates((m, log_s), change), moved
        kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, ((m, log_s), memory))
        return (*kept, evidence.add(drift, gap, t, num_steps)), None

    start = mean, jnp.log(scale)
    state = start, optimizer.init(start), Evidence.none(mean)
    ((m, log_s), _, evidence), _ = jax.lax.scan(step, state, jnp.arange(num_steps))
    return Fitted(m, jnp.exp(log_s), evidence)
