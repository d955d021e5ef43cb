"""Annealed around every objective."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from contracts.plugins import ANNEALED_OBJECTIVES, small_family
from sivi.targets import Banana


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("Annealed-PathKL", "Annealed-SurrogateELBO") else [pytest.mark.slow])
        for name in ANNEALED_OBJECTIVES
    ],
)
def test_a_step_under_annealing_moves_the_family_and_beta_reaches_the_target(name):
    objective = ANNEALED_OBJECTIVES[name]().bind(10)
    family, target = small_family(), Banana()
    objective.check(family, target)
    state = objective.init(jax.random.key(0), family, target)
    step = eqx.filter_jit(objective.step)
    new_family, new_state, metrics = step(jax.random.key(1), family, state, target, None)
    assert all((a != b).any() for a, b in zip(leaves(new_family), leaves(family), strict=True))
    assert all(np.isfinite(leaf).all() for leaf in leaves((new_family, new_state, metrics)))
    np.testing.assert_allclose([metrics["beta"], new_state.beta], 0.1, rtol=1e-6)
    # The same update at β = 1, where nothing is annealed any more.
    whole = eqx.tree_at(lambda s: s.beta, state, jnp.ones_like(state.beta))
    _, _, unannealed = step(jax.random.key(1), family, whole, target, None)
    assert unannealed["beta"] == 1.0
    assert abs(unannealed["loss"] - metrics["loss"]) > 0.1
