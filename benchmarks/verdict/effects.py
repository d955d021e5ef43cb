"""How wrong draws truly are, in limits: the statistics of the check, between two large sets of draws.

A severity is |E_p f − E_q f| less two standard errors, over the limit of "doubtful"; above 1 it is a fault that the
check should find. Along directions only the whitened axes are looked at.
"""

from collections.abc import Callable, Sequence

import jax
import numpy as np

from sivi._traced import float_types_of
from sivi.targets import Target
from sivi.verdict import statistics as stats
from sivi.verdict.frame import frame_of
from sivi.verdict.limits import ERRORS_BEYOND_LIMIT, LIMITS
from sivi.verdict.modes import THIN_PART

from .faults import nearest_mode
from .known import Known

Severities = dict[str, float]
#: The severity of draws so far away that it is no number.
BEYOND = 1e6


def log_probs(target: Target, draws: np.ndarray) -> np.ndarray:
    """log p of many points, as the check computes it."""
    with float_types_of(target):
        dtype = np.float64 if jax.config.jax_enable_x64 else np.float32
        compute = jax.jit(lambda x: jax.lax.map(target.log_prob, x, batch_size=4096))
        return np.asarray(compute(np.asarray(draws, dtype)), float)


def true_effects(p: np.ndarray, q: np.ndarray, log_prob_p: np.ndarray, log_prob_q: np.ndarray) -> Severities:
    """The largest severity of every kind of statistic.

    Args:
        p: Draws of the target.
        q: Draws that are judged.
        log_prob_p: log density of the target at the former.
        log_prob_q: At the latter.
    """
    dim = p.shape[1]
    frame = frame_of(q)
    drawn, true = (
        stats.Points(frame.standardised(x).astype(np.float32), values)
        for x, values in ((q, log_prob_q), (p, log_prob_p))
    )
    found = _of_coordinates(drawn, true, list(stats.unknown_blocks(drawn.z)))
    if dim > 1:
        found["correlation"] = _correlations(drawn.z, true.z)
        axes = stats.Directions.of(frame.axes, drawn.z)
        along = [stats.Points(axes.along(points.z), points.log_prob) for points in (drawn, true)]
        found["direction"] = max(_of_coordinates(*along, list(stats.direction_blocks("axis", along[0].z))).values())
    if np.isfinite(log_prob_q).all() and np.isfinite(log_prob_p).all():
        for block in stats.log_density_blocks(log_prob_q, dim):
            name = block.kind
            found[name] = max(
                found.get(name, 0.0), float(_severity(block.values, drawn, true, LIMITS[name].doubtful)[0])
            )
    else:
        found["zero density"] = float(np.mean(~np.isfinite(log_prob_q))) / LIMITS["zero density"].doubtful
    return {name: value if np.isfinite(value) else BEYOND for name, value in found.items()}


def mode_effects(known: Known, q: np.ndarray) -> Severities:
    """Of modes, by the shares of the draws."""
    if known.modes is None:
        return {}
    weights = known.modes.weights
    shares = np.bincount(nearest_mode(known, q), minlength=len(weights)) / len(q)
    lost = float(weights[shares < 1e-3].sum())
    error = np.sqrt(weights * (1.0 - weights) / len(q))
    off = float((np.abs(shares - weights) - ERRORS_BEYOND_LIMIT * error).max())
    # What a mode lacks that has less than half of its draws is judged as lost mass is.
    missing = np.where(shares < THIN_PART * weights, weights - shares - ERRORS_BEYOND_LIMIT * error, 0.0)
    return {
        "lost mass": max(lost, float(missing.max())) / LIMITS["lost mass"].doubtful,
        "mode weight": off / LIMITS["mode weight"].doubtful,
    }


def minibatch_effects(num_data: int, batch_size: int) -> Severities:
    """Of a forgotten factor N/B: the slope is then at most B/N, where the prior counts for nothing."""
    return {"minibatch scale": (1.0 - batch_size / num_data) / LIMITS["minibatch scale"].doubtful}


def _severity(
    values: Callable[[stats.Points], np.ndarray], drawn: stats.Points, true: stats.Points, limit: float
) -> np.ndarray:
    """Of every statistic of a block."""
    f_q, f_p = values(drawn), values(true)
    difference = np.abs(f_p.mean(0, dtype=float) - f_q.mean(0, dtype=float))
    error = np.sqrt(f_p.var(0, dtype=float) / len(f_p) + f_q.var(0, dtype=float) / len(f_q))
    return np.maximum(difference - ERRORS_BEYOND_LIMIT * error, 0.0) / limit


def _of_coordinates(drawn: stats.Points, true: stats.Points, blocks: Sequence[stats.Block]) -> Severities:
    """Mean, spread and quantiles of coordinates, read as the check reads them."""
    found: Severities = {}
    by_kind = {block.kind: block for block in blocks if block.kind in ("mean", "square")}
    z_q, z_p = by_kind["mean"].values(drawn), by_kind["mean"].values(true)
    mean_change = np.abs(z_p.mean(0, dtype=float) - z_q.mean(0, dtype=float))
    found["mean"] = float(_severity(by_kind["mean"].values, drawn, true, LIMITS["mean"].doubtful).max())
    variances = [np.maximum(z.var(0, dtype=float), 1e-12) for z in (z_q, z_p)]
    spread = np.abs(0.5 * np.log(np.maximum(variances[1] / variances[0], 0.01)))
    pairs = zip((z_q, z_p), variances, strict=True)
    error = np.sqrt(sum(((z - z.mean(0)) ** 2).var(0) / v**2 / (4 * len(z)) for z, v in pairs))
    severity = np.maximum(spread - ERRORS_BEYOND_LIMIT * error, 0.0) / LIMITS["spread"].doubtful
    found["spread"] = float(np.where(mean_change < 2.0, severity, 0.0).max())
    for block in blocks:
        if block.kind == "distance":
            severity = _severity(block.values, drawn, true, LIMITS["spread"].doubtful)
            found["spread"] = max(found["spread"], float(np.where(mean_change < 0.3, severity, 0.0).max()))
        elif block.kind in ("probability", "tail"):
            severity = float(_severity(block.values, drawn, true, LIMITS[block.kind].doubtful).max())
            found["distribution"] = max(found.get("distribution", 0.0), severity)
    return found


def _correlations(drawn: np.ndarray, true: np.ndarray) -> float:
    """Largest difference of two correlations; its error is that of independent unknowns, (1 − ρ²) / √n."""

    def of(z: np.ndarray) -> np.ndarray:
        return np.corrcoef(np.clip(z, -5.0, 5.0).T)

    q, p = of(drawn), of(true)
    error = (1.0 - np.minimum(p**2, q**2)) * np.sqrt(1.0 / len(drawn) + 1.0 / len(true))
    left = np.abs(p - q) - ERRORS_BEYOND_LIMIT * error
    return float(max(left[np.triu_indices(len(p), 1)].max(), 0.0)) / LIMITS["correlation"].doubtful
