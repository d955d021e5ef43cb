"""The default call on every split, one after the other: `sivi.fit(model, key=...)` and nothing else."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._fitting.fit import fit
from .._programs import compiled
from ..coordinates import ComposedMap, CoordinateMap
from ..families import Family, SemiImplicit
from ..metrics import regression_scores
from ..posterior import Posterior
from ..targets import LastLayerMap
from ._bnn_data import Parts, parts_of
from ._bnn_precisions import kept_row, model_of, precisions_of
from .base import Job


def default_rows(settings: Mapping[str, Any], precisions_job: Job, scratch: Path) -> dict[str, Any]:
    """A row for each split; one that an interrupted job has finished is not done again."""
    precisions, rows = precisions_of(precisions_job, scratch), []
    for split in settings["splits"]:
        parts = parts_of(settings["set"], split, settings["most_rows"])
        file = scratch / f"default-{split}.json"
        rows.append(kept_row(file, lambda p=parts, s=split: _row(p, s, settings, precisions[s])))
    return {"rows": rows, "seconds": sum(row["seconds"] for row in rows), "members": len(rows)}


def _row(parts: Parts, split: int, settings: Mapping[str, Any], precisions: Mapping[str, Any]) -> dict[str, Any]:
    # The precisions that the call would find; found once, they are there for the other methods too.
    model, begin = model_of(parts, precisions), time.perf_counter()
    shorter = {} if settings["num_steps"] is None else {"num_steps": settings["num_steps"]}
    posterior = fit(model, key=1000 * settings["seed"] + split, progress=False, **shorter)
    seconds = time.perf_counter() - begin
    draws = posterior.sample(settings["num_draws"], key=2000 + split)
    scores = regression_scores(model, draws, *parts.test)
    return {
        "split": split,
        "precisions": "own",
        "rmse": scores.rmse,
        "nll": scores.nll,
        "noise_sd": float(model.units.target_sd) * precisions["own_noise"] ** -0.5,
        "z_share": _share(posterior, settings["num_draws"]),
        "seconds": seconds,
        "updates": int(posterior.step),
    }


def _share(posterior: Posterior, num_draws: int) -> float | None:
    """The share of variance that comes from the mixing variable within a component, averaged over components.

    Where the last layer has its exact conditional, it is the share of its variance that comes from the other weights,
    which are mixed over; elsewhere that of all weights that comes from z. None without z.
    """
    if not isinstance(posterior.families, SemiImplicit):
        return None
    keys = jax.random.split(jax.random.key(0), posterior.repeats)
    return float(np.mean(_shares(keys, posterior.families, posterior.affines, num_draws)))


@compiled
def _shares(keys: jax.Array, families: Family, affines: CoordinateMap, num_draws: int) -> jax.Array:
    """In the coordinates of the weights, to which those of the fit are mapped."""

    def one(key: jax.Array, family: SemiImplicit, affine: CoordinateMap) -> jax.Array:
        noise, eps = family.sample_noise(key, (num_draws,))
        x = jax.lax.map(lambda pair: affine.forward(family.joint(*pair).x), (noise, eps), batch_size=100)
        outer = affine.outer if isinstance(affine, ComposedMap) else None
        if isinstance(outer, LastLayerMap):
            mean = jax.lax.map(lambda x: outer.given(x).mean, x, batch_size=100)
            x = x[:, outer.places]
        else:
            mean = jax.vmap(lambda n: affine.forward(family.joint(n, jnp.zeros(family.dim, x.dtype)).x))(noise)
        return jnp.sum(jnp.var(mean, axis=0)) / jnp.sum(jnp.var(x, axis=0))

    return jax.vmap(one)(keys, families, affines)
