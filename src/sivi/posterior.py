"""What `fit` returns: draws, density, history, and a file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ._arguments import as_key, check_count, check_flag, needs_key
from ._at_draws import derived_at, predictions_at, replicates_at, with_derived
from ._densities import log_density
from ._draws import draw, mixed, structured
from ._evidence import LogEvidence, log_evidence
from ._host_random import fold_in
from ._in_words import Remembered, in_words
from ._layout import Layout
from ._renamed import POSTERIOR, old_names
from ._repeats import member_of, only
from ._run import OfRun, Run, Unattached
from ._types import KeyLike
from .coordinates import CoordinateMap
from .families import Family
from .samplers.summary import DEFAULT_PROB, Summary
from .targets import Target
from .targets.symmetric import symmetric_inside

if TYPE_CHECKING:
    from xarray import DataTree

    from .verdict.refined import Refined
    from .verdict.result import Verdict

# Folded into keys, so that a fit, its draws and its densities may be given the same one (`fit` uses 0 and 1).
_SAMPLE, _LOG_PROB, _NEW_DATA, _EVIDENCE, _FIRST_REPEAT = 2, 3, 4, 5, 1000


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(OfRun):
    """A fitted variational posterior: the equal mixture of one or more independent fits, its repeats.

    Every repeat is fitted in its own whitened coordinates u, x = m + L u, or a map after that; `affine` is the whole
    map. Draws and densities are those of x. The metrics in `history` are in units of u.

    Attributes:
        run: The run that made it: its settings, its step and its state, from which a resumed fit continues.
        affines: The maps from u to x, in one tree whose arrays have a leading axis of repeats.
        layout: Names, shapes and constraints of the unknowns.
        history: One value per update of every metric the objective reports: (step,), or (repeats, step).
        target: What it was fitted to; None in a fit that was loaded without it.
    """

    run: Run
    affines: CoordinateMap
    layout: Layout
    history: Mapping[str, np.ndarray]
    target: Target | None
    unattached: Unattached | None = None
    remembered: Remembered = field(default_factory=Remembered)

    @property
    def dim(self) -> int:
        return self.layout.dim

    @property
    def seconds(self) -> float | None:
        """How long the call of `fit` took that ended it; None in a fit that was loaded."""
        return self.remembered.seconds

    @property
    def verdict(self) -> "Verdict | None":
        """The last verdict of `check`; None before. Files do not hold it."""
        return self.remembered.verdict

    @property
    def family(self) -> Family:
        """The fitted family, in u, of a posterior with one repeat."""
        return self._single("family", self.families)

    @property
    def affine(self) -> CoordinateMap:
        """The map from u to x of a posterior with one repeat."""
        return self._single("affine", self.affines)

    @property
    def state(self) -> PyTree:
        """The objective's state (critic, optimisers) of a posterior with one repeat; None without its target."""
        return self._single("state", self.run.state.states)

    def _single(self, name: str, tree: PyTree) -> PyTree:
        if self.repeats > 1:
            raise ValueError(f"{name} is that of one fit, and this posterior has {self.repeats}: use repeat(i).{name}.")
        return member_of(tree, 0)

    def repeat(self, index: int) -> "Posterior":
        """One of the fits, as a separate posterior."""
        index = check_count("index", index, 0)
        if not index < self.repeats:
            raise IndexError(f"index must be below the number of repeats, {self.repeats}; got {index}.")
        return replace(
            self,
            run=self.run.repeat(index),
            affines=only(self.affines, index),
            history=self.history if self.repeats == 1 else {name: v[index] for name, v in self.history.items()},
            unattached=None if self.unattached is None else self.unattached.repeat(index),
            remembered=Remembered(),
        )

    @needs_key
    def sample(self, num_samples: int, key: KeyLike, *, by_repeat: bool = False, derived: bool = False) -> PyTree:
        """Draws from the posterior.

        Args:
            num_samples: How many; with `by_repeat`, of every repeat.
            key: An int or a JAX key. Equal keys give equal draws, so there is no default.
            by_repeat: Keep the repeats apart, on a leading axis. Otherwise draws alternate between repeats, starting
                with a random one.
            derived: Also the target's `derived` quantities, if it has any. The result is then a dict by name, whatever
                the structure; a vector is its entry `x`.

        Returns:
            An array (num_samples, dim); for a target with named or structured unknowns, that structure, each
            array with a leading axis. With `by_repeat` a further axis of repeats comes first.

        Example:
            >>> import jax.numpy as jnp, sivi
            >>> posterior = sivi.fit(lambda p: -p["a"] ** 2, like={"a": 0.0}, num_steps=10, progress=False)
            >>> posterior.sample(5, key=1)["a"].shape
            (5,)
        """
        target = self._attached("derived quantities") if derived else None
        draws = self.unconstrained(num_samples, key, by_repeat=by_repeat)
        points = draws.reshape(-1, self.dim)
        tree = points if self.layout.is_vector else structured(self.layout, points)
        if target is not None:
            tree = with_derived(self.layout, tree, derived_at(target, points))
        if not by_repeat:
            return tree
        return jax.tree.map(lambda leaf: leaf.reshape(self.repeats, -1, *leaf.shape[1:]), tree)

    @needs_key
    def unconstrained(
        self, num_samples: int, key: KeyLike, *, by_repeat: bool = False
    ) -> Float[Array, "*repeats num_samples dim"]:
        """The draws of `sample` as plain vectors of real numbers, (num_samples, dim)."""
        num_samples, by_repeat = check_count("num_samples", num_samples), check_flag("by_repeat", by_repeat)
        each = num_samples if by_repeat else -(-num_samples // self.repeats)
        key = fold_in(as_key(key), _SAMPLE)
        draws = draw(self.families, self.affines, key, each, self.repeats)
        if not by_repeat:
            # From a repeat chosen at random on, so that every single draw is one of the mixture.
            draws = mixed(draws, fold_in(key, _FIRST_REPEAT))[:num_samples]
        return jnp.asarray(draws)

    def log_prob(self, x: PyTree, key: KeyLike = 0, *, num_aux: int = 4096) -> tuple[Array, Array]:
        """An estimate of log q(x) and its standard error.

        log q̂(x) = log (1/J) Σ_j q(x|z_j) with z_j ~ q(z) is biased low, and the standard error says little
        where few z_j reach x: above a few dimensions raise `num_aux` and watch whether the value still grows.

        Args:
            x: One point or a batch of points, in the form that `sample` returns; the density is that of x in this form.
            key: An int or a JAX key for the auxiliary draws, which all points share.
            num_aux: J, auxiliary draws of the mixing variable.

        Returns:
            Two arrays without axes for one point, of shape (n,) for n points.
        """
        num_aux = check_count("num_aux", num_aux)
        points, single = self.layout.points(x)
        key = jax.random.fold_in(as_key(key), _LOG_PROB)
        value, error = log_density(self.families, self.affines, key, points, num_aux, self.repeats)
        value = value - jax.vmap(self.layout.log_det)(points)
        return (value[0], error[0]) if single else (value, error)

    def summary(self, num_samples: int = 4000, key: KeyLike = 0, *, prob: float = DEFAULT_PROB) -> Summary:
        """Mean, standard deviation and interval of every entry, and R-hat between repeats, as a table.

        Args:
            num_samples: Draws of every repeat.
            key: An int or a JAX key.
            prob: The mass of the interval, which leaves half of the rest on either side.
        """
        draws = self.unconstrained(num_samples, key, by_repeat=True)
        symmetric = self.target is not None and symmetric_inside(self.target) is not None
        return Summary.of(np.asarray(draws), self.layout, prob=prob, independent=True, symmetric=symmetric)

    @needs_key
    def predict(self, inputs: Any, key: KeyLike, *, num_samples: int = 1000) -> PyTree:
        """The predictions of the model's `predict` for new inputs, at each draw of `sample(num_samples, key)`.

        Means and quantiles over the first axis are those of the quantity that `predict` returns. It has no noise of new
        observations, unless the model's function adds it.

        Args:
            inputs: What `predict` takes: an array, or a pytree of arrays.
            key: An int or a JAX key.
            num_samples: Draws.

        Returns:
            What `predict` returns, each array with a leading axis of draws.
        """
        target = self._attached("predictions")
        return predictions_at(target, self.unconstrained(num_samples, key), inputs)

    def predictive(self, key: KeyLike, *, num_samples: int = 1000) -> dict[str, Array]:
        """New observations in place of those in the data, one set for each draw of `sample(num_samples, key)`.

        Args:
            key: An int or a JAX key.
            num_samples: Draws.

        Returns:
            By the name of what was observed, each array with a leading axis of draws.
        """
        target = self._attached("new observations")
        return replicates_at(target, fold_in(as_key(key), _NEW_DATA), self.unconstrained(num_samples, key))

    def log_evidence(self, key: KeyLike, *, num_samples: int = 16_384, num_aux: int = 4096) -> LogEvidence:
        """A lower bound, in expectation, of log Z = log ∫ exp(log_prob(x)) dx, with its standard error.

        It is the log marginal likelihood if prior and likelihood are normalised densities; of another target, the
        logarithm of whatever its density integrates to. Log evidences of models with different constants cannot be
        compared.

        Args:
            key: An int or a JAX key.
            num_samples: Importance weights, at least.
            num_aux: Components in the density of the fit at each draw: more of them make the bound tighter.
        """
        target, key = self._attached("log_evidence"), fold_in(as_key(key), _EVIDENCE)
        return log_evidence(self.families, self.affines, target, key, num_samples, num_aux, self.repeats)

    def to_arviz(
        self,
        num_samples: int = 1000,
        key: KeyLike = 0,
        *,
        log_likelihood: bool = True,
        posterior_predictive: bool = True,
    ) -> "DataTree":
        """The posterior as an ArviZ 1.x `DataTree`, a chain per repeat; `sivi.interop.to_arviz` says what is in it.

        Needs the packages of `pip install 'sivi[arviz]'`.

        Args:
            num_samples: Draws of every repeat.
            key: An int or a JAX key.
            log_likelihood: With the log likelihood of every observation, which `arviz_stats.loo` needs.
            posterior_predictive: With new observations, drawn by the target.
        """
        from .interop.arviz import to_arviz

        return to_arviz(
            self, num_samples, key, log_likelihood=log_likelihood, posterior_predictive=posterior_predictive
        )

    def check(self, target: Any = None, *, key: KeyLike = 0, effort: float = 1.0, modes: bool = True) -> "Verdict":
        """Whether the fit can be believed; see `sivi.check`."""
        from .verdict.check import check

        self.remembered.verdict = check(self, target, key=key, effort=effort, modes=modes)
        return self.remembered.verdict

    def refine(
        self, target: Any = None, *, key: KeyLike = 0, effort: float = 8.0, verdict: "Verdict | None" = None
    ) -> "Refined":
        """Draws of the fit, mended by chains on the exact target until their verdict has no finding.

        Args:
            target: What it was fitted to; needed only for a fit that was loaded without it.
            key: An int or a JAX key.
            effort: Most gradients to spend, in units of about 2.2 million.
            verdict: That of `check`, if it was called before; its chains are carried on.
        """
        from .verdict.refine import refine

        return refine(self, target, key=key, effort=effort, verdict=verdict)

    def _attached(self, what: str) -> Target:
        if self.target is None:
            raise ValueError(
                f"the target is needed for {what}, and this fit was loaded without it: sivi.load(path, target=...)."
            )
        return self.target

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to one file, whole or not at all; see `sivi.load`.

        Of data it holds none, but those of a network whose coordinates are computed from them: `LastLayerMap`.

        Args:
            path: The file's name. An existing file is replaced.
        """
        from ._storage.fit_file import save  # a later layer

        save(self, path)

    if not TYPE_CHECKING:  # a type checker would take every name for one of these
        __getattr__ = old_names(POSTERIOR)

    def __reduce__(self) -> tuple[Any, ...]:
        from ._storage.pickled import pickled

        return pickled(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Posterior":
        # All else is never changed, and a target need not be one that can be copied.
        return replace(self, history={name: values.copy() for name, values in self.history.items()})

    def __copy__(self) -> "Posterior":
        return replace(self)

    def __str__(self) -> str:
        return in_words(self)

    def __repr__(self) -> str:
        names = ", ".join(f"{v.name}{list(v.shape)}" for v in self.layout.variables)
        repeats = f"{self.repeats} repeats, " if self.repeats > 1 else ""
        end = "finished at" if self.finished else "stopped at"
        return f"Posterior({names}; {repeats}{end} step {self.step} of {self.num_steps}, {sum(self.skipped)} skipped)"
