"""The benchmark's exact draws are those of its log densities.

With S the score and x ~ p in unconstrained coordinates, Stein's identities E[S] = 0 and E[S xᵀ] = −I hold for exact
draws and for no other distribution's in general. Each of the dim + dim² means is tested at 5.5 standard errors:
with at most 2000 of them in this file, right draws fail one time in 10,000.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi.targets import as_target

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from tasks import TASKS, named
from tasks.task import flat

NUM_DRAWS = 20_000
# Not the centred hierarchy, whose score has no variance: its draws are those of the other, by theta = mu + tau eta.
# The posterior of `separable` is drawn by HMC.
EXACT = sorted(name for name, task in TASKS.items() if task.reference and name not in ("chn", "separable"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "20000" in name else []) for name in EXACT]
)
def test_exact_draws_satisfy_the_identities_of_stein(name):
    task = TASKS[name]
    problem, what = task.problem()
    target = as_target(problem, **what)
    draws = task.reference(np.random.default_rng(7), NUM_DRAWS)
    x = jax.vmap(target.layout.ravel)(jax.tree.map(jnp.asarray, draws))
    scores = np.asarray(jax.jit(lambda points: jax.lax.map(target.score, points, batch_size=500))(x), float)
    # In units of the draws' own spread, where float32 has lost nothing.
    centred = np.asarray(x, float) - np.asarray(x, float).mean(0)
    products = scores[:, :, None] * centred[:, None, :] + np.eye(target.dim)
    for values in (scores, products.reshape(NUM_DRAWS, -1)):
        errors = values.std(0) / np.sqrt(NUM_DRAWS)
        assert (np.abs(values.mean(0)) <= 5.5 * errors).all(), np.abs(values.mean(0) / errors).max()


def test_centred_and_non_centred_schools_are_one_model():
    """log p(theta, mu, tau) + 8 log tau = log p(eta, mu, tau), by the Jacobian of theta = mu + tau eta."""
    rng = np.random.default_rng(1)
    mu, tau, eta = rng.normal(size=20), rng.gamma(2.0, size=20), rng.normal(size=(20, 8))
    theta = mu[:, None] + tau[:, None] * eta
    centred, _ = named.schools(centred=True)
    non_centred, _ = named.schools(centred=False)
    left = jax.vmap(centred)({"mu": mu, "tau": tau, "theta": theta}) + 8 * np.log(tau)
    right = jax.vmap(non_centred)({"mu": mu, "tau": tau, "eta": eta})
    np.testing.assert_allclose(left, right, rtol=1e-4)


@pytest.mark.slow
def test_draws_of_the_schools_agree_with_quadrature():
    """The mean of mu and P(tau < 5) against a plain sum over a grid of (mu, tau): within 5 standard errors."""
    mu, tau = np.linspace(-30, 40, 1401), np.linspace(0.005, 200, 20_001)
    variance = named.ERRORS**2 + tau[:, None] ** 2
    log_joint = -0.5 * mu**2 / 25 - np.log1p((tau[:, None] / 5) ** 2)
    for j, effect in enumerate(named.EFFECTS):
        log_joint += -0.5 * (effect - mu) ** 2 / variance[:, j, None] - 0.5 * np.log(variance[:, j, None])
    joint = np.exp(log_joint - log_joint.max())
    joint /= joint.sum()
    draws = named.schools_draws(np.random.default_rng(2), 100_000)
    below = draws["tau"] < 5
    assert abs(draws["mu"].mean() - (joint @ mu).sum()) < 5 * draws["mu"].std() / np.sqrt(100_000)
    assert abs(below.mean() - joint[tau < 5].sum()) < 5 * below.std() / np.sqrt(100_000) + 1e-4


def test_flat_keeps_the_order_of_the_variables():
    np.testing.assert_array_equal(flat({"b": np.ones((2, 1)), "a": np.zeros(2)}), [[0, 1], [0, 1]])
