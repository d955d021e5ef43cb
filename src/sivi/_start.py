"""What is looked at before a fit starts: the target where the family is, the batch size, the checkpoint's place."""

import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ._errors import check_count
from ._types import default_float, describe
from .families import Family
from .targets import Target

_NUM_STARTS = 16  # draws of the initial family at which the target is tried


def check_batch_size(target: Target, batch_size: int | None) -> None:
    if batch_size is None:
        return
    batch_size = check_count("batch_size", batch_size)
    if target.num_data is None:
        raise ValueError(f"batch_size needs a target with data, such as a BayesianModel; got {batch_size}.")
    if batch_size == 1 and target.num_data > 1:
        raise ValueError("batch_size must be at least 2, since some objectives split a batch; got 1.")
    if batch_size > target.num_data:
        raise ValueError(f"batch_size must be at most the number of data, {target.num_data}; got {batch_size}.")


def check_target(target: Target, family: Family, key: PRNGKeyArray) -> None:
    """Look at the target where the fit starts: shapes and dtypes first, then values."""
    x = jax.ShapeDtypeStruct((target.dim,), default_float())
    quantities = [("score", (target.dim,), target.score)]
    if target.knows_log_prob:
        quantities.insert(0, ("log density", (), target.log_prob))
    for name, shape, function in quantities:
        try:
            out = eqx.filter_eval_shape(function, x)
        except Exception as error:
            error.add_note(f"(raised by the target's {name}, called with a vector of shape ({target.dim},))")
            raise
        if not isinstance(out, jax.ShapeDtypeStruct) or out.shape != shape or not _is_float(out.dtype):
            raise ValueError(
                f"target: the {name} must be a float32 or float64 array of shape {shape}; got {describe(out)}."
            )
    points = jax.vmap(family.sample)(jax.random.split(key, _NUM_STARTS))
    for name, _, function in quantities:
        values = np.asarray(eqx.filter_jit(lambda f, p: jax.lax.map(f, p))(function, points))
        finite = np.isfinite(values).reshape(_NUM_STARTS, -1).all(1)
        if finite.sum() < _NUM_STARTS / 2:
            worst = int(np.argmin(finite))
            raise ValueError(
                f"target: the {name} must be finite where the fit starts; at {_NUM_STARTS - int(finite.sum())} of "
                f"{_NUM_STARTS} starting points it is not, for example {values[worst]} at x = {points[worst]}."
            )


def _is_float(dtype: np.dtype[Any]) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.floating)) and dtype.itemsize >= 4


def writable_file(checkpoint: str | os.PathLike[str]) -> Path:
    path = Path(checkpoint)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint must be in an existing folder; {str(path.parent)!r} is not one.")
    if path.is_dir():
        raise IsADirectoryError(f"checkpoint must be a file; {str(path)!r} is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"checkpoint must be in a writable folder; {str(path.parent)!r} is not.")
    return path
