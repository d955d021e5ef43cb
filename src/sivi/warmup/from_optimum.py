"""The coordinates of one mode of a target with symmetries: an optimum, and the mean-field Gaussian around it.

The usual warm-up pools Gaussians from wide starts into one. Of a network the starts end in different modes among very
many equal ones, and their mixture is as wide as the prior. So each repeat of such a fit has an optimum of its own,
from random initial weights by stochastic gradients, and a diagonal Gaussian from there: by the steps of
`sivi.warmup.low_rank`, or, where a score goes through all data twice, by those of `sivi.warmup.mean_field`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import default_float
from .._batches import BatchWindows
from ..coordinates import ComposedMap, CoordinateMap, DiagonalMap
from ..targets import HasSymmetries, Target, Whitened
from .low_rank import fit_diagonal
from .mean_field import fit_mean_field
from .status import RAN_AWAY, drift_noise, start_code, steps_code


class Optimum(NamedTuple):
    """How an optimum is found, and what starts from it.

    Attributes:
        steps: Of Adam, from a random point.
        rate: Its learning rate at first; it decays along half a cosine.
        rows: Rows of data of each step, at most; None for all.
        scale: Standard deviations, at first, of the Gaussian that is fitted from there.
        conditional: Whether both are found in `HasSymmetries.conditional_coordinates`, through which the map then goes.
    """

    steps: int
    rate: float
    rows: int | None
    scale: float
    conditional: bool = False


def warmup_from_optimum(
    key: PRNGKeyArray,
    target: Target,
    start: HasSymmetries,
    *,
    settings: Optimum,
    num_steps: int,
    batch_size: int | None,
) -> tuple[CoordinateMap, Int[Array, ""]]:
    """A map around an optimum of the target, and the code of its status, see `sivi.warmup.status`.

    Args:
        key: Random key.
        target: The target.
        start: The target with symmetries inside it, which draws the start.
        settings: How the optimum is found.
        num_steps: Steps of the Gaussian.
        batch_size: Rows of data of each of those; None for all.
    """
    start_key, ascent_key, rows_key, fit_key = jax.random.split(key, 4)
    outer = start.conditional_coordinates if settings.conditional else None
    if outer is not None:
        # A wrapper changes the density, so what is known of the network's does not hold.
        known = target.in_conditional_coordinates if isinstance(target, HasSymmetries) else None
        target = Whitened(target, outer) if known is None else known
    optimum = ascend(ascent_key, target, start.random_start(start_key), settings)
    windows = None
    if batch_size is not None and target.num_data is not None:
        windows = BatchWindows.for_run(rows_key, target.num_data, batch_size, num_steps)
    scales = jnp.full((1, target.dim), settings.scale, default_float())
    if outer is None:
        fitted = fit_diagonal(fit_key, target, optimum[None], windows, num_steps, scales)
        mean, root, evidence = (jax.tree.map(lambda leaf: leaf[0], part) for part in fitted)
    else:
        mean, root, evidence = fit_mean_field(fit_key, target, optimum, scales[0], num_steps)
    usable = jnp.all(jnp.isfinite(mean)) & jnp.all(jnp.isfinite(root)) & jnp.all(root > 0)
    code = start_code(optimum, mean, root, evidence, drift_noise(windows, num_steps // 4))
    if outer is not None:  # few draws a step: the largest entry of G is noise
        code = jnp.where(code >= RAN_AWAY, code, steps_code(evidence.drift, evidence.gap))
    inner = DiagonalMap(jnp.where(usable, mean, optimum), jnp.where(usable, root, scales[0]))
    return inner if outer is None else ComposedMap(outer, inner), code


def ascend(key: PRNGKeyArray, target: Target, start: Float[Array, " dim"], settings: Optimum) -> Float[Array, " dim"]:
    """An optimum of the target's density: Adam on its score, divided by the number of data, from random rows.

    A step that is not finite is not taken.
    """
    rows = target.num_data or 1
    optimizer = optax.adam(optax.cosine_decay_schedule(settings.rate, settings.steps))

    def step(state: tuple[Array, optax.OptState], index: Int[Array, ""]) -> tuple[tuple[Array, optax.OptState], None]:
        x, memory = state
        batch = None
        if settings.rows is not None and settings.rows < rows:
            batch = jax.random.randint(jax.random.fold_in(key, index), (settings.rows,), 0, rows)
        gradient = -target.score(x, batch) / rows
        finite = jnp.all(jnp.isfinite(gradient))
        change, new = optimizer.update(jnp.where(finite, gradient, 0.0), memory, x)
        return (jnp.where(finite, optax.apply_updates(x, change), x), new), None

    return jax.lax.scan(step, (start, optimizer.init(start)), jnp.arange(settings.steps))[0][0]
