"""Continuing from a file or a posterior."""

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from .._arguments import check_count, check_kind, describe
from .._errors import FitFileError
from .._repeats import repeat_keys
from .._run import FitSettings, Run, RunState
from .._storage.atomic import remove_leftovers
from .._storage.codec import fill
from .._storage.fit_file import fits_stored, read_fit, same_settings
from ..coordinates import CoordinateMap
from ..families import Family
from ..objectives import Objective
from ..posterior import Posterior
from ..schedules import RunPlan
from ..stopping import DoublingState, StopRule, init_stop
from ..targets import Target, as_target
from ..targets.evaluate import check_shapes
from ..targets.fingerprint import fingerprint_of, same_fingerprint
from .start import FitArguments, check_rows, given_map, initial_states, stop_rule_of


def load(
    path: str | os.PathLike[str],
    target: Target | Callable[..., Array] | None = None,
    *,
    family: Family | None = None,
    objective: Objective | None = None,
) -> Posterior:
    """Read a fit written by `Posterior.save` or as a checkpoint.

    The file holds data only: nothing in it is executed, and a damaged or changed file is refused. A file of an older
    version loads for sampling whatever became of its objective.

    Args:
        path: The file.
        target: What it was fitted to, as it was given to `fit`: then the posterior can also be resumed.
        family: Needed only if the family is of your own class: any instance of the same structure, whose parameters
            are replaced.
        objective: Needed only to resume a file whose objective cannot be read, such as your own class or an Optax
            transform. Its structure is compared. An objective that differs from a readable one is refused.

    Returns:
        The posterior. Without `target` it can sample, but not be resumed.
    """
    posterior = with_objective(read_fit(path, family), objective)
    return posterior if target is None else with_target(posterior, target)


def with_objective(posterior: Posterior, objective: Objective | None) -> Posterior:
    """A posterior whose objective is the one given, where it has none; another one than its own is refused."""
    stored = posterior.objective
    if objective is None:
        return posterior
    check_kind("objective", Objective, "a sivi objective", objective)
    if stored is not None and not same_settings(stored, objective):
        raise FitFileError(f"objective must be the one the fit was begun with, {stored}; got {objective}.")
    if stored is None and posterior.unattached is not None and posterior.unattached.objective is not None:
        objective = fits_stored(objective, posterior.unattached.objective)
    settings = replace(posterior.run.settings, objective=stored if stored is not None else objective)
    return replace(posterior, run=replace(posterior.run, settings=settings))


def with_target(posterior: Posterior, target: Target | Callable[..., Array]) -> Posterior:
    """A posterior with its target, and so with its objective's state; another target is refused."""
    target = _as_target_of(posterior, target)
    if target.layout.variables != posterior.layout.variables:
        raise FitFileError(
            f"the fit is of another model: its unknowns are {_variables(posterior)}, "
            f"the target's {', '.join(map(str, target.layout.variables))}."
        )
    check_shapes(target, log_prob=target.knows_log_prob)
    if target is not posterior.target and not same_fingerprint(fingerprint_of(target), _fingerprint(posterior)):
        raise FitFileError("the fit is of another model: the target's score differs from the one it was fitted to.")
    posterior = replace(posterior, target=target, layout=target.layout)
    if posterior.unattached is None or posterior.objective is None:
        return posterior
    states = fill(_state_shapes(posterior, target), list(posterior.unattached.state_leaves), "the objective's state")
    state = eqx.tree_at(lambda s: s.states, posterior.run.state, states, is_leaf=lambda leaf: leaf is None)
    return replace(posterior, run=replace(posterior.run, state=state), unattached=None)


def _state_shapes(posterior: Posterior, target: Target) -> PyTree:
    """Structure and shapes of the objective's state; an objective of which none can be made is refused."""
    settings = posterior.run.settings
    try:
        return eqx.filter_eval_shape(
            initial_states,
            settings.objective.bind(RunPlan.of(settings.num_steps, settings.batching)),
            repeat_keys(settings.key, settings.repeats),
            posterior.families,
            posterior.affines,
            target,
        )
    except Exception as error:
        raise FitFileError(
            f"the fit's objective, {describe(settings.objective)}, does not work with its family and target in this "
            f"version of sivi ({type(error).__name__}: {str(error).rstrip('.')})."
        ) from error


