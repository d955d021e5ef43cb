"""How far draws are from a reference: every number of the battery but the seconds."""

from typing import Any

import numpy as np

from sivi.metrics import knn_kl, sliced_wasserstein

from .entry import Bars, Entry, Modes
from .reference import Reference

#: Draws of each set, and pairs of reference sets of which the floor is the mean.
DISTANCE_DRAWS, FLOOR_PAIRS = 2000, 5
#: The largest KS distance of right draws is below its noise with this probability.
NOISE_LEVEL = 0.95

Numbers = dict[str, float | str | None]


def measure(
    draws: np.ndarray,
    reference: Reference,
    *,
    names: list[str] | None = None,
    modes: Modes | None = None,
    kl: bool = False,
) -> Numbers:
    """Errors of draws of the judged quantities.

    Args:
        draws: (num, quantities).
        reference: What they are compared with.
        names: Of the quantities, to say where the largest errors are.
        modes: If given, the total variation between their weights and the draws' shares is measured.
        kl: Whether the k-NN estimate of KL(reference ‖ draws) is, with k = 3 and all draws.

    Returns:
        By name. Mean errors are in standard deviations of the reference, ratios are over them, and in the distance
        every quantity is divided by its own. `ks_noise` is what the largest KS distance of as many right draws stays
        below 19 times in 20. Where draws are not finite, there is nothing but their share.
    """
    draws = np.asarray(draws, float)
    finite = np.isfinite(draws).all(1)
    if not finite.all():
        return {"not_finite": float(1.0 - finite.mean())}
    mean_errors = np.abs(draws.mean(0) - reference.mean) / reference.sd
    ratios = draws.std(0, ddof=1) / reference.sd
    distances = np.array([_ks(p, q) for p, q in zip(reference.draws.T, draws.T, strict=True)])
    distance, floor = _distances(draws, reference)
    names = names or [str(i) for i in range(draws.shape[1])]
    numbers: Numbers = {
        "mean_error": float(mean_errors.max()),
        "mean_error_at": names[int(mean_errors.argmax())],
        "sd_ratio_min": float(ratios.min()),
        "sd_ratio_min_at": names[int(ratios.argmin())],
        "sd_ratio_max": float(ratios.max()),
        "sd_ratio_max_at": names[int(ratios.argmax())],
        "ks": float(distances.max()),
        "ks_at": names[int(distances.argmax())],
        "ks_noise": _ks_noise(len(draws), len(reference.draws), draws.shape[1]),
        "distance": distance,
        "distance_floor": floor,
    }
    if modes is not None:
        numbers["weights_tv"] = modes.total_variation(draws)
    if kl:
        numbers["kl"] = _kl(reference.draws, draws)
    return numbers


def judge(entry: Entry, numbers: dict[str, Any]) -> dict[str, Any]:
    """The bars of an entry, those missed, and whether all are met; a number that is not there misses its bar."""
    bars: Bars = dict(entry.bars)
    if "ks" in bars and numbers.get("ks_noise") is not None:
        bars |= {"ks": (None, max(bars["ks"][1], numbers["ks_noise"]))}
    missed = [name for name, bar in bars.items() if not _within(numbers.get(name), bar)]
    return {"bars": {name: list(bar) for name, bar in bars.items()}, "missed": missed, "met": not missed}


def _within(value: float | None, bar: tuple[float | None, float | None]) -> bool:
    least, most = bar
    return value is not None and (least is None or value >= least) and (most is None or value <= most)


def _ks(p: np.ndarray, q: np.ndarray) -> float:
    """The largest difference of two empirical distribution functions."""
    p, q = np.sort(p), np.sort(q)
    points = np.concatenate([p, q])
    shares = np.searchsorted(p, points, "right") / len(p) - np.searchsorted(q, points, "right") / len(q)
    return float(np.abs(shares).max())


def _ks_noise(num: int, num_reference: int, quantities: int) -> float:
    """By Kolmogorov's tail 2 exp(−2 n d²), and a union over the quantities."""
    return float(np.sqrt(0.5 * np.log(2 * quantities / (1 - NOISE_LEVEL)) * (1 / num + 1 / num_reference)))


def _distances(draws: np.ndarray, reference: Reference) -> tuple[float, float]:
    """Sliced Wasserstein distance to the reference, and its mean between sets of the reference, all of one size."""
    rng = np.random.default_rng(0)
    size = min(DISTANCE_DRAWS, len(draws), len(reference.draws) // 2)
    scaled = (reference.draws - reference.mean) / reference.sd
    ours = (draws[rng.choice(len(draws), size, replace=False)] - reference.mean) / reference.sd
    pairs = [scaled[rng.choice(len(scaled), 2 * size, replace=False)] for _ in range(FLOOR_PAIRS)]
    floor = np.mean([sliced_wasserstein(pair[:size], pair[size:]) for pair in pairs])
    return float(np.mean([sliced_wasserstein(pair[:size], ours) for pair in pairs])), float(floor)


def _kl(reference: np.ndarray, draws: np.ndarray) -> float | None:
    try:
        return float(knn_kl(reference, draws, k=3))
    except ValueError:  # chains that stand still give copies of one point, of which there is no density
        return None
