"""Modes of targets that are known: none missed, none made up, and their masses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi._programs import PROGRAMS
from sivi.targets import Banana, GaussianMixture, LogDensity
from sivi.verdict import limits
from sivi.verdict.chains import advance
from sivi.verdict.frame import frame_of
from sivi.verdict.modes import Mode, effects_of, find_modes
from sivi.verdict.tuning import tune

ANGLES = np.arange(8) * np.pi / 4
RING = 6.0 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)

SLOW = pytest.mark.slow  # as quick as the others of their kind, but many


def mixture(means, sds, weights):
    means = np.asarray(means, float)
    covariances = [np.eye(means.shape[1]) * sd**2 for sd in sds]
    return GaussianMixture(means, np.stack(covariances), weights)


def mixture_draws(rng, num, means, sds, weights):
    means, sds, weights = (np.asarray(part, float) for part in (means, sds, weights))
    component = rng.choice(len(weights), size=num, p=weights / weights.sum())
    return means[component] + sds[component, None] * rng.standard_normal((num, means.shape[1]))


def two_places(dim):
    """Eight standard deviations apart, along no unknown."""
    means = np.zeros((2, dim))
    means[1, :2] = 6.4, 4.8
    return means


def search(target, draw, seed=0, effort=1.0):
    """As the check does: coordinates, step size and chains from other draws than those that are weighed."""
    rng = np.random.default_rng(seed)
    tune_key, chain_key, mode_key = jax.random.split(jax.random.key(seed), 3)
    frame = frame_of(draw(rng, 10_000))
    tuned = tune(tune_key, target, draw(rng, 512), frame.affine)
    starts = draw(rng, 512)
    ends = advance(
        chain_key,
        target,
        starts,
        frame.affine,
        step_size=tuned.step_size,
        num_transitions=32,
        max_leapfrog=tuned.max_leapfrog,
    ).positions
    return find_modes(mode_key, target, frame, tuned, starts, ends, draw(rng, 10_000), effort=effort)


def levels(found):
    return {effect.kind: effect.level for effect in found.effects if effect.level != limits.NO_FAULT}


def test_exact_draws_of_eight_modes_have_the_right_masses_and_no_fault():
    sds, weights = [0.8] * 8, np.arange(4, 12) / 60
    found = search(mixture(RING, sds, weights), lambda rng, num: mixture_draws(rng, num, RING, sds, weights))
    assert len(found.modes) == 8
    assert levels(found) == {}
    for mode in found.modes:
        nearest = np.argmin(np.linalg.norm(RING - mode.place, axis=1))
        assert np.linalg.norm(RING[nearest] - mode.place) < 0.2
        # The border between two regions is not quite that between two components.
        assert abs(mode.mass - weights[nearest]) < max(4.0 * mode.error, 0.015)
        assert abs(mode.share - weights[nearest]) < 0.02
        # Its draws are draws of the mode alone; the neighbours are 4.6 away.
        np.testing.assert_allclose(mode.draws.mean(axis=0), RING[nearest], atol=0.15)
        np.testing.assert_allclose(mode.draws.std(axis=0), 0.8, atol=0.1)


def test_seven_of_eight_modes_lost():
    target = mixture(RING, [0.8] * 8, [1.0] * 8)
    found = search(target, lambda rng, num: mixture_draws(rng, num, RING[:1], [0.8], [1.0]))
    assert levels(found)["lost mass"] == limits.BAD
    drawn = [mode.mass for mode in found.modes if mode.share > 0.5]
    assert len(drawn) == 1
    assert abs(drawn[0] - 0.125) < 0.05


def test_weights_that_are_off_by_a_fifth():
    weights = np.array([0.325, 0.125, 0.125, 0.125, 0.075, 0.075, 0.075, 0.075])
    target = mixture(RING, [0.8] * 8, [1.0] * 8)
    found = search(target, lambda rng, num: mixture_draws(rng, num, RING, [0.8] * 8, weights))
    assert levels(found) == {"mode weight": limits.BAD}
    worst = max(found.effects, key=lambda effect: abs(effect.effect))
    assert abs(worst.effect + 0.2) < 0.03
    np.testing.assert_allclose(found.modes[worst.modes[0]].place, RING[0], atol=0.2)


@pytest.mark.parametrize("dim", [2, 10])
@pytest.mark.parametrize("lost", [pytest.param(0.5, marks=SLOW), pytest.param(0.2, marks=SLOW), 0.125])
def test_a_lost_mode_is_found_and_weighed(dim, lost):
    means = two_places(dim)
    target = mixture(means, [1.0, 1.0], [1.0 - lost, lost])
    found = search(target, lambda rng, num: mixture_draws(rng, num, means[:1], [1.0], [1.0]))
    assert levels(found) == {"lost mass": limits.BAD}
    (effect,) = found.effects
    assert abs(effect.effect - lost) < max(4.0 * effect.error, 0.01)
    np.testing.assert_allclose(found.modes[effect.modes[0]].place, means[1], atol=0.2)


def test_a_narrow_mode_along_one_unknown_is_found_in_ten_dimensions():
    means = np.zeros((2, 10))
    means[1, 3] = -8.0
    target = mixture(means, [1.0, 0.3], [0.75, 0.25])
    found = search(target, lambda rng, num: mixture_draws(rng, num, means[:1], [1.0], [1.0]))
    assert levels(found) == {"lost mass": limits.BAD}
    assert abs(found.effects[0].effect - 0.25) < 0.02


def banana_draws(rng, num):
    first, second = rng.standard_normal((2, num))
    return np.stack([first, first**2 + 0.9 * first + np.sqrt(0.19) * second + 1.0], axis=1)


def funnel_draws(rng, num):
    v = 3.0 * rng.standard_normal((num, 1))
    return np.concatenate([v, np.exp(v / 2) * rng.standard_normal((num, 1))], axis=1)


def student_draws(rng, num):
    return rng.standard_normal((num, 10)) / np.sqrt(rng.chisquare(3.0, (num, 1)) / 3.0)


ONE_MODE = {
    "banana": (Banana(), banana_draws),
    "funnel": (
        LogDensity(lambda x: -(x[0] ** 2) / 18 - x[0] / 2 - 0.5 * jnp.exp(-x[0]) * x[1] ** 2, 2),
        funnel_draws,
    ),
    "student": (LogDensity(lambda x: -6.5 * jnp.log1p(x @ x / 3.0), 10), student_draws),
    "gaussian": (
        LogDensity(lambda x: -0.5 * jnp.sum((x / (1.0 + jnp.arange(20.0))) ** 2), 20),
        lambda rng, num: rng.standard_normal((num, 20)) * np.arange(1.0, 21.0),
    ),
    # Not a number outside its support.
    "gamma": (
        LogDensity(lambda x: jnp.sum(2.0 * jnp.log(x) - x), 3),
        lambda rng, num: rng.gamma(3.0, size=(num, 3)),
    ),
}


@pytest.mark.parametrize(
    "name", ["banana", "funnel", "student", *(pytest.param(n, marks=SLOW) for n in ("gaussian", "gamma"))]
)
def test_one_mode_is_one_mode(name):
    found = search(*ONE_MODE[name])
    assert found.effects == ()
    assert [(mode.mass, mode.share) for mode in found.modes] == [(1.0, 1.0)]
    assert found.num_gradients < 1_200_000


@SLOW
def test_two_modes_of_heavy_tails_have_no_fault():
    # Their far draws may be in the region of the other mode.
    means, scales = two_places(2) * 1.5, np.array([1.0, 0.5])

    def log_prob(x):
        squares = jnp.sum((x - jnp.asarray(means)) ** 2, axis=1) / jnp.asarray(scales) ** 2
        return jax.nn.logsumexp(jnp.log(jnp.array([0.7, 0.3 / 0.25])) - 3.0 * jnp.log1p(squares / 4.0))

    def draws(rng, num):
        component = rng.choice(2, size=num, p=[0.7, 0.3])
        heavy = rng.standard_normal((num, 2)) / np.sqrt(rng.chisquare(4.0, (num, 1)) / 4.0)
        return means[component] + scales[component, None] * heavy

    found = search(LogDensity(log_prob, 2), draws)
    assert levels(found) == {}
    np.testing.assert_allclose([mode.mass for mode in found.modes], [0.7, 0.3], atol=0.03)


def test_another_number_of_starts_compiles_nothing_new():
    target, draw = ONE_MODE["banana"]
    search(target, draw)
    before = len(PROGRAMS)
    search(target, draw, seed=1, effort=0.3)
    assert len(PROGRAMS) == before


def mode(mass, share, error=0.003):
    return Mode(np.zeros(2), mass, error, share, 0.003, np.zeros((0, 2)), np.zeros(0))


@pytest.mark.parametrize(
    ("masses", "shares", "expected"),
    [
        ([0.5, 0.5], [0.5, 0.5], {}),
        ([0.5, 0.5], [0.54, 0.46], {}),
        ([0.5, 0.5], [0.6, 0.4], {"mode weight": limits.DOUBTFUL}),
        ([0.5, 0.5], [0.7, 0.3], {"mode weight": limits.BAD}),
        ([0.5, 0.5], [1.0, 0.0], {"lost mass": limits.BAD}),
        # Among those that are not lost the weights are right.
        ([0.4, 0.4, 0.2], [0.5, 0.5, 0.0], {"lost mass": limits.BAD}),
        ([0.999, 0.001], [1.0, 0.0], {}),
        # Neither lost nor off by a weight's limit, but 4 % of the probability is missing.
        ([0.955, 0.045], [0.995, 0.005], {"mode weight": limits.DOUBTFUL}),
        # Less than half, within noise.
        ([0.98, 0.02], [0.991, 0.009], {}),
    ],
)
def test_effects_and_their_levels(masses, shares, expected):
    found = effects_of([mode(*pair) for pair in zip(masses, shares, strict=True)])
    assert {effect.kind: effect.level for effect in found if effect.level != limits.NO_FAULT} == expected


def test_a_mass_that_is_hardly_known_is_no_finding():
    assert {effect.level for effect in effects_of([mode(0.9, 1.0), mode(0.1, 0.0, error=0.1)])} == {limits.NO_FAULT}


@pytest.mark.slow
def test_masses_of_two_modes_in_many_dimensions():
    dim, sds = 150, np.linspace(0.5, 2.0, 150)
    offset = np.zeros(dim)
    offset[:2] = 5.0, -4.0
    place, scale = jnp.asarray(offset), jnp.asarray(sds)

    def log_density(x):
        first, second = (-0.5 * jnp.sum(((x - sign * place) / scale) ** 2) for sign in (1.0, -1.0))
        return jnp.logaddexp(jnp.log(0.6) + first, jnp.log(0.4) + second)

    rng = np.random.default_rng(0)
    side = np.where(rng.uniform(size=(22_000, 1)) < 0.6, 1.0, -1.0)
    verdict = sivi.check(rng.normal(size=(22_000, dim)) * sds + side * offset, LogDensity(log_density, dim))
    assert verdict.level == "no fault found"
    for mode, mass in zip(verdict.modes, (0.6, 0.4), strict=True):
        assert abs(mode.mass - mass) < 4.0 * mode.error < 0.05
