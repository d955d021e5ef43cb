"""A target whose minibatches are corrected by what all data say at one point."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Scalar
from .base import Target, TargetOfTarget


class Anchored(TargetOfTarget):
    """S_B(x) + S(a) − S_B(a): the score of a minibatch B, less its error at the anchor a.

    Unbiased, as S_B is. At a there is no noise at all, and around it only that of the curvature: where x spreads over
    one posterior mode and a is its centre, most of the noise of a small batch is gone, at the price of one more point
    per batch. The log density of a batch is corrected by the matching linear function of x. On all data nothing
    changes, nor where the score at the anchor is not finite.

    Attributes:
        target: p.
        point: a.
        score_at_point: S(a), on all data.

    Example:
        >>> from sivi.targets import LogisticRegression
        >>> model = LogisticRegression([[1.0, 2.0], [1.0, -1.0], [1.0, 0.5], [1.0, 3.0]], [1, 0, 0, 1])
        >>> anchored = Anchored.at(model, jnp.zeros(2))
        >>> bool(jnp.allclose(anchored.score(jnp.zeros(2), jnp.array([0, 3])), model.score(jnp.zeros(2))))
        True
    """

    target: Target
    point: Float[Array, " dim"]
    score_at_point: Float[Array, " dim"]

    @staticmethod
    def at(target: Target, point: Float[Array, " dim"]) -> "Anchored":
        """With the anchor `point`; looks at all data once."""
        return Anchored(target, point, target.score(point))

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        value = self.target.log_prob(x, batch)
        return value if batch is None else value + jnp.sum(self._correction(batch) * (x - self.point))

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        value = self.target.score(x, batch)
        return value if batch is None else value + self._correction(batch)

    def _correction(self, batch: Int[Array, " batch"]) -> Float[Array, " dim"]:
        """S(a) − S_B(a); does not depend on x, so under `vmap` it is computed once."""
        difference = self.score_at_point - self.target.score(self.point, batch)
        return jnp.where(jnp.all(jnp.isfinite(difference)), difference, 0.0)
