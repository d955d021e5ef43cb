"""What a NumPyro model says when it runs: its sites, by NumPyro's own handlers."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._arguments import describe
from ..constraints import Constraint
from ._numpyro_support import bounds_of, constraint_of, distributions, steps_of


class Sites(NamedTuple):
    """What is known of a model before its log density is evaluated.

    Attributes:
        like: Shapes and constraints of the latent sites, by name.
        observed: The observations, by name, on all data.
        plate: Name and size of the plate with minibatches, if there is one.
        axes: Names for the axes of sites that are in plates.
        sizes: Sizes of the plates that name axes.
    """

    like: dict[str, Constraint | np.ndarray]
    observed: dict[str, Array]
    plate: tuple[str, int] | None
    axes: dict[str, tuple[str, ...]]
    sizes: dict[str, int]


#: A model with its arguments.
Call = Callable[[], Any]


def sites_of(call: Call) -> Sites:
    """The sites of a model, which is traced once and not compiled, but for the bounds of supports and the data."""
    from numpyro.handlers import block, seed, substitute, trace  # pyright: ignore[reportMissingImports]
    from numpyro.infer import init_to_uniform  # pyright: ignore[reportMissingImports]

    found: dict[str, Any] = {}
    plates: dict[str, int] = {}
    steps: dict[str, tuple[str, ...]] = {}

    def start(site: dict[str, Any]) -> Any:
        """All rows of a plate with minibatches, and a point of each latent site."""
        if site["type"] == "plate":
            size, of_batch = site["args"]
            if of_batch in (None, size):
                return None
            plates[site["name"]] = size
            return _all_rows(site, jnp.arange(size))
        if site["type"] != "sample" or site["is_observed"] or site["value"] is not None:
            return None
        _check_latent(site)
        return init_to_uniform(site)

    def look(key: Array) -> tuple[dict[str, Any], dict[str, Any]]:
        started = substitute(seed(block(call, hide_fn=_refuse_random), key), substitute_fn=start)
        found.update(trace(started).get_trace())
        supports = {name: site["fn"].support for name, site in found.items() if _is_latent(site)}
        steps.update((name, steps_of(support)) for name, support in supports.items())
        bounds = {name: bounds_of(support) for name, support in supports.items()}
        return bounds, {name: jnp.asarray(site["value"]) for name, site in found.items() if is_observation(site)}

    compiled = jax.jit(look)
    (bounds, observed), (elsewhere, _) = (compiled(jax.random.key(seed)) for seed in range(2))
    _check_sites(found, plates)
    plate = next(iter(plates.items()), None)
    like: dict[str, Constraint | np.ndarray] = {}
    for name, numbers in bounds.items():
        site = found[name]
        if not all(np.array_equal(number, elsewhere[name][bound]) for bound, number in numbers.items()):
            raise TypeError(
                f"the support of site {name!r} must not depend on other sites; draw u from Uniform(0, 1) instead, and "
                f"write {name!r} as numpyro.deterministic, low + (high - low) * u."
            )
        shape = jnp.shape(site["value"])
        try:
            constraint = constraint_of(site["fn"].support, steps[name], jax.tree.map(np.asarray, numbers), shape)
        except (TypeError, ValueError) as error:
            raise TypeError(f"site {name!r} cannot be fitted: {error}.") from error
        like[name] = np.zeros(shape) if constraint is None else constraint
    axes = {name: names for name, site in found.items() if (names := _axes_of(site)) is not None}
    sizes = {frame.name: frame.size for name in axes for frame in found[name]["cond_indep_stack"]}
    return Sites(like, observed, plate, axes, sizes)


def run(call: Call, point: Mapping[str, Array], plate: str | None = None, row: Array | None = None) -> dict[str, Any]:
    """The sites of the model at a point; of the plate with minibatches, one row alone.

    Args:
        call: The model with its arguments.
        point: Values of the latent sites.
        plate: Name of the plate with minibatches.
        row: Its row.
    """
    from numpyro.handlers import block, substitute, trace  # pyright: ignore[reportMissingImports]

    def given(site: dict[str, Any]) -> Any:
        if site["type"] == "plate":
            return None if row is None or site["name"] != plate else _all_rows(site, row[None])
        return point.get(site["name"]) if site["type"] == "sample" and not site["is_observed"] else None

    return dict(trace(substitute(block(call, hide_fn=_refuse_random), substitute_fn=given)).get_trace())


def log_prob_of(site: dict[str, Any], plate: str | None) -> Array:
    """The log density of a sample site, entry by entry, with the weight that handlers and plates give it."""
    distribution, value = site["fn"], site["value"]
    log_prob = distribution.log_prob(value, *filter(None, [site["intermediates"]]))
    if (frame := frame_of(site, plate)) is not None and jnp.shape(log_prob)[frame.dim :][:1] != (1,):
        raise ValueError(
            f"site {site['name']!r} must have one entry per row of the plate {plate!r}: index its data by what the "
            f"plate gives, or by numpyro.subsample; of one row it has shape {jnp.shape(log_prob)}."
        )
    return log_prob if site["scale"] is None else site["scale"] * log_prob


def drawn(site: dict[str, Any], key: Array) -> Array:
    """A new observation in place of that of a site, in its shape and type."""
    distribution, value = site["fn"], jnp.asarray(site["value"])
    batch = jnp.broadcast_shapes(distribution.batch_shape, value.shape[: value.ndim - distribution.event_dim])
    return distribution.expand(batch).sample(key).astype(value.dtype)


def frame_of(site: dict[str, Any], plate: str | None) -> Any:
    """The plate of a name as the site is in it, with its axis; None if it is not."""
    return next((frame for frame in site.get("cond_indep_stack", ()) if frame.name == plate), None)


def is_observation(site: dict[str, Any]) -> bool:
    """Whether a site holds data: one that adds a number to the log density does not."""
    return site["type"] == "sample" and site["is_observed"] and not isinstance(site["fn"], distributions().Unit)


def _is_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _all_rows(site: dict[str, Any], rows: Array) -> Array:
    """Rows for a plate, which then does not wonder at their number."""
    site["args"] = (site["args"][0], rows.shape[0])
    return rows


def _check_latent(site: dict[str, Any]) -> None:
    name, support = site["name"], site["fn"].support
    if support.is_discrete:
        raise TypeError(f"site {name!r} is discrete and not observed: sum it out, as MixtureSameFamily does.")
    try:
        steps_of(support)
    except NotImplementedError:
        raise TypeError(
            f"site {name!r} has the support {describe(support)}, onto which NumPyro has no map from free numbers."
        ) from None


def _check_sites(found: Mapping[str, Any], plates: Mapping[str, int]) -> None:
    """Refuse what is no joint density of continuous unknowns, or has no minibatches that can be scaled."""
    if len(plates) > 1:
        raise TypeError(f"one plate at most may have a subsample_size; got {', '.join(map(repr, plates))}.")
    for name, site in found.items():
        if site["type"] in ("param", "mutable"):
            raise TypeError(
                f"numpyro.{site['type']} {name!r} has no posterior: give it a prior, with numpyro.sample, or a value."
            )
        if not _is_latent(site):
            continue
        for plate in plates:
            if frame_of(site, plate) is not None:
                raise TypeError(
                    f"site {name!r} must not be in the plate {plate!r}, which has a subsample_size: every row would "
                    "have unknowns of its own."
                )
        if site["scale"] is not None:
            raise TypeError(f"site {name!r} is not observed, so numpyro.handlers.scale must leave it out.")
    if not any(map(_is_latent, found.values())):
        raise TypeError("the model must have a numpyro.sample site that is not observed.")


def _refuse_random(site: dict[str, Any]) -> bool:
    """For `block`, which asks it of every message: none is hidden."""
    if site["type"] == "prng_key":
        raise TypeError("the model must not use numpyro.prng_key: its log density would be random.")
    return False


def _axes_of(site: dict[str, Any]) -> tuple[str, ...] | None:
    """Names of the axes of a site in plates; None for another."""
    frames, shape = site.get("cond_indep_stack"), jnp.shape(site["value"])
    if site["type"] not in ("sample", "deterministic") or not frames:
        return None
    own = site["fn"].event_dim if site["type"] == "sample" else 0
    batch = len(shape) - own
    names = {batch + frame.dim: frame.name for frame in frames}
    # Of a computed quantity nothing says which axes are its own: it has names if all of them are those of plates.
    fits = all(axis >= 0 and shape[axis] == frame.size for axis, frame in zip(names, frames, strict=True))
    if not fits or (site["type"] == "deterministic" and len(names) < batch):
        return None
    return tuple(names.get(axis, f"{site['name']}_dim_{axis}") for axis in range(len(shape)))
