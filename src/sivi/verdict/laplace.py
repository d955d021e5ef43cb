"""The Gaussian at a top: coordinates of a mode before there are draws of it."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._arguments import default_float
from ..coordinates import AffineMap, DenseMap
from ..targets import Target
from .chains import evaluate

#: Steps of the differences, in coordinates of the fit and then in those that they give.
STEPS = (0.02, 0.2)
#: A mode is at most this many times as wide as the fit.
MAX_WIDTH = 30.0


def laplace(target: Target, top: Float[np.ndarray, " dim"], affine: AffineMap) -> DenseMap | None:
    """x = top + L u with L Lᵀ = (−∇² log p)⁻¹ at a top, from differences of scores.

    None if the curvature has a wrong sign or is not finite, as at a top that is an edge, a ridge or a spike; and where
    coordinates have no full matrix.

    Args:
        target: p.
        top: In x.
        affine: Coordinates of the fit.
    """
    if not isinstance(affine, DenseMap):
        return None
    root = np.asarray(affine.matrix, float)
    dim = len(top)
    for step in STEPS:
        offsets = step * root.T
        grad = evaluate(target, np.concatenate([top + offsets, top - offsets]), affine).grad
        curvature = -(grad[:dim] - grad[dim:]).astype(float) @ root / (2.0 * step)
        if not np.isfinite(curvature).all():
            return None
        values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
        if values.min() < MAX_WIDTH**-2:
            return None
        root = root @ (vectors / np.sqrt(values))
    dtype = default_float()
    return DenseMap(
        jnp.asarray(top, dtype),
        jnp.asarray(root, dtype),
        jnp.asarray(np.linalg.inv(root), dtype),
        jnp.asarray(np.linalg.slogdet(root)[1], dtype),
    )
