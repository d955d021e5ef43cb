"""KSIVI: the Stein discrepancy with the critic in a reproducing kernel Hilbert space, where its maximum is known.

With critics g of the space of a kernel k instead of networks, the inner maximum of the minimax is

    KSD² = E[k(x, x′) δᵀδ′],    δ = S(x) − ∇_x log q(x|z),

over two independent draws (x, z) and (x′, z′): no critic is trained.
"""

from collections.abc import Collection
from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from .._fields import choice_field, count_field, module_field
from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..families.semi_implicit import check_semi_implicit
from ..kernels import GaussianKernel, Kernel
from ..optimizers import Adam, OptimizerLike, optimizer_field
from ..schedules import Cosine
from ..targets import Target
from ..targets.evaluate import check_score_derivative
from ._minimax import score_pairs
from .base import Curve, LossObjective, Noise


class KernelStein(LossObjective):
    """KSIVI: descend the squared kernel Stein discrepancy of the family.

    The U-statistic, over pairs of different particles, is unbiased at a fixed bandwidth and can be negative. The
    V-statistic takes all pairs: V = (1 − 1/m) U + (1/m) mean_i k(x_i, x_i) ‖δ_i‖², biased upwards, and never negative
    on all data.

    Args:
        num_particles: m, draws of x per update, at least 2.
        kernel: One of `sivi.kernels`.
        statistic: `"U"` or `"V"`.
        optimizer: `sivi.optimizers` settings or any Optax transform.

    Example:
        >>> from sivi.kernels import RieszKernel
        >>> objective = KernelStein(kernel=RieszKernel(), statistic="V")

    Reference:
        Cheng, Yu, Xie, Zhang and Zhang, Kernel semi-implicit variational inference (ICML 2024).
    """

    _: KW_ONLY
    num_particles: int = count_field("num_particles", 256, minimum=2)
    kernel: Kernel = module_field("kernel", Kernel, "a sivi.objectives.Kernel", default=GaussianKernel())
    statistic: str = choice_field("statistic", ("U", "V"), "U")
    optimizer: OptimizerLike = optimizer_field("optimizer", Adam(Cosine(3e-3), b2=0.99))

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)
        check_score_derivative(self, target)

    def curves(self, recorded: Collection[str]) -> dict[str, Curve]:
        return {"loss": Curve("kernel Stein discrepancy, squared", "falls, then flat near 0")}

    def loss(
        self, key: PRNGKeyArray, family: SemiImplicit, target: Target, batch: Int[Array, " batch"] | None
    ) -> tuple[Scalar, Metrics]:
        return self.discrepancy(family, target, batch, family.sample_noise(key, (self.num_particles,))), {}

    def discrepancy(
        self, family: SemiImplicit, target: Target, batch: Int[Array, " batch"] | None, noise: Noise
    ) -> Scalar:
        """The statistic at given noise."""
        joint = jax.vmap(family.joint)(*noise)
        # Products of two minibatch scores: as in the minimax, between halves.
        pairs = jax.vmap(lambda x: score_pairs(target, x, batch, split=True))(joint.x)
        products = sum(
            (weight * ((first - joint.score) @ (second - joint.score).T) for weight, first, second in pairs),
            start=jnp.zeros(()),
        )
        terms = self.kernel.gram(joint.x) * products
        if self.statistic == "V":
            return jnp.mean(terms)
        count = len(terms)
        return (jnp.sum(terms) - jnp.trace(terms)) / (count * (count - 1))
