"""A target in the coordinates u of a fit."""

from jaxtyping import Array, Float, Int

from .._arguments import check_kind
from .._layout import Layout
from .._types import Scalar
from ..coordinates import CoordinateMap, IdentityMap
from .base import Target, TargetWrapper
from .control_variate import ControlVariate


class Whitened(TargetWrapper):
    """The target pulled back to u by x = T(u), with the log density log p(T(u)) + log |det ∂T/∂u|.

    Where x = m + L u, its score is Lᵀ S(m + L u).

    Attributes:
        target: p, in x.
        affine: x = T(u), in most cases m + L u.

    Example:
        >>> import jax.numpy as jnp
        >>> from sivi.coordinates import DiagonalMap
        >>> from sivi.targets import IsotropicGaussian
        >>> whitened = Whitened(IsotropicGaussian(2, sd=3.0), DiagonalMap(jnp.zeros(2), jnp.full(2, 3.0)))
        >>> whitened.score(jnp.ones(2)).round(5).tolist()
        [-1.0, -1.0]
    """

    target: Target
    affine: CoordinateMap

    @property
    def layout(self) -> Layout:
        """The layout of a plain vector: u has no names."""
        return Layout.vector(self.dim)

    @property
    def numbers_per_row(self) -> int:
        of_map = -(-self.affine.numbers_per_point // (self.num_data or 1))
        return max(self.target.numbers_per_row, of_map)

    def inner_point(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.affine.forward(x)

    def __check_init__(self) -> None:
        check_kind("target", Target, "a sivi target", self.target)
        dim = check_kind("affine", CoordinateMap, "a map of sivi.coordinates", self.affine).dim
        if dim != self.target.dim:
            raise ValueError(f"affine must have the target's dim, {self.target.dim}; got {dim}.")

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        return self.target.log_prob(self.affine.forward(x), batch) + self.affine.log_det_at(x)

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        # Not by autodiff of log_prob: the target may know only its score.
        return self.affine.score_at(x, self.target.score(self.affine.forward(x), batch))


def in_fit_coordinates(
    target: Target, affine: CoordinateMap, score_at_centre: Float[Array, " dim"] | None = None
) -> Target:
    """The target as the fit sees it: in u, and with a control variate where a score is given.

    Args:
        target: The target, in x.
        affine: x = T(u); the identity leaves the target as it is.
        score_at_centre: S(m) on all data, for a control variate of minibatches around m; None for none.
    """
    if score_at_centre is not None:
        target = ControlVariate(target, affine.mean, score_at_centre)
    return target if isinstance(affine, IdentityMap) else Whitened(target, affine)
