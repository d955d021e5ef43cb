"""Products of scores that stay unbiased when the score is that of a minibatch."""

from collections.abc import Callable, Iterator

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..targets import Target

#: A field g as a function of x, then of S(x): what depends on x alone is computed once for several scores.
Field = Callable[[Array], Callable[[Array], Array]]


class ScorePairs(eqx.Module):
    """Pairs (weight, S₁, S₂): Σ weight · S₁S₂ is unbiased for the square of the full score."""

    weights: tuple[float, ...] = eqx.field(static=True)
    first: tuple[Float[Array, "*shape dim"], ...]
    second: tuple[Float[Array, "*shape dim"], ...]

    def __iter__(self) -> Iterator[tuple[float, Array, Array]]:
        return zip(self.weights, self.first, self.second, strict=True)

    @property
    def mean(self) -> Float[Array, "*shape dim"]:
        """The score itself, linear and so unbiased as it is."""
        return sum((0.5 * weight * (first + second) for weight, first, second in self), start=jnp.zeros(()))


def score_pairs(target: Target, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None, split: bool) -> ScorePairs:
    """Weighted pairs of scores whose products are unbiased for products of the full score with itself.

    For halves S₁, S₂ of a batch of B out of N rows drawn without replacement, and their mean S̄,
    E[S₁S₂] = S² − V b/(N − b) and E[S̄²] = S² + V (N − B)/(2 (N − b)), with b = B/2 and V the variance of a half's
    score; so (B/N) S̄S̄ + (1 − B/N) S₁S₂ has no bias. It is the plain product when the batch is all of the data.
    """
    if batch is None or not split or batch.shape[0] < 2:  # a single row is all of the data: `fit` sees to that
        score = target.score(x, batch)
        return ScorePairs((1.0,), (score,), (score,))
    half = batch.shape[0] // 2
    first, second = (target.score(x, part) for part in (batch[:half], batch[half : 2 * half]))
    mean = 0.5 * (first + second)
    share = 2 * half / (target.num_data or 1)
    return ScorePairs((share, 1.0 - share), (mean, first), (mean, second))


def minimax_value(
    pairs: ScorePairs, field: Field, x: Float[Array, " dim"], conditional_score: Float[Array, " dim"]
) -> tuple[Array, Array]:
    """2 g·(S − ∇log q(x|z)) − ‖g‖² and ‖g‖² at one draw, for g = field(x)(S)."""
    value, norm = jnp.zeros(()), jnp.zeros(())
    at_x = field(x)
    for weight, first, second in pairs:
        g, h = at_x(first), at_x(second)
        product = jnp.sum(g * h)
        cross = jnp.sum(g * (second - conditional_score)) + jnp.sum(h * (first - conditional_score))
        value += weight * (cross - product)
        norm += weight * product
    return value, norm
