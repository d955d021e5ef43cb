"""What is compared between the draws and the target: means, spreads, correlations, quantiles, along which directions.

Every statistic is a function of a point x and of log p(x). Unknowns are standardised by the draws, z = (x − m) / s, and
so are directions. Statistics come in blocks of one kind, whose values are computed together.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from . import limits

Values = Float[np.ndarray, "n statistics"]
#: A value of |z − median| below this counts as this: its logarithm has no bound.
SMALLEST_DISTANCE = 1e-3


class Points(NamedTuple):
    """Points in standardised unknowns, or along standardised directions, and log p there."""

    z: Float[np.ndarray, "n dim"]
    log_prob: Float[np.ndarray, " n"]


class Block(NamedTuple):
    """Statistics of one kind.

    Attributes:
        family: Statistics that share one bound for false findings.
        kind: How they are to be read, and which limits they have: a key of `limits.LIMITS`.
        values: Of points.
        level: The quantile, for probabilities.
        subject: Numbers of the unknowns, pairs or directions.
        mean: Mean of the values over many points, where there is a shorter way.
    """

    family: str
    kind: str
    values: Callable[[Points], Values]
    subject: Int[np.ndarray, "statistics parts"]
    level: float = float("nan")
    mean: Callable[[Points], Float[np.ndarray, " statistics"]] | None = None


class Directions(NamedTuple):
    """Directions in z, as columns: c·z has mean 0 and sd 1 over the draws after the shift and scale."""

    covectors: Float[np.ndarray, "dim directions"]
    shift: Float[np.ndarray, " directions"]
    scale: Float[np.ndarray, " directions"]

    def along(self, z: Float[np.ndarray, "n dim"]) -> Float[np.ndarray, "n directions"]:
        """The standardised coordinate along every direction."""
        return (z @ self.covectors - self.shift) / self.scale

    @staticmethod
    def of(covectors: Float[np.ndarray, "dim directions"], z: Float[np.ndarray, "n dim"]) -> "Directions":
        """Directions standardised by draws."""
        covectors = covectors.astype(z.dtype)
        values = z @ covectors
        return Directions(covectors, values.mean(0), np.maximum(values.std(0), 1e-30))


def moment_blocks(family: str, num: int) -> Iterator[Block]:
    """Mean and square of standardised coordinates."""
    subject = np.arange(num)[:, None]
    yield Block(f"{family} means", "mean", lambda points: _clipped(points.z), subject)
    yield Block(f"{family} squares", "square", lambda points: _clipped(points.z) ** 2, subject)


def quantile_levels(size: float) -> tuple[float, ...]:
    """The quantiles that so many independent draws know."""
    fewest = limits.FEWEST_BEYOND_QUANTILE
    return tuple(level for level in limits.QUANTILES if size * min(level, 1.0 - level) >= fewest)


def quantile_blocks(
    family: str, reference: Float[np.ndarray, "n coordinates"], size: float = math.inf
) -> Iterator[Block]:
    """Indicators below the quantiles that the draws have, as far as so many independent draws know them."""
    subject = np.arange(reference.shape[1])[:, None]

    def below(threshold: np.ndarray) -> Callable[[Points], Values]:
        return lambda points: (points.z <= threshold).astype(np.float32)

    levels = quantile_levels(size)
    for level, threshold in zip(levels, np.quantile(reference, levels, axis=0), strict=True):
        values = below(threshold.astype(reference.dtype))
        yield Block(f"{family} quantiles", quantile_kind(level), values, subject, level)


def _clipped(z: np.ndarray) -> np.ndarray:
    return np.clip(z, -limits.CLIP, limits.CLIP)


def quantile_kind(level: float) -> str:
    """Tails have narrower limits."""
    return "tail" if min(level, 1.0 - level) <= limits.TAIL else "probability"


def unknown_blocks(reference: Float[np.ndarray, "n dim"], size: float = math.inf) -> Iterator[Block]:
    """Of every unknown: mean, spread twice, and the quantiles that so many independent draws know."""
    dim = reference.shape[1]
    median = np.median(reference, axis=0)

    def distance(points: Points) -> Values:
        return np.log(np.maximum(np.abs(points.z - median), SMALLEST_DISTANCE))

    yield from moment_blocks("unknown", dim)
    yield Block("unknown distances", "distance", distance, np.arange(dim)[:, None])
    yield from quantile_blocks("unknown", reference, size)


def pair_block(dim: int, strongest: Int[np.ndarray, "pairs 2"] | None, rng: np.random.Generator) -> Block | None:
    """Products of two unknowns: all pairs, or as many as 128 unknowns have.

    Of those, half are `strongest`, and half are chosen at random; all are at random where it is None.

    Args:
        dim: Number of unknowns.
        strongest: Pairs that are most correlated in other draws than those judged: in the draws that chose them, their
            correlations are larger than they are.
        rng: For the choice.
    """
    if dim < 2:
        return None
    if dim * (dim - 1) // 2 <= limits.MAX_PAIRS:
        first, second = np.triu_indices(dim, 1)
    else:
        half = limits.MAX_PAIRS // 2
        first = rng.integers(0, dim - 1, half)
        chosen = np.stack([first, rng.integers(first + 1, dim)], 1)
        first, second = np.unique(chosen if strongest is None else np.concatenate([chosen, strongest]), axis=0).T

    def product(points: Points) -> Values:
        z = np.ascontiguousarray(_clipped(points.z).T)  # rows are gathered faster than columns
        return (z[first] * z[second]).T

    def mean(points: Points) -> np.ndarray:
        z = _clipped(points.z)
        if dim > limits.MAX_DIM_EIGEN:
            return np.array([z[:, i] @ z[:, j] for i, j in zip(first, second, strict=True)], float) / len(z)
        return np.asarray(z.T @ z, float)[first, second] / len(z)

    return Block("pairs", "correlation", product, np.stack([first, second], 1), mean=mean)


def direction_blocks(
    about: str, reference: Float[np.ndarray, "n directions"], size: float = math.inf
) -> Iterator[Block]:
    """Mean, square and quantiles along directions, of points that are given along them."""
    yield from moment_blocks(about, reference.shape[1])
    yield from quantile_blocks(about, reference, size)


def log_density_blocks(log_prob: Float[np.ndarray, " n"], dim: int, size: float = math.inf) -> Iterator[Block]:
    """log p and its quantiles: what the draws' density says of all unknowns together."""
    subject = np.zeros((1, 0), int)
    low, middle, high = np.quantile(log_prob, [0.0005, 0.5, 1.0])
    # Far below the draws, a value would count for all others; it is then in a tail, which the quantiles see.
    floor = middle - limits.CLIP * max(middle - low, high - middle)

    def mean(points: Points) -> Values:
        return (np.maximum(points.log_prob, floor)[:, None] - middle) / (0.5 * dim)

    def below(threshold: float) -> Callable[[Points], Values]:
        return lambda points: (points.log_prob <= threshold).astype(np.float32)[:, None]

    yield Block("log density", "log density", mean, subject)
    for level in quantile_levels(size):
        values = below(float(np.quantile(log_prob, level)))
        yield Block("log density quantiles", "log density quantile", values, subject, level)


