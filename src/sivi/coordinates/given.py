"""The map of a user's argument `whiten`."""

import jax.numpy as jnp
import numpy as np

from .._arguments import check_numbers, default_float, describe
from .base import CoordinateMap
from .dense import DenseMap, check_invertible
from .diagonal import DiagonalMap


def as_map(value: object, dim: int) -> CoordinateMap:
    """The map of a user's `whiten=(m, L)`, L a vector (diagonal) or a matrix; or a map of `sivi.coordinates` itself.

    Example:
        >>> type(as_map(([0.0, 1.0], [1.0, 2.0]), 2)).__name__
        'DiagonalMap'
    """
    if isinstance(value, CoordinateMap):
        if value.dim != dim:
            raise ValueError(f"whiten must be a map of the target's dim, {dim}; got one of {value.dim}.")
        return value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(
            f"whiten must be a pair (m, L) of an array each, or a map of sivi.coordinates; got {describe(value)}."
        )
    mean, root = (_numbers(part, name) for part, name in zip(value, ("m", "L"), strict=True))
    if mean.shape != (dim,):
        raise ValueError(f"whiten=(m, L): m must have shape ({dim},); got {mean.shape}.")
    if root.shape not in ((dim,), (dim, dim)):
        raise ValueError(f"whiten=(m, L): L must have shape ({dim},) or ({dim}, {dim}); got {root.shape}.")
    dtype = default_float()
    if root.ndim == 1:
        if not root.all():
            raise ValueError(f"whiten=(m, L): a diagonal L must have no zeros; got one at {int(np.argmin(root != 0))}.")
        return DiagonalMap(jnp.asarray(mean, dtype), jnp.asarray(root, dtype))
    check_invertible("whiten=(m, L): L", root)
    return DenseMap(jnp.asarray(mean, dtype), jnp.asarray(root, dtype))


def _numbers(value: object, name: str) -> np.ndarray:
    array = check_numbers(f"whiten=(m, L): {name}", value).astype(float)
    if not np.isfinite(array).all():
        raise ValueError(f"whiten=(m, L): {name} must be finite; got {int((~np.isfinite(array)).sum())} that are not.")
    return array
