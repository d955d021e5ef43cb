"""Stochastic gradient Langevin dynamics: many particles, one noisy gradient step at a time."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._arguments import as_key, check_count, check_flag, check_positive, default_float
from .._batches import ParticleBatches, ShuffledBatches
from .._progress import ProgressBar
from .._renamed import NUM_DRAWS, old_arguments
from .._types import ArrayLike, KeyLike
from ..schedules import Schedule, as_schedule
from ..targets import Target, as_target
from ..targets.evaluate import check_batch_size, values_with_own_rows
from ._kernel import Kept, Moved, SamplerKernel, run_kernel
from .run import SamplerRun
from .starts import starting_points


@old_arguments("sivi.samplers.sgld", NUM_DRAWS)
def sgld(
    target: Target | Callable[..., Array],
    dim: int | None = None,
    *,
    like: PyTree | None = None,
    key: KeyLike = 0,
    num_particles: int = 1000,
    num_steps: int,
    step_size: float | Schedule,
    batch_size: int | None = None,
    init: ArrayLike | None = None,
    num_samples: int = 1,
    thin: int = 1,
    chunk_size: int = 1000,
    progress: bool = True,
) -> SamplerRun:
    """Run particles of stochastic gradient Langevin dynamics, side by side.

        x ← x + (h/2) S(x) + √h ξ,    ξ ~ N(0, I),

    with the score S(x) = ∇ log p(x), or its unbiased estimate from a minibatch. There is no acceptance step, so
    a score is enough, and draws have an error of O(h). A Gaussian with precision λ gets the variance
    1 / (λ (1 − hλ/4)); for h ≥ 4/λ the particles diverge. Let `step_size` decrease, or compare two values.

    With minibatches every particle sees its own: all rows are shuffled once per epoch, and each particle reads them
    in that order from its own random position, drawn anew for every epoch. So it sees no row twice in an epoch.
    Given the shufflings, the particles do not depend on each other. A batch score with variance V widens the Gaussian
    to (1 + hV/4) / (λ (1 − hλ/4)), if an epoch has many more than 4/(hλ) steps; with fewer of them the noise of its
    batches cancels in part, and the variance across particles depends on the shuffling. A step gathers
    `num_particles` × `batch_size` rows, where they are many, for one block of particles after another.

    Args:
        target: A `sivi.targets.Target`, or any JAX function x → log p(x), up to a constant.
        dim: Length of x, for a function of a vector.
        like: Instead of `dim`, an example pytree of floats that the function takes.
        key: An int or a JAX key. The result is a function of it and of the other arguments alone.
        num_particles: Particles, each with its own noise and its own minibatches.
        num_steps: Steps of each.
        step_size: h, a number or a `sivi.schedules` schedule over the run.
        batch_size: Rows of data per step and particle, for a target with data; all of them when left out.
        init: Where the particles start, (num_particles, dim); N(0, I) when left out.
        num_samples: States of each particle that come back: the last one and those `thin`, 2·`thin`, … steps
            before it. What comes before the first of them is burn-in.
        thin: Steps between two of them.
        chunk_size: Steps between two visits to Python. The result does not depend on it.
        progress: Show a progress bar on a terminal, and elsewhere log lines with the logger `"sivi"`.

    Returns:
        The draws, (num_particles, num_samples, dim): with `num_samples=1` the final particles.

    Raises:
        FloatingPointError: A particle has diverged to infinity: the step size is too large.

    Example:
        >>> import jax.numpy as jnp
        >>> run = sgld(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_steps=200, step_size=0.1, progress=False)
        >>> run.draws.shape
        (1000, 1, 2)

    Reference:
        Welling and Teh, Bayesian learning via stochastic gradient Langevin dynamics (ICML 2011).
    """
    num_particles, num_steps = check_count("num_particles", num_particles), check_count("num_steps", num_steps)
    num_samples, thin = check_count("num_samples", num_samples), check_count("thin", thin)
    chunk_size = check_count("chunk_size", chunk_size)
    fewest = 1 + (num_samples - 1) * thin
    num_burn_in = num_steps - fewest
    if num_burn_in < 0:
        raise ValueError(f"num_steps must be at least 1 + (num_samples - 1) * thin = {fewest}; got {num_steps}.")
    schedule = _checked_schedule(step_size, num_steps)
    check_flag("progress", progress)
    target = as_target(target, dim, like)
    check_batch_size(target, batch_size)

    start_key, batches_key, run_key, places_key = jax.random.split(as_key(key), 4)
    batches = order = first_rows = None
    if batch_size is not None:
        batches = ParticleBatches(ShuffledBatches(batches_key, target.num_data, batch_size), places_key, num_particles)
        order = batches.shuffled.order(jnp.int32(0))
        first_rows = batches.rows(jnp.int32(0), order)
    starts = starting_points(start_key, target, num_particles, init, scale=1.0, needs_log_prob=False, rows=first_rows)
    kernel, state = SGLDKernel(target, run_key, schedule, batches), SGLDState(starts, order)
    kept = Kept.empty(num_samples, starts, has_trajectories=False)
    with ProgressBar(num_steps, 0, progress, "sivi.samplers.sgld") as bar:
        _, kept = run_kernel(kernel, state, kept, bar, num_burn_in=num_burn_in, thin=thin, chunk_size=chunk_size)
    return kept.as_run("sgld", target.layout, float(schedule(num_steps - 1)))


class SGLDState(eqx.Module):
    """Where the particles are, and the permutation of the data that their minibatches come from."""

    particles: Float[Array, "particles dim"]
    order: Int[Array, " num_data"] | None


class SGLDKernel(SamplerKernel):
    """One Langevin step of every particle.

    Attributes:
        target: Whose score is followed.
        key: Of the noise.
        schedule: The step size.
        batches: The rows of data that each particle sees; None for all.
    """

    target: Target
    key: PRNGKeyArray
    schedule: Schedule
    batches: ParticleBatches | None

    def step(self, index: Int[Array, ""], state: SGLDState) -> tuple[SGLDState, Moved]:
        particles, order, rows = state.particles, state.order, None
        if self.batches is not None and order is not None:
            order = self.batches.shuffled.next_order(index, order)
            rows = self.batches.rows(index, order)
        score = values_with_own_rows(self.target.score, self.target, particles, rows)
        h = jnp.asarray(self.schedule(index), particles.dtype)
        noise = jax.random.normal(jax.random.fold_in(self.key, index), particles.shape, particles.dtype)
        particles = particles + 0.5 * h * score + jnp.sqrt(h) * noise
        return SGLDState(particles, order), Moved(particles)


def _checked_schedule(step_size: float | Schedule, num_steps: int) -> Schedule:
    if not isinstance(step_size, Schedule):
        return as_schedule(check_positive("step_size", step_size), "step_size")
    schedule = step_size.bind(num_steps)
    values = np.asarray(jax.vmap(schedule)(jnp.arange(num_steps)), default_float())
    is_allowed = np.isfinite(values) & (values > 0)
    if not is_allowed.all():
        first = int(np.argmin(is_allowed))
        raise ValueError(f"step_size must be positive and finite at every step; got {values[first]} at step {first}.")
    return schedule
