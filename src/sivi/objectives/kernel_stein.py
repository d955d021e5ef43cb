"""KSIVI: the Stein discrepancy with the critic in a reproducing kernel Hilbert space, where its maximum is known.

With critics g of the space of a kernel k instead of networks, the inner maximum of the minimax is

    KSD² = E[k(x, x′) δᵀδ′],    δ = S(x) − ∇_x log q(x|z),

over two independent draws (x, z) and (x′, z′): no critic is trained.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from .._arguments import check_count, describe
from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..optimizers import Adam, OptimizerLike, check_optimizer
from ..schedules import Cosine
from ..targets import Target
from .base import LossObjective, Noise, check_score_derivative, check_semi_implicit
from .kernels import GaussianKernel, Kernel
from .score_pairs import score_pairs

_STATISTICS = ("U", "V")


class KernelStein(LossObjective):
    """KSIVI: descend the squared kernel Stein discrepancy of the family.

    The U-statistic, over pairs of different particles, is unbiased at a fixed bandwidth and can be negative. The
    V-statistic takes all pairs: V = (1 − 1/m) U + (1/m) mean_i k(x_i, x_i) ‖δ_i‖², biased upwards, and never negative
    on all data.

    Args:
        num_particles: m, draws of x per update, at least 2.
        kernel: `GaussianKernel`, `IMQKernel` or `RieszKernel`.
        statistic: `"U"` or `"V"`.
        optimizer: `sivi.optimizers` settings or any Optax transform.

    Example:
        >>> from sivi.objectives import RieszKernel
        >>> objective = KernelStein(kernel=RieszKernel(), statistic="V")

    Reference:
        Cheng, Yu, Xie, Zhang and Zhang, Kernel semi-implicit variational inference (ICML 2024).
    """

    num_particles: int = eqx.field(static=True)
    kernel: Kernel
    statistic: str = eqx.field(static=True)
    optimizer: OptimizerLike

    def __init__(
        self,
        *,
        num_particles: int = 256,
        kernel: Kernel | None = None,
        statistic: str = "U",
        optimizer: OptimizerLike | None = None,
    ):
        self.num_particles = check_count("num_particles", num_particles, minimum=2)
        self.kernel = GaussianKernel() if kernel is None else kernel
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be a sivi.objectives.Kernel; got {describe(kernel)}.")
        if statistic not in _STATISTICS:
            raise ValueError(f"statistic must be 'U' or 'V'; got {describe(statistic)}.")
        self.statistic = statistic
        self.optimizer = Adam(Cosine(3e-3), b2=0.99) if optimizer is None else optimizer
        check_optimizer("optimizer", self.optimizer)

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)
        check_score_derivative(self, target)

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
