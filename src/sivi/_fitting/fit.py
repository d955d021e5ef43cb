"""The call: arguments in, posterior out."""

import os
import time
import warnings
from collections.abc import Callable, Sequence

from jaxtyping import Array, PyTree

from .._arguments import check_count, check_flag
from .._errors import FitDiverged, FitWarning
from .._interrupts import interrupts_kept
from .._progress import ProgressBar
from .._types import ArrayLike, KeyLike
from ..coordinates import CoordinateMap
from ..families import Family
from ..objectives import Objective
from ..posterior import Posterior
from ..stopping import StopRule
from ..targets import Target, as_target
from .checkpoint import Checkpoint
from .driver import Visits, run_to_end
from .ending import cause_of_divergence, ended
from .loop import inputs_of
from .minibatches import remarks_on_scale
from .not_finite import explained
from .report import Callback
from .resume import resumed
from .start import FitArguments, check_callbacks, check_settings, start


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
    whiten: str | tuple[ArrayLike, ArrayLike] | CoordinateMap | None = "auto",
    precision: str | None = None,
    repeats: int | None = None,
    stop: str | StopRule | None = "auto",
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
        like: Instead of `dim`, an example pytree of floats, and of constraints such as `sivi.positive()`. The function
            takes this structure, and samples come back in it. The density is that of the constrained variables.
        key: An int or a JAX key. The result depends on it and on the other arguments alone.
        family: What is fitted. The default, like those of all arguments, follows from the number of unknowns and of
            data: `print(sivi.defaults.recipe(dim))` shows it.
        objective: How it is fitted.
        num_steps: Number of updates, at most, counted from zero: a resumed fit continues to it.
        batch_size: Rows of data per update, for a target with data.
        batching: The order of the rows. `"shuffle"`, the default, draws a new order for every epoch; `"rotate"` repeats
            one order.
        whiten: The coordinates u of the fit, x = m + L u. `"auto"` finds them by a short Gaussian fit, `None` takes x
            as it is, and a pair (m, L) gives them; L is a matrix, or a vector for a diagonal one. Family and objective
            live in u.
        precision: Matrix-product precision, by the names of `jax.default_matmul_precision`: `"float32"`,
            `"tensorfloat32"`, `"bfloat16"`, `"highest"`. None leaves it to JAX: `"tensorfloat32"` on current GPUs,
            `"float32"` on a CPU.
        repeats: Number of independent fits, each with its own key and coordinates, run as one program: one when left
            out, and 8 or 16 for a target with symmetries such as a network. The posterior is their equal mixture. With
            a given `family`, or `whiten` other than `"auto"`, they all start alike, and agree more easily.
        stop: How long the fit goes on: `sivi.Doubling`, `sivi.Plateau`, or None for `num_steps` updates. `"auto"` is
            the rule of the default objective, and none for a given one.
        chunk_size: Updates between two visits: checkpoint, callbacks. The result does not depend on it.
        progress: Show a progress bar on a terminal or in a notebook, and elsewhere log lines of level INFO with the
            logger `"sivi"`. It does not change the result.
        callbacks: Functions called with a `FitReport` after every chunk; one that returns True stops the fit.
        checkpoint: A file written after every chunk, whole or not at all.
        resume: A checkpoint, a saved fit or a posterior to continue from. Settings other than `num_steps` and `stop`
            are those of that fit, and on a CPU the result equals the uninterrupted one bit for bit. With another
            `num_steps` the schedules follow the new length, and a fit that had ended continues.

    Returns:
        The posterior. After Ctrl-C it is what was fitted so far: that of the best round, if there are rounds.

    Warns:
        FitWarning: Something is wrong with the density or the fit: the sentences of `posterior.warnings`.

    Raises:
        FitDiverged: Too many updates were not finite. Its `posterior` holds the last good state.
        CheckpointError: The checkpoint could not be written. Its `posterior` holds what was fitted so far.

    Example:
        >>> import jax.numpy as jnp, sivi
        >>> posterior = sivi.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, key=0, num_steps=20, progress=False)
        >>> posterior.sample(100, key=1).shape
        (100, 2)
    """
    begin = time.perf_counter()
    check_callbacks(callbacks)
    check_flag("progress", progress)
    file = None if checkpoint is None else Checkpoint(checkpoint)
    settings = (key, family, objective, num_steps, batch_size, batching, whiten, precision, repeats, stop)
    given = FitArguments(*settings, function=target)
    chunk_size = check_count("chunk_size", chunk_size)
    target = as_target(target, dim, like)
    with interrupts_kept():
        try:
            with ProgressBar(None, 0, progress, unit="update") as bar:
                visits = Visits(chunk_size, bar, tuple(callbacks), file)
                if resume is None:
                    check_settings(target, given)
                    target = target.prepared(key)
                    (run, affines), history = start(target, given, chunk_size, bar), {}
                else:
                    target, run, affines, history = resumed(target, resume, given)
                said = remarks_on_scale(run.settings, target, affines)
                if said:
                    warnings.warn(FitWarning("\n".join(said)), stacklevel=2)
                posterior = run_to_end(run, inputs_of(run.settings, target, affines), history, visits)
                while posterior is None:  # once: a run with a critic is not given up
                    bar.phase("starting again with a critic")
                    run, affines = start(target, given, chunk_size, bar, given_up=(run, affines))
                    posterior = run_to_end(run, inputs_of(run.settings, target, affines), {}, visits)
        except FitDiverged as error:
            raise explained(error, given.function, cause_of_divergence(error.posterior)) from None
        try:
            posterior = ended(posterior, file, said)
        except KeyboardInterrupt:
            warnings.warn("fit was interrupted at its end: the posterior is whole, but unjudged.", stacklevel=2)
    posterior.remembered.seconds = time.perf_counter() - begin
    return posterior
