"""A posterior as ArviZ 1.x takes it: an xarray `DataTree`, with a chain per independent fit."""

from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import as_key
from .._at_draws import derived_at, log_likelihoods_at, observing, with_derived
from .._errors import MissingFromModel
from .._host_random import fold_in
from .._layout import Layout
from .._programs import compiled
from .._types import KeyLike
from ..posterior import Posterior
from ..targets import Target
from ..targets.evaluate import log_probs_at
from ._datasets import Labels, arviz_base, dataset

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

_log_probs_at = compiled(log_probs_at)

_LP = "log density of the target at the draw, up to a constant, on the unconstrained scale (Jacobian included)"

# Folded into the key, so that new data are independent of the draws.
_NEW_DATA = 4

_DRAWS = ("chain", "draw")


def to_arviz(
    posterior: Posterior,
    num_samples: int = 1000,
    key: KeyLike = 0,
    *,
    log_likelihood: bool = True,
    posterior_predictive: bool = True,
) -> "DataTree":
    """Draws and traces of a fit as an ArviZ `DataTree`; what `Posterior.to_arviz` calls.

    The groups are

    - `posterior`: the draws of `posterior.sample(num_samples, key, by_repeat=True)` by variable, and the target's
      `derived` quantities. Dimensions are `chain` (one per repeat), `draw`, and those of the variable: the names and
      labels that `target.dims` and `target.coords` give, or `w_dim_0`, …;
    - `posterior_predictive`: new observations at every draw, for a target that is a
      `sivi.targets.HasObservations` and can draw them;
    - `log_likelihood`: that of every observation at every draw, for a target that is a `HasObservations`. With it
      `arviz_stats.loo(tree)` works. Both groups take draws × data numbers of memory, and can be left out;
    - `sample_stats`: `lp`, the target's log density at every draw. As Stan's `lp__` it is that of the unconstrained
      vector, Jacobian included. The group is left out where the log density is not known: in a fit loaded without its
      target, or of a target with a score alone;
    - `observed_data`: the observations of a `HasObservations`;
    - `fit`: every metric of `posterior.history` by `chain` and `step`, counted from 1, in the coordinates of the fit;
      its attributes `num_steps`, `step`, `finished` (1 or 0) and `skipped` (of all repeats) are those of the posterior.

    Draws of one fit are independent by construction. So effective sample sizes are about the number of draws, and say
    nothing of how good the fit is. R-hat compares chains, that is fits: it is large where they disagree, and NaN for
    one alone, where there is nothing to compare. (ArviZ splits chains in halves too, but asks for two of them.)

    `tree.to_netcdf("draws.nc", engine="h5netcdf")` writes a file, and `xarray.open_datatree("draws.nc")` reads it.
    A `/` in a name becomes a dot, and a name that xarray needs for a dimension (`chain`, `draw`) gets an underscore.

    Args:
        posterior: The fit.
        num_samples: Draws of every repeat.
        key: An int or a JAX key.
        log_likelihood: With that group, where the target allows it.
        posterior_predictive: With that group, where the target allows it.

    Raises:
        ImportError: arviz-base is not installed.

    Example:
        >>> import jax.numpy as jnp, sivi
        >>> example = {"w": jnp.zeros(3)}
        >>> posterior = sivi.fit(
        ...     lambda p: -jnp.sum(p["w"] ** 2), like=example, num_steps=5, whiten=None, progress=False
        ... )
        >>> tree = to_arviz(posterior, num_samples=100)
        >>> tree["posterior/w"].dims, tree["posterior/w"].shape
        (('chain', 'draw', 'w_dim_0'), (1, 100, 3))
        >>> tree["sample_stats/lp"].shape, tree["fit/loss"].dims
        ((1, 100), ('chain', 'step'))
    """
    arviz_base()
    from xarray import DataTree

    draws, target = posterior.unconstrained(num_samples, key, by_repeat=True), posterior.target
    groups = {"posterior": _variables(draws, posterior.layout, target)}
    if target is not None:
        new_data = fold_in(as_key(key), _NEW_DATA) if posterior_predictive else None
        groups |= _of_observations(target, draws, new_data, log_likelihood)
        if target.knows_log_prob:
            stats = dataset({"lp": np.asarray(_log_probs_at(target, draws))}, _DRAWS)
            stats["lp"].attrs["description"] = _LP
            groups["sample_stats"] = stats
    order = ("posterior", "posterior_predictive", "log_likelihood", "sample_stats", "observed_data")
    found = {name: groups[name] for name in order if name in groups}
    return DataTree.from_dict({**found, "fit": _traces(posterior)})


def draws_to_arviz(draws: Float[np.ndarray, "chains draws dim"], layout: Layout) -> "DataTree":
    """Unconstrained draws by variable, as a `DataTree` with the group `posterior` alone.

    Args:
        draws: (chains, draws, dim).
        layout: Names, shapes and constraints of the unknowns.
    """
    arviz_base()
    from xarray import DataTree

    return DataTree.from_dict({"posterior": _variables(draws, layout, None)})


def _variables(draws: Array | np.ndarray, layout: Layout, target: Target | None) -> "Dataset":
    """The variables, and what the target derives from them."""
    values = {name: np.asarray(array) for name, array in jax.vmap(jax.vmap(layout.named))(draws).items()}
    if target is None:
        return Labels().dataset(values, _DRAWS)
    derived = _by_chain(derived_at(target, draws.reshape(-1, layout.dim)), len(draws))
    return Labels(target.dims, target.coords).dataset(with_derived(layout, values, derived), _DRAWS)


def _of_observations(
    target: Target, draws: Float[Array, "chains draws dim"], new_data: PRNGKeyArray | None, log_likelihood: bool
) -> "dict[str, Dataset]":
    """The groups of a target with observations; none for another one."""
    found = observing(target, draws.reshape(-1, draws.shape[-1]))
    if found is None:
        return {}
    (inner, points), labels, groups = found, Labels(target.dims, target.coords), {}
    if observed := inner.observed:
        groups["observed_data"] = labels.dataset(observed, ())
    if log_likelihood:
        values = log_likelihoods_at(inner, points)
        groups["log_likelihood"] = labels.dataset(_by_chain(values, len(draws)), _DRAWS)
    if new_data is not None:
        try:
            values = inner.replicates(new_data, points)
        except MissingFromModel:
            return groups
        groups["posterior_predictive"] = labels.dataset(_by_chain(values, len(draws)), _DRAWS)
    return groups


def _by_chain(values: dict[str, Array], chains: int) -> dict[str, np.ndarray]:
    """Values at all draws in one row, chain by chain."""
    arrays = {name: np.asarray(array) for name, array in values.items()}
    return {name: array.reshape(chains, -1, *array.shape[1:]) for name, array in arrays.items()}


def _traces(posterior: Posterior) -> "Dataset":
    traces = {name: np.reshape(values, (posterior.repeats, -1)) for name, values in posterior.history.items()}
    about = {
        "num_steps": posterior.num_steps,
        "step": posterior.step,
        "finished": int(posterior.finished),  # netCDF has no truth values
        "skipped": sum(posterior.skipped),
    }
    steps = np.arange(1, posterior.step + 1)
    return dataset(traces, ("chain", "step"), attrs=about, coords={"step": steps})
