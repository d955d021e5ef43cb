"""Update zero of a fit: everything validated, the coordinates chosen, nothing trained yet."""

import os
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ._affine import AffineMap, IdentityMap, as_affine_map
from ._ahead import beside, like
from ._arguments import default_float, describe
from ._backend import matmul_precision
from ._chunk import across_repeats, member_of, pulled_back
from ._types import RepeatKeys
from .defaults import Recipe
from .families import Family
from .fit_file import fingerprint_of
from .objectives import Objective
from .posterior import Posterior, initial_states, repeat_keys, stack_repeats
from .schedules import RunPlan
from .stopping import Plateau, start_watch
from .targets import Target
from .targets.checks import check_batch_size, check_shapes

_NUM_STARTS = 16  # points, where the initial family has its mass, at which the target is tried


def start(
    target: Target,
    key: PRNGKeyArray,
    recipe: Recipe,
    family: Family | None,
    objective: Objective | None,
    num_steps: int | None,
    batch_size: int | None,
    whiten: object,
    repeats: int,
    stop: object,
    batching: str,
    precision: str | None,
    ahead: Callable[[Posterior], None],
) -> Posterior:
    """The posterior at update zero; what is left out comes from the recipe.

    While the coordinates are looked for, `ahead` may be called with a posterior of the same shapes, to compile what
    comes after.
    """
    if family is not None and not isinstance(family, Family):
        raise TypeError(f"family must be a sivi family; got {describe(family)}.")
    rule = _rule(stop, recipe, objective)
    num_steps = recipe.num_steps if num_steps is None else num_steps
    batch_size = recipe.batch_size if batch_size is None else batch_size
    objective = recipe.objective(target, family) if objective is None else objective
    if not isinstance(objective, Objective):
        raise TypeError(f"objective must be a sivi objective; got {describe(objective)}.")
    if family is not None and family.dim != target.dim:
        raise ValueError(f"family must have the target's dim, {target.dim}; got {family.dim}.")
    given = _given_map(whiten, target.dim)
    check_split(target, batch_size)
    check_shapes(target, log_prob=target.knows_log_prob)
    bound = objective.bind(RunPlan.of(num_steps, batching))
    if family is not None:
        bound.check(family, target)

    keys = repeat_keys(key, repeats)
    family_keys, start_keys, state_keys, warmup_keys = _split_keys(keys)

    def begin(affines: AffineMap, check: bool = True) -> Posterior:
        if family is None:
            families = _families(recipe, family_keys)
            # Shapes are enough: to take the first repeat out would compile a program for every array.
            one = eqx.filter_eval_shape(lambda: (member_of(families, 0), member_of(affines, 0)))
            bound.check(one[0], pulled_back(target, one[1]))
            points = _normal_points(affines, repeats)
        else:
            families = stack_repeats(family, repeats)
            points = _family_points(families, affines, start_keys)
        values = _values_at(target, points)
        if check:
            check_values(points, values)
        return Posterior(
            families=families,
            affines=affines,
            layout=target.layout,
            history={},
            step=0,
            num_steps=num_steps,
            key=key,
            objective=objective,
            states=_initial_states(bound, state_keys, families, affines, target),
            target=target,
            batch_size=batch_size,
            batching=batching,
            precision=precision,
            # The centre of a map of its own the library can vouch for, not that of numbers which were given.
            anchored=batch_size is not None and (given is None or _is_found(whiten)),
            skipped=(0,) * repeats,
            streak=(0,) * repeats,
            stop_rule=rule,
            stop_state=start_watch(rule, num_steps, repeats),
            fingerprint=fingerprint_of(target),
        )

    with matmul_precision(precision):
        if given is not None:
            return begin(stack_repeats(given, repeats))

        x64 = jnp.dtype(default_float()).itemsize == 8  # in this thread, which may differ from others

        def compile_ahead() -> None:
            with matmul_precision(precision), jax.enable_x64(x64):
                ahead(begin(like(_warm_up, recipe, warmup_keys, target, batch_size, repeats), check=False))

        with beside(compile_ahead):
            warm_up = _compiled_warm_up_on_gpu if jax.default_backend() == "gpu" else _compiled_warm_up
            affines = jax.block_until_ready(warm_up(recipe, warmup_keys, target, batch_size, repeats))
        return begin(affines)


_initial_states = eqx.filter_jit(initial_states)


@eqx.filter_jit
def _split_keys(keys: RepeatKeys) -> Key[Array, "4 repeats"]:
    return jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 0), 4), out_axes=1)(keys)


@eqx.filter_jit
def _families(recipe: Recipe, keys: RepeatKeys) -> Family:
    return across_repeats(recipe.family, len(keys), keys)


def _warm_up(recipe: Recipe, keys: RepeatKeys, target: Target, batch_size: int | None, repeats: int) -> AffineMap:
    return across_repeats(lambda key: recipe.warm_up(key, target, batch_size), repeats, keys)


