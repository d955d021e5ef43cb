"""A posterior as one file, and back: data only, nothing in it is executed."""

import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import check_path, describe
from .._backend import matmul_precision
from .._batches import BATCHING
from .._errors import FitFileError
from .._layout import Layout
from .._random import NOISE
from .._repeats import member_of, stack_repeats
from .._run import FitSettings, Remark, Run, RunState, Unattached
from .._version import package_version
from ..coordinates import CoordinateMap
from ..families import Family
from ..objectives import Objective
from ..posterior import Posterior
from ..stopping import StopRule, StopState, init_stop
from ..targets.fingerprint import fingerprint_of
from ..warmup.status import WORDS
from . import codec, container
from .old_names import from_format_2

_FORMAT = 3
_LARGEST = 2**31 - 1  # steps are counted in 32 bits
#: What reading a header that nobody meant to write can raise.
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError)
_PLAIN_SETTINGS = ("num_steps", "batch_size", "batching", "precision", "control_variate")
#: Settings that files of earlier versions do not have: None there.
_LATER_SETTINGS = ("most_own_weight", "rounds_from", "noise")


def save(
    posterior: Posterior,
    path: str | os.PathLike[str],
    *,
    fingerprint: np.ndarray | None = None,
    before: Callable[[os.stat_result], None] | None = None,
) -> None:
    """Write a posterior to one file, whole or not at all.

    Args:
        posterior: The fit.
        path: The file's name. An existing file is replaced.
        fingerprint: Of the posterior's target, if it is known already.
        before: Called with the status of the new file just before it gets its name.
    """
    file = check_path("path", path)
    if file.is_dir():
        raise IsADirectoryError(f"path must be the name of a file; {str(file)!r} is a folder.")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"path must be in an existing folder; {str(file.parent)!r} is not one.")
    settings, state, stored = posterior.run.settings, posterior.run.state, posterior.unattached
    if stored is None:
        assert posterior.target is not None
        leaves = [codec.to_numpy(leaf) for leaf in jax.tree.leaves(eqx.filter(state.states, eqx.is_array))]
        known = fingerprint_of(posterior.target) if fingerprint is None else fingerprint
        stored = Unattached(tuple(leaves), known, objective=None)
    header: dict[str, Any] = {
        "format": _FORMAT,
        "versions": {name: package_version(name) for name in ("sivi", "jax", "equinox", "optax", "numpy")},
        "layout": posterior.layout.to_json(),
        "settings": {name: getattr(settings, name) for name in (*_PLAIN_SETTINGS, *_LATER_SETTINGS)},
        "run": {
            "step": posterior.step,
            "skipped": [int(n) for n in state.skipped],
            "streak": [int(n) for n in state.streak],
            "warmup_status": list(posterior.run.warmup_status),
            "warnings": [[w.kind, str(w), list(w.unknowns), list(w.repeats)] for w in posterior.run.warnings],
        },
        "key": str(jax.random.key_impl(settings.key)),
    }
    arrays = {"key": np.asarray(jax.random.key_data(settings.key)), "fingerprint": stored.fingerprint}
    parts = {
        "family": state.families,
        "affine": posterior.affines,
        "objective": settings.objective,
        "stop_rule": settings.stop_rule,
        "stop_state": state.stop,
        "best": state.best,
        "start": state.start,
    }
    for name, part in parts.items():
        header[name], leaves = _encode(part)
        if name == "objective" and part is None and stored.objective is not None:
            header[name], leaves = stored.objective  # as it was read
        arrays |= {f"{name}/{i}": leaf for i, leaf in enumerate(leaves)}
    arrays |= {f"state/{i}": leaf for i, leaf in enumerate(stored.state_leaves)}
    arrays |= {f"history/{name}": np.asarray(values) for name, values in posterior.history.items()}
    container.write(file, header, arrays, before)


def read_fit(path: str | os.PathLike[str], family: Family | None = None) -> Posterior:
    """A fit without its target; see `sivi.load`.

    Args:
        path: The file.
        family: An instance of the same structure, for a family that a file cannot hold.
    """
    file = check_path("path", path)
    if not file.is_file():
        raise FileNotFoundError(f"path must be a fit file; there is no file {str(file)!r}.")
    header, arrays = container.read(file)
    if header.get("format") not in (2, _FORMAT):
        raise FitFileError(
            f"the file has format {describe(header.get('format'))}; this version of sivi reads 2 and {_FORMAT}."
        )
    try:
        posterior = _decoded(from_format_2(header) if header["format"] == 2 else header, arrays, family)
        _check_draws(posterior)
    except FitFileError:
        raise
    except _MALFORMED as error:
        raise FitFileError(f"{file} has a malformed header: {type(error).__name__}: {error}") from error
    return posterior


def same_settings(stored: Any, given: Any) -> bool:
    """Whether two objectives are of the same classes, with the same settings."""
    (here, leaves), (there, stored_leaves) = _encode(given), _encode(stored)
    same = len(leaves) == len(stored_leaves) and all(map(np.array_equal, leaves, stored_leaves))
    return here == there and same


