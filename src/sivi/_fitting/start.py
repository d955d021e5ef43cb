"""From the arguments of a call to update zero: settings, coordinates, families and states; nothing is trained yet."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .._arguments import as_key, check_count, check_kind, default_float, describe
from .._backend import matmul_precision
from .._batches import BATCHING
from .._compiler import options_of_one_run
from .._host_random import children, fold_in, unstack
from .._layout import Layout
from .._programs import compiled
from .._progress import ProgressBar
from .._repeats import across_repeats, repeat_keys, stack_repeats, stack_trees
from .._run import FitSettings, Run, RunState
from .._types import KeyLike, RepeatKeys
from ..coordinates import CoordinateMap, IdentityMap
from ..coordinates.given import as_map
from ..defaults import ANNEALED_UP_TO, Recipe
from ..defaults import recipe as recipe_for
from ..families import Family
from ..objectives import Objective
from ..schedules import RunPlan
from ..stopping import StopRule, init_stop
from ..targets import Target
from ..targets.evaluate import check_batch_size, check_memory, check_shapes
from ..warmup.status import NOT_RUN, status_words
from . import member
from .compile_ahead import compiling_in_background
from .loop import compile_chunk, inputs_of
from .not_finite import VALUES, advice, not_finite, values_at
from .warming_up import WarmUp

NUM_POINTS = 16  # per repeat, where the initial family has its mass, at which the target is tried


@dataclass(frozen=True)
class FitArguments:
    """What a caller of `sivi.fit` says of the run: not yet checked, and None for what is left out."""

    key: KeyLike
    family: Family | None
    objective: Objective | None
    num_steps: int | None
    batch_size: int | None
    batching: str | None
    whiten: object
    precision: str | None
    repeats: int | None
    stop: object
    function: object = None  # the target as it was given: what is fitted is traced in one float type


def check_settings(target: Target, given: FitArguments) -> None:
    """Refuse settings that cannot work, before a target looks for what was left out and anything is compiled."""
    if given.objective is not None:
        check_kind("objective", Objective, "a sivi objective", given.objective)
    if (
        given.family is not None
        and (dim := check_kind("family", Family, "a sivi family", given.family).dim) != target.dim
    ):
        raise ValueError(f"family must have the target's dim, {target.dim}; got {dim}.")
    for name in ("num_steps", "repeats"):
        if (value := getattr(given, name)) is not None:
            check_count(name, value)
    if given.batching is not None:
        _checked_batching(given.batching)
    given_map(given.whiten, target.dim)
    check_rows(target, given.batch_size)
    stop_rule_of(given.stop, None)
    matmul_precision(given.precision)


def settings_of(target: Target, recipe: Recipe, given: FitArguments) -> tuple[FitSettings, CoordinateMap | None]:
    """The settings of a new run, and its coordinates if they are given; what is left out comes from the recipe.

    Nothing is compiled. What cannot work is refused with a sentence.
    """
    family, objective, batch_size = given.family, given.objective, given.batch_size
    batch_size = recipe.batch_size if batch_size is None else batch_size
    num_steps = recipe.num_steps if given.num_steps is None else check_count("num_steps", given.num_steps)
    coordinates = given_map(given.whiten, target.dim)
    check_rows(target, batch_size)
    check_shapes(target, log_prob=target.knows_log_prob)
    objective = recipe.objective(target, family) if objective is None else objective
    check_memory(target, _num_particles(objective))
    batching = "shuffle" if given.batching is None else _checked_batching(given.batching)
    shapes = eqx.filter_eval_shape(lambda: recipe.family(jax.random.key(0))) if family is None else family
    objective.bind(RunPlan.of(num_steps, batching)).check(shapes, target)
    settings = FitSettings(
        key=as_key(given.key),
        objective=objective,
        num_steps=num_steps,
        repeats=_repeats_of(recipe, given),
        batch_size=batch_size,
        batching=batching,
        precision=given.precision,
        # The library vouches for the centre of a map that a warm-up has found, not for that of given numbers.
        control_variate=batch_size is not None and (coordinates is None or _is_from_warmup(given.whiten)),
        stop_rule=stop_rule_of(given.stop, recipe.stop_rule() if given.objective is None else None),
        most_own_weight=recipe.most_own_weight if given.objective is None and family is None else None,
    )
    return settings, coordinates


def _repeats_of(recipe: Recipe, given: FitArguments) -> int:
    """How many fits: those of the recipe start apart, so one is enough where coordinates are given."""
    if given.repeats is not None:
        return check_count("repeats", given.repeats)
    return recipe.repeats if isinstance(given.whiten, str) else 1


def _num_particles(objective: Any) -> int:
    """Points that an update evaluates side by side, as far as an objective, or the one that it wraps, says so."""
    while objective is not None and not hasattr(objective, "num_particles"):
        objective = getattr(objective, "objective", None)
    return 1 if objective is None else objective.num_particles


def stop_rule_of(stop: object, automatic: StopRule | None) -> StopRule | None:
    """The rule that the argument `stop` names."""
    if isinstance(stop, str) and stop == "auto":
        return automatic
    if stop is not None and not isinstance(stop, StopRule):
        raise TypeError(f"stop must be 'auto', a sivi.Plateau or sivi.Doubling, or None; got {describe(stop)}.")
    return stop


def _checked_batching(batching: object) -> str:
    """The name of an order of minibatches."""
    if not isinstance(batching, str) or batching not in BATCHING:
        raise ValueError(f"batching must be one of {', '.join(map(repr, BATCHING))}; got {batching!r}.")
    return batching


def check_callbacks(callbacks: Sequence[Any]) -> None:
    """Refuse what cannot be called."""
    if not isinstance(callbacks, Sequence):
        raise TypeError(f"callbacks must be a sequence of functions; got {describe(callbacks)}.")
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"callbacks must be functions; got {describe(callback)}.")


def check_rows(target: Target, batch_size: int | None) -> None:
    """Check the size of a minibatch, which some objectives split."""
    check_batch_size(target, batch_size)
    if batch_size == 1 and target.num_data != 1:
        raise ValueError("batch_size must be at least 2, since some objectives split a batch; got 1.")


def given_map(whiten: object, dim: int) -> CoordinateMap | None:
    """The map that the argument `whiten` gives; None if the warm-up is to find it."""
    if isinstance(whiten, str):
        if whiten != "auto":
            raise ValueError(f"whiten must be 'auto', None or a pair (m, L); got {whiten!r}.")
        return None
    return IdentityMap(dim) if whiten is None else as_map(whiten, dim)


def _is_from_warmup(whiten: object) -> bool:
    """Whether the argument `whiten` is a map as a warm-up returns it."""
    return isinstance(whiten, CoordinateMap) and not isinstance(whiten, IdentityMap)


def check_values(points: np.ndarray, values: dict[str, np.ndarray], layout: Layout, function: object) -> None:
    """Refuse a target whose log density or score is not finite at most of the points where the fit starts."""
    if (found := not_finite(points, values, least=0.5)) is not None:
        raise ValueError(
            f"target: the {found.name} must be finite where the fit starts; at {found.count} of {found.num_points} "
            f"starting points it is not, for example {found.example(layout)}. {advice(found, layout, function)}"
        )


def _as_given_up(settings: FitSettings, recipe: Recipe, given: FitArguments) -> FitArguments:
    """The arguments of a run that was given up, which may have come from a file: all but those of its method.

    With few unknowns the run with a critic has at most the updates of its recipe: longer ones were worse.
    """
    default = recipe.num_steps, recipe.for_modes().num_steps
    num_steps = None if settings.num_steps in default else settings.num_steps
    if num_steps is not None and recipe.dim <= ANNEALED_UP_TO:
        num_steps = min(num_steps, recipe.with_critic().num_steps)
    return replace(
        given,
        key=settings.key,
        family=None,
        objective=None,
        num_steps=num_steps,
        batch_size=settings.batch_size,
        batching=settings.batching,
        precision=settings.precision,
        repeats=settings.repeats,
        stop=None if settings.stop_rule is None else "auto",
    )


def start(
    target: Target,
    given: FitArguments,
    chunk_size: int,
    bar: ProgressBar,
    *,
    given_up: tuple[Run, CoordinateMap] | None = None,
) -> tuple[Run, CoordinateMap]:
    """The run at update zero, and its coordinates.

    Args:
        target: In its own coordinates.
        given: What the caller says of the run.
        chunk_size: Of the loop, which is compiled during the warm-up where that pays.
        bar: Shows what goes on.
        given_up: A first run that was given up, and its coordinates: they are those of this one, which has a critic.
    """
    recipe = recipe_for(target.dim, target.num_data).for_target(
        target, all_rows=given.batch_size is None and isinstance(given.whiten, str)
    )
    if given_up is not None:
        given = _as_given_up(given_up[0].settings, recipe, given)
    family = given.family
    if given_up is not None or given.objective is not None or (given.family is not None and recipe.optimum is not None):
        recipe = recipe.with_critic()  # its family suits every method
    settings, coordinates = settings_of(target, recipe, given)
    bar.phase("compiling")
    repeats = settings.repeats
    keys = children(fold_in(repeat_keys(settings.key, repeats), 0), 4)
    family_keys, start_keys, state_keys, warmup_keys = keys

    def run_in(affines: CoordinateMap, check: bool = True, status: tuple[str, ...] = ()) -> Run:
        """The run in these coordinates."""
        if family is None:
            families, u = _families(recipe, family_keys), _normal_points(repeats, target.dim)
        else:
            families = stack_repeats(family, repeats)
            u = _family_points(families, start_keys)
        if check:
            found = {name: np.asarray(value) for name, value in look_at(target, affines, u).items()}
            points = found.pop("x")
            check_values(points, {name: found[name] for name in VALUES if name in found}, target.layout, given.function)
        objective = settings.objective.bind(RunPlan.of(settings.num_steps, settings.batching))
        states = _initial_states(objective, state_keys, families, affines, target)
        zeros = jnp.asarray(np.zeros(repeats, np.int32))
        stop = init_stop(settings.stop_rule, settings.num_steps, repeats)
        rule = settings.stop_rule
        best = families if rule is not None and rule.keeps_best else None
        start = families if rule is not None and rule.restarts else None
        return Run(settings, 0, RunState(families, states, zeros, zeros, stop, best, start), status)

    with matmul_precision(settings.precision):
        if given_up is not None:
            affines = given_up[1]
            return run_in(affines, status=given_up[0].warmup_status), affines
        if coordinates is not None:
            return run_in(affines := stack_repeats(coordinates, repeats), status=(NOT_RUN,) * repeats), affines
        warm_up = WarmUp.of(recipe, warmup_keys, target, settings.batch_size)

        def compile_loop() -> None:
            """Compile the updates for coordinates of the right shapes."""
            with matmul_precision(settings.precision):
                affines = warm_up.example()
                state, inputs = run_in(affines, check=False).state, inputs_of(settings, target, affines, example=True)
            compile_chunk(settings, state, inputs, chunk_size)

        with compiling_in_background(compile_loop):
            affines, codes, several = warm_up.run(bar)
            bar.phase("compiling")
        if np.any(several) and (for_modes := recipe.for_modes()) != recipe:
            recipe = for_modes
            settings, _ = settings_of(target, recipe, given)
        return run_in(affines, status=status_words(codes)), affines


def _families(recipe: Recipe, keys: RepeatKeys) -> Family:
    return stack_trees([recipe.family(key) for key in unstack(keys)])


def initial_states(
    objective: Objective, keys: RepeatKeys, families: Family, affines: CoordinateMap, target: Target
) -> PyTree:
    """The objective's states at update zero."""
    one = functools.partial(member.initial_state, objective, target)
    return across_repeats(one, len(keys), keys, families, affines)


_initial_states = compiled(initial_states, options_of_one_run)


@compiled
def _family_points(families: Family, keys: RepeatKeys) -> Float[Array, "repeats points dim"]:
    """Draws of the families at their start."""
    return across_repeats(functools.partial(member.draws_of, NUM_POINTS), len(keys), families, keys)


def _normal_points(repeats: int, dim: int) -> Float[Array, "repeats points dim"]:
    """Draws of N(0, I), where the recipe's families start."""
    return jnp.asarray(np.random.default_rng(0).normal(size=(repeats, NUM_POINTS, dim)), default_float())


@functools.partial(compiled, options=options_of_one_run)
def look_at(target: Target, affines: CoordinateMap, u: Float[Array, "repeats each dim"]) -> dict[str, Array]:
    """A target at points u of every repeat: the points `x`, the log density, where known, the score in x and in u.

    One program for all of it, which the start and the end of a fit share.
    """
    repeats = len(u)
    points = across_repeats(member.points_of, repeats, affines, u).reshape(-1, u.shape[-1])
    values = values_at(target, points)
    in_u = across_repeats(member.scores_in_u, repeats, affines, u, values["score"].reshape(u.shape))
    return values | {"x": points, "u score": in_u}
