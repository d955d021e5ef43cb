"""What is looked at before a target is used: shapes and types, and the size of a minibatch."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from .._arguments import check_count, default_float, describe
from .base import Target


def check_shapes(target: Target, *, log_prob: bool) -> None:
    """Refuse a target whose score, or log density, has another shape or type than it owes; nothing is compiled."""
    quantities = [("score", (target.dim,), target.score)]
    if log_prob:
        quantities.insert(0, ("log density", (), target.log_prob))
    for name, shape, function in quantities:
        try:
            out = eqx.filter_eval_shape(function, jax.ShapeDtypeStruct((target.dim,), default_float()))
        except Exception as error:
            error.add_note(f"(raised by the target's {name}, called with a vector of shape ({target.dim},))")
            raise
        is_array = isinstance(out, jax.ShapeDtypeStruct) and bool(jnp.issubdtype(out.dtype, jnp.floating))
        if not is_array or out.shape != shape or out.dtype.itemsize < 4:
            raise ValueError(
                f"target: the {name} must be a float32 or float64 array of shape {shape}; got {describe(out)}."
            )
    shapes = target.shapes
    is_shapes = isinstance(shapes, tuple) and all(isinstance(shape, tuple) for shape in shapes)
    if not is_shapes or sum(math.prod(shape) for shape in shapes) != target.dim:
        raise ValueError(
            f"target: shapes must be a tuple of shapes whose sizes add up to dim, {target.dim}, such as "
            f"(({target.dim},),); got {shapes!r}."
        )


def check_batch_size(target: Target, batch_size: int | None) -> None:
    """Refuse a minibatch of a target without data, or a larger one than the data."""
    if batch_size is None:
        return
    batch_size = check_count("batch_size", batch_size)
    if target.num_data is None:
        raise ValueError(f"batch_size needs a target with data, such as a BayesianModel; got {batch_size}.")
    if batch_size > target.num_data:
        raise ValueError(f"batch_size must be at most the number of data, {target.num_data}; got {batch_size}.")
