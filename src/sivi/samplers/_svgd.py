"""Stein variational gradient descent: particles that climb the density together and keep each other apart."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from .. import optimizers
from .._arguments import as_key, check_count, check_flag, check_kind
from .._batches import ShuffledBatches
from .._progress import ProgressBar
from .._types import ArrayLike, KeyLike
from ..kernels import GaussianKernel, Kernel
from ..optimizers import AdaGrad, OptimizerLike, check_optimizer
from ..schedules import Cosine, Schedule
from ..targets import Target, as_target
from ..targets.evaluate import check_batch_size, scores_at
from ._kernel import Kept, Moved, SamplerKernel, run_kernel
from .run import SamplerRun
from .starts import starting_points

#: Of the default optimiser. The rate ends at zero, as steps of a fixed length circle around the fixed point.
LEARNING_RATE = Cosine(0.1)


def svgd(
    target: Target | Callable[..., Array],
    dim: int | None = None,
    *,
    like: PyTree | None = None,
    key: KeyLike = 0,
    num_particles: int = 100,
    num_steps: int,
    kernel: Kernel | None = None,
    optimizer: OptimizerLike | None = None,
    batch_size: int | None = None,
    init: ArrayLike | None = None,
    chunk_size: int = 1000,
    progress: bool = True,
) -> SamplerRun:
    """Move particles by Stein variational gradient descent. The optimiser ascends the field

        φ(x_i) = (1/n) Σ_j [k(x_j, x_i) S(x_j) + ∇_{x_j} k(x_j, x_i)],

    with the score S(x) = ∇ log p(x), or its unbiased estimate from a minibatch: the direction in which, among
    functions of the kernel's space, the Kullback–Leibler divergence falls fastest. The first term leads to high
    density, the second keeps the particles apart. One particle alone climbs to a mode.

    The particles are one deterministic set, apart from the random start and minibatches. They depend on each other
    and are not independent draws: R-hat and effective sample size mean nothing, and errors of means do not fall as
    1/√n. In many dimensions, with few particles, they lie too close together, so variances are underestimated.

    The default kernel is that of the paper, exp(−‖x − y‖² / h²) with h² = med² / log n, where med is the median
    distance. In the convention of this library that is `GaussianKernel(factor=1 / sqrt(2 * log(n)))`: its h is
    med / √(2 log n), and exp(−‖x − y‖² / (2h²)) has log n / med² in the exponent. Then the sum of the kernel from
    one particle to n others at the median distance is 1. The median is that of all pairs of the first 100 particles.
    It is computed anew at every step, and no gradient goes through it.

    Args:
        target: A `sivi.targets.Target`, or any JAX function x → log p(x), up to a constant.
        dim: Length of x, for a function of a vector.
        like: Instead of `dim`, an example pytree of floats that the function takes.
        key: An int or a JAX key. The result is a function of it and of the other arguments alone.
        num_particles: n. A step takes time and memory in proportion to n².
        num_steps: Steps of all particles.
        kernel: One of `sivi.kernels`; the Gaussian of the paper when left out.
        optimizer: `sivi.optimizers` settings or any Optax transform, which sees all particles at once. When left out,
            `AdaGrad`, as in the authors' work, with a rate of 0.1 that falls to zero along half a cosine. The rate is
            in units of x: about the distance that a particle covers in a step.
        batch_size: Rows of data per step, the same for all particles, for a target with data; all of them when left
            out. Rows are shuffled once per epoch.
        init: Where the particles start, (num_particles, dim); N(0, I) when left out.
        chunk_size: Steps between two visits to Python. The result does not depend on it.
        progress: Show a progress bar on a terminal, and elsewhere log lines with the logger `"sivi"`.

    Returns:
        The final particles, as draws of shape (num_particles, 1, dim). `step_size` is the last learning rate, or None
        for an Optax transform, which does not tell it.

    Raises:
        FloatingPointError: The particles have diverged to infinity: the learning rate is too large.

    Example:
        >>> import jax.numpy as jnp
        >>> run = svgd(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_particles=50, num_steps=200, progress=False)
        >>> run.draws.shape, bool((abs(run.flat().mean(axis=0)) < 0.05).all())
        ((50, 1, 2), True)
        >>> print(run)
        svgd: 50 particles, 2 unknowns
          R-hat and effective sample size: not defined, the particles depend on each other

    Reference:
        Liu and Wang, Stein variational gradient descent: a general purpose Bayesian inference algorithm (NeurIPS 2016).
    """
    num_particles, num_steps = check_count("num_particles", num_particles), check_count("num_steps", num_steps)
    chunk_size = check_count("chunk_size", chunk_size)
    kernel = median_kernel(num_particles) if kernel is None else kernel
    kernel = check_kind("kernel", Kernel, "a sivi.kernels.Kernel", kernel)
    optimizer = check_optimizer("optimizer", AdaGrad(LEARNING_RATE) if optimizer is None else optimizer)
    optimizer = optimizers.bind(optimizer, num_steps)
    check_flag("progress", progress)
    target = as_target(target, dim, like)
    check_batch_size(target, batch_size)

    start_key, batches_key = jax.random.split(as_key(key))
    batches = order = first_rows = None
    if batch_size is not None:
        batches = ShuffledBatches(batches_key, target.num_data, batch_size)
        order = batches.order(jnp.int32(0))
        first_rows = jnp.tile(batches.batch(jnp.int32(0), order), (num_particles, 1))
    starts = starting_points(start_key, target, num_particles, init, scale=1.0, needs_log_prob=False, rows=first_rows)
    state = SVGDState(starts, optimizers.init(optimizer, starts), order)
    kept = Kept.empty(1, starts, has_trajectories=False)
    with ProgressBar(num_steps, 0, progress, "sivi.samplers.svgd") as bar:
        mover = SVGDKernel(target, kernel, optimizer, batches)
        _, kept = run_kernel(mover, state, kept, bar, num_burn_in=num_steps - 1, chunk_size=chunk_size)
    rate = getattr(optimizer, "learning_rate", None)
    step_size = float(rate(num_steps - 1)) if isinstance(rate, Schedule) else None
    return kept.as_run("svgd", target.layout, step_size, interacting=True)


def median_kernel(num_particles: int) -> GaussianKernel:
    """The kernel of the paper, exp(−‖x − y‖² log n / med²), for n particles."""
    return GaussianKernel(factor=1.0 / math.sqrt(2.0 * math.log(max(2, num_particles))))  # log 1 = 0


def stein_field(
    kernel: Kernel, particles: Float[Array, "n dim"], scores: Float[Array, "n dim"]
) -> Float[Array, "n dim"]:
    """φ at every particle: the mean of the scores with the kernel as weight, and what keeps the particles apart."""
    gram, repulsion = kernel.gram_and_gradient_sums(particles)
    return (jnp.matmul(gram, scores, precision="highest") + repulsion) / len(particles)


class SVGDState(eqx.Module):
    """Where the particles are, the optimiser's state, and the permutation of the data of this epoch."""

    particles: Float[Array, "particles dim"]
    optimizer: PyTree
    order: Int[Array, " num_data"] | None


class SVGDKernel(SamplerKernel):
    """One step of all particles along the field.

    Attributes:
        target: Whose score is followed.
        kernel: k.
        optimizer: What makes a step of the field.
        batches: The rows of data that all particles see; None for all.
    """

    target: Target
    kernel: Kernel
    optimizer: OptimizerLike
    batches: ShuffledBatches | None

    def field(self, particles: Float[Array, "n dim"], rows: Int[Array, " batch"] | None) -> Float[Array, "n dim"]:
        """φ with the scores of some rows of data."""
        return stein_field(self.kernel, particles, scores_at(self.target, particles, rows))

    def step(self, index: Int[Array, ""], state: SVGDState) -> tuple[SVGDState, Moved]:
        order, rows = state.order, None
        if self.batches is not None and order is not None:
            order = self.batches.next_order(index, order)
            rows = self.batches.batch(index, order)
        descent = -self.field(state.particles, rows)  # optimisers descend
        particles, optimizer = optimizers.update(self.optimizer, descent, state.optimizer, state.particles)
        return SVGDState(particles, optimizer, order), Moved(particles)
