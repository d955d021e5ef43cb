"""The run of a compiled loop from update to update, and the visits to Python between its chunks."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Bool

from .._backend import matmul_precision
from .._errors import FitDiverged
from .._progress import ProgressBar
from .._run import FitSettings, Run, RunState
from ..posterior import Posterior
from ..stopping import Doubling
from .checkpoint import Checkpoint
from .loop import LoopInputs, chunk_length, diverged, integers, run_chunk
from .report import Callback, is_true, report_of

#: Without rounds, a run of at least so many updates is given up by what it shows between these shares of it.
_LONG_RUN, _GIVEN_UP_BETWEEN = 2000, (0.5, 0.6)


@dataclass(frozen=True)
class Visits:
    """What happens between two chunks.

    Attributes:
        chunk_size: Updates between two visits.
        bar: Shows how far the run is, also within a chunk.
        callbacks: Functions that are called with a report.
        checkpoint: Where the fit is written, or None.
    """

    chunk_size: int
    bar: ProgressBar
    callbacks: tuple[Callback, ...] = ()
    checkpoint: Checkpoint | None = None


def run_to_end(run: Run, inputs: LoopInputs, history: Mapping[str, np.ndarray], visits: Visits) -> Posterior | None:
    """Chunk after chunk, until the run ends: the posterior. After Ctrl-C it is that of the last finished stretch.

    A chunk is one stretch, and more of them if its progress is shown. None for a run that is given up for another
    method.
    """
    settings, step, state = run.settings, run.step, run.state
    pieces = {name: [values] for name, values in history.items()}
    stopped = False

    def posterior() -> Posterior:
        # To this step: an interrupt may come when the traces of a stretch are here and its state is not.
        traces = {name: np.concatenate(values, axis=-1)[..., :step] for name, values in pieces.items()}
        return Posterior(
            replace(run, step=step, state=state), inputs.affine, inputs.target.layout, traces, inputs.target
        )

    def write_checkpoint() -> None:
        if visits.checkpoint is not None:
            visits.checkpoint.write(posterior())

    try:
        visits.bar.begin(settings.num_steps, run.step)
        while step < int(state.stop.end) and not stopped:
            begin, last = step, min(step + visits.chunk_size, settings.num_steps)
            for first, until in visits.bar.stretches(begin, last):
                done, next_state, metrics = _stretch(settings, first, until, state, inputs, visits.chunk_size)
                for name, values in metrics.items():
                    pieces.setdefault(name, []).append(values)
                step, state = done, next_state
                visits.bar.update(step - first, metrics, int(state.stop.end))
                if step < until or step >= int(state.stop.end):  # the run has ended
                    break
            if (bad := diverged(np.asarray(state.skipped), np.asarray(state.streak), settings.num_steps)).any():
                raise FitDiverged(_why_diverged(bad, state, step), posterior())
            if _given_up(settings, step, pieces):
                return None
            write_checkpoint()
            if visits.callbacks:
                now = replace(run, step=step, state=state)
                report = report_of(now, inputs.target, inputs.affine, _last(pieces, step - begin), posterior)
                answers = [callback(report) for callback in visits.callbacks]
                stopped = any(map(is_true, answers))
    except KeyboardInterrupt:
        if step == run.step:
            raise
        visits.bar.close()
        warnings.warn(
            f"fit was interrupted: the posterior is that of update {step} of {settings.num_steps}.", stacklevel=3
        )
        write_checkpoint()
    return posterior()


def _stretch(
    settings: FitSettings, first: int, last: int, state: RunState, inputs: LoopInputs, chunk_size: int
) -> tuple[int, RunState, dict[str, np.ndarray]]:
    """The step after some updates of a chunk, the state, and the metrics: (updates,), or (repeats, updates)."""
    steps = integers(first, last, settings.num_steps)
    length = chunk_length(settings, chunk_size)
    with matmul_precision(settings.precision):
        done, state, recorded = jax.block_until_ready(run_chunk(state, *steps, inputs, length))
    metrics = {name: np.asarray(values)[: int(done) - first].T for name, values in recorded.items()}
    single = settings.repeats == 1
    return int(done), state, {name: values[0] if single else values for name, values in metrics.items()}


def _last(pieces: Mapping[str, list[np.ndarray]], num: int) -> dict[str, np.ndarray]:
    """The metrics of the last `num` updates."""
    found = {}
    for name, values in pieces.items():
        tail, length = [], 0
        for piece in reversed(values):
            if length >= num:
                break
            tail.append(piece)
            length += piece.shape[-1]
        whole = tail[0] if len(tail) == 1 else np.concatenate(tail[::-1], axis=-1)
        found[name] = whole[..., whole.shape[-1] - num :]
    return found


def _given_up(settings: FitSettings, step: int, pieces: Mapping[str, list[np.ndarray]]) -> bool:
    """Whether most draws met no component but the one that made them: at the end of some round but the first, or past
    the middle of a long run without rounds.
    """
    rule, limit = settings.stop_rule, settings.most_own_weight
    if limit is None or "own_weight" not in pieces:
        return False
    tails: list[tuple[int, int]] = []
    if isinstance(rule, Doubling):
        tails = rule.round_ends(settings.num_steps, step)[1:]
    elif rule is None and settings.num_steps >= _LONG_RUN:
        middle = [round(share * settings.num_steps) for share in _GIVEN_UP_BETWEEN]
        tails = [(middle[0], middle[1])] if step >= middle[1] else []
    weights = np.concatenate(pieces["own_weight"], axis=-1)
    return any(np.nanmean(weights[..., first:last]) > limit for first, last in tails)


def _why_diverged(bad: Bool[np.ndarray, " repeats"], state: RunState, step: int) -> str:
    skipped, streak = np.asarray(state.skipped), np.asarray(state.streak)
    worst = int(np.argmax(np.where(bad, streak, -1)))
    which = f" in repeat {worst}" if len(streak) > 1 else ""
    return (
        f"the fit diverged: {skipped[worst]} of {step} updates were not finite and were skipped{which}, the "
        f"last {streak[worst]} in a row."
    )
