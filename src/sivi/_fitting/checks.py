"""The arguments of a fit, checked before anything compiles, and completed from the recipe."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._arguments import as_key, check_count, describe
from .._batches import BATCHING
from .._run import FitSettings
from .._types import KeyLike
from ..coordinates import AffineMap, IdentityMap
from ..coordinates.given import as_affine_map
from ..defaults import Recipe
from ..families import Family
from ..objectives import Objective
from ..stopping import Plateau
from ..targets import Target
from ..targets.evaluate import check_batch_size, check_shapes


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
    repeats: int
    stop: object


def settings_of(target: Target, recipe: Recipe, given: FitArguments) -> tuple[FitSettings, AffineMap | None]:
    """The settings of a new run, and its coordinates if they are given; what is left out comes from the recipe.

    Nothing is compiled. What cannot work is refused with a sentence.
    """
    family, objective, batch_size = given.family, given.objective, given.batch_size
    if family is not None and not isinstance(family, Family):
        raise TypeError(f"family must be a sivi family; got {describe(family)}.")
    if objective is not None and not isinstance(objective, Objective):
        raise TypeError(f"objective must be a sivi objective; got {describe(objective)}.")
    if family is not None and family.dim != target.dim:
        raise ValueError(f"family must have the target's dim, {target.dim}; got {family.dim}.")
    batch_size = recipe.batch_size if batch_size is None else batch_size
    coordinates = given_map(given.whiten, target.dim)
    settings = FitSettings(
        key=as_key(given.key),
        objective=recipe.objective(target, family) if objective is None else objective,
        num_steps=recipe.num_steps if given.num_steps is None else check_count("num_steps", given.num_steps),
        repeats=check_count("repeats", given.repeats),
        batch_size=batch_size,
        batching="shuffle" if given.batching is None else _checked_batching(given.batching),
        precision=given.precision,
        # The library vouches for the centre of a map that a warm-up has found, not for that of given numbers.
        control_variate=batch_size is not None and (coordinates is None or _is_from_warmup(given.whiten)),
        stop_rule=stop_rule_of(given.stop, recipe.stop_rule() if objective is None else None),
    )
    check_rows(target, batch_size)
    check_shapes(target, log_prob=target.knows_log_prob)
    start = eqx.filter_eval_shape(recipe.family, jax.random.key(0)) if family is None else family
    settings.bound_objective().check(start, target)
    return settings, coordinates


def stop_rule_of(stop: object, automatic: Plateau | None) -> Plateau | None:
    """The rule that the argument `stop` names."""
    if isinstance(stop, str) and stop == "auto":
        return automatic
    if stop is not None and not isinstance(stop, Plateau):
        raise TypeError(f"stop must be 'auto', a sivi.Plateau or None; got {describe(stop)}.")
    return stop


def _checked_batching(batching: object) -> str:
    """The name of an order of minibatches."""
    if not isinstance(batching, str) or batching not in BATCHING:
        raise ValueError(f"batching must be one of {', '.join(map(repr, BATCHING))}; got {batching!r}.")
    return batching


def check_callbacks(callbacks: Iterable[Any]) -> None:
    """Refuse what cannot be called."""
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"callbacks must be functions; got {describe(callback)}.")


def check_rows(target: Target, batch_size: int | None) -> None:
    """Check the size of a minibatch, which some objectives split."""
    check_batch_size(target, batch_size)
    if batch_size == 1 and target.num_data != 1:
        raise ValueError("batch_size must be at least 2, since some objectives split a batch; got 1.")


def given_map(whiten: object, dim: int) -> AffineMap | None:
    """The map that the argument `whiten` gives; None if the warm-up is to find it."""
    if isinstance(whiten, str):
        if whiten != "auto":
            raise ValueError(f"whiten must be 'auto', None or a pair (m, L); got {whiten!r}.")
        return None
    return IdentityMap(dim) if whiten is None else as_affine_map(whiten, dim)


def _is_from_warmup(whiten: object) -> bool:
    """Whether the argument `whiten` is a map as a warm-up returns it."""
    return isinstance(whiten, AffineMap) and not isinstance(whiten, IdentityMap)


def check_values(points: np.ndarray, values: dict[str, np.ndarray]) -> None:
    """Refuse a target whose log density or score is not finite at most of the points where the fit starts."""
    for name, found in values.items():
        finite = np.isfinite(found).reshape(len(points), -1).all(1)
        if finite.sum() < len(points) / 2:
            worst = int(np.argmin(finite))
            raise ValueError(
                f"target: the {name} must be finite where the fit starts; at {len(points) - int(finite.sum())} of "
                f"{len(points)} starting points it is not, for example {found[worst]} at x = {points[worst]}."
            )
