"""A NumPyro model as a target: `sivi.from_numpyro`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import describe
from .._layout import Layout
from .._traced import Traced, traced
from .._types import Scalar
from ..targets import HasObservations
from ..targets.functional import point_like
from ._numpyro_sites import Call, Sites, drawn, frame_of, is_observation, log_prob_of, run, sites_of
from ._numpyro_support import distributions


class Terms(NamedTuple):
    """What a model says at a point, or of one row of a plate at a point.

    Attributes:
        log_prob: Sum of the log densities, of one row multiplied by the number of rows.
        log_likelihoods: Of the observations, by name.
        derived: Deterministic sites, by name.
    """

    log_prob: Scalar
    log_likelihoods: dict[str, Array]
    derived: dict[str, Array]


@final
class NumPyroModel(HasObservations):
    """The target that `sivi.from_numpyro` makes.

    Attributes:
        structure: Names, shapes and constraints of the latent sites.
        observations: The data of the observed sites.
        whole: point → `Terms` of all sites but those in the plate with minibatches.
        row: (point, row) → `Terms` of one row of that plate.
        drawing: (key, point) → new observations; None if a distribution cannot draw them.
        row_drawing: (key, point, row) → those of one row.
        row_axes: Where the axis of that plate is, counted from the end, in the log likelihood and in the observations.
    """

    structure: Layout
    observations: dict[str, Array]
    whole: Traced
    row: Traced | None
    drawing: Traced | None
    row_drawing: Traced | None
    row_axes: tuple[tuple[str, int, int], ...] = eqx.field(static=True)
    rows: int | None = eqx.field(static=True)
    named_axes: tuple[tuple[str, tuple[str, ...]], ...] = eqx.field(static=True)
    plate_sizes: tuple[tuple[str, int], ...] = eqx.field(static=True)

    @property
    def layout(self) -> Layout:
        return self.structure

    @property
    def dim(self) -> int:
        return self.structure.dim

    @property
    def num_data(self) -> int | None:
        return self.rows

    @property
    def observed(self) -> dict[str, Array]:
        return self.observations

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        return dict(self.named_axes)

    @property
    def coords(self) -> Mapping[str, Sequence[Any]]:
        return {name: range(size) for name, size in self.plate_sizes}

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        point = self.structure.unravel(x)
        value = Terms(*self.whole(point)).log_prob
        if (terms := self.row) is not None:
            rows = self._all_rows() if batch is None else batch
            value = value + jnp.mean(jax.vmap(lambda row: Terms(*terms(point, row)).log_prob)(rows))
        return value + self.structure.log_det(x).astype(jnp.result_type(value))

    def derived(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        return Terms(*self.whole(self.structure.unravel(x))).derived

    def pointwise_log_likelihood(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        point = self.structure.unravel(x)
        found = dict(Terms(*self.whole(point)).log_likelihoods)
        if (terms := self.row) is not None:
            by_row = jax.vmap(lambda row: Terms(*terms(point, row)).log_likelihoods)(self._all_rows())
            found |= {name: jnp.moveaxis(by_row[name], 0, axis) for name, axis, _ in self.row_axes}
        return found

    def replicate(self, key: PRNGKeyArray, x: Float[Array, " dim"]) -> dict[str, Array]:
        if self.drawing is None:
            raise TypeError("the model cannot draw new data: the distribution of an observed site cannot be sampled.")
        point, keys = self.structure.unravel(x), jax.random.split(key)
        found = dict(self.drawing(keys[0], point))
        if (draw := self.row_drawing) is not None:
            rows = self._all_rows()
            by_row = jax.vmap(lambda key, row: draw(key, point, row))(jax.random.split(keys[1], len(rows)), rows)
            found |= {name: jnp.moveaxis(by_row[name], 0, axis) for name, _, axis in self.row_axes}
        return found

    def _all_rows(self) -> Int[Array, " rows"]:
        return jnp.arange(self.rows)


def from_numpyro(model: Callable[..., Any], /, *args: Any, **kwargs: Any) -> NumPyroModel:
    """A NumPyro model, with its data, as a target for `sivi.fit`.

    The unknowns are the sites that are not observed, under their names, with NumPyro's own maps from free numbers. So
    `log_prob` is minus NumPyro's potential, and `posterior.sample` returns what `numpyro.infer.Predictive` takes.
    The model runs a few times now, and never again: later changes of what it closes over are not seen.

    One plate may have a `subsample_size`. Its size is then `num_data`, and `batch_size` of `fit` says how many of its
    rows an update sees, whatever the `subsample_size` was. Without `batch_size` all of them count.

    Args:
        model: A function with `numpyro.sample` sites.
        *args: Its arguments, with the data.
        **kwargs: Its keyword arguments.

    Returns:
        A target with the deterministic sites as derived quantities, the plates as names of axes, and the observed
        sites as observations. Deterministic sites inside a plate with a `subsample_size` are left out.

    Raises:
        TypeError: The model has a site that cannot be fitted: one that is discrete and not observed, a support that
            depends on other sites, `numpyro.param`, `numpyro.prng_key`, unknowns in a plate with a `subsample_size`, or
            two such plates.
        ImportError: NumPyro is not installed.

    Example:
        >>> import numpyro, numpyro.distributions as dist
        >>> def line(x, y=None):
        ...     slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        ...     sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        ...     with numpyro.plate("row", len(x)):
        ...         numpyro.sample("y", dist.Normal(slope * x, sigma), obs=y)
        >>> target = from_numpyro(line, jnp.arange(3.0), y=jnp.array([0.1, 0.9, 2.2]))
        >>> target.layout.names, target.dims["y"]
        (('sigma', 'slope'), ('row',))
    """
    distributions()
    if not callable(model):
        raise TypeError(f"model must be a function with numpyro.sample sites; got {describe(model)}.")

    call = partial(model, *args, **kwargs)
    try:
        sites = sites_of(call)
    except jax.errors.TracerArrayConversionError:  # NumPy arrays cannot be indexed by the rows of a plate
        arrays = jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, (args, kwargs))
        call = partial(model, *arrays[0], **arrays[1])
        sites = sites_of(call)
    layout = Layout.like(sites.like)
    point, key = point_like(layout), jax.eval_shape(lambda: jax.random.key(0))
    row = None if sites.plate is None else jax.ShapeDtypeStruct((), jnp.arange(1).dtype)
    rows = [] if row is None else [row]
    where: dict[str, tuple[int, int]] = {}
    # Plain tuples: traces that return them can be compared, and those of another class cannot.
    whole = traced(lambda point: tuple(_terms(call, sites, point, None, where)), point)
    by_row = [traced(lambda point, row: tuple(_terms(call, sites, point, row, where)), point, row) for row in rows]
    try:
        drawing = traced(lambda key, point: _drawn(call, sites, key, point, None), key, point)
        row_drawing = [traced(lambda *given: _drawn(call, sites, *given), key, point, row) for row in rows]
    except NotImplementedError:
        drawing, row_drawing = None, []
    return NumPyroModel(
        layout,
        sites.observed,
        whole,
        by_row[0] if by_row else None,
        drawing,
        row_drawing[0] if row_drawing else None,
        tuple((name, *axes) for name, axes in where.items()),
        None if sites.plate is None else sites.plate[1],
        tuple(sites.axes.items()),
        tuple(sites.sizes.items()),
    )


def _terms(call: Call, sites: Sites, point: dict[str, Array], row: Array | None, where: dict[str, Any]) -> Terms:
    """Of one row of the plate with minibatches, or of all else. Where the axis of the plate is goes into `where`."""
    plate, size = sites.plate or (None, 1)
    found = run(call, point, plate, jnp.zeros((), jnp.arange(1).dtype) if row is None else row)
    log_prob, log_likelihoods, derived = jnp.zeros(()), {}, {}
    for name, site in found.items():
        frame = frame_of(site, plate)
        if (frame is None) != (row is None):
            continue
        if site["type"] == "deterministic":
            derived[name] = jnp.asarray(site["value"])
        if site["type"] != "sample":
            continue
        each = log_prob_of(site, plate)
        log_prob = log_prob + jnp.sum(each)
        if is_observation(site):
            if frame is not None:
                where[name] = frame.dim, frame.dim - site["fn"].event_dim
                each = jnp.squeeze(each, frame.dim) / size
            log_likelihoods[name] = each
    return Terms(log_prob, log_likelihoods, derived)


def _drawn(call: Call, sites: Sites, key: Array, point: dict[str, Array], row: Array | None) -> dict[str, Array]:
    """New observations of one row of the plate with minibatches, or of all else."""
    plate = None if sites.plate is None else sites.plate[0]
    found = run(call, point, plate, jnp.zeros((), jnp.arange(1).dtype) if row is None else row)
    drawn_sites = {}
    for i, (name, site) in enumerate(found.items()):
        frame = frame_of(site, plate)
        if is_observation(site) and (frame is None) == (row is None):
            value = drawn(site, jax.random.fold_in(key, i))
            axis = None if frame is None else frame.dim - site["fn"].event_dim
            drawn_sites[name] = value if axis is None else jnp.squeeze(value, axis)
    return drawn_sites
