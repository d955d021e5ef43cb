"""A model with data made from functions: `sivi.model`."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from .._arguments import default_float, describe
from .._errors import MissingFromModel
from .._layout import Layout
from .._traced import Traced, traced
from .._types import Scalar
from .bayesian_model import check_rows_of, outcome_of
from .functional import layout_of, point_like
from .structured_model import StructuredModel


@final
class FunctionModel(StructuredModel):
    """The model that `sivi.model` makes: a prior and a likelihood given as functions, with data.

    Attributes:
        data: What was given, as JAX arrays.
        structure: Names, shapes and constraints of the unknowns.
    """

    data: PyTree
    structure: Layout
    prior: Traced
    likelihood: Traced
    prediction: Callable[..., Any] | None = eqx.field(static=True)
    drawing: Traced | None
    outcome: str | None = eqx.field(static=True)

    @property
    def like(self) -> PyTree:
        return self.structure

    @property
    def observed_name(self) -> str | None:
        return outcome_of(self.data) if self.outcome is None else self.outcome

    def log_prior(self, x: PyTree) -> Scalar:
        return self.prior(x)

    def log_likelihood(self, x: PyTree, datum: Any) -> Scalar:
        return self.likelihood(x, datum)

    def predict(self, x: PyTree, inputs: Any) -> Any:
        if self.prediction is None:
            raise MissingFromModel("the model has no predict; give predict=, a function of the unknowns and of inputs.")
        return self.prediction(x, inputs)

    def sample_datum(self, key: PRNGKeyArray, x: PyTree, datum: Any) -> Array:
        if self.drawing is None:
            raise MissingFromModel(
                "the model cannot draw new data; give sample_datum=, a function of a key, the unknowns and one datum."
            )
        return self.drawing(key, x, datum)


def model(
    log_prior: Callable[[Any], Array],
    log_likelihood: Callable[[Any, Any], Array],
    *,
    data: PyTree,
    like: PyTree | None = None,
    dim: int | None = None,
    predict: Callable[[Any, Any], Any] | None = None,
    sample_datum: Callable[[PRNGKeyArray, Any, Any], Array] | None = None,
    observed: str | None = None,
) -> FunctionModel:
    """A Bayesian model with named, constrained unknowns and data, which can be fitted in minibatches.

    The functions get the unknowns p in the structure of `like`, constraints applied, and densities are those of p. The
    log likelihood is that of ONE datum: vectorising it over the data, and multiplying that of a minibatch by N/|batch|,
    is done here. The functions are traced now, so later changes of what they close over are not seen.

    Args:
        log_prior: p → log p(p), a scalar.
        log_likelihood: (p, datum) → log p(datum | p), a scalar; datum is `data` without its leading axis.
        data: Arrays, or a pytree of them such as a dict, that share their leading axis.
        like: An example of the unknowns, with numbers, arrays and constraints as leaves; or
        dim: the length of a vector of real numbers.
        predict: (p, inputs) → predictions, for `Posterior.predict`. Inputs are what you give there.
        sample_datum: (key, p, datum) → a new observation with the covariates of the datum, for `Posterior.predictive`.
        observed: Which key of the data, if they are a dict, holds the observations. Left out, it is `"y"`, or the only
            one; of other data, it is the last array.

    Returns:
        A target for `sivi.fit`.

    Example:
        >>> import jax.numpy as jnp
        >>> from jax.scipy.stats import norm
        >>> from sivi import positive
        >>> line = model(
        ...     lambda p: norm.logpdf(p["slope"]) - p["sigma"],
        ...     lambda p, datum: norm.logpdf(datum["y"], p["slope"] * datum["x"], p["sigma"]),
        ...     data={"x": jnp.arange(3.0), "y": jnp.array([0.1, 0.9, 2.2])},
        ...     like={"slope": 0.0, "sigma": positive()},
        ... )
        >>> line.dim, line.num_data, list(line.observed)
        (2, 3, ['y'])
    """
    functions = {"log_prior": log_prior, "log_likelihood": log_likelihood}
    optional = {"predict": predict, "sample_datum": sample_datum}
    functions |= {name: function for name, function in optional.items() if function is not None}
    for name, function in functions.items():
        if isinstance(function, type) or not callable(function):
            raise TypeError(f"{name} must be a function; got {describe(function)}.")
    layout = layout_of(dim, like)
    data = _arrays(data)
    if observed is not None and not (isinstance(data, dict) and isinstance(observed, str) and observed in data):
        keys = f"its keys are {', '.join(map(repr, data))}" if isinstance(data, dict) else "the data are no dict"
        raise ValueError(f"observed must be a key of data; got {describe(observed)}, and {keys}.")
    point, datum = point_like(layout), jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), data)
    key = jax.eval_shape(lambda: jax.random.key(0))
    made = FunctionModel(
        data,
        layout,
        _scalar("log_prior", log_prior, "the unknowns", point),
        _scalar("log_likelihood", log_likelihood, "the unknowns and one datum", point, datum),
        predict,
        None
        if sample_datum is None
        else _traced("sample_datum", sample_datum, "a key, the unknowns and one datum", key, point, datum),
        observed,
    )
    _check_drawn(made)
    return made


def _arrays(data: PyTree) -> PyTree:
    """The data as JAX arrays with a leading axis; lists of numbers are refused, since they are trees of scalars."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        kind = np.dtype(getattr(leaf, "dtype", object)).kind if np.ndim(leaf) else "O"
        if kind not in "biufV":
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            where = f" at {name!r}" if name else ""
            raise TypeError(f"data must be arrays of numbers with a leading axis; got {describe(leaf)}{where}.")
    arrays = jax.tree.map(_as_jax, data)
    check_rows_of(arrays)
    return arrays


def _as_jax(leaf: Any) -> Array:
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and leaf.dtype.itemsize > 2:
        return jnp.asarray(leaf, default_float())
    return jnp.asarray(leaf)


def _scalar(name: str, function: Callable[..., Any], takes: str, *example: PyTree) -> Traced:
    """A function that must return one float."""
    found = _traced(name, function, takes, *example)
    out = eqx.filter_eval_shape(found, *example)
    if not (isinstance(out, jax.ShapeDtypeStruct) and out.shape == () and jnp.issubdtype(out.dtype, jnp.floating)):
        raise ValueError(f"{name} must return one floating-point number for {takes}; got {describe(out)}.")
    return found


def _traced(name: str, function: Callable[..., Any], takes: str, *example: PyTree) -> Traced:
    try:
        return traced(function, *example)
    except Exception as error:
        error.add_note(f"(raised by {name}, called with {takes})")
        raise


def _check_drawn(made: FunctionModel) -> None:
    """Refuse drawn observations of another shape than those in the data."""
    if made.drawing is None or not made.observed:
        return
    (seen,) = made.observed.values()
    drawn = jax.tree.leaves(
        eqx.filter_eval_shape(
            made.replicate,
            jax.eval_shape(lambda: jax.random.key(0)),
            jax.ShapeDtypeStruct((made.dim,), default_float()),
        )
    )
    if len(drawn) != 1 or drawn[0].shape != seen.shape:
        raise ValueError(
            f"sample_datum must return an array of shape {seen.shape[1:]}, as an observation in the data has; "
            f"got {', '.join(str(leaf.shape[1:]) for leaf in drawn)}. If another entry of the data is observed, give "
            "observed=."
        )
