"""A fault in words: what it is about, how large it is, how sure, and how bad."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._fitting.remarks import listed
from . import limits
from .limits import Limit


class Finding(NamedTuple):
    """One fault.

    Attributes:
        kind: "mean", "spread", "distribution", "correlation", "direction", "log density", "lost mode", "mode weight",
            "minibatch scale", "repeats", "not finite", "collapsed", "zero density", "not judged" or, of Markov chains,
            "sampler".
        unknowns: Names of the unknowns it is about; empty if it is about all of them.
        effect: The target's value less that of the draws, in the units of `limits.LIMITS`: means in standard deviations
            of the draws, spreads as logarithms of a ratio, probabilities, correlations, log densities over dim / 2.
        error: Standard error of the effect; 0 where there is no noise.
        level: "doubtful" or "bad".
        sentence: What is wrong, for a statistician.
        severity: The part of the effect beyond noise, over the limit of "doubtful". The order of findings.
    """

    kind: str
    unknowns: tuple[str, ...]
    effect: float
    error: float
    level: str
    sentence: str
    severity: float = 1.0


def level_of(effect: float, error: float, limit: Limit) -> str:
    """The level of an effect that is no noise: what is left of it two errors on, against the limits."""
    left = abs(effect) - limits.ERRORS_BEYOND_LIMIT * error
    return limits.BAD if left > limit.bad else limits.DOUBTFUL if left > limit.doubtful else limits.NO_FAULT


def severity_of(effect: float, error: float, limit: Limit) -> float:
    """The part of an effect beyond noise, in limits."""
    return (abs(effect) - limits.ERRORS_BEYOND_LIMIT * error) / limit.doubtful


def finding(
    kind: str, unknowns: Sequence[str], effect: float, error: float, limit: Limit, sentence: str
) -> Finding | None:
    """A finding, if the effect is beyond the limit."""
    level = level_of(effect, error, limit)
    if level == limits.NO_FAULT:
        return None
    severity = severity_of(effect, error, limit)
    return Finding(kind, tuple(unknowns), float(effect), float(error), level, sentence, severity)


def worst_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """By level, then by how far beyond its limit."""
    return tuple(sorted(findings, key=lambda f: (-limits.LEVELS.index(f.level), -f.severity)))


def worst_level(findings: Sequence[Finding]) -> str:
    """The level of a verdict with these findings."""
    return max((f.level for f in findings), key=limits.LEVELS.index, default=limits.NO_FAULT)


def mean_sentence(about: str, effect: float, error: float) -> str:
    side = "low" if effect > 0 else "high"
    return f"{about}: the draws lie too {side}, by {abs(effect):.2f} ± {error:.2f} of their sd."


def spread_sentence(about: str, effect: float, error: float) -> str:
    side = "narrow" if effect > 0 else "wide"
    ratio = float(np.exp(min(abs(effect), 20.0) * np.sign(effect)))
    return f"{about}: the draws are too {side}; the target's sd is {ratio:.2f} times theirs (± {100 * error:.0f} %)."


def probability_sentence(about: str, level: float, effect: float, error: float) -> str:
    low = level <= 0.5
    where, expected = ("below", level) if low else ("above", 1.0 - level)
    found = expected + (effect if low else -effect)
    return (
        f"{about}: {100 * max(found, 0.0):.1f} ± {100 * error:.1f} % of the target lies {where} the value "
        f"that {100 * expected:.1f} % of the draws lie {where}."
    )


def correlation_sentence(about: str, drawn: float, effect: float, error: float) -> str:
    return f"{about}: their correlation is {drawn + effect:+.2f} ± {error:.2f}, and {drawn:+.2f} in the draws."


def log_density_sentence(effect: float, error: float, dim: int) -> str:
    side = "lower" if effect > 0 else "higher"
    return (
        f"all unknowns together: the log density of the draws is {side} than that of the target's own, by "
        f"{abs(effect) * dim / 2:.3g} ± {error * dim / 2:.2g} on average."
    )


def not_finite(share: float) -> Finding:
    """Draws that are no numbers."""
    sentence = f"{100 * share:.3g} % of the draws are not finite."
    return Finding("not finite", (), share, 0.0, limits.BAD, sentence, 1e3)


def collapsed(names: tuple[str, ...]) -> Finding:
    """Unknowns that do not vary."""
    sentence = f"{listed(names)}: all draws are the same number; the fit has collapsed or run off."
    return Finding("collapsed", names, 1.0, 0.0, limits.BAD, sentence, 1e3)


def not_moving(acceptance: float) -> Finding:
    """Chains that accept next to no step."""
    sentence = (
        f"all unknowns together: the chains hardly move from the draws (acceptance {acceptance:.2g}), so nothing can "
        "be said of these."
    )
    return Finding("not judged", (), acceptance, 0.0, limits.DOUBTFUL, sentence)


def zero_density(share: float) -> list[Finding]:
    """Draws without density; none if they are few."""
    sentence = f"{100 * share:.3g} % of the draws lie where the target has no density or score that is a number."
    new = finding("zero density", (), share, 0.0, limits.LIMITS["zero density"], sentence)
    return [] if new is None else [new]
