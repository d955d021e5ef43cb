"""A posterior as one file, and back: data only, nothing in it is executed."""

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import _store
from ._arguments import describe
from ._errors import FitFileError
from ._layout import Layout
from .coordinates import AffineMap
from .families import Family
from .objectives import Objective
from .posterior import Posterior, initial_states, repeat_keys, stack_repeats
from .targets import Target, as_target
from .targets.fingerprint import fingerprint_of, same_fingerprint


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def write(posterior: Posterior, path: str | os.PathLike[str]) -> None:
    """Write a posterior to one file, whole or not at all."""
    file = Path(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"path must be in an existing folder; {str(file.parent)!r} is not one.")
    header: dict[str, Any] = {
        "format": 2,
        "versions": {name: _version(name) for name in ("sivi", "jax", "equinox", "optax", "numpy")},
        "layout": posterior.layout.to_json(),
        "step": posterior.step,
        "num_steps": posterior.num_steps,
        "batch_size": posterior.batch_size,
        "batching": posterior.batching,
        "precision": posterior.precision,
        "anchored": posterior.anchored,
        "skipped": list(posterior.skipped),
        "streak": list(posterior.streak),
        "key": str(jax.random.key_impl(posterior.key)),
    }
    arrays = {"key": np.asarray(jax.random.key_data(posterior.key)), "fingerprint": posterior.fingerprint}
    parts = {
        "family": posterior.families,
        "affine": posterior.affines,
        "objective": posterior.objective,
        "stop_rule": posterior.stop_rule,
        "stop_state": posterior.stop_state,
    }
    for name, part in parts.items():
        header[name], leaves = _encode(part)
        arrays |= {f"{name}/{i}": leaf for i, leaf in enumerate(leaves)}
    arrays |= {f"state/{i}": leaf for i, leaf in enumerate(_leaves_of_state(posterior))}
    arrays |= {f"history/{name}": np.asarray(values) for name, values in posterior.history.items()}
    _store.write(file, header, arrays)


def _leaves_of_state(posterior: Posterior) -> list[np.ndarray]:
    if posterior._state_leaves is not None:
        return list(posterior._state_leaves)
    return [_store.to_numpy(leaf) for leaf in jax.tree.leaves(eqx.filter(posterior.states, eqx.is_array))]


def load(
    path: str | os.PathLike[str],
    target: Target | Callable[..., Array] | None = None,
    *,
    family: Family | None = None,
    objective: Objective | None = None,
) -> Posterior:
    """Read a fit written by `Posterior.save` or as a checkpoint.

    The file holds data only: nothing in it is executed, and a damaged or changed file is refused.

    Args:
        path: The file.
        target: What it was fitted to, as it was given to `fit`: then the posterior can also be resumed.
        family: Needed only if the family has a class of your own, which a file cannot hold: any instance of
            the same structure, whose parameters are then replaced.
        objective: Needed only to resume, and only if it holds a class or an Optax transform of your own. One
            that differs from the file's is refused.

    Returns:
        The posterior. Without `target` it can sample, but not be resumed.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"path must be a fit file; there is no file {str(file)!r}.")
    header, arrays = _store.read(file)
    if header.get("format") != 2:
        raise FitFileError(f"the file has format {describe(header.get('format'))}; this version of sivi reads 2.")
    try:
        posterior = _decode(header, arrays, family, objective)
    except FitFileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FitFileError(f"{file} has a malformed header: {type(error).__name__}: {error}") from error
    return posterior if target is None else attach(posterior, target)


def attach(posterior: Posterior, target: Target | Callable[..., Array]) -> Posterior:
    """A loaded posterior with its target, and so with its objective's state; refuses another target."""
    if not isinstance(target, Target):
        if posterior.layout.treedef.node_data() is not None and posterior.layout.treedef.node_data()[0] is OrderedDict:
            raise FitFileError(
                "the file could not hold the structure of the unknowns: "
                "give target=sivi.targets.LogDensity(f, like=...)."
            )
        target = as_target(target, like=posterior.layout)
    if target.layout.variables != posterior.layout.variables:
        raise FitFileError(
            f"the fit is of another model: its unknowns are {_variables(posterior.layout)}, "
            f"the target's {_variables(target.layout)}."
        )
    if not same_fingerprint(fingerprint_of(target), posterior.fingerprint):
        raise FitFileError("the fit is of another model: the target's score differs from the one it was fitted to.")
    states = posterior.states
    if states is None and posterior.objective is not None:
        skeleton = eqx.filter_eval_shape(
            initial_states,
            posterior.objective.bind(posterior.num_steps),
            repeat_keys(posterior.key, posterior.repeats),
            posterior.families,
            posterior.affines,
            target,
        )
        states = _store.fill(skeleton, list(posterior._state_leaves or ()), "the objective's state")
    return replace(posterior, target=target, layout=target.layout, states=states)


