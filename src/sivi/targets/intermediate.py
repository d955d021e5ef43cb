"""Intermediate targets, on the way to the target of a fit: the annealing path, and a bridge between modes."""

import math
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from .._arguments import as_real, check_kind, describe
from .._fields import optional_module_field
from .._types import Scalar
from .base import Target, TargetWrapper


def _number(name: str, value: object) -> Any:
    """A number, which JAX may be tracing."""
    number = as_real(name, value, "a number")
    if number.ndim:
        raise TypeError(f"{name} must be a number; got {describe(value)}.")
    return number


def _check_base(target: Target, base: Target | None) -> None:
    if base is not None and base.dim != target.dim:
        raise ValueError(f"base must have the target's dim, {target.dim}; got {base.dim}.")


class Tempered(TargetWrapper):
    """The annealing path from a base p₀ to p: log density β log p(x) + (1 − β) log p₀(x); p^β without a base.

    Attributes:
        target: p.
        beta: β, between 0 and 1.
        base: p₀, or None.
    """

    target: Target = eqx.field(converter=partial(check_kind, "target", Target, "a sivi target"))
    beta: Scalar = eqx.field(converter=partial(_number, "beta"))
    base: Target | None = optional_module_field("base", Target, "a sivi target")

    def __check_init__(self) -> None:
        _check_base(self.target, self.base)
        if not isinstance(self.beta, Tracer) and not 0.0 <= float(self.beta) <= 1.0:  # NumPy compiles nothing
            raise ValueError(f"beta must be between 0 and 1; got {self.beta}.")

    @property
    def knows_log_prob(self) -> bool:
        return self.target.knows_log_prob and (self.base is None or self.base.knows_log_prob)

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        value = self.beta * self.target.log_prob(x, batch)
        return value if self.base is None else value + (1.0 - self.beta) * self.base.log_prob(x)

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        value = self.beta * self.target.score(x, batch)
        return value if self.base is None else value + (1.0 - self.beta) * self.base.score(x)


class BridgedTarget(TargetWrapper):
    """The mixture p(x) + e^c p₀(x) of a target and a wide base: a bridge between separated modes.

    Between the modes p is nearly zero and the mixture is the base. So a method that moves mass by scores alone can
    carry it from one mode to another. The score is the mean of both scores, weighted by their shares of the density:

        S̃(x) = (1 − s(x)) S(x) + s(x) ∇log p₀(x),    s(x) = e^c p₀(x) / (p(x) + e^c p₀(x)).

    The shares are ratios of densities on all data, which a minibatch gets wrong by a factor. So a batch is refused, and
    `num_data` is None.

    Attributes:
        target: p, up to a constant; its log density must be known.
        base: p₀, of the same `dim`.
        log_odds: c. With p = Z · (a density) and p₀ a density, the base has a share e^c / (Z + e^c) of the mass. At
            −∞ the mixture is the target itself.

    Example:
        >>> from sivi.targets import IsotropicGaussian
        >>> bridge = BridgedTarget(IsotropicGaussian(2, 1.0), IsotropicGaussian(2, 2.0), jnp.asarray(0.0))
        >>> round(float(bridge.base_share(jnp.zeros(2))), 6)
        0.2
    """

    target: Target = eqx.field(converter=partial(check_kind, "target", Target, "a sivi target"))
    base: Target = eqx.field(converter=partial(check_kind, "base", Target, "a sivi target"))
    log_odds: Scalar = eqx.field(converter=partial(_number, "log_odds"))

    num_data: ClassVar[None] = None  # it takes no minibatches

    def __check_init__(self) -> None:
        _check_base(self.target, self.base)
        if not isinstance(self.log_odds, Tracer) and not float(self.log_odds) < math.inf:
            raise ValueError(f"log_odds must be a number below infinity; got {self.log_odds}.")

    @property
    def knows_log_prob(self) -> bool:
        return self.target.knows_log_prob and self.base.knows_log_prob

    def base_share(self, x: Float[Array, " dim"]) -> Scalar:
        """s(x), the base's share of the density at x; 1 where p is not finite."""
        share = jax.nn.sigmoid(self.log_odds + self.base.log_prob(x) - self.target.log_prob(x))
        return jnp.where(jnp.isnan(share) & (self.log_odds > -jnp.inf), 1.0, share)

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        _check_all_data(batch)
        return jnp.logaddexp(self.target.log_prob(x), self.log_odds + self.base.log_prob(x))

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        _check_all_data(batch)
        share = self.base_share(x)
        target_score = self.target.score(x)
        # Where p is not finite only the base counts; 0 · NaN would be NaN.
        weighted = jnp.where(share < 1.0, (1.0 - share) * target_score, 0.0)
        return weighted + share * self.base.score(x)


def _check_all_data(batch: Int[Array, " batch"] | None) -> None:
    if batch is not None:
        raise ValueError(f"BridgedTarget needs the density on all data: batch must be None; got {batch.shape[0]} rows.")
