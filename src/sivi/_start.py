"""What is looked at before a fit starts: the target where the family is, the batch size, the checkpoint's place."""

import os
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .families import Family
from .targets import Target
from .targets.checks import check_batch_size, check_shapes

_NUM_STARTS = 16  # draws of the initial family at which the target is tried


def check_split(target: Target, batch_size: int | None) -> None:
    """Check the size of a minibatch, which some objectives split."""
    check_batch_size(target, batch_size)
    if batch_size == 1 and target.num_data != 1:
        raise ValueError("batch_size must be at least 2, since some objectives split a batch; got 1.")


def check_target(target: Target, family: Family, key: PRNGKeyArray) -> None:
    """Look at the target where the fit starts: shapes and dtypes first, then values."""
    check_shapes(target, log_prob=target.knows_log_prob)
    points = jax.vmap(family.sample)(jax.random.split(key, _NUM_STARTS))
    quantities = {"log density": target.log_prob} if target.knows_log_prob else {}
    for name, function in (quantities | {"score": target.score}).items():
        values = np.asarray(eqx.filter_jit(lambda f, p: jax.lax.map(f, p))(function, points))
        finite = np.isfinite(values).reshape(_NUM_STARTS, -1).all(1)
        if finite.sum() < _NUM_STARTS / 2:
            worst = int(np.argmin(finite))
            raise ValueError(
                f"target: the {name} must be finite where the fit starts; at {_NUM_STARTS - int(finite.sum())} of "
                f"{_NUM_STARTS} starting points it is not, for example {values[worst]} at x = {points[worst]}."
            )


def writable_file(checkpoint: str | os.PathLike[str]) -> Path:
    path = Path(checkpoint)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint must be in an existing folder; {str(path.parent)!r} is not one.")
    if path.is_dir():
        raise IsADirectoryError(f"checkpoint must be a file; {str(path)!r} is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"checkpoint must be in a writable folder; {str(path.parent)!r} is not.")
    return path
