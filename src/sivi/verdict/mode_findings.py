"""What a search for modes has found, as findings and as draws."""

import numpy as np

from . import limits
from .findings import Finding
from .modes import ModeSearch
from .result import place_text


def findings_of_modes(search: ModeSearch) -> list[Finding]:
    """What the modes say, in words."""
    found = []
    for effect in search.effects:
        places = " and ".join(place_text(search.modes[i].place) for i in effect.modes[:2])
        if effect.kind == "lost mass":
            plural = f"{len(effect.modes)} modes" if len(effect.modes) > 1 else "a mode"
            sentence = (
                f"{plural} with {100 * effect.effect:.1f} ± {100 * effect.error:.1f} % of the probability "
                f"{'have' if len(effect.modes) > 1 else 'has'} no draws, at {places}."
            )
        else:
            mode = search.modes[effect.modes[0]]
            what = f"the modes around {places}, taken together, have" if mode.together else f"the mode at {places} has"
            sentence = (
                f"{what} {100 * mode.mass:.1f} ± {100 * mode.error:.1f} % of the probability, and "
                f"{100 * mode.share:.1f} % of the draws."
            )
        if effect.level != limits.NO_FAULT:
            kind = "lost mode" if effect.kind == "lost mass" else effect.kind
            severity = abs(effect.effect) / limits.LIMITS[effect.kind].doubtful
            found.append(Finding(kind, (), effect.effect, effect.error, effect.level, sentence, severity))
    return found


def by_mass(search: ModeSearch, late: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of all modes, each as often as its mass says; the late states of the chains where there is one mode."""
    filled = [mode for mode in search.modes if len(mode.draws) and np.isfinite(mode.mass) and mode.mass > 0.0]
    if len(filled) < 2 or any(mode.error >= limits.UNKNOWN_MASS for mode in search.modes):
        return late
    weights = np.array([mode.mass for mode in filled])
    counts = np.floor(len(late) * weights / weights.sum() + rng.uniform(size=len(filled))).astype(int)
    picked, order = [], []
    for mode, count in zip(filled, counts, strict=True):
        rounds = [rng.permutation(len(mode.draws)) for _ in range(-(-count // len(mode.draws)))]
        picked += [mode.draws[np.concatenate(rounds)[:count]]] if count else []
        order.append((np.arange(count) + rng.uniform()) / max(count, 1))
    # Every stretch of them has the modes in these shares: chains may start from the last.
    return np.concatenate(picked).astype(late.dtype)[np.argsort(np.concatenate(order), kind="stable")]