def random_directions(
    rng: np.random.Generator, base: Float[np.ndarray, "dim axes"] | None, reference: Float[np.ndarray, "n dim"]
) -> Directions:
    """Random combinations of the columns of `base`, or of the unknowns."""
    num = reference.shape[1] if base is None else base.shape[1]
    mixed = rng.normal(size=(num, limits.RANDOM_DIRECTIONS))
    mixed = mixed if base is None else base @ mixed
    return Directions.of(mixed / np.linalg.norm(mixed, axis=0), reference)


def chosen_directions(
    whitened: Directions,
    starts: Float[np.ndarray, "chains dim"],
    late: list[Float[np.ndarray, "chains dim"]],
    reference: Float[np.ndarray, "n dim"],
) -> Directions:
    """Where some chains have drifted most: in their mean, and to the most and the least spread.

    They are chosen on these chains, and must be tested on others.
    """
    u, ends = whitened.along(starts), [whitened.along(z) for z in late]
    drift = np.mean([end.mean(0) for end in ends], 0) - u.mean(0)
    squares = np.mean([end.T @ end for end in ends], 0) / len(u) - u.T @ u / len(u)
    vectors = np.linalg.eigh(squares)[1][:, [0, -1]]
    chosen = np.concatenate([drift[:, None] / max(np.linalg.norm(drift), 1e-30), vectors], 1)
    covectors = (whitened.covectors / whitened.scale) @ chosen
    return Directions.of(covectors / np.linalg.norm(covectors, axis=0), reference)
