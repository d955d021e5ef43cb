"""A target whose minibatch scores have a control variate, to reduce their noise."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._arguments import as_real, check_kind
from .._types import Scalar
from .base import Target, TargetWrapper


def _vector(name: str, value: object) -> Array:
    return jnp.asarray(as_real(name, value))


class ControlVariate(TargetWrapper):
    """A target whose minibatch scores have a control variate: S_B(x) + S(a) − S_B(a), for a fixed point a.

    The estimate is unbiased, as S_B(x) is. It has no noise at a, and little near a. Where x stays in one posterior mode
    with a at its centre, most of the noise of a small batch is gone, at the cost of one more point per batch. The log
    density of a batch gets the matching linear term. On all data nothing changes, nor where the score at a is not
    finite.

    Attributes:
        target: p.
        point: a.
        score_at_point: S(a), on all data.

    Example:
        >>> from sivi.targets import LogisticRegression
        >>> model = LogisticRegression([[1.0, 2.0], [1.0, -1.0], [1.0, 0.5], [1.0, 3.0]], [1, 0, 0, 1])
        >>> corrected = ControlVariate.at(model, jnp.zeros(2))
        >>> bool(jnp.allclose(corrected.score(jnp.zeros(2), jnp.array([0, 3])), model.score(jnp.zeros(2))))
        True
    """

    target: Target = eqx.field(converter=partial(check_kind, "target", Target, "a sivi target"))
    point: Float[Array, " dim"] = eqx.field(converter=partial(_vector, "point"))
    score_at_point: Float[Array, " dim"] = eqx.field(converter=partial(_vector, "score_at_point"))

    def __check_init__(self) -> None:
        for name, vector in (("point", self.point), ("score_at_point", self.score_at_point)):
            if vector.shape != (self.target.dim,):
                raise ValueError(f"{name} must have shape ({self.target.dim},); got {vector.shape}.")

    @staticmethod
    def at(target: Target, point: Float[Array, " dim"]) -> "ControlVariate":
        """With a = `point`; evaluates the score on all data once."""
        return ControlVariate(target, point, target.score(point))

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        value = self.target.log_prob(x, batch)
        return value if batch is None else value + jnp.sum(self._correction(batch) * (x - self.point))

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        value = self.target.score(x, batch)
        return value if batch is None else value + self._correction(batch)

    def _correction(self, batch: Int[Array, " batch"]) -> Float[Array, " dim"]:
        """S(a) − S_B(a): independent of x, so `vmap` over x computes it once, and blocks of x once each."""
        difference = self.score_at_point - self.target.score(self.point, batch)
        return jnp.where(jnp.all(jnp.isfinite(difference)), difference, 0.0)
