"""The call: arguments in, posterior out."""

import os
from collections.abc import Callable, Sequence

from jaxtyping import Array, PyTree

from .._arguments import check_count
from .._backend import matmul_precision
from .._types import ArrayLike, KeyLike
from ..coordinates import AffineMap
from ..defaults import recipe as recipe_for
from ..families import Family
from ..objectives import Objective
from ..posterior import Posterior
from ..stopping import Plateau
from ..targets import Target, as_target
from .checkpoint import Checkpoint
from .checks import FitArguments, check_callbacks, settings_of
from .loop import Visits, inputs_of, run_to_end
from .report import Callback
from .resume import resumed
from .start import start


def fit(
    target: Target | Callable[..., Array],
    dim: int | None = None,
    *,
    like: PyTree | None = None,
    key: KeyLike = 0,
    family: Family | None = None,
    objective: Objective | None = None,
    num_steps: int | None = None,
    batch_size: int | None = None,
    batching: str | None = None,
    whiten: str | tuple[ArrayLike, ArrayLike] | AffineMap | None = "auto",
    precision: str | None = None,
    repeats: int = 1,
    stop: str | Plateau | None = "auto",
    chunk_size: int = 1000,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | Posterior | None = None,
) -> Posterior:
    """Fit a variational posterior to a log density.

    Args:
        target: A `sivi.targets.Target`, or any JAX function x → log p(x), up to a constant.
        dim: Length of x, for a function of a vector.
        like: Instead of `dim`, an example pytree of floats, and of constraints such as `sivi.positive()`: the function
            takes that structure, and samples come back in it. The density is that of the constrained variables.
        key: An int or a JAX key. The result is a function of it and of the other arguments alone.
        family: What is fitted. Like all that is left out, it is chosen from the number of unknowns and of data:
            `print(sivi.defaults.recipe(dim))` shows how.
        objective: How it is fitted.
        num_steps: Number of updates, at most, counted from zero: a resumed fit continues to it.
        batch_size: Rows of data per update, for a target with data.
        batching: Which rows: `"shuffle"`, the default, goes through them in a new order every epoch, and `"rotate"`
            through one order over and over.
        whiten: The coordinates u of the fit, x = m + L u. `"auto"` finds them by a short Gaussian fit, `None` takes x
            as it is, and a pair (m, L) gives them; L is a matrix, or a vector for a diagonal one. Family and objective
            live in u.
        precision: Of the products of matrices, as `jax.default_matmul_precision` names it: `"float32"`,
            `"tensorfloat32"`, `"bfloat16"`, `"highest"`. None leaves it to JAX, which on a GPU of today takes
            `"tensorfloat32"`, and on a CPU `"float32"`.
        repeats: Number of independent fits, each with its own key and coordinates, run as one program. The posterior
            is their equal mixture. With a `family` that is given, or `whiten` other than `"auto"`, they all start from
            the same one, and agree more easily.
        stop: A rule that may end the fit before `num_steps`; `"auto"` is the default objective's own, and none for an
            objective that is given. None for never.
        chunk_size: Updates between two visits to Python. The result does not depend on it.
        progress: Show a progress bar on a terminal.
        callbacks: Functions called with a `FitReport` after every chunk; one that returns True stops the fit.
        checkpoint: A file written after every chunk, whole or not at all.
        resume: A checkpoint, a saved fit or a posterior to continue from. All but `num_steps` and `stop` is that of
            the fit, and on CPU the result equals the uninterrupted one bit for bit. With another `num_steps` the
            schedules follow the new length, and a fit that had come to a plateau goes on.

    Returns:
        The posterior. After Ctrl-C it is what was fitted so far.

    Raises:
        FitDiverged: Too many updates were not finite. Its `posterior` holds the last good state.
        CheckpointError: The checkpoint could not be written. Its `posterior` holds what was fitted so far.

    Example:
        >>> import jax.numpy as jnp, sivi
        >>> posterior = sivi.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, key=0, num_steps=20, progress=False)
        >>> posterior.sample(100, key=1).shape
        (100, 2)
    """
    check_callbacks(callbacks)
    file = None if checkpoint is None else Checkpoint(checkpoint)
    visits = Visits(check_count("chunk_size", chunk_size), progress, tuple(callbacks), file)
    given = FitArguments(key, family, objective, num_steps, batch_size, batching, whiten, precision, repeats, stop)
    target = as_target(target, dim, like)
    if resume is None:
        recipe, history = recipe_for(target.dim, target.num_data), {}
        settings, coordinates = settings_of(target, recipe, given)
        run, affines = start(target, settings, recipe, family, coordinates, visits.chunk_size)
    else:
        run, affines, history = resumed(target, resume, given)
    with matmul_precision(run.settings.precision):
        inputs = inputs_of(run.settings, target, affines)
    return run_to_end(run, inputs, history, visits)
