"""How far the steps of one start may go: back from where there are no scores, and ever farther along a straight way.

Two rules, for any q = N(m, L Lᵀ):

* A step that leads to where many scores are not finite is taken back, and L halved at the place before it. Without this
  q walks into such a region and stays there: no score, no step.
* Each part of the residuals is clipped to `MAX_RESIDUAL` √dim `reach`. While the mean of the even parts is clipped and
  successive steps of m have one direction, `reach` doubles, so that a mean D standard deviations away is reached in
  about log₂ D steps. It falls back where the direction changes. It does not grow along directions in which q is much
  too wide (G ≪ 0), since there a single score says little about where the mean is.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

#: Each part of a residual r is clipped to this many times √dim, the size of u: far out, scores have no bound.
MAX_RESIDUAL = 20.0

#: A step is taken back if fewer than this share of its scores are finite, unless there were never more.
MIN_FINITE = 0.75
SAME_SHARE = 0.8

#: The factor of L after a step that was taken back.
SHRINK = 0.5

#: `reach` grows by the first factor, where two steps have a cosine above the second; otherwise it falls by the third.
GROWTH, SAME_DIRECTION, DECAY = 2.0, 0.5, 4.0

#: No growth of `reach` where G along the drift is below this.
TOO_WIDE = -5.0


class Trust(NamedTuple):
    """What one start knows of its way.

    Attributes:
        mean: m at the last place with enough finite scores.
        root: L there, or the scales of a diagonal q.
        share: The largest share of finite scores so far.
        reach: Factor of the bound on residuals.
        heading: The direction of the last step of m.
    """

    mean: Float[Array, " dim"]
    root: Float[Array, " dim *rest"]
    share: Float[Array, ""]
    reach: Float[Array, ""]
    heading: Float[Array, " dim"]

    @staticmethod
    def at(mean: Float[Array, " dim"], root: Float[Array, " dim *rest"]) -> "Trust":
        """Before the first step."""
        zero = jnp.zeros((), mean.dtype)
        return Trust(mean, root, zero, zero + 1.0, jnp.zeros_like(mean))

    def is_limited(self, drift: Float[Array, " dim"], along: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether the bound on residuals, not the target, sets the length of the step.

        Args:
            drift: E[r].
            along: G along the drift.
        """
        bound = MAX_RESIDUAL * math.sqrt(drift.shape[0]) * self.reach
        return (jnp.linalg.norm(drift) > 0.5 * bound) & (along > TOO_WIDE)

    def advanced(
        self,
        old: tuple[Array, Array],
        new: tuple[Array, Array],
        share: Float[Array, ""],
        is_limited: Bool[Array, ""],
    ) -> tuple[Array, Array, "Trust"]:
        """m and L of the next step, and what is then known.

        Args:
            old: m and L at which the scores were evaluated.
            new: m and L after a step.
            share: Share of the scores that were finite.
            is_limited: See `is_limited`.
        """
        heading = unit(new[0] - old[0])
        straight = is_limited & (jnp.sum(heading * self.heading) > SAME_DIRECTION)
        reach = jnp.where(straight, GROWTH * self.reach, jnp.maximum(1.0, self.reach / DECAY))
        enough = share >= jnp.minimum(MIN_FINITE, SAME_SHARE * self.share)
        narrower = SHRINK * self.root
        mean = jnp.where(enough, new[0], self.mean)
        root = jnp.where(enough, new[1], narrower)
        return (
            mean,
            root,
            Trust(
                jnp.where(enough, old[0], self.mean),
                jnp.where(enough, old[1], narrower),
                jnp.maximum(share, self.share),
                jnp.where(enough, reach, 1.0),
                jnp.where(enough, heading, jnp.zeros_like(heading)),
            ),
        )


def unit(vector: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """The direction of a vector, whose squares may overflow; zero for zero."""
    tiny = jnp.finfo(vector.dtype).tiny
    scaled = vector / jnp.maximum(jnp.max(jnp.abs(vector)), tiny)
    return scaled / jnp.maximum(jnp.linalg.norm(scaled), tiny)