def _variables(layout: Layout) -> str:
    return ", ".join(map(str, layout.variables))


def check_same_objective(stored: Objective | None, given: Objective | None) -> None:
    """Refuse to go on with other settings than a fit was begun with."""
    if stored is None or given is None:
        return
    (here, leaves), (there, stored_leaves) = _encode(given), _encode(stored)
    same = len(leaves) == len(stored_leaves) and all(map(np.array_equal, leaves, stored_leaves))
    if here != there or not same:
        raise FitFileError(f"objective must be the one the fit was begun with, {stored}; got {given}.")


def _encode(part: Any) -> tuple[Any, list[np.ndarray]]:
    leaves: list[Any] = []
    try:
        description = _store.encode(part, leaves)
    except _store.NotStorable as error:
        # Its arrays can be kept; its code cannot.
        description = {"custom": str(error)}
        leaves = jax.tree.leaves(eqx.filter(part, eqx.is_array))
    return description, [_store.to_numpy(leaf) for leaf in leaves]


def _decode(
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    family: Family | None,
    objective: Objective | None,
) -> Posterior:
    def group(name: str) -> list[np.ndarray]:
        count = sum(key.startswith(f"{name}/") for key in arrays)
        return [arrays[f"{name}/{i}"] for i in range(count)]

    repeats = len(header["skipped"])

    def stacked(given: Any) -> Any:
        return stack_repeats(given, repeats) if isinstance(given, Family) else given

    def part(name: str, given: Any = None) -> Any:
        if isinstance(header[name], dict) and "custom" in header[name]:
            return None if given is None else _store.fill(stacked(given), group(name), name)
        stored = _store.decode(header[name], [jnp.asarray(leaf) for leaf in group(name)])
        if name == "objective":
            check_same_objective(stored, given)
        elif given is not None:
            _store.fill(stacked(given), group(name), name)  # checks that the two have the same structure
        return stored

    found_family = part("family", family)
    if not isinstance(found_family, Family):
        raise FitFileError(
            f"the file's family is of a class that it cannot hold ({header['family']}): give family=, "
            "an instance of the same structure."
        )
    found_affine = part("affine")
    if not isinstance(found_affine, AffineMap):
        raise FitFileError(f"the file's coordinates are of a class that it cannot hold: {header['affine']}.")
    found_objective = part("objective", objective)
    return Posterior(
        families=found_family,
        affines=found_affine,
        layout=Layout.from_json(header["layout"]),
        history={name.removeprefix("history/"): arrays[name] for name in arrays if name.startswith("history/")},
        step=int(header["step"]),
        num_steps=int(header["num_steps"]),
        key=jax.random.wrap_key_data(jnp.asarray(arrays["key"]), impl=header["key"]),
        objective=found_objective if isinstance(found_objective, Objective) else None,
        states=None,
        target=None,
        batch_size=header["batch_size"],
        batching=header.get("batching", "shuffle"),
        precision=header.get("precision"),
        anchored=header.get("anchored", False),
        skipped=tuple(map(int, header["skipped"])),
        streak=tuple(map(int, header["streak"])),
        stop_rule=part("stop_rule"),
        stop_state=part("stop_state"),
        fingerprint=arrays["fingerprint"],
        _state_leaves=tuple(group("state")),
    )
