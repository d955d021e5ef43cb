"""The Gaussian warm-up: from scores to an affine map x = m + L u in which the target looks like N(0, I)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._affine import AffineMap
from .._arguments import as_key, check_count, default_float
from ..targets import Target
from ..targets.checks import check_batch_size
from .dense import fit_dense, num_pairs
from .draws import BalancedNoise, Rows, normals, scores_at
from .low_rank import fit_low_rank
from .pooling import NUM_ELBO_PAIRS, pool_dense, start_weights

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
        The map: a `DenseMap`; with `rank` a `LowRankMap` (a `DiagonalMap` for rank 0), within a `RotatedMap` where
        the unknowns are arrays with axes that can be turned, see `sivi.targets.Target.shapes`.

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
    start_key, rows_key, fit_key, pool_key = jax.random.split(as_key(key), 4)
    rows = Rows.of(rows_key, target, batch_size, num_steps)
    starts_shape = num_starts, MAX_TRIES, target.dim
    if rank is not None:
        points = jax.random.normal(start_key, starts_shape, default_float())
        means = _starts(points, target, rows.at(jnp.int32(0)))
        return fit_low_rank(fit_key, pool_key, target, means, rows, num_steps, rank, target.shapes)
    noise_key, step_key = jax.random.split(fit_key)
    noise = BalancedNoise(noise_key, num_pairs(target.dim), target.dim)
    pool_noise = BalancedNoise(pool_key, NUM_ELBO_PAIRS, target.dim, frames=noise.frames)
    step_keys = jax.vmap(lambda t: jax.random.fold_in(step_key, t))(jnp.arange(num_steps))
    points, normal, pool_normal = normals(
        [start_key, step_keys, jax.random.fold_in(pool_key, 1)], [starts_shape, noise.shape, pool_noise.shape]
    )
    means = _starts(points, target, rows.at(jnp.int32(0)))
    ends, roots = fit_dense(target, means, noise, normal, rows)

    def forward(u: Float[Array, "draws dim"]) -> Float[Array, "starts draws dim"]:
        return ends[:, None, :] + jnp.einsum("nj,kij->kni", u, roots)

    inverses, log_dets = _inverses(roots)

    def inverse(j: Int[Array, ""], x: Float[Array, "starts draws dim"]) -> Float[Array, "starts draws dim"]:
        return (x - ends[j]) @ inverses[j].T

    weights = start_weights(pool_noise.made_from(pool_normal), target, forward, inverse, log_dets)
    return pool_dense(weights, ends, roots, inverses, log_dets, means[0])


def _inverses(roots: Float[Array, "starts dim dim"]) -> tuple[Float[Array, "starts dim dim"], Float[Array, " starts"]]:
    """L⁻¹ and log |det L| of every start, from one factorisation."""
    identity = jnp.eye(roots.shape[-1], dtype=roots.dtype)

    def one(root: Float[Array, "dim dim"]) -> tuple[Float[Array, "dim dim"], Float[Array, ""]]:
        factors, pivots = jax.scipy.linalg.lu_factor(root)
        return jax.scipy.linalg.lu_solve((factors, pivots), identity), jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factors))))

    return jax.vmap(one)(roots)


def _starts(
    normal: Float[Array, "starts tries dim"], target: Target, rows: Int[Array, " size"] | None
) -> Float[Array, "starts dim"]:
    """Points with a finite score, as far as a few tries find them."""
    points = START_SD * normal
    good = jnp.all(jnp.isfinite(scores_at(target, points, rows)), axis=-1)
    first = jnp.argmax(good, axis=1)  # 0 if there is none
    return jnp.take_along_axis(points, first[:, None, None], axis=1)[:, 0]
