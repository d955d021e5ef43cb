"""Update zero: the coordinates of the fit, its families, and the objective's states; nothing is trained yet."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from .._arguments import default_float
from .._backend import compiles_in_background, matmul_precision, short_program_options
from .._repeats import across_repeats, repeat_keys, stack_repeats
from .._run import FitSettings, Run, RunState
from .._types import RepeatKeys
from ..coordinates import AffineMap
from ..defaults import Recipe
from ..families import Family
from ..objectives import Objective
from ..stopping import init_stop
from ..targets import Target
from . import member
from .checks import check_values
from .compile_ahead import compiling_in_background, zeros_like_output
from .loop import compile_chunk, inputs_of

_NUM_POINTS = 16  # per repeat, where the initial family has its mass, at which the target is tried


def start(
    target: Target,
    settings: FitSettings,
    recipe: Recipe,
    family: Family | None,
    coordinates: AffineMap | None,
    chunk_size: int,
) -> tuple[Run, AffineMap]:
    """The run at update zero, and its coordinates.

    Args:
        target: In its own coordinates.
        settings: Of the run.
        recipe: What is left out comes from it.
        family: The user's own, or None.
        coordinates: The user's own, or None: then the warm-up finds them.
        chunk_size: Of the loop, which is compiled during the warm-up where that pays.
    """
    repeats = settings.repeats
    family_keys, start_keys, state_keys, warmup_keys = _split_keys(repeat_keys(settings.key, repeats))
    warm_up_arguments = (recipe, warmup_keys, target, settings.batch_size, repeats)

    def run_in(affines: AffineMap, check: bool = True) -> Run:
        """The run in these coordinates."""
        if family is None:
            families, points = _families(recipe, family_keys), _normal_points(affines, repeats, target.dim)
        else:
            families = stack_repeats(family, repeats)
            points = _family_points(families, affines, start_keys)
        values = _values_at(target, points)
        if check:
            check_values(np.asarray(points), {name: np.asarray(value) for name, value in values.items()})
        objective = settings.bound_objective()
        states = _initial_states(objective, state_keys, families, affines, target)
        zeros = jnp.zeros(repeats, jnp.int32)
        stop = init_stop(settings.stop_rule, settings.num_steps, repeats)
        return Run(settings, 0, RunState(families, states, zeros, zeros, stop))

    def compile_loop() -> None:
        """Compile the updates for coordinates of the right shapes."""
        with matmul_precision(settings.precision):
            affines = zeros_like_output(_warm_up, *warm_up_arguments)
            state, inputs = run_in(affines, check=False).state, inputs_of(settings, target, affines)
        compile_chunk(settings, state, inputs, chunk_size)

    with matmul_precision(settings.precision):
        if coordinates is not None:
            affines = stack_repeats(coordinates, repeats)
        elif compiles_in_background():
            with compiling_in_background(compile_loop):
                affines = jax.block_until_ready(_compiled_warm_up(**short_program_options())(*warm_up_arguments))
        else:
            affines = jax.block_until_ready(_compiled_warm_up(**short_program_options())(*warm_up_arguments))
        return run_in(affines), affines


@eqx.filter_jit
def _split_keys(keys: RepeatKeys) -> Key[Array, "4 repeats"]:
    return jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 0), 4), out_axes=1)(keys)


@eqx.filter_jit
def _families(recipe: Recipe, keys: RepeatKeys) -> Family:
    return across_repeats(recipe.family, len(keys), keys)


def initial_states(
    objective: Objective, keys: RepeatKeys, families: Family, affines: AffineMap, target: Target
) -> PyTree:
    """The objective's states at update zero."""
    one = functools.partial(member.initial_state, objective, target)
    return across_repeats(one, len(keys), keys, families, affines)


_initial_states = eqx.filter_jit(initial_states)


def _warm_up(recipe: Recipe, keys: RepeatKeys, target: Target, batch_size: int | None, repeats: int) -> AffineMap:
    one = functools.partial(recipe.warm_up, target=target, batch_size=batch_size)
    return across_repeats(one, repeats, keys)


@functools.cache
def _compiled_warm_up(**options: str) -> Callable[..., AffineMap]:
    return eqx.filter_jit(_warm_up, compiler_options=options) if options else eqx.filter_jit(_warm_up)


@eqx.filter_jit
def _family_points(families: Family, affines: AffineMap, keys: RepeatKeys) -> Float[Array, "points dim"]:
    """Draws of the families at their start."""
    points = across_repeats(functools.partial(member.draws_of, _NUM_POINTS), len(keys), families, affines, keys)
    return points.reshape(-1, points.shape[-1])


def _normal_points(affines: AffineMap, repeats: int, dim: int) -> Float[Array, "points dim"]:
    """Draws of N(0, I) in u, where the recipe's families start; by NumPy, which has no program to compile."""
    u = np.random.default_rng(0).normal(size=(repeats, _NUM_POINTS, dim))
    return _forward(affines, jnp.asarray(u, default_float()))


@eqx.filter_jit
def _forward(affines: AffineMap, u: Float[Array, "repeats each dim"]) -> Float[Array, "points dim"]:
    points = across_repeats(member.points_of, len(u), affines, u)
    return points.reshape(-1, u.shape[-1])


@eqx.filter_jit
def _values_at(target: Target, points: Float[Array, "points dim"]) -> dict[str, Array]:
    """The log density, where known, and the score."""
    functions = {"log density": target.log_prob} if target.knows_log_prob else {}
    functions |= {"score": target.score}
    return {name: jax.lax.map(function, points) for name, function in functions.items()}
