"""What `fit` returns: draws, density, history, and a file."""

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from . import _store
from ._errors import FitFileError, check_count
from ._layout import Layout
from ._types import KeyLike, as_key, default_float, describe
from .families import Family
from .objectives import Objective
from .targets import Target, as_target

_BLOCK = 65_536  # draws made at once
# Folded into keys, so that a fit, its draws and its densities may be given the same one (`fit` uses 0 and 1).
_SAMPLE, _LOG_PROB = 2, 3
_PROBES = 4  # points at which a target's score identifies it


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """A fitted variational posterior.

    Attributes:
        family: The fitted family.
        layout: Names and shapes of the unknowns.
        history: One value per update of every metric the objective reports.
        step: Updates done.
        num_steps: Updates asked for; less than that were done after Ctrl-C.
        skipped: Updates that were not finite and left out.
        key: The run's key.
        objective: How it was fitted; None if the file could not hold it.
        state: The objective's state (critics, optimisers); None in a file loaded without its target.
        target: What it was fitted to; None in a file loaded without it.
    """

    family: Family
    layout: Layout
    history: Mapping[str, np.ndarray]
    step: int
    num_steps: int
    key: PRNGKeyArray
    objective: Objective | None
    state: PyTree | None
    target: Target | None
    batch_size: int | None = None
    skipped: int = 0
    streak: int = 0  # of skipped updates, at the end
    fingerprint: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    _state_leaves: tuple[np.ndarray, ...] | None = None

    @property
    def dim(self) -> int:
        return self.family.dim

    def sample(self, num_samples: int, key: KeyLike = 0) -> PyTree:
        """Draws from the posterior.

        Args:
            num_samples: How many.
            key: An int or a JAX key.

        Returns:
            An array (num_samples, dim); for a target with named or structured unknowns, that structure, each
            array with a leading axis.

        Example:
            >>> import jax.numpy as jnp, sivi
            >>> posterior = sivi.fit(lambda p: -p["a"] ** 2, like={"a": 0.0}, num_steps=10, progress=False)
            >>> posterior.sample(5)["a"].shape
            (5,)
        """
        draws = self.unconstrained(num_samples, key)
        return draws if self.layout.is_vector else jax.vmap(self.layout.unravel)(draws)

    def unconstrained(self, num_samples: int, key: KeyLike = 0) -> Float[Array, "num_samples dim"]:
        """The draws of `sample` as plain vectors, (num_samples, dim)."""
        num_samples = check_count("num_samples", num_samples)
        keys = jax.random.split(jax.random.fold_in(as_key(key), _SAMPLE), -(-num_samples // _BLOCK))
        counts = [min(_BLOCK, num_samples - i * _BLOCK) for i in range(len(keys))]
        blocks = [_draw(self.family, k, n) for k, n in zip(keys, counts, strict=True)]
        return jnp.concatenate(blocks)

    def log_prob(self, x: PyTree, key: KeyLike = 0, *, num_aux: int = 4096) -> tuple[Array, Array]:
        """An estimate of log q(x) and its standard error.

        log q̂(x) = log (1/J) Σ_j q(x|z_j) with z_j ~ q(z) is biased low, and the standard error says little
        where few z_j reach x: above a few dimensions raise `num_aux` and watch whether the value still grows.

        Args:
            x: One point or a batch of points, in the form that `sample` returns.
            key: An int or a JAX key for the auxiliary draws, which all points share.
            num_aux: J, auxiliary draws of the mixing variable.

        Returns:
            Two arrays without axes for one point, of shape (n,) for n points.
        """
        num_aux = check_count("num_aux", num_aux)
        points, single = self._points(x)
        value, error = _log_prob(self.family, jax.random.fold_in(as_key(key), _LOG_PROB), points, num_aux)
        return (value[0], error[0]) if single else (value, error)

    def _points(self, x: PyTree) -> tuple[Float[Array, "n dim"], bool]:
        if self.layout.is_vector:
            points = jnp.asarray(x, default_float())
            if points.ndim not in (1, 2) or points.shape[-1] != self.dim:
                raise ValueError(f"x must have shape ({self.dim},) or (n, {self.dim}); got {points.shape}.")
            return jnp.atleast_2d(points), points.ndim == 1
        leaves = self.layout.treedef.flatten_up_to(x)
        single = jnp.ndim(leaves[0]) == len(self.layout.variables[0].shape)
        return (self.layout.ravel(x)[None] if single else jax.vmap(self.layout.ravel)(x)), single

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to one file, whole or not at all; see `sivi.load`.

        Args:
            path: The file's name. An existing file is replaced.
        """
        target = Path(path)
        if not target.parent.is_dir():
            raise FileNotFoundError(f"path must be in an existing folder; {str(target.parent)!r} is not one.")
        header: dict[str, Any] = {
            "format": 1,
            "versions": {name: _version(name) for name in ("sivi", "jax", "equinox", "optax", "numpy")},
            "layout": self.layout.to_json(),
            "step": self.step,
            "num_steps": self.num_steps,
            "batch_size": self.batch_size,
            "skipped": self.skipped,
            "streak": self.streak,
            "key": str(jax.random.key_impl(self.key)),
        }
        arrays = {"key": np.asarray(jax.random.key_data(self.key)), "fingerprint": self.fingerprint}
        for name, part in (("family", self.family), ("objective", self.objective)):
            header[name], leaves = _encode(part)
            arrays |= {f"{name}/{i}": leaf for i, leaf in enumerate(leaves)}
        arrays |= {f"state/{i}": leaf for i, leaf in enumerate(self._leaves_of_state())}
        arrays |= {f"history/{name}": np.asarray(values) for name, values in self.history.items()}
        _store.write(target, header, arrays)

    def _leaves_of_state(self) -> list[np.ndarray]:
        if self._state_leaves is not None:
            return list(self._state_leaves)
        return [_store.to_numpy(leaf) for leaf in jax.tree.leaves(eqx.filter(self.state, eqx.is_array))]

    def __repr__(self) -> str:
        names = ", ".join(f"{v.name}{list(v.shape)}" for v in self.layout.variables)
        return f"Posterior({names}; step {self.step} of {self.num_steps}, {self.skipped} skipped)"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


@eqx.filter_jit
def _draw(family: Family, key: PRNGKeyArray, num: int) -> Float[Array, "num dim"]:
    return jax.vmap(family.sample)(jax.random.split(key, num))


@eqx.filter_jit
def _log_prob(family: Family, key: PRNGKeyArray, points: Float[Array, "n dim"], num_aux: int) -> tuple[Array, Array]:
    return jax.lax.map(lambda x: family.log_prob(key, x, num_aux), points, batch_size=256)


def fingerprint_of(target: Target) -> np.ndarray:
    """The target's score at a few fixed points: enough to tell one model from another."""
    points = np.random.default_rng(0).normal(size=(_PROBES, target.dim))
    # One point after the other: with all the data at once, side by side would take their number times the memory.
    scores = eqx.filter_jit(lambda t, p: jax.lax.map(t.score, p))(target, jnp.asarray(points, default_float()))
    return np.asarray(scores, np.float64)


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
        zeros = jnp.zeros(posterior.dim, default_float())
        target = as_target(target, like=posterior.layout.unravel(zeros))
    if target.layout.variables != posterior.layout.variables:
        raise FitFileError(
            f"the fit is of another model: its unknowns are {_variables(posterior.layout)}, "
            f"the target's {_variables(target.layout)}."
        )
    if not _same_scores(fingerprint_of(target), posterior.fingerprint):
        raise FitFileError("the fit is of another model: the target's score differs from the one it was fitted to.")
    state = posterior.state
    if state is None and posterior.objective is not None:
        bound = posterior.objective.bind(posterior.num_steps)
        skeleton = eqx.filter_eval_shape(bound.init, posterior.key, posterior.family, target)
        state = _store.fill(skeleton, list(posterior._state_leaves or ()), "the objective's state")
    return replace(posterior, target=target, layout=target.layout, state=state)


def _same_scores(here: np.ndarray, there: np.ndarray) -> bool:
    """Whether two fingerprints agree, coordinate by coordinate, up to what devices and versions may differ by."""
    finite = np.isfinite(there)
    if here.shape != there.shape or (np.isfinite(here) != finite).any():
        return False
    scale = np.where(finite, np.abs(there), 0.0).max(axis=0, keepdims=True, initial=0.0)
    allowed = 1e-3 * np.abs(there) + 1e-4 * scale
    return bool((np.abs(here - there) <= allowed)[finite].all())


def _variables(layout: Layout) -> str:
    return ", ".join(f"{v.name} {v.dtype}{list(v.shape)}" for v in layout.variables)


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

    def part(name: str, given: Any) -> Any:
        if isinstance(header[name], dict) and "custom" in header[name]:
            return None if given is None else _store.fill(given, group(name), name)
        stored = _store.decode(header[name], [jnp.asarray(leaf) for leaf in group(name)])
        if name == "objective":
            check_same_objective(stored, given)
        elif given is not None:
            _store.fill(given, group(name), name)  # checks that the two have the same structure
        return stored

    if header["format"] != 1:
        raise FitFileError(f"the file has format {describe(header['format'])}; this version of sivi reads 1.")
    found_family = part("family", family)
    if not isinstance(found_family, Family):
        raise FitFileError(
            f"the file's family is of a class that it cannot hold ({header['family']}): give family=, "
            "an instance of the same structure."
        )
    found_objective = part("objective", objective)
    return Posterior(
        family=found_family,
        layout=Layout.from_json(header["layout"]),
        history={name.removeprefix("history/"): arrays[name] for name in arrays if name.startswith("history/")},
        step=int(header["step"]),
        num_steps=int(header["num_steps"]),
        key=jax.random.wrap_key_data(jnp.asarray(arrays["key"]), impl=header["key"]),
        objective=found_objective if isinstance(found_objective, Objective) else None,
        state=None,
        target=None,
        batch_size=header["batch_size"],
        skipped=int(header["skipped"]),
        streak=int(header["streak"]),
        fingerprint=arrays["fingerprint"],
        _state_leaves=tuple(group("state")),
    )
