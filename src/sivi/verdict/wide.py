"""Starts far from the draws, and which of the tops above them are not tops of the fit."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..targets import Target, Whitened
from .chains import advance
from .climbing import Tops, climb, distinct, is_joined, merged, nearest
from .frame import Frame
from .maps import to_u, to_x
from .tuning import Tuned, longest_trajectory

#: Wide starts r·N(0, I), half of which climb at once and half are tempered first; r is log-uniform between these.
NUM_WIDE, RADII = 512, (1.5, 10.0)
#: Starts displaced along one unknown, by this many standard deviations: so many for each unknown, between bounds.
DISPLACED_PER_DIM, DISPLACED, DISPLACEMENTS = 8, (128, 1024), (3.0, 12.0)
#: Beyond this dimension there are half as many wide starts, and a quarter of the displaced.
MANY_DIM = 500
#: Transitions of a tempered chain, in so many stages with a step size each.
TEMPERED_TRANSITIONS, STAGES = 32, 4
#: Transitions between two looks at which chains have joined the fit's, and looks at most.
RELAXING_TRANSITIONS, MAX_LOOKS = 16, 4
#: Tops of the fit that a top is compared with.
NUM_ANCHORS = 4
MAX_CANDIDATES = 8


class Candidate(NamedTuple):
    """A place that may be a mode without draws: tops or chains there, in u, and its highest top."""

    top: Float[np.ndarray, " dim"]
    positions: Float[np.ndarray, "num dim"]


def wide_starts(
    key: PRNGKeyArray,
    target: Target,
    frame: Frame,
    tuned: Tuned,
    draws: Float[np.ndarray, "num dim"],
    anchors: Float[np.ndarray, "anchors dim"],
    effort: float,
) -> tuple[Float[np.ndarray, "starts dim"], int]:
    """Starts in u from which to climb, and the gradients spent on tempering half of the wide ones.

    Args:
        key: Random key.
        target: p.
        frame: The scale of the draws.
        tuned: The step size of the fit's chains.
        draws: Of q, in x, from which half of the displaced starts are.
        anchors: Tops above such draws, in u, from which the other half are: in many dimensions a narrow mode is closer
            to a line through a top than to one through a draw.
        effort: Multiplies the number of starts.
    """
    seed, chain_key = jax.random.split(key)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(seed)))
    dim = target.dim
    fewer = 2 if dim > MANY_DIM else 1
    num = max(2, round(NUM_WIDE * effort / fewer))
    radius = np.exp(rng.uniform(*np.log(RADII), size=num))
    wide = radius[:, None] * rng.standard_normal((num, dim))
    half = num // 2
    tempered, gradients = _tempered(chain_key, target, frame, tuned, wide[:half], radius[:half])
    count = max(2, round(float(np.clip(DISPLACED_PER_DIM * dim, *DISPLACED)) * effort / fewer**2))
    displaced = draws[rng.integers(len(draws), size=count)].astype(float)
    displaced[::2] = to_x(frame.affine, anchors[rng.integers(len(anchors), size=len(displaced[::2]))])
    unknown = np.concatenate([rng.permutation(dim) for _ in range(-(-count // dim))])[:count]
    by = rng.choice([-1.0, 1.0], count) * rng.uniform(*DISPLACEMENTS, size=count)
    displaced[np.arange(count), unknown] += by * frame.scale[unknown]
    return np.concatenate([tempered, wide[half:], to_u(frame.affine, displaced)]), gradients


def _tempered(
    key: PRNGKeyArray, target: Target, frame: Frame, tuned: Tuned, starts: np.ndarray, radius: np.ndarray
) -> tuple[np.ndarray, int]:
    """Chains of p^β, with β from r⁻² to 1; the step shrinks with the temperature, stage by stage."""
    positions, gradients = to_x(frame.affine, starts), 0
    for stage in range(STAGES):
        first, last = (radius ** (-2.0 * (1.0 - (stage + end) / STAGES)) for end in (0, 1))
        moved = advance(
            jax.random.fold_in(key, stage),
            target,
            positions,
            frame.affine,
            step_size=tuned.step_size / np.sqrt(last),
            num_transitions=TEMPERED_TRANSITIONS // STAGES,
            max_leapfrog=longest_trajectory(tuned.step_size),
            beta=first,
            beta_end=last,
        )
        positions, gradients = moved.positions, gradients + moved.num_gradients
    return to_u(frame.affine, positions), gradients


def candidates(
    key: PRNGKeyArray,
    target: Target,
    frame: Frame,
    tuned: Tuned,
    starts: Float[np.ndarray, "starts dim"],
    anchors: Float[np.ndarray, "anchors dim"],
) -> tuple[list[Candidate], int]:
    """Modes that may lack draws: tops above the starts that are not tops of the fit, and stay apart when relaxed.

    Args:
        key: Random key.
        target: p.
        frame: Coordinates of the fit.
        tuned: The step size of its chains.
        starts: In u.
        anchors: Where draws of the fit climbed to, in u.

    Returns:
        At most eight, and the gradients spent.
    """
    whitened = Whitened(target, frame.affine)
    tops = climb(whitened, starts)
    gradients = tops.gradients
    apart = apart_from(whitened, tops, anchors)
    positions = tops.positions[apart]
    for look in range(MAX_LOOKS):
        if not len(positions):
            return [], gradients
        moved = advance(
            jax.random.fold_in(key, look),
            target,
            to_x(frame.affine, positions),
            frame.affine,
            step_size=tuned.step_size,
            num_transitions=RELAXING_TRANSITIONS,
            max_leapfrog=tuned.max_leapfrog,
        )
        relaxed = to_u(frame.affine, moved.positions)
        tops = climb(whitened, relaxed)
        gradients += moved.num_gradients + tops.gradients
        apart = apart_from(whitened, tops, anchors)
        before, positions = len(positions), relaxed[apart]
        if len(positions) == before:
            break
    return _grouped(whitened, tops, apart, positions), gradients


def apart_from(target: Target, tops: Tops, anchors: Float[np.ndarray, "anchors dim"]) -> np.ndarray:
    """Indices of the tops between which and all tops of the fit log p dips."""
    leaders, label = distinct(tops)
    if not leaders.size:
        return np.zeros(0, int)
    several = min(NUM_ANCHORS, len(anchors))
    found = anchors[nearest(tops.positions[leaders], anchors, several)]
    joined = is_joined(target, tops.positions[leaders], found)
    return np.flatnonzero((label >= 0) & ~joined[label])


def _grouped(target: Target, tops: Tops, apart: np.ndarray, positions: np.ndarray) -> list[Candidate]:
    """Modes among the tops that stayed apart: those reached most often, and the highest."""
    chosen = Tops(tops.positions[apart], tops.log_probs[apart], tops.is_top[apart], 0)
    leaders, label = distinct(chosen)
    mode = merged(target, chosen.positions[leaders])
    mode_of = np.where(mode[label] >= 0, mode[label], len(leaders))
    numbers, first, count = np.unique(mode_of, return_index=True, return_counts=True)
    numbers, first, count = (part[numbers < len(leaders)] for part in (numbers, first, count))
    height = np.array([chosen.log_probs[mode_of == number].max() for number in numbers])
    often = np.argsort(-count, kind="stable")[: MAX_CANDIDATES // 2]
    high = [i for i in np.argsort(-height, kind="stable") if i not in often]
    kept = [*often, *high][:MAX_CANDIDATES]
    places = [leaders[np.flatnonzero(mode == numbers[i])[0]] for i in kept]
    return [
        Candidate(chosen.positions[place], positions[mode_of == numbers[i]])
        for i, place in zip(kept, places, strict=True)
    ]
