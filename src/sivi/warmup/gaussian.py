"""The Gaussian warm-up: from scores to an affine map x = m + L u in which the target looks like N(0, I)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from .._arguments import as_key, check_count, default_float
from .._batches import BatchWindows
from ..coordinates import AffineMap, DenseMap
from ..targets import Target
from ..targets.evaluate import check_batch_size
from .attempts import MAX_TRIES, Attempt, Starts, best_attempt, pooled
from .dense import fit_dense, in_pairs
from .low_rank import fit_low_rank
from .mixture_moments import DenseGaussians
from .numbers import WarmupNumbers
from .rotation import array_shapes
from .status import MAX_DISTANCE, drift_noise


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

    Natural-gradient descent of KL(q‖p) fits a Gaussian from each of several random starts. The result is the mean and
    covariance of their mixture. Its weights are the mass that each start has found, where the target knows its log
    density, and equal otherwise. The covariance has a part within and a part between the starts, so it covers modes
    that different starts have found. A start that fails (where the target is not finite) has weight zero; if all fail,
    the map is the identity around the first start. A map that has not settled is tried again from other starts, see
    `sivi.warmup.attempts`.

    The function works under `jit` and `vmap`, for example over keys. Points are evaluated in the blocks of
    `sivi.targets.evaluate`.

    Args:
        key: Random key.
        target: The target.
        num_starts: Number of random starts, m₀ ~ N(0, 4 I).
        num_steps: Steps from each start.
        batch_size: Rows of data per step, for a target with data; all rows when left out. More are used if half of the
            steps would not see all rows.
        rank: None for a full covariance. A number for a diagonal and that many further directions, in memory and time
            proportional to dim × rank; see `sivi.warmup.low_rank`.

    Returns:
        The map: a `DenseMap`; with `rank` a `LowRankMap` (a `DiagonalMap` for rank 0), inside a `RotatedMap` where the
        unknowns are arrays with axes that can be rotated, see `sivi.warmup.rotation`.

    Example:
        >>> from sivi.targets import GaussianMixture
        >>> target = GaussianMixture([[5.0, -1.0]], [[[4.0, 1.0], [1.0, 0.5]]])
        >>> affine = gaussian_warmup(jax.random.key(0), target, num_starts=2)
        >>> (affine.matrix @ affine.matrix.T).round(2).tolist()
        [[4.0, 1.0], [1.0, 0.5]]
    """
    return warmup_with_status(
        key, target, num_starts=num_starts, num_steps=num_steps, batch_size=batch_size, rank=rank
    )[0]


def warmup_with_status(
    key: PRNGKeyArray,
    target: Target,
    *,
    num_starts: int,
    num_steps: int = 300,
    batch_size: int | None = None,
    rank: int | None = None,
) -> tuple[AffineMap, Int[Array, ""], Bool[Array, ""]]:
    """The map of `gaussian_warmup`, the code of its status, see `sivi.warmup.status`, and whether starts disagree.

    Starts that disagree have found several modes: the variance between their means is above `MAX_DISTANCE`.
    """
    num_starts, num_steps = check_count("num_starts", num_starts), check_count("num_steps", num_steps)
    check_batch_size(target, batch_size)
    if rank is not None and check_count("rank", rank, minimum=0) >= target.dim:
        raise ValueError(f"rank must be below the target's dim, {target.dim}; got {rank}.")
    start_key, rows_key, fit_key, weights_key = jax.random.split(as_key(key), 4)
    windows = None
    if batch_size is not None and target.num_data is not None:
        windows = BatchWindows.for_run(rows_key, target.num_data, batch_size, num_steps)
    if rank is not None:
        points = jax.random.normal(start_key, (num_starts, MAX_TRIES, target.dim), default_float())
        starts = Starts(points, target, windows)
        affine, code = fit_low_rank(
            fit_key, weights_key, target, starts, windows, num_steps, rank, array_shapes(target)
        )
        return affine, code, jnp.asarray(False)  # so many unknowns are not told apart by a few starts
    numbers = WarmupNumbers.from_keys(start_key, fit_key, weights_key, num_starts, num_steps, target.dim)
    noise_of_rows = drift_noise(windows, num_steps // 4)
    starts, u = Starts(numbers.starts, target, windows), in_pairs(numbers.weights)

    def attempt(index: Int[Array, ""]) -> Attempt:
        first, scale = starts.of_attempt(index)
        fitted = fit_dense(target, first, scale, numbers.steps, windows)
        return pooled(u, target, first, fitted, DenseGaussians(fitted.mean, fitted.root), noise_of_rows)

    zero, identity = jnp.zeros(target.dim, u.dtype), jnp.eye(target.dim, dtype=u.dtype)
    best = best_attempt(attempt, DenseMap(zero, identity, identity, zero[0]))
    return best.affine, best.code, best.distance > MAX_DISTANCE
