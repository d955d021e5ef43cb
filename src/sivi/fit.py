"""The one training loop: validate, run in compiled chunks, report, checkpoint."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree

from . import defaults
from ._errors import CheckpointError, FitDiverged, check_count
from ._progress import ProgressBar
from ._start import check_split, check_target, writable_file
from ._types import KeyLike, as_key, describe
from .batching import ShuffledBatches
from .families import Family
from .objectives import Objective
from .posterior import Posterior, attach, check_same_objective, fingerprint_of, load
from .targets import Target, as_target

#: A fit stops as diverged when more than this share of its updates was not finite, or this many in a row.
MAX_SKIPPED_SHARE = 0.1
MAX_SKIPPED_IN_A_ROW = 100


@dataclass(frozen=True)
class FitReport:
    """What a callback receives after every chunk.

    Attributes:
        step: Updates done so far.
        num_steps: Updates asked for.
        family: The family now.
        state: The objective's state now; `objective.field(state, target)` is its critic as a function.
        objective: The objective, bound to this run.
        target: The target.
        metrics: Every metric over the last chunk, one value per update.
    """

    step: int
    num_steps: int
    family: Family
    state: PyTree
    objective: Objective
    target: Target
    metrics: dict[str, np.ndarray]


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
        like: Instead of `dim`, an example pytree of floats: the function takes that structure, and samples come
            back in it.
        key: An int or a JAX key. The result is a function of it and of the other arguments alone.
        family: What is fitted; from `sivi.defaults` when left out.
        objective: How it is fitted; from `sivi.defaults` when left out.
        num_steps: Number of updates, counted from zero: a resumed fit continues to it.
        batch_size: Rows of data per update, for a target with data; all of them when left out.
        chunk_size: Updates between two visits to Python. The result does not depend on it.
        progress: Show a progress bar on a terminal.
        callbacks: Functions called with a `FitReport` after every chunk; one that returns True stops the fit.
        checkpoint: A file written after every chunk, whole or not at all.
        resume: A checkpoint, a saved fit or a posterior to continue from. Family, objective, key and
            `batch_size` are those of that fit; `num_steps` too unless given. On CPU the result equals the
            uninterrupted one bit for bit.

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
    checkpoint_path = None if checkpoint is None else writable_file(checkpoint)
    whole = as_target(target, dim, like)
    if resume is None:
        start = _start(whole, as_key(key), family, objective, num_steps, batch_size)
    else:
        start = _resumed(whole, resume, family, objective, num_steps, batch_size)
    return _run(start, whole, chunk_size, progress, tuple(callbacks), checkpoint_path)


def _start(
    target: Target,
    key: PRNGKeyArray,
    family: Family | None,
    objective: Objective | None,
    num_steps: int | None,
    batch_size: int | None,
) -> Posterior:
    """Update zero: everything validated, nothing compiled but a look at the target."""
    family_key, start_key, state_key = jax.random.split(jax.random.fold_in(key, 0), 3)
    family = defaults.family(family_key, target) if family is None else family
    objective = defaults.objective(target) if objective is None else objective
    if not isinstance(family, Family):
        raise TypeError(f"family must be a sivi family; got {describe(family)}.")
    if not isinstance(objective, Objective):
        raise TypeError(f"objective must be a sivi objective; got {describe(objective)}.")
    if family.dim != target.dim:
        raise ValueError(f"family must have the target's dim, {target.dim}; got {family.dim}.")
    num_steps = defaults.NUM_STEPS if num_steps is None else num_steps
    check_split(target, batch_size)
    check_target(target, family, start_key)
    bound = objective.bind(num_steps)
    bound.check(family, target)
    return Posterior(
        family=family,
        layout=target.layout,
        history={},
        step=0,
        num_steps=num_steps,
        key=key,
        objective=objective,
        state=eqx.filter_jit(bound.init)(state_key, family, target),
        target=target,
        batch_size=batch_size,
        fingerprint=fingerprint_of(target),
    )


def _resumed(
    target: Target,
    resume: str | os.PathLike[str] | Posterior,
    family: Family | None,
    objective: Objective | None,
    num_steps: int | None,
    batch_size: int | None,
) -> Posterior:
    if isinstance(resume, Posterior):
        check_same_objective(resume.objective, objective)
        posterior = attach(resume, target)
    else:
        posterior = load(resume, target, family=family, objective=objective)
    if posterior.objective is None:
        raise ValueError(
            "resume: the file's objective holds a class or an Optax transform that a file cannot hold; "
            "give objective= again."
        )
    if batch_size is not None and batch_size != posterior.batch_size:
        raise ValueError(f"batch_size must be that of the resumed fit, {posterior.batch_size}; got {batch_size}.")
    num_steps = posterior.num_steps if num_steps is None else num_steps
    if num_steps < posterior.step:
        raise ValueError(
            f"num_steps counts from zero and must reach past the {posterior.step} updates done; got {num_steps}."
        )
    check_split(target, posterior.batch_size)
    return replace(posterior, num_steps=num_steps)


def _run(
    start: Posterior,
    target: Target,
    chunk_size: int,
    progress: bool,
    callbacks: tuple[Callback, ...],
    checkpoint: Path | None,
) -> Posterior:
    assert start.objective is not None  # _start and _resumed see to that
    objective = start.objective.bind(start.num_steps)
    batches_key, run_key = jax.random.split(jax.random.fold_in(start.key, 1))
    batches = None
    if start.batch_size is not None:
        batches = ShuffledBatches(batches_key, target.num_data, start.batch_size)
    chunk = _Chunk(objective, target, batches, run_key, start.num_steps, chunk_size)
    carry = _Carry(start.family, start.state, jnp.int32(start.skipped), jnp.int32(start.streak))
    pieces = {name: [values] for name, values in start.history.items()}
    step, stopped = start.step, False

    def posterior() -> Posterior:
        return replace(
            start,
            family=carry.family,
            state=carry.state,
            history={name: np.concatenate(values)[:step] for name, values in pieces.items()},
            step=step,
            skipped=int(carry.skipped),
            streak=int(carry.streak),
            _state_leaves=None,
        )

    try:
        with ProgressBar(start.num_steps, start.step, progress) as bar:
            while step < start.num_steps and not stopped:
                done, new_carry, recorded = chunk.run(step, carry)
                metrics = {name: np.asarray(values)[: int(done) - step] for name, values in recorded.items()}
                for name, values in metrics.items():
                    pieces.setdefault(name, []).append(values)
                bar.update(int(done) - step, metrics)
                step, carry = int(done), new_carry
                if bool(_diverged(carry, start.num_steps)):
                    raise FitDiverged(_why_diverged(carry, step), posterior())
                if checkpoint is not None:
                    _write_checkpoint(checkpoint, posterior)
                report = FitReport(step, start.num_steps, carry.family, carry.state, objective, target, metrics)
                answers = [callback(report) for callback in callbacks]
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


def _is_true(answer: object) -> bool:
    """Whether a callback's answer is a true truth value: Python's, NumPy's or JAX's; a number or text is none."""
    array = np.asarray(answer)
    return array.dtype == np.bool_ and array.shape == () and bool(array)


class _Carry(eqx.Module):
    """What one update hands to the next."""

    family: Family
    state: PyTree
    skipped: Int[Array, ""]
    streak: Int[Array, ""]


class _Chunk:
    """`chunk_size` updates as one compiled program, which a fit compiles once.

    The first and last step are arguments, so the trip count of the loop is not known to the compiler: a ragged
    last chunk needs no program of its own, and the body is compiled alike for every `chunk_size`.
    """

    def __init__(
        self,
        objective: Objective,
        target: Target,
        batches: ShuffledBatches | None,
        run_key: PRNGKeyArray,
        num_steps: int,
        chunk_size: int,
    ):
        self._arguments = (objective, target, batches, run_key)
        self._num_steps, self._chunk_size = num_steps, chunk_size

    def run(self, step: int, carry: _Carry) -> tuple[Array, _Carry, dict[str, Array]]:
        last = min(step + self._chunk_size, self._num_steps)
        result = _run_chunk(
            carry,
            jnp.int32(step),
            jnp.int32(last),
            jnp.int32(self._num_steps),
            *self._arguments,
            self._chunk_size,
        )
        return jax.block_until_ready(result)


@eqx.filter_jit
def _run_chunk(
    carry: _Carry,
    first: Int[Array, ""],
    last: Int[Array, ""],
    num_steps: Int[Array, ""],
    objective: Objective,
    target: Target,
    batches: ShuffledBatches | None,
    run_key: PRNGKeyArray,
    chunk_size: int,
) -> tuple[Array, _Carry, dict[str, Array]]:
    arrays, static = eqx.partition(carry, eqx.is_array)

    def update(step: Array, carry: _Carry, order: Array | None) -> tuple[Any, Any, Any]:
        batch = None if batches is None else batches.batch(step, order)
        key = jax.random.fold_in(run_key, step)
        return objective.step(key, carry.family, carry.state, target, batch)

    def body(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        step, arrays, order, recorded = loop
        carry = eqx.combine(arrays, static)
        if batches is not None:
            order = batches.next_order(step, order)
        family, state, metrics = update(step, carry, order)
        finite = _all_finite((family, state))
        keep = lambda new, old: jnp.where(finite, new, old)  # noqa: E731
        kept = jax.tree.map(
            keep, *(eqx.filter(pair, eqx.is_array) for pair in ((family, state), (carry.family, carry.state)))
        )
        new = _Carry(
            *eqx.combine(kept, eqx.filter((family, state), eqx.is_array, inverse=True)),
            skipped=carry.skipped + ~finite,
            streak=jnp.where(finite, 0, carry.streak + 1),
        )
        recorded = {name: recorded[name].at[step - first].set(metrics[name]) for name in recorded}
        return step + 1, eqx.filter(new, eqx.is_array), order, recorded

    def unfinished(loop: tuple[Any, ...]) -> Bool[Array, ""]:
        return (loop[0] < last) & ~_diverged(loop[1], num_steps)

    order = None if batches is None else batches.order(first)
    shapes = eqx.filter_eval_shape(update, first, carry, order)[2]
    recorded = {name: jnp.zeros(chunk_size, leaf.dtype) for name, leaf in shapes.items()}
    step, arrays, _, recorded = jax.lax.while_loop(unfinished, body, (first, arrays, order, recorded))
    return step, eqx.combine(arrays, static), recorded


def _all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether all numbers are finite: their sum is, short of an overflow near 10³⁸."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.isfinite(sum(jnp.sum(leaf) for leaf in leaves))


def _diverged(carry: _Carry, num_steps: int | Array) -> Bool[Array, ""]:
    too_many = carry.skipped > MAX_SKIPPED_SHARE * num_steps
    return (too_many & (carry.streak > 0)) | (carry.streak >= MAX_SKIPPED_IN_A_ROW)


def _why_diverged(carry: _Carry, step: int) -> str:
    return (
        f"the fit diverged: {int(carry.skipped)} of {step} updates were not finite and were skipped, the last "
        f"{int(carry.streak)} in a row. A smaller learning rate or a rescaled target may help; the last good state "
        "is in this error's posterior attribute."
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
