"""Fits that survive an interruption, and pictures of a fit on its way."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._errors import FitFileError
from .._fitting.fit import fit
from .._fitting.resume import load
from .._programs import compiled
from ..posterior import Posterior
from ..targets import ExactTarget, Target

_CHUNK = 1000  # updates between two checkpoints, at most
_NUM_SHOWN = 1000  # draws in a scatter plot


def fit_stages(target: Target, stops: Sequence[int], scratch: Path, **settings: Any) -> list[Posterior]:
    """The posteriors of one fit after each number of updates in `stops`, resumed from checkpoints in `scratch`.

    A fit that ends before a stop, as the default call may, is returned as it ended.

    Args:
        target: What is fitted.
        stops: Numbers of updates, ascending; at most `num_steps`, to which schedules are relative.
        scratch: Folder of the checkpoints, one per stop.
        settings: Of `sivi.fit`.
    """
    chunk_size = math.gcd(_CHUNK, *stops)
    posteriors: list[Posterior] = []
    for stop in stops:
        file = scratch / f"{stop}.sivi"
        start = stored_fit(file, target) or next(reversed(posteriors), None)
        if start is None or not _reached(start, stop):
            arguments = settings if start is None else {"resume": start}
            start = fit(
                target,
                chunk_size=chunk_size,
                progress=False,
                callbacks=[lambda report, stop=stop: report.step >= stop],
                checkpoint=file,
                **arguments,
            )
        if not _reached(start, stop):  # Ctrl-C makes `fit` return what there is: not a result
            raise KeyboardInterrupt
        posteriors.append(start)
    return posteriors


def _reached(posterior: Posterior, stop: int) -> bool:
    return posterior.step >= stop or posterior.finished


def stored_fit(file: Path, target: Target) -> Posterior | None:
    """The fit in a checkpoint; None if there is none, or one that cannot be gone on from."""
    if not file.exists():
        return None
    try:
        return load(file, target)
    except FitFileError:  # of another version of the library, say: begin again
        file.unlink()
        return None


def exact_draws(target: ExactTarget, num_draws: int, key: int) -> np.ndarray:
    """Independent draws from the target."""
    return np.asarray(_draw_exact(target, jax.random.split(jax.random.key(key), num_draws)))


@compiled
def _draw_exact(target: ExactTarget, keys: Array) -> Array:
    return jax.vmap(target.sample)(keys)


def shown_draws(posterior: Posterior, key: int) -> np.ndarray:
    """As many draws as a scatter plot of the paper has."""
    return np.asarray(posterior.sample(_NUM_SHOWN, key=key), np.float32)


def critic_at(posterior: Posterior, target: Target, points: np.ndarray) -> np.ndarray:
    """The critic of a fit at points (n, 2)."""
    assert posterior.objective is not None
    critic = posterior.objective.bind(posterior.num_steps).critic_function(posterior.state, target)
    assert critic is not None, "only an objective with a critic has arrows"
    return np.asarray(compiled(jax.vmap(critic))(jnp.asarray(points, float)), np.float32)
