"""A target with a channel between its modes."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Scalar
from .base import Target, TargetOfTarget


class Bridge(TargetOfTarget):
    """The mixture p(x) + e^c p₀(x) of a target and a base, which spans the gaps between the target's modes.

    Where p is next to nothing the mixture is the base's, so a method that moves mass by scores alone can carry it
    from one mode to another. The score is that of either component, weighed by its share of the density at x:

        S̃(x) = (1 − s(x)) S(x) + s(x) ∇log p₀(x),    s(x) = e^c p₀(x) / (p(x) + e^c p₀(x)).

    The shares are ratios of densities on all data: those of a minibatch would be wrong by a factor, so a batch is
    refused, and `num_data` is None.

    Attributes:
        target: p, up to a constant; its log density must be known.
        base: p₀, of the same `dim`.
        log_odds: c. With p = Z · (a density) and p₀ a density, the base has a share e^c / (Z + e^c) of the mass. At
            −∞ the bridge is the target itself.

    Example:
        >>> from sivi.targets import IsotropicGaussian
        >>> bridge = Bridge(IsotropicGaussian(2, 1.0), IsotropicGaussian(2, 2.0), jnp.asarray(0.0))
        >>> round(float(bridge.base_share(jnp.zeros(2))), 6)
        0.2
    """

    target: Target
    base: Target
    log_odds: Scalar

    @property
    def num_data(self) -> None:
        """It takes no minibatches."""
        return None

    @property
    def knows_log_prob(self) -> bool:
        return self.target.knows_log_prob and self.base.knows_log_prob

    def base_share(self, x: Float[Array, " dim"]) -> Scalar:
        """s(x), the base's part of the density at x: all of it where p has no value."""
        share = jax.nn.sigmoid(self.log_odds + self.base.log_prob(x) - self.target.log_prob(x))
        return jnp.where(jnp.isnan(share) & (self.log_odds > -jnp.inf), 1.0, share)

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        _check_all_data(batch)
        return jnp.logaddexp(self.target.log_prob(x), self.log_odds + self.base.log_prob(x))

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        _check_all_data(batch)
        share = self.base_share(x)
        own = self.target.score(x)
        # Where p has no value the base is all there is, and 0 · NaN must not spoil it.
        own = jnp.where(share < 1.0, (1.0 - share) * own, 0.0)
        return own + share * self.base.score(x)


def _check_all_data(batch: Int[Array, " batch"] | None) -> None:
    if batch is not None:
        raise ValueError(f"Bridge needs the density on all data: batch must be None; got {batch.shape[0]} rows.")
