"""Pooling by NumPy finds what pooling inside a program finds; starts that found several modes are told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi._repeats import stack_trees
from sivi.targets import Banana, GaussianMixture, LogDensity, ScoreFunction
from sivi.warmup.gaussian import warmup_with_status
from sivi.warmup.numbers import WarmupNumbers
from sivi.warmup.on_host import find_maps, steps_of_attempt

TARGETS = {
    "gaussian": GaussianMixture([[5.0, -1.0]], [[[4.0, 1.0], [1.0, 0.5]]]),
    "two modes": GaussianMixture([[4.0, 0.0], [-4.0, 1.0]], [np.eye(2), 0.25 * np.eye(2)], weights=[0.3, 0.7]),
    "banana": Banana(),
    "flat": LogDensity(lambda x: 0.0 * jnp.sum(x), dim=2),
    "score": ScoreFunction(lambda x: -(x - 3.0), dim=2),
    "nowhere finite": LogDensity(lambda x: jnp.nan * jnp.sum(x), dim=2),
}


def by_numpy(key, target, num_starts=6, num_steps=80):
    start_key, _, fit_key, weights_key = jax.random.split(key, 4)
    numbers = WarmupNumbers.from_keys(start_key, fit_key, weights_key, num_starts, num_steps, target.dim)
    steps = jax.jit(lambda index: jax.tree.map(lambda leaf: leaf[None], steps_of_attempt(target, numbers, None, index)))
    return find_maps(steps, stack_trees([numbers]), target.knows_log_prob, 0.0)


@pytest.mark.parametrize("name", TARGETS)
def test_is_what_the_program_finds(name):
    target, key = TARGETS[name], jax.random.key(1)
    affine, code, several = warmup_with_status(key, target, num_starts=6, num_steps=80)
    on_host, codes, disagree = by_numpy(key, target)
    assert codes.tolist() == [int(code)]
    assert disagree.tolist() == [bool(several)]
    if name != "flat":  # whose sds grow without bound, and its rounding with them
        # Of starts in one mode rounding decides which is the best, in whose coordinates L is computed: L Lᵀ is the same.
        other = jax.tree.map(lambda leaf: leaf[0], on_host)
        for found in (affine, other):
            np.testing.assert_allclose(found.matrix @ found.inverse_matrix, np.eye(2), atol=1e-4)
        for of in (lambda m: m.mean, lambda m: m.matrix @ m.matrix.T, lambda m: m.log_det):
            np.testing.assert_allclose(of(affine), of(other), rtol=2e-3, atol=2e-4)


def test_several_modes_are_told():
    assert by_numpy(jax.random.key(0), TARGETS["two modes"])[2].tolist() == [True]
    for name in ("gaussian", "banana", "score"):
        assert by_numpy(jax.random.key(0), TARGETS[name])[2].tolist() == [False]


def test_numbers_of_the_host_are_balanced_normal_ones():
    for dim in (1, 3, 70):
        numbers = WarmupNumbers.on_host(jax.random.key(0), 2, 40, dim)
        steps = np.asarray(numbers.steps)
        squares = np.einsum("spi,spj->sij", steps, steps)
        # Within a block directions are orthogonal and share a radius, so the sum over a step is diagonal.
        off_diagonal = squares - np.einsum("sii->si", squares)[:, :, None] * np.eye(dim)
        assert np.abs(off_diagonal).max() < 1e-3 * dim
        # 40 steps of radii with relative variance 2/dim: five standard errors of the mean square.
        blocks = steps.shape[0] * steps.shape[1] / dim
        assert abs(np.mean(steps**2) - 1.0) < 5.0 * np.sqrt(2.0 / dim / blocks)


def test_a_posterior_of_several_modes_has_the_recipe_for_them():
    recipe = sivi.defaults.recipe(2)
    fits = {
        name: sivi.fit(TARGETS[name], num_steps=8, progress=False).settings.objective
        for name in ("gaussian", "two modes")
    }
    assert type(fits["gaussian"]) is type(recipe.objective())
    assert type(fits["two modes"]) is type(recipe.for_modes().objective()) is sivi.objectives.Annealed
