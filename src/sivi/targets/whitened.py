"""A target in the coordinates u of an affine map x = m + L u."""

from jaxtyping import Array, Float, Int

from .._affine import AffineMap, IdentityMap
from .._layout import Layout
from .._types import Scalar
from .anchored import Anchored
from .base import Target, TargetOfTarget


class Whitened(TargetOfTarget):
    """The target pulled back to u: log p(m + L u) + log |det L|, with score Lᵀ S(m + L u).

    Attributes:
        target: p, in x.
        affine: x = m + L u.

    Example:
        >>> import jax.numpy as jnp
        >>> from sivi._affine import DiagonalMap
        >>> from sivi.targets import IsotropicGaussian
        >>> whitened = Whitened(IsotropicGaussian(2, sd=3.0), DiagonalMap(jnp.zeros(2), jnp.full(2, 3.0)))
        >>> whitened.score(jnp.ones(2)).round(5).tolist()
        [-1.0, -1.0]
    """

    target: Target
    affine: AffineMap

    @property
    def layout(self) -> Layout:
        """That of a plain vector: u has no names."""
        return Layout.vector(self.dim)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return ((self.dim,),)

    def __check_init__(self) -> None:
        if self.affine.dim != self.target.dim:
            raise ValueError(f"affine must have the target's dim, {self.target.dim}; got {self.affine.dim}.")

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        return self.target.log_prob(self.affine.forward(x), batch) + self.affine.log_det

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        # Through the target's own score, which may be all it knows.
        return self.affine.pull_back(self.target.score(self.affine.forward(x), batch))


def in_fit_coordinates(
    target: Target, affine: AffineMap, score_at_centre: Float[Array, " dim"] | None = None
) -> Target:
    """The target as the fit sees it: in u, and with a control variate where a score is given.

    Args:
        target: The target, in x.
        affine: x = m + L u; the identity leaves the target as it is.
        score_at_centre: S(m) on all data, for a control variate of minibatches around m; None for none.
    """
    if score_at_centre is not None:
        target = Anchored(target, affine.mean, score_at_centre)
    return target if isinstance(affine, IdentityMap) else Whitened(target, affine)