def resumed(
    target: Target, resume: str | os.PathLike[str] | Posterior, given: FitArguments
) -> tuple[Target, Run, CoordinateMap, Mapping[str, np.ndarray]]:
    """The target, the run to continue, its coordinates and its history so far; settings other than those it had are
    refused.
    """
    start = resume if isinstance(resume, Posterior) else _read(resume, given.family)
    posterior = with_target(with_objective(start, given.objective), target)
    run, settings = replace(posterior.run, warnings=()), posterior.run.settings
    if settings.objective is None:
        why = None if start.unattached is None else start.unattached.why_no_objective
        raise FitFileError(f"resume: {why or 'the fit has no objective'}; give objective= again.")
    check_rows(target, settings.batch_size)
    _check_same(settings, given)
    _check_same_coordinates(given.whiten, posterior)
    num_steps = settings.num_steps if given.num_steps is None else check_count("num_steps", given.num_steps)
    if num_steps < run.step:
        raise ValueError(
            f"num_steps counts from zero and must reach past the {run.step} updates done; got {num_steps}."
        )
    rule = stop_rule_of(given.stop, settings.stop_rule)
    if num_steps != settings.num_steps or rule != settings.stop_rule:
        state = _state_under(rule, num_steps, run)
        # Rounds of another length are not those that a method is given up by.
        settings = replace(settings, num_steps=num_steps, stop_rule=rule, most_own_weight=None, rounds_from=run.step)
        run = replace(run, settings=settings, state=state)
    assert posterior.target is not None
    return posterior.target, run, posterior.affines, posterior.history


def _state_under(rule: StopRule | None, num_steps: int, run: Run) -> RunState:
    """The state of a run that continues under another rule or to another length; its best families stay the best."""
    before, stop = run.state.stop, init_stop(rule, num_steps, run.settings.repeats, run.step)
    if isinstance(before, DoublingState) and isinstance(stop, DoublingState):
        stop = eqx.tree_at(lambda s: s.best, stop, before.best)
    best = run.families if rule is not None and rule.keeps_best else None
    first = None
    if rule is not None and rule.restarts:
        first = run.families if run.state.start is None else run.state.start
    families = run.families if first is None else first
    return RunState(families, run.state.states, run.state.skipped, run.state.streak, stop, best, first)


def _read(path: str | os.PathLike[str], family: Family | None) -> Posterior:
    """The fit of a file, beside which temporary files of killed runs are removed."""
    posterior = read_fit(path, family)
    remove_leftovers(Path(path))
    return posterior


def _as_target_of(posterior: Posterior, target: Target | Callable[..., Array]) -> Target:
    """The target; a function takes the structure of the fit's unknowns."""
    if isinstance(target, Target):
        return as_target(target).prepared(posterior.key)
    node = posterior.layout.treedef.node_data()
    if node is not None and node[0] is OrderedDict:
        raise FitFileError(
            "the file could not hold the structure of the unknowns: give target=sivi.targets.LogDensity(f, like=...)."
        )
    return as_target(target, like=posterior.layout)


def _fingerprint(posterior: Posterior) -> np.ndarray:
    if posterior.unattached is not None:
        return posterior.unattached.fingerprint
    assert posterior.target is not None
    return fingerprint_of(posterior.target)


def _variables(posterior: Posterior) -> str:
    return ", ".join(map(str, posterior.layout.variables))


def _check_same(settings: FitSettings, given: FitArguments) -> None:
    """Refuse to continue with other settings than a fit was begun with."""
    for name in ("batch_size", "batching", "precision"):
        value, stored = getattr(given, name), getattr(settings, name)
        if value is not None and value != stored:
            raise ValueError(f"{name} must be that of the resumed fit, {stored}; got {value}.")
    if given.repeats is not None and check_count("repeats", given.repeats) not in (1, settings.repeats):
        raise ValueError(f"repeats must be that of the resumed fit, {settings.repeats}; got {given.repeats}.")


def _check_same_coordinates(whiten: object, posterior: Posterior) -> None:
    """Refuse to continue in other coordinates than a fit was begun in."""
    given = given_map(whiten, posterior.dim)
    if given is None:
        return
    here, there = (jax.tree.leaves(affine) for affine in (given, posterior.affines))
    same = (
        jax.tree.structure(given) == jax.tree.structure(posterior.affines)
        and all(a.shape == b.shape[1:] for a, b in zip(here, there, strict=True))
        and all(map(np.allclose, here, there))
    )
    if not same:
        raise ValueError("whiten must be that of the resumed fit: leave it out.")
