"""Statistics of a drift, judged: which effects are more than noise and larger than a limit."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import findings as words
from . import limits
from . import statistics as stats
from .drift import Drift
from .effects import bonferroni
from .findings import Finding
from .frame import Frame
from .limits import LIMITS, Limit
from .sets import Judged, Sets

#: Findings about directions that are told, of each kind of direction.
MOST_DIRECTIONS = 2


def judge(
    drift: Drift,
    frame: Frame,
    reference: Float[np.ndarray, "n dim"],
    reference_log_prob: Float[np.ndarray, " n"],
    reference_size: float,
    names: Sequence[str],
    rng: np.random.Generator,
    predicted_by: tuple[Float[np.ndarray, "n unknowns"], Float[np.ndarray, "chains unknowns"]] | None = None,
) -> list[Finding]:
    """All findings about the drift of chains.

    Points are unknowns, or predictions in place of them. Beside predictions the mean of log p is looked at, and not its
    quantiles: with many unknowns these move by far where each of the unknowns is off by next to nothing.

    Args:
        drift: The chains.
        frame: Location, scale and axes of the draws.
        reference: Draws of q.
        reference_log_prob: log p there; NaN where only the score is known.
        reference_size: How many independent draws they are worth.
        names: Of the unknowns.
        rng: For random directions and pairs.
        predicted_by: Of predictions, the unknowns that they are of: of the reference, and of the starts.
    """
    num_unknowns = len(names) if predicted_by is None else predicted_by[0].shape[1]
    rank = len(names) if frame.rank is None else frame.rank

    def points(x: np.ndarray, log_prob: np.ndarray) -> stats.Points:
        return stats.Points(frame.standardised(x).astype(np.float32), log_prob)

    drawn, starts = points(reference, reference_log_prob), points(drift.starts, drift.start_log_prob)
    late = [points(x, log_prob) for x, log_prob in zip(drift.late, drift.late_log_prob, strict=True)]
    sets = Sets(drawn, starts, late, reference_size, predicted_by)

    unknown = sets.judged(stats.unknown_blocks(drawn.z, reference_size))
    pair = stats.pair_block(len(names), frame.pairs, rng)
    found = _moments(unknown, lambda i: names[i], lambda i: (names[i],), 1.0)
    found += _pairs(sets.judged([pair])[0], unknown, names) if pair is not None else []
    if not np.isnan(reference_log_prob).any():
        blocks = list(stats.log_density_blocks(reference_log_prob, num_unknowns, reference_size))
        blocks = blocks if predicted_by is None else blocks[:1]
        found += _log_density(sets.judged(blocks), num_unknowns)
    if drift.memory < limits.MAX_MEMORY_FOR_DIRECTIONS and len(names) > 1 and knows_axes(reference_size, rank):
        axes = stats.Directions.of(frame.axes, drawn.z)
        half = len(drift.starts) // 2
        chosen = stats.chosen_directions(axes, starts.z[:half], [snapshot.z[:half] for snapshot in late], drawn.z)
        random = stats.random_directions(rng, frame.base, drawn.z)
        for about, directions in (("axis", axes), ("direction", random), ("chosen", chosen)):
            own = sets.along(directions, slice(None))
            if about == "chosen":
                own = sets.without(half).along(directions, slice(half, None))
            blocks = list(stats.direction_blocks(about, own.drawn.z, own.size))
            if about != "axis":
                blocks = [block._replace(family=about) for block in blocks]
            factor = float(np.sqrt(max(1.0, rank / 10.0))) if about == "chosen" else 1.0
            found += _directions(own.judged(blocks), directions, names, factor)
    return unexplained(found)


def knows_axes(size: float, dim: int) -> bool:
    """Whether so many draws may be judged along axes that are their own; beyond full matrices, axes are of others.

    Along whitened axes of few draws, these have variance 1 by construction, and the target about n/(n − dim).
    """
    return dim > limits.MAX_DIM_DENSE or size >= limits.DRAWS_PER_AXIS * dim


def slight(judged: Sequence[Judged], names: Sequence[str]) -> list[Finding]:
    """Of `of_unknowns`, effects that are more than noise and beyond a part of their limits; they are no faults."""
    return unexplained(_moments(judged, lambda i: names[i], lambda i: (names[i],), limits.SLIGHT))


def of_unknowns(drift: Drift, frame: Frame, reference: Float[np.ndarray, "n dim"], size: float) -> list[Judged]:
    """All statistics of single unknowns."""

    def points(x: np.ndarray) -> stats.Points:
        return stats.Points(frame.standardised(x).astype(np.float32), np.zeros(len(x)))

    drawn = points(reference)
    sets = Sets(drawn, points(drift.starts), [points(x) for x in drift.late], size)
    return sets.judged(stats.unknown_blocks(drawn.z, size))


def is_suspicious(judged: Sequence[Judged]) -> bool:
    """Whether an unknown has an effect beyond its limit that is almost more than noise: then longer chains may tell."""
    bounds = _bounds(judged)
    for item in judged:
        name = "spread" if item.block.kind in ("square", "distance") else item.block.kind
        limit = LIMITS[name].doubtful * (2.0 if item.block.kind == "square" else 1.0)  # a variance is twice a log sd
        beyond = np.abs(item.effects.z) > limits.SUSPICIOUS * bounds[item.block.family]
        if (beyond & (np.abs(item.effects.effect) > limit)).any():
            return True
    return False


def unexplained(found: Sequence[Finding]) -> list[Finding]:
    """Findings without those that others explain, at the same level or a worse one.

    Quantiles of an unknown go where its mean or spread is wrong; directions go where something with a name is.
    """

    def worst(kinds: tuple[str, ...], unknown: str | None = None) -> int:
        ranks = [
            limits.LEVELS.index(f.level)
            for f in found
            if f.kind in kinds and (unknown is None or unknown in f.unknowns)
        ]
        return max(ranks, default=-1)

    def stays(item: Finding) -> bool:
        level = limits.LEVELS.index(item.level)
        if item.kind == "distribution":
            return level > worst(("mean", "spread"), item.unknowns[0])
        return item.kind != "direction" or level > worst(("mean", "spread", "distribution", "correlation"))

    return [item for item in found if stays(item)]


def _bounds(judged: Sequence[Judged]) -> dict[str, float]:
    """How many errors count as more than noise, by family."""
    sizes: dict[str, int] = {}
    for item in judged:
        sizes[item.block.family] = sizes.get(item.block.family, 0) + len(item.drawn)
    return {family: bonferroni(size) for family, size in sizes.items()}


class _Spread(NamedTuple):
    """Variances of coordinates in the target, and the change of log sd from the draws."""

    mean: np.ndarray
    variance: np.ndarray
    drawn_mean: np.ndarray
    drawn_variance: np.ndarray
    effect: np.ndarray
    error: np.ndarray


def _spread(mean: Judged, square: Judged) -> _Spread:
    target_mean = mean.drawn + mean.effects.effect
    drawn_variance = np.maximum(square.drawn - mean.drawn**2, 1e-12)
    variance = square.drawn + square.effects.effect - target_mean**2
    variance = np.maximum(variance, 0.01 * drawn_variance)
    effect = 0.5 * np.log(variance / drawn_variance)
    # d effect = (ds − 2 m dm) / 2v of the target, less the same of the draws: what is estimated of the target,
    # drawn + effect, has no noise of the reference. Each part is over its own variance.
    of_draws = [np.minimum(item.effects.reference_error, item.effects.error) for item in (mean, square)]
    of_target = [np.sqrt(item.effects.error**2 - e**2) for item, e in zip((mean, square), of_draws, strict=True)]
    target_noise = np.hypot(of_target[1], 2.0 * target_mean * of_target[0]) / (2.0 * variance)
    drawn_noise = np.hypot(of_draws[1], 2.0 * mean.drawn * of_draws[0]) / (2.0 * drawn_variance)
    return _Spread(target_mean, variance, mean.drawn, drawn_variance, effect, np.hypot(target_noise, drawn_noise))


def _moments(
    judged: Sequence[Judged],
    about: Callable[[int], str],
    unknowns: Callable[[int], tuple[str, ...]],
    factor: float,
    kind: str | None = None,
) -> list[Finding]:
    """Findings about single coordinates: at most one of each kind for a coordinate."""
    bounds, by_kind = _bounds(judged), {item.block.kind: item for item in judged}
    mean, square = by_kind["mean"], by_kind["square"]
    spread = _spread(mean, square)
    found: dict[tuple[str, int], Finding] = {}

    def is_told(name: str, i: int, level: str) -> bool:
        return (name, i) in found and found[name, i].level == level

    def tell(name: str, limit_name: str, i: int, effect: float, error: float, bound: float, sentence: str) -> None:
        limit = Limit(*(factor * size for size in LIMITS[limit_name]))
        if not abs(effect) > bound * error:
            return
        new = words.finding(kind or name, unknowns(i), effect, error, limit, sentence)
        if new is not None and "typical" in sentence and is_told(name, i, new.level):
            return  # the sd says it better
        if new is not None and new.severity > getattr(found.get((name, i)), "severity", 0.0):
            found[name, i] = new

    for i, (effect, error) in enumerate(zip(mean.effects.effect, mean.effects.error, strict=True)):
        tell("mean", "mean", i, effect, error, bounds[mean.block.family], words.mean_sentence(about(i), effect, error))
    is_near = np.abs(mean.effects.effect) < 2.0  # else the square is that of the mean
    for i in np.flatnonzero(is_near).tolist():
        effect, error = spread.effect[i], spread.error[i]
        sentence = words.spread_sentence(about(i), effect, error)
        tell("spread", "spread", i, effect, error, bounds[square.block.family], sentence)
    for item in judged:
        bound = bounds[item.block.family]
        for i in np.flatnonzero(np.abs(item.effects.z) > bound).tolist():
            effect, error = item.effects.effect[i], item.effects.error[i]
            if item.block.kind == "distance" and abs(mean.effects.effect[i]) < 0.3:  # else it is that of the mean
                sentence = words.spread_sentence(about(i), effect, error)
                sentence = sentence.replace("the target's sd is", "the target's typical distance from the median is")
                tell("spread", "spread", i, effect, error, bound, sentence)
            elif item.block.kind in ("tail", "probability"):
                sentence = words.probability_sentence(about(i), item.block.level, effect, error)
                tell("distribution", item.block.kind, i, effect, error, bound, sentence)
    return list(found.values())


def _pairs(judged: Judged, unknown: Sequence[Judged], names: Sequence[str]) -> list[Finding]:
    by_kind = {item.block.kind: item for item in unknown}
    spread = _spread(by_kind["mean"], by_kind["square"])
    first, second = judged.block.subject.T
    sizes = np.sqrt(spread.variance[first] * spread.variance[second])
    drawn_sizes = np.sqrt(spread.drawn_variance[first] * spread.drawn_variance[second])
    drawn = (judged.drawn - spread.drawn_mean[first] * spread.drawn_mean[second]) / drawn_sizes
    in_target = judged.drawn + judged.effects.effect - spread.mean[first] * spread.mean[second]
    correlation = np.clip(in_target / sizes, -1.0, 1.0)
    effect = correlation - drawn
    scale_error = correlation**2 * (spread.error[first] ** 2 + spread.error[second] ** 2)
    error = np.sqrt((judged.effects.error / sizes) ** 2 + scale_error)
    means = by_kind["mean"].effects.effect
    is_near = (np.abs(means[first]) < 2.0) & (np.abs(means[second]) < 2.0)
    found = []
    for k in np.flatnonzero((np.abs(effect) > bonferroni(len(effect)) * error) & is_near).tolist():
        pair = (names[first[k]], names[second[k]])
        sentence = words.correlation_sentence(" and ".join(pair), drawn[k], effect[k], error[k])
        found.append(words.finding("correlation", pair, effect[k], error[k], LIMITS["correlation"], sentence))
    return [item for item in found if item is not None]


def _log_density(judged: Sequence[Judged], dim: int) -> list[Finding]:
    bounds, found = _bounds(judged), []
    for item in judged:
        effect, error = float(item.effects.effect[0]), float(item.effects.error[0])
        if not abs(effect) > bounds[item.block.family] * error:
            continue
        if item.block.kind == "log density":
            sentence = words.log_density_sentence(effect, error, dim)
        else:
            about = "all unknowns together, by log density"
            sentence = words.probability_sentence(about, item.block.level, effect, error)
        found.append(words.finding("log density", (), effect, error, LIMITS[item.block.kind], sentence))
    kept = [item for item in found if item is not None]
    return list(words.worst_first(kept))[:2]


def _directions(
    judged: Sequence[Judged], directions: stats.Directions, names: Sequence[str], factor: float
) -> list[Finding]:
    """The worst few, with the unknowns that have most weight in them."""

    def unknowns(i: int) -> tuple[str, ...]:
        weight = np.abs(directions.covectors[:, i])
        largest = np.argsort(-weight)[:3]
        return tuple(str(names[k]) for k in largest.tolist() if weight[k] > 0.3 * weight.max())

    def about(i: int) -> str:
        return f"along a direction (mostly {', '.join(unknowns(i))})"

    return list(words.worst_first(_moments(judged, about, unknowns, factor, "direction")))[:MOST_DIRECTIONS]
