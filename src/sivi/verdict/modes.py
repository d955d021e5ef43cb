"""Modes: those that the draws have, those that they lack, and what share of the probability each has."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.stats import t as student

from ..targets import Target, Whitened
from . import limits, masses
from .climbing import Tops, climb, distinct, is_joined, merged
from .findings import level_of
from .frame import Frame
from .maps import to_u, to_x
from .tuning import Tuned
from .weighing import ModeChains, Weighed, relax, weigh
from .wide import Candidate, apart_from, candidates, wide_starts

#: Draws that climb to the tops of the fit: half of them starts of chains, half ends.
NUM_CLIMBING = 256
#: More modes of the fit than this are not told apart: its draws then count as one.
MAX_FIT_MODES = 12
#: A mode whose share of draws is below this part of its mass is lost.
LOST_PART = 0.1
#: One whose share is below this part of its mass is thin: what it lacks is judged as lost mass is.
THIN_PART = 0.5
#: A new mode is dropped if this part of its chains, or more, ends in the modes of the fit.
MAX_FALLEN_BACK = 0.5


class Mode(NamedTuple):
    """One mode.

    Attributes:
        place: Its highest top that was reached, in x.
        mass: Its share of the probability.
        error: Of the mass: two of them cover the truth in 95 of 100 cases.
        share: Of q's draws.
        share_error: Standard error of the share.
        draws: Of the mode, from chains on p that stayed in it; none if it is the only one.
        log_prob: Of these draws.
        together: Whether it stands for all modes of the draws, which are too many to be told apart.
    """

    place: Float[np.ndarray, " dim"]
    mass: float
    error: float
    share: float
    share_error: float
    draws: Float[np.ndarray, "num dim"]
    log_prob: Float[np.ndarray, " num"]
    together: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether q has hardly any draws here."""
        return self.share < LOST_PART * self.mass

    @property
    def is_thin(self) -> bool:
        """Whether q has less than half of the draws that belong here."""
        return self.share < THIN_PART * self.mass


class ModeEffect(NamedTuple):
    """What the modes say against the draws.

    Attributes:
        kind: "lost mass" or "mode weight", as in `limits.LIMITS`.
        modes: Which modes, by their numbers: all that are lost, or the one whose weight is meant.
        effect: The probability that is lost; or the mass of the mode less its share of the draws, both among the modes
            that are not lost.
        error: Of the effect.
        level: One of `limits.LEVELS`.
    """

    kind: str
    modes: tuple[int, ...]
    effect: float
    error: float
    level: str


class ModeSearch(NamedTuple):
    """What was found.

    Attributes:
        modes: By mass, largest first.
        effects: Lost mass if a mode is lost, and the weight of every other mode if there are several.
        num_gradients: Spent on all of it.
        num_fit_modes: Modes that draws of the fit climb to; 13 stands for more than 12, which are taken as one.
    """

    modes: tuple[Mode, ...]
    effects: tuple[ModeEffect, ...]
    num_gradients: int
    num_fit_modes: int


def find_modes(
    key: PRNGKeyArray,
    target: Target,
    frame: Frame,
    tuned: Tuned,
    chain_starts: Float[np.ndarray, "chains dim"],
    chain_ends: Float[np.ndarray, "chains dim"],
    q_draws: Float[np.ndarray, "num dim"],
    *,
    size: float | None = None,
    effort: float = 1.0,
) -> ModeSearch:
    """Look for modes of p, near the draws and far from them, and weigh them.

    Args:
        key: Random key.
        target: p, with a log density.
        frame: Coordinates of the draws.
        tuned: The step size of the chains.
        chain_starts: Draws of q, in x.
        chain_ends: Where chains on p took them.
        q_draws: Further draws of q, whose shares are compared with the masses.
        size: How many independent draws `q_draws` are worth; all by default.
        effort: Multiplies the number of far starts and the length of the chains that weigh.
    """
    wide_key, candidate_key, fit_key, weigh_key = jax.random.split(key, 4)
    whitened = Whitened(target, frame.affine)
    half = NUM_CLIMBING // 2
    near = np.concatenate([chain_ends[:half], chain_starts[:half]])
    tops = climb(whitened, to_u(frame.affine, near))
    anchors = tops.positions[np.isfinite(tops.log_probs)]
    if not len(anchors):
        return ModeSearch((), (), tops.gradients, 0)
    fit_modes = _modes_of_fit(whitened, tops, near)
    far, spent = wide_starts(wide_key, target, frame, tuned, chain_starts, anchors, effort)
    gradients = tops.gradients + spent
    further, spent = candidates(candidate_key, target, frame, tuned, far, anchors)
    gradients += spent

    places, chains = [], []
    for i, candidate in enumerate(further):
        relaxed, spent = _relaxed_apart(
            jax.random.fold_in(candidate_key, 1000 + i), target, frame, candidate, anchors, effort
        )
        gradients += spent
        if relaxed is None:
            continue
        places, chains = [*places, candidate.top], [*chains, relaxed]
        anchors = np.concatenate([anchors, candidate.top[None]])
    if not chains and len(fit_modes) == 1:
        place = to_x(frame.affine, fit_modes[0].top[None])[0]
        none = np.zeros((0, target.dim)), np.zeros(0)
        return ModeSearch((Mode(place, 1.0, 0.0, 1.0, 0.0, *none),), (), gradients, 1)

    too_many = len(fit_modes) > MAX_FIT_MODES
    used = [Candidate(fit_modes[0].top, chain_ends)] if too_many else fit_modes
    for i, mode in enumerate(used):
        top = to_x(frame.affine, mode.top[None])[0]
        relaxed = relax(jax.random.fold_in(fit_key, i), target, frame.affine, top, mode.positions, effort)
        if relaxed is None:
            continue
        gradients += relaxed.num_gradients
        places, chains = [*places, mode.top], [*chains, relaxed]
    weighed = weigh(weigh_key, target, chains, q_draws)
    gradients += weighed.num_evaluations
    share = masses.shares(weighed.label, len(chains), size)
    together = len(chains) - 1 if too_many else None  # the draws of the fit come last
    modes = _modes(to_x(frame.affine, np.stack(places)), chains, weighed, *share, together)
    return ModeSearch(modes, effects_of(modes), gradients, len(fit_modes))


