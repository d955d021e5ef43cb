"""The interface of affine maps x = m + L u, from the coordinates u of a fit to those of its target."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from .._types import Scalar


class AffineMap(eqx.Module):
    """x = m + L u with an invertible L.

    Every map is a pytree of arrays, so several of one kind stack along a leading axis and are used under `vmap`.

    Attributes:
        mean: m, the image of u = 0.
        log_det: log |det L|.
    """

    mean: eqx.AbstractVar[Float[Array, " dim"]]
    log_det: eqx.AbstractVar[Scalar]

    @property
    def dim(self) -> int:
        return int(self.mean.shape[-1])

    @abc.abstractmethod
    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """x = m + L u."""

    @abc.abstractmethod
    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """u = L⁻¹ (x − m)."""

    @abc.abstractmethod
    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Lᵀ S: a gradient with respect to x becomes one with respect to u."""

    @property
    @abc.abstractmethod
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        """The diagonal of L Lᵀ: the variances of x when u ~ N(0, I)."""
