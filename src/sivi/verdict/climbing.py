"""Climbing: from many starts to the tops of log p, and which tops belong to one mode."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._arguments import default_float
from .._programs import compiled
from .._types import Scalar
from ..targets.base import Target
from ..targets.evaluate import rows_of, values_at

#: Starts that climb side by side, and segments that are looked at side by side. Fewer are padded: one program for all.
BLOCK = 256

#: Steps of a round. Rounds go on while one gains `MIN_GAIN` nats, and what still gains after `MAX_ROUNDS` is no top.
NUM_STEPS = 200
MIN_GAIN = 0.05
MAX_ROUNDS = 6

#: Two tops are of one mode if log p falls by less than this, in nats, on the way from one to the other.
MAX_DIP = 1.0

#: Points on a segment, without its ends.
NUM_BETWEEN = 25

#: Of FIRE: the first step, its largest, the steps uphill before it grows, and the first share of steering.
FIRST_STEP, MAX_STEP, MIN_UPHILL, STEERING = 0.1, 10.0, 5, 0.1


class Climber(eqx.Module):
    """A point on its way up, with the state of FIRE."""

    position: Float[Array, " dim"]
    log_prob: Scalar
    grad: Float[Array, " dim"]
    velocity: Float[Array, " dim"]
    step_size: Scalar
    steering: Scalar
    uphill: Scalar


class Tops(NamedTuple):
    """Where starts ended.

    Attributes:
        positions: In the coordinates of the starts.
        log_probs: Of the positions; −∞ where the start had none.
        is_top: Whether the last round gained next to nothing, from a start with a finite log density.
        gradients: Spent on all of them.
    """

    positions: Float[np.ndarray, "num dim"]
    log_probs: Float[np.ndarray, " num"]
    is_top: Bool[np.ndarray, " num"]
    gradients: int


def climb(target: Target, starts: Float[np.ndarray, "num dim"], max_rounds: int = MAX_ROUNDS) -> Tops:
    """Climb log p from every start by FIRE, 200 steps at a time, until a round gains less than 0.05 nats.

    FIRE (Bitzek et al., Physical Review Letters 97, 2006) follows the gradient with inertia, and stops when it runs
    downhill. Here a step that lowers log p, or leaves its support, is undone and halved, so that log p never falls.

    Args:
        target: In the coordinates of the starts, in which it has a scale of about one.
        starts: Any number of points; only those with a finite log density climb.
        max_rounds: Rounds for those that keep on climbing.
    """
    position = np.array(starts, default_float())
    num = len(position)
    value, is_top, active = np.full(num, -np.inf), np.zeros(num, bool), np.arange(num)
    gradients = 0
    for _ in range(max_rounds):
        if not active.size:
            break
        ends = []
        for rows in _blocks(active):
            padded = np.resize(rows, BLOCK)
            found = _climb_block(target, jnp.asarray(position[padded]))
            ends.append([np.asarray(part)[: len(rows)] for part in found])
            gradients += BLOCK * (NUM_STEPS + 1)
        reached, before, after = (np.concatenate(parts) for parts in zip(*ends, strict=True))
        usable = np.isfinite(before) & np.isfinite(after) & np.isfinite(reached).all(1)
        position[active[usable]], value[active[usable]] = reached[usable], after[usable]
        still = usable & (np.where(usable, after, 0.0) - np.where(usable, before, 0.0) >= MIN_GAIN)
        is_top[active[usable & ~still]] = True
        active = active[still]
    return Tops(position, value, is_top, gradients)


def dips(target: Target, ends: Float[np.ndarray, "num 2 dim"]) -> Float[np.ndarray, " num"]:
    """By how many nats log p falls, on the segment between two points, below the lower of its ends; 0 if it does not.

    A segment that leaves the support dips by ∞.
    """
    num = len(ends)
    found = []
    for rows in _blocks(np.arange(num)):
        found.append(np.asarray(_lowest(target, jnp.asarray(ends[np.resize(rows, BLOCK)])))[: len(rows)])
    return np.concatenate(found) if found else np.zeros(0)


def distinct(tops: Tops, max_distance: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Tops that differ, highest first, as their indices; and for every top which of these it is, −1 for no top.

    Args:
        tops: As they were reached.
        max_distance: Two tops at most this far apart in every coordinate are the same.
    """
    leaders: list[int] = []
    label = np.full(len(tops.positions), -1)
    order = np.flatnonzero(tops.is_top)
    for row in order[np.argsort(-tops.log_probs[order], kind="stable")]:
        if leaders:
            apart = np.abs(tops.positions[leaders] - tops.positions[row]).max(1)
            if apart.min() <= max_distance:
                label[row] = int(apart.argmin())
                continue
        label[row] = len(leaders)
        leaders.append(int(row))
    return np.array(leaders, int), label