def _modes_of_fit(target: Target, tops: Tops, near: np.ndarray) -> list[Candidate]:
    """Modes that the draws of the fit climb to, with those draws in x; the draws as one if nothing has a top."""
    leaders, label = distinct(tops)
    if not leaders.size:
        return [Candidate(tops.positions[np.argmax(tops.log_probs)], near)]
    mode = merged(target, tops.positions[leaders], max_modes=MAX_FIT_MODES + 1)
    found = []
    for number in range(mode.max() + 1):
        first = leaders[np.flatnonzero(mode == number)[0]]
        found.append(Candidate(tops.positions[first], near[(label >= 0) & (mode[label] == number)]))
    return found


def _relaxed_apart(
    key: PRNGKeyArray, target: Target, frame: Frame, candidate: Candidate, anchors: np.ndarray, effort: float
) -> tuple[ModeChains | None, int]:
    """Chains of a new mode; None if it is one found before, or if half of its chains fall back to another."""
    whitened = Whitened(target, frame.affine)
    if is_joined(whitened, candidate.top[None], anchors[None]).any():
        return None, 0
    top, places = to_x(frame.affine, candidate.top[None])[0], to_x(frame.affine, candidate.positions)
    relaxed = relax(key, target, frame.affine, top, places, effort)
    if relaxed is None:
        return None, 0
    ends = relaxed.snapshots[-1][:NUM_CLIMBING]
    tops = climb(whitened, to_u(frame.affine, ends))
    stayed = len(apart_from(whitened, tops, anchors)) / len(ends)
    return (relaxed if stayed > 1.0 - MAX_FALLEN_BACK else None), relaxed.num_gradients + tops.gradients


def _modes(
    places: np.ndarray,
    chains: Sequence[ModeChains],
    weighed: Weighed,
    share: np.ndarray,
    share_error: np.ndarray,
    together: int | None,
) -> tuple[Mode, ...]:
    found = weighed.masses
    modes = []
    for i in np.argsort(-found.mass, kind="stable"):
        inside = weighed.labels[i] == i
        modes.append(
            Mode(
                places[i],
                float(found.mass[i]),
                float(found.error[i]),
                float(share[i]),
                float(share_error[i]),
                chains[i].snapshots[inside],
                chains[i].log_prob[inside],
                i == together,
            )
        )
    return tuple(modes)


def effects_of(modes: Sequence[Mode]) -> tuple[ModeEffect, ...]:
    """Lost mass, and weights of the modes that are not lost, each with its level.

    A lost mass is compared with its limits on a logarithmic scale, since its error grows with it. The number of
    errors that count as noise is that of Student's t for the sub-estimates of a mass. What a thin mode lacks is
    compared with the limits of a lost mass as well.
    """
    errors = float(student.isf(limits.ALPHA / 2, masses.NUM_GROUPS - 1)) / masses.ERROR_FACTOR
    lost = tuple(i for i, mode in enumerate(modes) if mode.is_lost)
    kept = [i for i in range(len(modes)) if i not in lost]
    effects = []
    if lost:
        effect = sum(modes[i].mass - modes[i].share for i in lost)
        error = math.hypot(*(modes[i].error for i in lost))
        size = effect * math.exp(-errors * error / effect) if effect > 0.0 else 0.0
        effects.append(ModeEffect("lost mass", lost, effect, error, level_of(size, 0.0, limits.LIMITS["lost mass"])))
    if len(kept) > 1:
        mass, share = (sum(getattr(modes[i], name) for i in kept) for name in ("mass", "share"))
        for i in kept:
            effect = modes[i].mass / mass - modes[i].share / share
            error = math.hypot(modes[i].error / mass, modes[i].share_error / share)
            found = [(effect, error, limits.LIMITS["mode weight"])]
            if modes[i].is_thin:
                missing = modes[i].mass - modes[i].share
                noise = math.hypot(modes[i].error, modes[i].share_error)
                found.append((missing, noise, limits.LIMITS["lost mass"]))
            levels = [level_of(*each) if abs(each[0]) > errors * each[1] else limits.NO_FAULT for each in found]
            level = max(levels, key=limits.LEVELS.index)
            effects.append(ModeEffect("mode weight", (i,), effect, error, level))
    return tuple(effects)
