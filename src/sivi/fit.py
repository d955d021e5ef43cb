"""The one training loop: validate, run in compiled chunks, report, checkpoint."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from . import _start, defaults
from ._affine import AffineMap
from ._arguments import as_key, check_count, describe
from ._backend import matmul_precision
from ._chunk import Carry, Problem, anchors, diverged, member_of, pulled_back, run_chunk
from ._errors import CheckpointError, FitDiverged
from ._progress import ProgressBar
from ._types import ArrayLike, KeyLike, RepeatKeys
from .batching import BATCHING
from .families import Family
from .fit_file import attach, check_same_objective, load
from .objectives import Objective
from .posterior import Posterior, repeat_keys
from .stopping import Plateau, start_watch
from .targets import Target, as_target


@dataclass(frozen=True)
class FitReport:
    """What a callback receives after every chunk.

    With repeats, the arrays of `family`, `state` and the metrics have a leading axis for them, and `target` is None.

    Attributes:
        step: Updates done so far.
        num_steps: Updates asked for.
        family: The family now, in the coordinates u in which it is fitted.
        state: The objective's state now; its critic, as a function of u, is
            `objective.critic_function(state, target, family)`.
        objective: The objective, bound to this run.
        target: The target in the same coordinates.
        metrics: Every metric over the last chunk, one value per update.
        posterior: A function without arguments: the posterior so far.
    """

    step: int
    num_steps: int
    family: Family
    state: PyTree
    objective: Objective
    target: Target | None
    metrics: dict[str, np.ndarray]
    posterior: Callable[[], Posterior]


Callback = Callable[[FitReport], object]


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
    chunk_size = check_count("chunk_size", chunk_size)
    if num_steps is not None:
        num_steps = check_count("num_steps", num_steps)
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"callbacks must be functions; got {describe(callback)}.")
    repeats = check_count("repeats", repeats)
    if batching is not None and (not isinstance(batching, str) or batching not in BATCHING):
        raise ValueError(f"batching must be one of {', '.join(map(repr, BATCHING))}; got {batching!r}.")
    checkpoint_path = None if checkpoint is None else _start.writable_file(checkpoint)
    whole = as_target(target, dim, like)
    if resume is None:
        recipe = defaults.recipe(whole.dim, whole.num_data)
        start = _start.start(
            whole,
            as_key(key),
            recipe,
            family,
            objective,
            num_steps,
            batch_size,
            whiten,
            repeats,
            stop,
            batching or "shuffle",
            precision,
            ahead=lambda likeness: _run_nothing(likeness, whole, chunk_size),
        )
    else:
        start = _resumed(whole, resume, family, objective, num_steps, batch_size, repeats, whiten, stop)
        _check_same("batching", batching, start.batching)
        _check_same("precision", precision, start.precision)
    return _run(start, whole, chunk_size, progress, tuple(callbacks), checkpoint_path)


def _resumed(
    target: Target,
    resume: str | os.PathLike[str] | Posterior,
    family: Family | None,
    objective: Objective | None,
    num_steps: int | None,
    batch_size: int | None,
    repeats: int,
    whiten: object,
    stop: object,
) -> Posterior:
    if isinstance(resume, Posterior):
        check_same_objective(resume.objective, objective)
        posterior = attach(replace(resume, objective=resume.objective or objective), target)
    else:
        posterior = load(resume, target, family=family, objective=objective)
    if posterior.objective is None:
        raise ValueError(
            "resume: the file's objective holds a class or an Optax transform that a file cannot hold; "
            "give objective= again."
        )
    _check_same("batch_size", batch_size, posterior.batch_size)
    if repeats not in (1, posterior.repeats):
        raise ValueError(f"repeats must be that of the resumed fit, {posterior.repeats}; got {repeats}.")
    num_steps = posterior.num_steps if num_steps is None else num_steps
    if num_steps < posterior.step:
        raise ValueError(
            f"num_steps counts from zero and must reach past the {posterior.step} updates done; got {num_steps}."
        )
    _start.check_split(target, posterior.batch_size)
    _start.check_same_coordinates(whiten, posterior)
    rule = posterior.stop_rule if isinstance(stop, str) and stop == "auto" else _start.checked_rule(stop)
    if num_steps == posterior.num_steps and rule == posterior.stop_rule and posterior.stop_state is not None:
        return posterior
    watch = start_watch(rule, num_steps, posterior.repeats)
    return replace(posterior, num_steps=num_steps, stop_rule=rule, stop_state=watch)


def _check_same(name: str, given: object, stored: object) -> None:
    """Refuse to go on with another setting than a fit was begun with."""
    if given is not None and given != stored:
        raise ValueError(f"{name} must be that of the resumed fit, {stored}; got {given}.")


def _run(
    start: Posterior,
    target: Target,
    chunk_size: int,
    progress: bool,
    callbacks: tuple[Callback, ...],
    checkpoint: Path | None,
) -> Posterior:
    assert start.objective is not None  # seen to before
    repeats, objective = start.repeats, start.objective.bind(start.num_steps)
    with matmul_precision(start.precision):
        problem, carry = _problem(start, target), _carry(start)
    pieces = {name: [values] for name, values in start.history.items()}
    step, stopped = start.step, False

    def posterior() -> Posterior:
        return replace(
            start,
            families=carry.family,
            states=carry.state,
            history={name: np.concatenate(values, axis=-1) for name, values in pieces.items()},
            step=step,
            skipped=tuple(map(int, carry.skipped)),
            streak=tuple(map(int, carry.streak)),
            stop_state=carry.stop,
            _state_leaves=None,
        )

    def run(step: int) -> tuple[int, Carry, dict[str, np.ndarray]]:
        steps = (jnp.int32(n) for n in (step, min(step + chunk_size, start.num_steps), start.num_steps))
        with matmul_precision(start.precision):
            done, new, recorded = jax.block_until_ready(run_chunk(carry, *steps, problem, chunk_size))
        metrics = {name: np.asarray(values)[: int(done) - step].T for name, values in recorded.items()}
        return int(done), new, {name: values[0] if repeats == 1 else values for name, values in metrics.items()}

    def report(metrics: dict[str, np.ndarray]) -> FitReport:
        seen, seen_target = (carry.family, carry.state), None
        if repeats == 1:
            seen, seen_target = member_of(seen, 0), pulled_back(target, start.affine)
        return FitReport(step, start.num_steps, *seen, objective, seen_target, metrics, posterior)

    try:
        with ProgressBar(start.num_steps, start.step, progress) as bar:
            while step < int(carry.stop.end) and not stopped:
                before = step
                step, carry, metrics = run(step)
                for name, values in metrics.items():
                    pieces.setdefault(name, []).append(values)
                bar.update(step - before, metrics, int(carry.stop.end))
                if diverged(np.asarray(carry.skipped), np.asarray(carry.streak), start.num_steps).any():
                    raise FitDiverged(_why_diverged(carry, step, start.num_steps), posterior())
                if checkpoint is not None:
                    _write_checkpoint(checkpoint, posterior)
                answers = [callback(report(metrics)) for callback in callbacks]
                stopped = any(_is_true(answer) for answer in answers)
    except KeyboardInterrupt:
        if step == start.step:
            raise
        warnings.warn(
            f"fit was interrupted: the posterior is that of update {step} of {start.num_steps}.", stacklevel=3
        )
        if checkpoint is not None:
            _write_checkpoint(checkpoint, posterior)
    return posterior()


def _problem(start: Posterior, target: Target) -> Problem:
    """What all updates of a fit have in common."""
    assert start.objective is not None
    batches_keys, run_keys = _run_keys(repeat_keys(start.key, start.repeats))
    batches, anchor = None, None
    if start.batch_size is not None:
        batches = BATCHING[start.batching](batches_keys, target.num_data, start.batch_size)
        if start.anchored:
            anchor = anchors(target, start.affines, start.repeats)
    return Problem(start.objective, target, start.affines, batches, run_keys, start.stop_rule, anchor, start.batching)


def _carry(start: Posterior) -> Carry:
    """What the first update is handed."""
    assert start.stop_state is not None
    return Carry(start.families, start.states, jnp.int32(start.skipped), jnp.int32(start.streak), start.stop_state)


def _run_nothing(start: Posterior, target: Target, chunk_size: int) -> None:
    """No update at all, which compiles the program of all updates."""
    steps = (jnp.int32(0), jnp.int32(0), jnp.int32(start.num_steps))
    with matmul_precision(start.precision):
        run_chunk(_carry(start), *steps, _problem(start, target), chunk_size)


@eqx.filter_jit
def _run_keys(keys: RepeatKeys) -> Key[Array, "2 repeats"]:
    """Keys of the minibatches and of the updates, for every repeat."""
    return jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 1)), out_axes=1)(keys)


def _is_true(answer: object) -> bool:
    """Whether a callback's answer is a true truth value: Python's, NumPy's or JAX's; a number or text is none."""
    array = np.asarray(answer)
    return array.dtype == np.bool_ and array.shape == () and bool(array)


def _why_diverged(carry: Carry, step: int, num_steps: int) -> str:
    skipped, streak = np.asarray(carry.skipped), np.asarray(carry.streak)
    worst = int(np.argmax(np.where(diverged(skipped, streak, num_steps), streak, -1)))
    which = f" in repeat {worst}" if len(streak) > 1 else ""
    return (
        f"the fit diverged: {skipped[worst]} of {step} updates were not finite and were skipped{which}, the "
        f"last {streak[worst]} in a row. A smaller learning rate or a rescaled target may help; the last "
        "good state is in this error's posterior attribute."
    )


def _write_checkpoint(path: Path, posterior: Callable[[], Posterior]) -> None:
    now = posterior()
    try:
        now.save(path)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {str(path)!r} could not be written at update {now.step} ({error.strerror or error}); "
            "an earlier one is untouched, and what was fitted so far is in this error's posterior attribute.",
            now,
        ) from error
