"""A target on the way to another one, for annealing."""

from jaxtyping import Array, Float, Int

from .._types import Scalar
from .base import Target, TargetOfTarget


class Tempered(TargetOfTarget):
    """log density β log p(x) + (1 − β) log p₀(x); without a base p₀, just p^β.

    Attributes:
        target: p.
        beta: β, between 0 and 1.
        base: p₀, or None.
    """

    target: Target
    beta: Scalar
    base: Target | None = None

    @property
    def knows_log_prob(self) -> bool:
        return self.target.knows_log_prob and (self.base is None or self.base.knows_log_prob)

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        value = self.beta * self.target.log_prob(x, batch)
        return value if self.base is None else value + (1.0 - self.beta) * self.base.log_prob(x)

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        value = self.beta * self.target.score(x, batch)
        return value if self.base is None else value + (1.0 - self.beta) * self.base.score(x)
