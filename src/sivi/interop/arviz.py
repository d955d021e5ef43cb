"""A posterior as ArviZ 1.x takes it: an xarray `DataTree`, with a chain per independent fit."""

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Float

from .._layout import Layout
from .._programs import compiled
from .._types import KeyLike
from ..posterior import Posterior
from ..targets.evaluate import log_probs_at

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

_MISSING = "to_arviz needs arviz-base: pip install 'sivi[arviz]'"

_log_probs_at = compiled(log_probs_at)

_LP = "log density of the target at the draw, up to a constant, on the unconstrained scale (Jacobian included)"


def to_arviz(posterior: Posterior, num_samples: int = 1000, key: KeyLike = 0) -> "DataTree":
    """Draws and traces of a fit as an ArviZ `DataTree`; what `Posterior.to_arviz` calls.

    The groups are

    - `posterior`: the draws of `posterior.sample(num_samples, key, by_repeat=True)` by variable, dimensions `chain`
      (one per repeat), `draw`, and those of the variable, `w_dim_0`, …;
    - `sample_stats`: `lp`, the target's log density at every draw. As Stan's `lp__` it is that of the unconstrained
      vector, Jacobian included. The group is left out where the log density is not known: in a fit loaded without its
      target, or of a target with a score alone;
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
    _arviz_base()
    from xarray import DataTree

    draws = posterior.unconstrained(num_samples, key, by_repeat=True)
    groups = {"posterior": _variables(draws, posterior.layout)}
    if posterior.target is not None and posterior.target.knows_log_prob:
        groups["sample_stats"] = _dataset({"lp": np.asarray(_log_probs_at(posterior.target, draws))}, "draw")
        groups["sample_stats"]["lp"].attrs["description"] = _LP
    groups["fit"] = _traces(posterior)
    return DataTree.from_dict(groups)


def draws_to_arviz(draws: Float[np.ndarray, "chains draws dim"], layout: Layout) -> "DataTree":
    """Unconstrained draws by variable, as a `DataTree` with the group `posterior` alone.

    Args:
        draws: (chains, draws, dim).
        layout: Names, shapes and constraints of the unknowns.
    """
    _arviz_base()
    from xarray import DataTree

    return DataTree.from_dict({"posterior": _variables(draws, layout)})


def _variables(draws: Array | np.ndarray, layout: Layout) -> "Dataset":
    values, names = jax.vmap(jax.vmap(layout.named))(draws), _names(layout)
    return _dataset({names[name]: np.asarray(array) for name, array in values.items()}, "draw")


def _traces(posterior: Posterior) -> "Dataset":
    traces = {name: np.reshape(values, (posterior.repeats, -1)) for name, values in posterior.history.items()}
    about = {
        "num_steps": posterior.num_steps,
        "step": posterior.step,
        "finished": int(posterior.finished),  # netCDF has no truth values
        "skipped": sum(posterior.skipped),
    }
    return _dataset(traces, "step", attrs=about, coords={"step": np.arange(1, posterior.step + 1)})


def _dataset(arrays: dict[str, np.ndarray], along: str, **settings: Any) -> "Dataset":
    """Arrays (chain, `along`, …) with ArviZ's names for the other axes, and its attributes."""
    import sivi  # for its name and version

    return _arviz_base().dict_to_dataset(
        arrays,
        sample_dims=["chain", along],
        inference_library=sivi,
        check_conventions=False,  # it warns of fewer draws than chains
        **settings,
    )


def _names(layout: Layout) -> dict[str, str]:
    """A valid name in a `DataTree` for every variable: no `/`, and none that a dimension has."""
    dotted = {variable.name: variable.name.replace("/", ".") for variable in layout.variables}
    dims = (f"{dotted[v.name]}_dim_{i}" for v in layout.variables for i in range(len(v.shape)))
    return dict(zip(dotted, _distinct(dotted.values(), {"chain", "draw", *dims}), strict=True))


def _distinct(names: Iterable[str], taken: set[str]) -> Iterable[str]:
    for name in names:
        while name in taken:
            name += "_"
        taken.add(name)
        yield name


def _arviz_base() -> ModuleType:
    try:
        import arviz_base
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return arviz_base