def _encode(part: Any) -> tuple[Any, list[np.ndarray]]:
    leaves: list[Any] = []
    try:
        description = codec.encode(part, leaves)
    except codec.NotStorable as error:
        # Its arrays can be kept; its code cannot.
        description = {"custom": str(error)}
        leaves = jax.tree.leaves(eqx.filter(part, eqx.is_array))
    return description, [codec.to_numpy(leaf) for leaf in leaves]


def _decoded(header: dict[str, Any], arrays: dict[str, np.ndarray], family: Family | None) -> Posterior:
    def group(name: str) -> list[np.ndarray]:
        count = sum(key.startswith(f"{name}/") for key in arrays)
        return [arrays[f"{name}/{i}"] for i in range(count)]

    def part(name: str, kind: type) -> Any:
        value = codec.decode(header[name], [jnp.asarray(leaf) for leaf in group(name)])
        if value is not None and not isinstance(value, kind):
            raise FitFileError(f"the file's {name} is not a {kind.__name__}: {header[name]}.")
        return value

    skipped, streak = (_counts(header["run"][name], name) for name in ("skipped", "streak"))
    repeats = len(skipped)
    if len(streak) != repeats or not repeats:
        raise FitFileError(f"the file has {repeats} and {len(streak)} numbers of skipped updates.")
    plain = {name: header["settings"][name] for name in _PLAIN_SETTINGS}
    plain |= {name: header["settings"].get(name) for name in _LATER_SETTINGS}
    if not isinstance(plain["most_own_weight"], float | None):
        raise FitFileError("the file's most_own_weight is not a number.")
    if plain["rounds_from"] is not None:
        _count(plain["rounds_from"], "rounds_from")
    plain["noise"] = plain["noise"] or NOISE[-1]
    if plain["noise"] not in NOISE:
        raise FitFileError(f"the file's noise must be one of {', '.join(map(repr, NOISE))}; got {plain['noise']!r}.")
    num_steps, step = _count(plain["num_steps"], "num_steps"), _count(header["run"]["step"], "step")
    if step > num_steps:
        raise FitFileError(f"the file's step, {step}, is beyond its num_steps, {num_steps}.")
    if plain["batch_size"] is not None and _count(plain["batch_size"], "batch_size") == 0:
        raise FitFileError("the file's batch_size is 0.")
    if plain["batching"] not in BATCHING or not isinstance(plain["control_variate"], bool):
        raise FitFileError("the file's batching or control_variate is of the wrong type.")
    matmul_precision(plain["precision"])  # refuses what is none
    rule, stop = part("stop_rule", StopRule), part("stop_state", StopState)
    affines = part("affine", CoordinateMap)
    if affines is None:
        raise FitFileError("the file has no coordinates.")
    stored_objective = (header["objective"], group("objective"))
    objective, why_not = _objective(*stored_objective)
    key = jax.random.wrap_key_data(jnp.asarray(arrays["key"]), impl=header["key"])
    if key.shape != ():
        raise FitFileError(f"the file's key has shape {key.shape}.")
    settings = FitSettings(key=key, objective=objective, repeats=repeats, stop_rule=rule, **plain)
    state = RunState(
        families=_family(header["family"], group("family"), family, repeats),
        states=None,
        skipped=jnp.asarray(skipped, jnp.int32),
        streak=jnp.asarray(streak, jnp.int32),
        stop=init_stop(rule, num_steps, repeats) if stop is None else _checked_stop(stop, rule, num_steps, repeats),
        **{name: _family(header[name], group(name), family, repeats) for name in ("best", "start") if header.get(name)},
    )
    kept = (rule is not None and rule.keeps_best, rule is not None and rule.restarts)
    if kept != (state.best is not None, state.start is not None):
        raise FitFileError("the file's stop rule and its families do not belong together.")
    said = (
        _status(header["run"].get("warmup_status", []), repeats),
        _warnings(header["run"].get("warnings", []), repeats),
    )
    return Posterior(
        run=Run(settings, step, state, *said),
        affines=affines,
        layout=Layout.from_json(header["layout"]),
        history={name.removeprefix("history/"): arrays[name] for name in arrays if name.startswith("history/")},
        target=None,
        unattached=Unattached(tuple(group("state")), arrays["fingerprint"], stored_objective, why_not),
    )


def _family(description: Any, leaves: list[np.ndarray], given: Family | None, repeats: int) -> Family:
    """The families; a given one says how those are built that a file cannot hold, and is compared with others."""
    if isinstance(description, dict) and "custom" in description:
        if given is None:
            raise FitFileError(
                f"the file's family is of a class that it cannot hold ({description}): give family=, "
                "an instance of the same structure."
            )
        return codec.fill(stack_repeats(given, repeats), leaves, "family")
    families = codec.decode(description, [jnp.asarray(leaf) for leaf in leaves])
    if not isinstance(families, Family):
        raise FitFileError(f"the file's family is not a sivi family: {describe(description)}.")
    if given is not None:
        codec.fill(stack_repeats(given, repeats), leaves, "family")
    return families


