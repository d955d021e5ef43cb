"""The loop: updates as one compiled program."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._arguments import default_float
from .._backend import matmul_precision
from .._batches import BATCHING, Batches
from .._compiler import options_of_a_loop, options_of_one_run, searches_kernels
from .._host_random import children, fold_in
from .._programs import compiled
from .._random import NOISE, noise_made
from .._repeats import across_repeats, repeat_keys
from .._run import FitSettings, RunState
from .._types import RepeatKeys
from ..coordinates import CoordinateMap
from ..objectives import Objective
from ..schedules import RunPlan
from ..stopping import StopRule, StopState, update_stop
from ..targets import Target
from . import member
from .packing import Packed, Packing, all_finite, chosen

#: A fit stops as diverged when more than this share of its updates was not finite, or this many in a row.
MAX_SKIPPED_SHARE = 0.1
MAX_SKIPPED_IN_A_ROW = 100

#: Up to this many updates, the metrics of a chunk have one length whatever the length of the run: one program for all.
_SHORT_CHUNK = 10_000


class LoopInputs(eqx.Module):
    """What all updates of a run share; all but objective, target and rule with a leading axis of repeats.

    Attributes:
        objective: How the family is fitted.
        target: In its own coordinates.
        affine: The coordinates of the fit.
        batches: Which rows an update sees; None for all.
        run_key: Of the updates.
        rule: Early stopping.
        centre_score: The score on all data at the centre of the coordinates; None without a control variate.
        batching: The order of minibatches, by its name in `sivi.fit`.
        noise: How the noise of an update is made.
    """

    objective: Objective
    target: Target
    affine: CoordinateMap
    batches: Batches | None
    run_key: RepeatKeys
    rule: StopRule | None
    centre_score: Float[Array, "repeats dim"] | None = None
    batching: str = eqx.field(static=True, default="shuffle")
    noise: str = eqx.field(static=True, default=NOISE[0])


def inputs_of(settings: FitSettings, target: Target, affines: CoordinateMap, example: bool = False) -> LoopInputs:
    """What all updates of a run with these settings share; of an `example`, which is not run, the shapes alone."""
    with matmul_precision(settings.precision):
        batches_keys, run_keys = children(fold_in(repeat_keys(settings.key, settings.repeats), 1), 2)
        batches, centre_score = None, None
        if settings.batch_size is not None:
            batches = BATCHING[settings.batching](batches_keys, target.num_data, settings.batch_size)
            if settings.control_variate:
                zeros = jnp.asarray(np.zeros((settings.repeats, target.dim), default_float()))
                centre_score = zeros if example else _centre_scores(target, affines, settings.repeats)
    hows = settings.batching, settings.noise
    return LoopInputs(settings.objective, target, affines, batches, run_keys, settings.stop_rule, centre_score, *hows)


@functools.partial(compiled, options=options_of_one_run)
def _centre_scores(target: Target, affines: CoordinateMap, repeats: int) -> Float[Array, "repeats dim"]:
    return across_repeats(functools.partial(member.score_at_centre, target), repeats, affines)


def run_chunk(
    state: RunState,
    first: Int[Array, ""],
    last: Int[Array, ""],
    num_steps: Int[Array, ""],
    inputs: LoopInputs,
    chunk_size: int,
) -> tuple[Array, RunState, dict[str, Array]]:
    """Updates `first` to `last`, or to where the run ends: the steps done, the state, and all metrics."""
    packings = Packing.of(state.families), Packing.of(state.states)
    parts = (state.families, packings[0]), (state.states, packings[1]), (state.best, packings[0])
    packed = [None if tree is None else packing.pack_on_host(tree) for tree, packing in parts]
    start = None if state.start is None else packings[0].pack_on_host(state.start)
    loop = _PackedRun(first, packed[0], packed[1], state.skipped, state.streak, state.stop, packed[2], None, {})
    program = _run_chunk_searched if searches_kernels(int(num_steps)) else _run_chunk
    loop = program(loop, start, last, num_steps, inputs, chunk_size, packings)
    after = (loop.families, loop.states, loop.best)
    trees = [None if p is None else packing.unpack_on_host(p) for p, (_, packing) in zip(after, parts, strict=True)]
    state = RunState(trees[0], trees[1], loop.skipped, loop.streak, loop.stop, trees[2], state.start)
    return loop.step, state, loop.recorded


def _run_chunk_body(
    loop: "_PackedRun",
    start: Packed | None,
    last: Int[Array, ""],
    num_steps: Int[Array, ""],
    inputs: LoopInputs,
    chunk_size: int,
    packings: tuple[Packing, Packing],
) -> "_PackedRun":
    """The loop of `run_chunk`, from and to packed trees.

    The first and last step are arguments, so the compiler does not know the trip count of the loop: a ragged last
    chunk needs no program of its own, and the body is compiled alike for every `chunk_size`.
    """
    first, repeats, batches = loop.step, loop.skipped.shape[0], inputs.batches
    of_families, of_states = packings

    def update(step: Array, stop: StopState, packed: tuple[Packed, Packed], orders: Array | None) -> Any:
        """The families and states after an update, packed, and its metrics."""
        objective = inputs.objective.bind(RunPlan(stop.timeline(num_steps), inputs.batching))
        one = functools.partial(member.update, step, objective, inputs.target)
        trees = of_families.unpack(packed[0]), of_states.unpack(packed[1])
        batch = None if batches is None else (batches, orders)
        with noise_made(inputs.noise):
            families, states, metrics = across_repeats(
                one, repeats, *trees, inputs.affine, inputs.run_key, batch, inputs.centre_score
            )
        # Without the barrier XLA takes what follows apart again, into one operation for every array.
        return jax.lax.optimization_barrier((of_families.pack(families), of_states.pack(states))), metrics

    def body(loop: _PackedRun) -> _PackedRun:
        orders = loop.orders
        if batches is not None:
            orders = batches.next_order(loop.step, orders)
        after, metrics = update(loop.step, loop.stop, (loop.families, loop.states), orders)
        # An update that is not finite is skipped: the family and the state stay as they were.
        finite = all_finite(*after)
        families, states = chosen(finite, after[0], loop.families), chosen(finite, after[1], loop.states)
        losses = metrics["loss"] if "loss" in metrics else jnp.full(repeats, jnp.nan)
        stop, round_end = update_stop(inputs.rule, loop.stop, loop.step + 1, num_steps, losses)
        best = loop.best
        if round_end is not None and best is not None:
            best, families = chosen(round_end.improved, families, best), chosen(round_end.back, best, families)
            if start is not None:
                families = chosen(round_end.restart, start, families)
        return _PackedRun(
            loop.step + 1,
            families,
            states,
            loop.skipped + ~finite,
            jnp.where(finite, 0, loop.streak + 1),
            stop,
            best,
            orders,
            {name: loop.recorded[name].at[loop.step - first].set(metrics[name]) for name in loop.recorded},
        )

    def unfinished(loop: _PackedRun) -> Bool[Array, ""]:
        bad = diverged(loop.skipped, loop.streak, num_steps)
        return (loop.step < jnp.minimum(last, loop.stop.end)) & ~bad.any()

    orders = None if batches is None else batches.order(first)
    shapes = eqx.filter_eval_shape(update, first, loop.stop, (loop.families, loop.states), orders)[-1]
    recorded = {name: jnp.zeros((chunk_size, *leaf.shape), leaf.dtype) for name, leaf in shapes.items()}
    begin = _PackedRun(
        first, loop.families, loop.states, loop.skipped, loop.streak, loop.stop, loop.best, orders, recorded
    )
    end = jax.lax.while_loop(unfinished, body, begin)
    return eqx.tree_at(lambda loop: loop.orders, end, None, is_leaf=lambda leaf: leaf is None)


_run_chunk = compiled(_run_chunk_body, options=options_of_a_loop)
#: The same, for a run that is long enough for a search for the fastest kernels.
_run_chunk_searched = compiled(_run_chunk_body, options=dict)


class _PackedRun(eqx.Module):
    """What one turn of the loop hands to the next: a `RunState` whose trees are packed, and what is recorded."""

    step: Int[Array, ""]
    families: Packed
    states: Packed
    skipped: Int[Array, " repeats"]
    streak: Int[Array, " repeats"]
    stop: StopState
    best: Packed | None
    orders: Int[Array, "repeats num_data"] | None
    recorded: dict[str, Array]


def diverged(
    skipped: Int[Array | np.ndarray, " repeats"], streak: Int[Array | np.ndarray, " repeats"], num_steps: int | Array
) -> Bool[Array | np.ndarray, " repeats"]:
    """Which repeats had too many updates that were not finite: in all, the last among them, or in a row at the end."""
    too_many = skipped > MAX_SKIPPED_SHARE * num_steps
    return (too_many & (streak > 0)) | (streak >= MAX_SKIPPED_IN_A_ROW)


def compile_chunk(settings: FitSettings, state: RunState, inputs: LoopInputs, chunk_size: int) -> None:
    """Run no update at all, which compiles the program of all updates."""
    steps = integers(0, 0, settings.num_steps)
    with matmul_precision(settings.precision):
        run_chunk(state, *steps, inputs, chunk_length(settings, chunk_size))


def integers(*numbers: int) -> list[Int[Array, ""]]:
    """Numbers as arguments of a program."""
    return [jnp.asarray(np.int32(number)) for number in numbers]


def chunk_length(settings: FitSettings, chunk_size: int) -> int:
    """Updates for which a chunk has memory: no more than the run has, if they are many."""
    return min(chunk_size, max(_SHORT_CHUNK, settings.num_steps))
