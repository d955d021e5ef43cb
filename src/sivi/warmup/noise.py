"""Balanced normal noise: the draws of every step of the warm-up."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import default_float

#: Up to this dimension a QR takes less time than the rest of a step.
MAX_QR_DIM = 64


class BalancedNoise(eqx.Module):
    """Draws of N(0, I) in pairs ±u, along directions that are orthogonal in blocks of `dim`.

    Each draw alone is exactly normal: a uniform direction times an independent χ_dim radius, which a block shares. Over
    a whole block the mean of u uᵀ is a multiple of I, so a matrix estimated from it has noise in its scale alone. With
    fewer pairs than `dim` the directions are independent, not orthogonal.

    Attributes:
        frames: In more than `MAX_QR_DIM` dimensions, two random orthogonal matrices Q₀ and Q₁; None otherwise. A QR for
            every call would take too long there, and Q₀ D Q₁ with random signs D is uniform too.
        num_pairs: Pairs per call.
        dim: Length of u.

    Example:
        >>> u = BalancedNoise(jax.random.key(0), 4, 2).draw(jax.random.key(1))
        >>> u.shape, bool(jnp.all(u[:4] == -u[4:])), bool(jnp.abs(u[0] @ u[1]) < 1e-5)
        ((8, 2), True, True)
    """

    frames: Float[Array, "2 dim dim"] | None
    num_pairs: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, num_pairs: int, dim: int, *, frames: Float[Array, "2 dim dim"] | None = None):
        """The `frames` of other noise can be used again, since the signs are new in every call."""
        self.num_pairs, self.dim = num_pairs, dim
        if not MAX_QR_DIM < dim <= num_pairs:
            self.frames = None
        elif frames is None:
            self.frames = _orthogonal(jax.random.normal(key, (2, dim, dim), default_float()))
        else:
            self.frames = frames

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the normal numbers that all draws of a call are made from.

        The last row of each block gives its radius, the others its directions.
        """
        if self.num_pairs < self.dim:
            return self.num_pairs, self.dim
        rows = self.dim if self.frames is None else 1
        return -(-self.num_pairs // self.dim), rows + 1, self.dim

    def draw(self, key: PRNGKeyArray) -> Float[Array, "draws dim"]:
        """2 `num_pairs` draws; the second half mirrors the first."""
        return self.from_normals(jax.random.normal(key, self.shape, default_float()))

    def from_normals(self, normal: Float[Array, "*shape"]) -> Float[Array, "draws dim"]:
        """The draws made from normal numbers of shape `shape`."""
        if self.num_pairs < self.dim:
            return jnp.concatenate([normal, -normal])
        directions, radial = normal[:, :-1], normal[:, -1:]
        if self.frames is None:
            frames = _orthogonal(directions)
        else:
            frames = (self.frames[0] * jnp.where(directions < 0, -1.0, 1.0).astype(normal.dtype)) @ self.frames[1]
        radii = jnp.linalg.norm(radial, axis=-1, keepdims=True)
        half = (radii * frames).reshape(-1, self.dim)[: self.num_pairs]
        return jnp.concatenate([half, -half])


def _orthogonal(normal: Float[Array, "num dim dim"]) -> Float[Array, "num dim dim"]:
    """Uniform orthogonal matrices from normal ones: QR, with the signs that make it unique."""
    frames, triangles = jnp.linalg.qr(normal)
    signs = jnp.where(jnp.diagonal(triangles, axis1=1, axis2=2) < 0, -1.0, 1.0).astype(frames.dtype)
    return frames * signs[:, None, :]