def merged(target: Target, points: Float[np.ndarray, "num dim"], max_modes: int = 32) -> Int[np.ndarray, " num"]:
    """For every top which mode it belongs to: tops between which log p dips by less than a nat are one.

    Tops may be so in a row, as on a flat or bent ridge. Each is compared with the nearest of a mode and with its
    highest, so that the number of segments grows with that of tops, not with its square.

    Args:
        target: In the coordinates of the points.
        points: Tops, highest first.
        max_modes: Tops of further modes get the label −1.
    """
    label = np.full(len(points), -1)
    for mode in range(max_modes):
        rest = np.flatnonzero(label < 0)
        if not rest.size:
            break
        first = rest[0]
        label[first] = mode
        rest = rest[1:]
        while rest.size:
            members = np.flatnonzero(label == mode)
            anchors = np.stack([members[nearest(points[rest], points[members], 1)[:, 0]], np.full(len(rest), first)], 1)
            joins = is_joined(target, points[rest], points[anchors])
            label[rest[joins]] = mode
            if not joins.any():
                break
            rest = rest[~joins]
    return label


def is_joined(
    target: Target, points: Float[np.ndarray, "num dim"], anchors: Float[np.ndarray, "num several dim"]
) -> Bool[np.ndarray, " num"]:
    """Whether log p dips by less than a nat between a point and one of its anchors."""
    num, several, dim = anchors.shape
    ends = np.stack([np.broadcast_to(points[:, None], anchors.shape), anchors], axis=2).reshape(-1, 2, dim)
    return dips(target, ends).reshape(num, several).min(axis=1) < MAX_DIP


def nearest(
    points: Float[np.ndarray, "num dim"], among: Float[np.ndarray, "all dim"], several: int
) -> Int[np.ndarray, "num several"]:
    """The nearest few of many points to each point, by their indices."""
    squares = (points**2).sum(1)[:, None] + (among**2).sum(1) - 2.0 * points @ among.T
    return np.argsort(squares, axis=1)[:, :several]


def _blocks(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[first : first + BLOCK] for first in range(0, len(rows), BLOCK)]


@compiled
def _climb_block(
    target: Target, starts: Float[Array, "block dim"]
) -> tuple[Float[Array, "block dim"], Float[Array, " block"], Float[Array, " block"]]:
    """Positions after a round, and log p before and after it."""
    value_and_grad = jax.value_and_grad(target.log_prob)
    longest = 0.25 * math.sqrt(target.dim)

    def step(_: Array, now: Climber) -> Climber:
        speed = jnp.linalg.norm(now.velocity)
        slope = jnp.linalg.norm(now.grad)
        direction = now.grad / jnp.maximum(slope, jnp.finfo(slope.dtype).tiny)
        velocity = (1.0 - now.steering) * now.velocity + now.steering * speed * direction + now.step_size * now.grad
        move = now.step_size * velocity
        shrink = jnp.minimum(1.0, longest / jnp.maximum(jnp.linalg.norm(move), jnp.finfo(slope.dtype).tiny))
        position = now.position + shrink * move
        log_prob, grad = value_and_grad(position)
        # A change within rounding is no fall.
        slack = 4.0 * jnp.finfo(log_prob.dtype).eps * jnp.abs(now.log_prob)
        good = jnp.isfinite(log_prob) & jnp.all(jnp.isfinite(grad)) & (log_prob >= now.log_prob - slack)
        onwards = good & (jnp.vdot(grad, velocity) > 0.0)
        uphill = jnp.where(onwards, now.uphill + 1.0, 0.0)
        faster = jnp.where(uphill > MIN_UPHILL, jnp.minimum(1.1 * now.step_size, MAX_STEP), now.step_size)
        return Climber(
            jnp.where(good, position, now.position),
            jnp.where(good, log_prob, now.log_prob),
            jnp.where(good, grad, now.grad),
            jnp.where(onwards, shrink * velocity, 0.0),
            jnp.where(onwards, faster, 0.5 * now.step_size),
            jnp.where(onwards & (uphill > MIN_UPHILL), 0.99 * now.steering, jnp.where(onwards, now.steering, STEERING)),
            uphill,
        )

    def climb_one(start: Array) -> tuple[Array, Array, Array]:
        log_prob, grad = value_and_grad(start)
        # Plain numbers of the density's own type, so that the loop carries what it was given.
        first, steering, zero = (jnp.full((), number, start.dtype) for number in (FIRST_STEP, STEERING, 0.0))
        began = Climber(start, log_prob, grad, jnp.zeros_like(start), first, steering, zero)
        ended = jax.lax.fori_loop(0, NUM_STEPS, step, began)
        return ended.position, log_prob, ended.log_prob

    return values_at(climb_one, starts, rows_of(target))


@compiled
def _lowest(target: Target, ends: Float[Array, "block 2 dim"]) -> Float[Array, " block"]:
    share = jnp.linspace(0.0, 1.0, NUM_BETWEEN + 2, dtype=ends.dtype)[:, None]

    def dip(pair: Array) -> Array:
        points = pair[0] + share * (pair[1] - pair[0])
        value = jax.vmap(target.log_prob)(points)
        value = jnp.where(jnp.isnan(value), -jnp.inf, value)
        lower = jnp.minimum(value[0], value[-1])
        return jnp.where(jnp.isfinite(lower), lower - jnp.min(value), jnp.inf)

    return values_at(dip, ends, rows_of(target) * (NUM_BETWEEN + 2))
