"""The Gaussian warm-up: from scores to an affine map x = m + L u in which the target looks like N(0, I)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._affine import AffineMap
from .._errors import check_count
from .._types import default_float
from ..targets import Target
from ..targets.checks import check_batch_size
from .dense import fit_dense
from .draws import Rows, scores_at
from .low_rank import fit_low_rank
from .pooling import pool_dense, start_weights

#: Starts are drawn from N(0, START_SD² I).
START_SD = 2.0

#: A start where the score is not finite is drawn again, so many times.
MAX_TRIES = 8


def gaussian_warmup(
    key: PRNGKeyArray,
    target: Target,
    *,
    num_starts: int,
    num_steps: int = 300,
    batch_size: int | None = None,
    rank: int | None = None,
) -> AffineMap:
    """Find mean and covariance of a target, in a few hundred steps, from its score.

    Gaussians are fitted by natural gradients of KL(q‖p) from several random starts, and pooled into one mean and
    covariance: by the mass each has found where the target knows its log density, equally where it does not. The
    covariance has a part within and a part between the starts, so that modes found by different starts are all
    covered. A start that fails (where the target is not finite) counts for nothing; if all do, the map is the
    identity around the first start.

    No value is looked at from Python: the function works under `jit` and `vmap`, for example over keys. At most 2²⁴
    pairs of a point and a datum are evaluated at a time.

    Args:
        key: Random key.
        target: The target.
        num_starts: Random starts, m₀ ~ N(0, 4 I).
        num_steps: Steps of each.
        batch_size: Rows of data per step, for a target with data; all of them when left out. More are used where half
            of the steps would not see all rows.
        rank: None for a full covariance. A number for a diagonal and so many directions of their own, which takes
            memory and time in proportion to dim × rank; see `sivi.warmup.low_rank`.

    Returns:
        The map: a `DenseMap`, or with `rank` a `LowRankMap` (a `DiagonalMap` for rank 0).

    Example:
        >>> from sivi.targets import GaussianMixture
        >>> target = GaussianMixture([[5.0, -1.0]], [[[4.0, 1.0], [1.0, 0.5]]])
        >>> affine = gaussian_warmup(jax.random.key(0), target, num_starts=2)
        >>> (affine.matrix @ affine.matrix.T).round(2).tolist()
        [[4.0, 1.0], [1.0, 0.5]]
    """
    num_starts, num_steps = check_count("num_starts", num_starts), check_count("num_steps", num_steps)
    check_batch_size(target, batch_size)
    if rank is not None and check_count("rank", rank, minimum=0) >= target.dim:
        raise ValueError(f"rank must be below the target's dim, {target.dim}; got {rank}.")
    start_key, rows_key, fit_key, pool_key = jax.random.split(key, 4)
    rows = Rows.of(rows_key, target, batch_size, num_steps)
    means = _starts(start_key, target, num_starts, rows.at(jnp.int32(0)))
    if rank is not None:
        return fit_low_rank(fit_key, pool_key, target, means, rows, num_steps, rank)
    ends, roots = fit_dense(fit_key, target, means, rows, num_steps)

    def forward(u: Float[Array, "draws dim"]) -> Float[Array, "starts draws dim"]:
        return ends[:, None, :] + jnp.einsum("nj,kij->kni", u, roots)

    inverses = jnp.linalg.inv(roots)

    def inverse(j: Int[Array, ""], x: Float[Array, "starts draws dim"]) -> Float[Array, "starts draws dim"]:
        return (x - ends[j]) @ inverses[j].T

    weights = start_weights(pool_key, target, forward, inverse, jnp.linalg.slogdet(roots)[1])
    return pool_dense(weights, ends, roots, means[0])


def _starts(
    key: PRNGKeyArray, target: Target, num_starts: int, rows: Int[Array, " size"] | None
) -> Float[Array, "starts dim"]:
    """Points with a finite score, as far as a few tries find them."""
    points = START_SD * jax.random.normal(key, (num_starts, MAX_TRIES, target.dim), default_float())
    good = jnp.all(jnp.isfinite(scores_at(target, points, rows)), axis=-1)
    first = jnp.argmax(good, axis=1)  # 0 if there is none
    return jnp.take_along_axis(points, first[:, None, None], axis=1)[:, 0]