_compiled_warm_up = eqx.filter_jit(_warm_up)
# A program that runs for a second is not worth the time that XLA takes to choose its kernels by trial.
_compiled_warm_up_on_gpu = eqx.filter_jit(_warm_up, compiler_options={"xla_gpu_autotune_level": "0"})


def _rule(stop: object, recipe: Recipe, objective: Objective | None) -> Plateau | None:
    """The stop rule: by itself only with the objective it was made for."""
    if isinstance(stop, str) and stop == "auto":
        return recipe.stop_rule() if objective is None else None
    return checked_rule(stop)


def checked_rule(stop: object) -> Plateau | None:
    """A rule that was given, or None."""
    if stop is not None and not isinstance(stop, Plateau):
        raise TypeError(f"stop must be 'auto', a sivi.Plateau or None; got {describe(stop)}.")
    return stop


def _given_map(whiten: object, dim: int) -> AffineMap | None:
    """The map that the argument `whiten` names, or None if it is to be found."""
    if isinstance(whiten, str):
        if whiten != "auto":
            raise ValueError(f"whiten must be 'auto', None or a pair (m, L); got {whiten!r}.")
        return None
    return IdentityMap(dim) if whiten is None else as_affine_map(whiten, dim)


def _is_found(whiten: object) -> bool:
    """Whether the argument `whiten` is a map as a warm-up finds them."""
    return isinstance(whiten, AffineMap) and not isinstance(whiten, IdentityMap)


def check_same_coordinates(whiten: object, posterior: Posterior) -> None:
    """Refuse to go on in other coordinates than a fit was begun in."""
    given = _given_map(whiten, posterior.dim)
    if given is None:
        return
    same = type(given) is type(posterior.affines) and all(
        np.allclose(here, there) for here, there in zip(*map(jax.tree.leaves, (given, posterior.affines)), strict=True)
    )
    if not same:
        raise ValueError("whiten must be that of the resumed fit: leave it out.")


def check_split(target: Target, batch_size: int | None) -> None:
    """Check the size of a minibatch, which some objectives split."""
    check_batch_size(target, batch_size)
    if batch_size == 1 and target.num_data != 1:
        raise ValueError("batch_size must be at least 2, since some objectives split a batch; got 1.")


def check_values(starts: Float[Array, "points dim"], found: dict[str, Array]) -> None:
    """Look at the target where the fit starts: its log density and score must be finite at most of the points."""
    points = np.asarray(starts)
    for name, values in ((name, np.asarray(values)) for name, values in found.items()):
        finite = np.isfinite(values).reshape(len(points), -1).all(1)
        if finite.sum() < len(points) / 2:
            worst = int(np.argmin(finite))
            raise ValueError(
                f"target: the {name} must be finite where the fit starts; at {len(points) - int(finite.sum())} of "
                f"{len(points)} starting points it is not, for example {values[worst]} at x = {points[worst]}."
            )


@eqx.filter_jit
def _family_points(families: Family, affines: AffineMap, keys: RepeatKeys) -> Float[Array, "points dim"]:
    """Draws of the families at their start."""

    def member(family: Family, affine: AffineMap, key: PRNGKeyArray) -> Float[Array, "points dim"]:
        return jax.vmap(lambda k: affine.forward(family.sample(k)))(jax.random.split(key, _NUM_STARTS))

    points = across_repeats(member, len(keys), families, affines, keys)
    return points.reshape(-1, points.shape[-1])


def _normal_points(affines: AffineMap, repeats: int) -> Float[Array, "points dim"]:
    """Draws of N(0, I) in u, where the recipe's families start; by NumPy, which has no program to compile."""
    u = np.random.default_rng(0).normal(size=(repeats, _NUM_STARTS, affines.dim))
    return _forward(affines, jnp.asarray(u, default_float()))


@eqx.filter_jit
def _forward(affines: AffineMap, u: Float[Array, "repeats each dim"]) -> Float[Array, "points dim"]:
    points = across_repeats(lambda affine, own: jax.vmap(affine.forward)(own), len(u), affines, u)
    return points.reshape(-1, u.shape[-1])


@eqx.filter_jit
def _values_at(target: Target, points: Float[Array, "points dim"]) -> dict[str, Array]:
    """The log density, where known, and the score."""
    functions = {"log density": target.log_prob} if target.knows_log_prob else {}
    functions |= {"score": target.score}
    return {name: jax.lax.map(function, points) for name, function in functions.items()}


def writable_file(checkpoint: str | os.PathLike[str]) -> Path:
    """The path of a checkpoint that can be written."""
    path = Path(checkpoint)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint must be in an existing folder; {str(path.parent)!r} is not one.")
    if path.is_dir():
        raise IsADirectoryError(f"checkpoint must be a file; {str(path)!r} is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"checkpoint must be in a writable folder; {str(path.parent)!r} is not.")
    return path
