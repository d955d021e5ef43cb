"""A PyMC model as a target: `sivi.from_pymc`."""

# pyright: reportMissingImports=false
# The linters have an environment without PyMC.

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import default_float, describe
from .._errors import MissingFromModel
from .._layout import Layout
from .._programs import compiled
from .._traced import Traced, traced
from .._types import Scalar
from ..targets.evaluate import rows_of, values_at
from ..targets.observations import HasObservations
from ._pymc_graphs import as_jax, pymc_package
from ._pymc_unknowns import Unknown, layout_of, now, unknowns_of

if TYPE_CHECKING:
    from pymc import Model


class ModelOf:
    """The PyMC model that a target was made of, and its labels. All are equal: no compiled program depends on them."""

    def __init__(self, model: "Model"):
        self.model = model
        self.dims = _dims(model)
        self.coords = {str(name): tuple(labels) for name, labels in model.coords.items() if labels is not None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelOf)

    def __hash__(self) -> int:
        return hash(ModelOf)


@final
class PyMCModel(HasObservations):
    """The target that `sivi.from_pymc` makes.

    Attributes:
        structure: Names, shapes and constraints of the unknowns.
        density: x → log p(x).
        quantities: x → the derived quantities.
        likelihoods: x → the log likelihood of every observation.
        observations: The observed data, by name.
        source: The PyMC model.
    """

    structure: Layout
    density: Traced
    quantities: Traced
    likelihoods: Traced
    observations: dict[str, Array]
    source: ModelOf = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return self.structure.dim

    @property
    def layout(self) -> Layout:
        return self.structure

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        return self.density(x)

    def derived(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        return self.quantities(x)

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        return self.source.dims

    @property
    def coords(self) -> Mapping[str, Sequence[Any]]:
        return self.source.coords

    @property
    def observed(self) -> dict[str, Array]:
        return self.observations

    def pointwise_log_likelihood(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        return self.likelihoods(x)

    def replicate(self, key: PRNGKeyArray, x: Float[Array, " dim"]) -> dict[str, Array]:
        raise MissingFromModel("PyMC draws observations outside JAX: use replicates, which takes many points at once.")

    def replicates(self, key: PRNGKeyArray, points: Float[Array, "n dim"]) -> dict[str, Array]:
        """Observations drawn by `pymc.sample_posterior_predictive`, with the data that the model has now."""
        from xarray import Dataset

        if not self.observations:
            return {}
        values = {
            name: ((("chain", "draw", *(f"{name}_{i}" for i in range(array.ndim - 1)))), np.asarray(array, float)[None])
            for name, array in _variables_at(self, points).items()
        }
        with _without_remarks():
            drawn = pymc_package().sample_posterior_predictive(
                Dataset(values),
                model=self.source.model,
                var_names=list(self.observations),
                random_seed=int(jax.random.randint(key, (), 0, np.iinfo(np.int32).max)),
                progressbar=False,
                return_inferencedata=False,
            )
        return {name: jnp.asarray(drawn[name][0]) for name in self.observations}


def from_pymc(model: "Model") -> PyMCModel:
    """A PyMC model as a target for `sivi.fit`, `sivi.infer` and the samplers.

    Its log density is PyMC's own, on the real numbers to which PyMC's transforms lead, Jacobian included. Draws have
    the names and constraints of the model; deterministics are derived quantities; coords and dims are kept. The model
    is read now: a later `pymc.set_data` is seen by a new call, which finds the compiled programs of the first one if
    the shapes are the same.

    An unknown whose transform has no counterpart among `sivi.constraints`, or whose bounds depend on other unknowns, is
    fitted under PyMC's name for its real numbers, such as `x_interval__`. The variable itself is then a derived
    quantity.

    JAX computes in the type that it is set to, float32 unless x64 is on. Neither this function nor what it imports
    changes that setting.

    Args:
        model: The `pymc.Model`. All its unknowns must be continuous.

    Returns:
        A target, with the observations of the model for predictive checks and LOO.

    Raises:
        ImportError: PyMC is not installed.
        ValueError: The model has no unknowns, discrete ones, or data in minibatches.
        NotImplementedError: An operation of the model cannot run on JAX.
    """
    pymc = pymc_package()
    if not isinstance(model, pymc.Model):
        raise TypeError(f"model must be a pymc.Model; got {describe(model)}.")
    _check(model)
    variables = list(model.unobserved_value_vars)
    values = as_jax(model, variables)
    names = [variable.name for variable in variables]
    unknowns = _verified(unknowns_of(model), lambda v: dict(zip(names, values(v), strict=True)))
    layout = layout_of(unknowns)
    free = {unknown.value_name for unknown in unknowns}
    computed = [name for name in names if name not in free and name not in layout.names]
    observed = list(model.observed_RVs)
    density = as_jax(model, [model.logp()])
    likelihoods = as_jax(model, model.logp(vars=observed, sum=False)) if observed else lambda _: []
    constant = sum(unknown.log_det for unknown in unknowns)
    x = jax.ShapeDtypeStruct((layout.dim,), default_float())

    def trace(function: Callable[[dict[str, Array]], Any]) -> Traced:
        return traced(
            lambda x: jax.tree.map(lambda leaf: leaf.astype(_kind(leaf, x)), function(_values(unknowns, x))), x
        )

    return PyMCModel(
        structure=layout,
        density=trace(lambda v: jnp.asarray(density(v)[0]) + constant),
        quantities=trace(lambda v: {n: jnp.asarray(a) for n, a in zip(names, values(v), strict=True) if n in computed}),
        likelihoods=trace(lambda v: {rv.name: jnp.asarray(a) for rv, a in zip(observed, likelihoods(v), strict=True)}),
        observations={rv.name: jnp.asarray(now(model.rvs_to_values[rv])) for rv in observed},
        source=ModelOf(model),
    )


def _check(model: "Model") -> None:
    """Refuse what cannot be fitted."""
    from pytensor.graph.traversal import ancestors
    from pytensor.tensor.random.type import RandomType

    if not model.free_RVs:
        raise ValueError("model must have an unknown variable; all of its variables are observed.")
    if discrete := [rv.name for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool"))]:
        raise ValueError(
            f"model must have continuous unknowns; {', '.join(discrete)} of type {model[discrete[0]].dtype} must be "
            "summed out, as pymc.Mixture does."
        )
    for rv in model.observed_RVs:
        if any(isinstance(node.type, RandomType) for node in ancestors([model.rvs_to_values[rv]])):
            raise ValueError(
                f"model must have its data as they are; {rv.name} is observed in random minibatches (pymc.Minibatch). "
                "Give all data here, or write the model with sivi.model, whose batch_size= takes minibatches."
            )


def _values(unknowns: list[Unknown], x: Float[Array, " dim"]) -> dict[str, Array]:
    """PyMC's real numbers, from a vector in the order of the layout: that of `jax.tree.leaves`, sorted by name."""
    by_name = {unknown.name: unknown for unknown in unknowns}
    pieces, start = {}, 0
    for variable in layout_of(unknowns).variables:
        unknown = by_name[variable.name]
        pieces[unknown.value_name] = unknown.as_value(x[start : start + variable.size])
        start += variable.size
    return pieces


def _verified(unknowns: list[Unknown], variables: Callable[[dict[str, Array]], dict[str, Array]]) -> list[Unknown]:
    """The unknowns, without the constraints whose values differ from those that PyMC computes."""
    constrained = [unknown.name for unknown in unknowns if unknown.constraint is not None]
    if not constrained:
        return unknowns
    layout = layout_of(unknowns)

    @jax.jit
    def both(x: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        theirs, ours = variables(_values(unknowns, x)), layout.named(x)
        return {name: theirs[name] for name in constrained}, {name: ours[name] for name in constrained}

    differ = set()
    for x in np.random.default_rng(0).normal(size=(3, layout.dim)):
        theirs, ours = both(jnp.asarray(x, default_float()))
        differ |= {n for n in constrained if not np.allclose(theirs[n], ours[n], rtol=1e-3, atol=1e-5)}
    return [unknown.without_constraint if unknown.name in differ else unknown for unknown in unknowns]


def _kind(leaf: Array, x: Array) -> Any:
    """The type in which a result is given: that of x for real numbers."""
    return x.dtype if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.dtype


def _dims(model: "Model") -> dict[str, tuple[str, ...]]:
    """Names of axes by variable, also where PyMC leaves one of them open."""
    named = model.named_vars_to_dims.items()
    return {v: tuple(f"{v}_dim_{i}" if dim is None else str(dim) for i, dim in enumerate(dims)) for v, dims in named}


@compiled
def _variables_at(target: PyMCModel, points: Float[Array, "n dim"]) -> dict[str, Array]:
    return values_at(lambda x: target.constrain(x) | target.derived(x), points, rows_of(target))


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """Without PyMC's line on what it samples, and without its remark that potentials do not change observations."""
    logger = logging.getLogger("pymc.sampling.forward")

    def is_news(record: logging.LogRecord) -> bool:
        return record.levelno > logging.INFO

    logger.addFilter(is_news)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The effect of Potentials", UserWarning)
            yield
    finally:
        logger.removeFilter(is_news)