def _objective(description: Any, leaves: list[np.ndarray]) -> tuple[Any, str | None]:
    """The objective; or None and why it cannot be read, in a sentence: a fit can be sampled without it."""
    if isinstance(description, dict) and "custom" in description:
        return None, f"the file's objective holds {description['custom']}, which a file cannot hold"
    try:
        objective = codec.decode(description, [jnp.asarray(leaf) for leaf in leaves])
    except (FitFileError, *_MALFORMED) as error:
        return None, f"the file's objective cannot be read by this version of sivi ({str(error).rstrip('.')})"
    if not isinstance(objective, Objective):
        return None, "the file has no objective"
    return objective, None


def fits_stored(objective: Any, stored: tuple[Any, list[np.ndarray]]) -> Any:
    """`objective`, with the arrays of the one that a file could not hold; another structure is refused."""
    description, leaves = stored
    if isinstance(description, dict) and "custom" in description:
        return codec.fill(objective, leaves, "objective")
    return objective


def _status(words: Any, repeats: int) -> tuple[str, ...]:
    """How the coordinates were found, by repeat; empty in files that do not say."""
    if not isinstance(words, list) or len(words) not in (0, repeats) or any(word not in WORDS for word in words):
        raise FitFileError(f"the file's warmup_status must be a known word for each repeat; got {describe(words)}.")
    return tuple(words)


def _warnings(entries: Any, repeats: int) -> tuple[Remark, ...]:
    """What the fit said of itself; nothing in files that do not have it."""
    remarks = []
    for kind, sentence, unknowns, where in entries:
        if not all(isinstance(text, str) for text in (kind, sentence, *unknowns)):
            raise FitFileError("the file's warnings are not sentences.")
        if any(index >= repeats for index in _counts(where, "warnings")):
            raise FitFileError(f"the file's warnings are of more than its {repeats} repeats.")
        remarks.append(Remark(kind, sentence, tuple(unknowns), tuple(where)))
    return tuple(remarks)


def _count(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise FitFileError(f"the file's {name} must be a whole number from 0 on; got {describe(value)}.")
    return value


def _counts(values: Any, name: str) -> list[int]:
    return [_count(value, name) for value in values]


def _check_draws(posterior: Posterior) -> None:
    """Refuse a file whose parts do not belong together: draws, unknowns and history must have one length."""
    dim, repeats, layout = posterior.dim, posterior.repeats, posterior.layout
    leaves = jax.tree.leaves(eqx.filter((posterior.families, posterior.affines), eqx.is_array))
    if any(leaf.ndim == 0 or leaf.shape[0] != repeats for leaf in leaves):
        raise FitFileError(f"the file's arrays are not those of {repeats} repeats.")
    if any(type(n) is not int or n < 0 for variable in layout.variables for n in variable.shape):
        raise FitFileError("the file's unknowns have no shape.")
    if layout.treedef.num_leaves != len(layout.variables):
        raise FitFileError("the file's unknowns and their structure differ in number.")
    traces = (posterior.step,) if repeats == 1 else (repeats, posterior.step)
    if any(values.shape != traces for values in posterior.history.values()):
        raise FitFileError(f"the file's history is not that of {posterior.step} updates.")

    def draw(families: Family, affines: CoordinateMap) -> Any:
        family, affine = member_of((families, affines), 0)
        x = affine.forward(family.sample(jax.random.key(0)))
        return x, layout.unravel(x)

    try:
        out, _ = eqx.filter_eval_shape(draw, posterior.families, posterior.affines)
    except Exception as error:
        raise FitFileError(f"the file's family cannot be sampled: {type(error).__name__}: {error}") from error
    if out.shape != (dim,):
        raise FitFileError(f"the file's family has draws of shape {out.shape}; its unknowns are {dim} numbers.")


def _checked_stop(stop: StopState, rule: StopRule | None, num_steps: int, repeats: int) -> StopState:
    """The stop state of a file, if it is one of such a run."""
    like = init_stop(rule, num_steps, repeats)
    if type(stop) is not type(like):
        raise FitFileError("the file's stop state is not that of its stop rule.")
    for name, value in vars(like).items():
        found = getattr(stop, name)
        if getattr(found, "shape", None) != value.shape or found.dtype.kind != value.dtype.kind:
            raise FitFileError(f"the file's stop state has a {name} of the wrong shape or type.")
    steps = [int(value) for value in vars(stop).values() if value.shape == () and value.dtype.kind == "i"]
    if not all(0 <= value <= num_steps for value in steps):
        raise FitFileError(f"the file's run ends at update {int(stop.end)} of {num_steps}.")
    return stop
