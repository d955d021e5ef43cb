"""KSIVI's statistics on the linear-Gaussian family, whose kernel Stein discrepancy is known in closed form."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import (
    bonferroni,
    flat,
    gaussian_target,
    gradient_of,
    kernel_stein,
    largest_z,
    linear_gaussian_family,
    linear_gaussian_model,
    log_q,
    monte_carlo,
    network_family,
    paired_z,
    quadrature_family,
)
from sivi.objectives import GaussianKernel, IMQKernel, KernelStein, RieszKernel

pytestmark = pytest.mark.usefixtures("x64")

BANDWIDTH = 1.7
KERNELS = {
    "gaussian": GaussianKernel(),
    "gaussian-fixed": GaussianKernel(BANDWIDTH),
    "imq": IMQKernel(),
    "riesz": RieszKernel(),
}


def test_u_statistic_is_unbiased_for_the_closed_form_in_value_and_gradient():
    family, target = linear_gaussian_family(), gaussian_target()
    objective = KernelStein(kernel=GaussianKernel(BANDWIDTH))
    noise = family.sample_noise(jax.random.key(0), (30_000, 12))

    def estimate(*noise):
        def value(family):
            return objective.discrepancy(family, target, None, noise)

        discrepancy, grads = eqx.filter_value_and_grad(value)(family)
        return {"value": discrepancy, **gradient_of(grads)}

    result = monte_carlo(estimate, noise, block=3000)
    exact, grads = eqx.filter_value_and_grad(kernel_stein)(family.conditional, target, BANDWIDTH)
    truth = {"A": grads.A, "b": grads.b, "log_sigma": grads.log_sigma, "value": exact}
    count = sum(leaf.size for leaf in jax.tree.leaves(truth))
    scores = largest_z(result, truth)
    assert max(scores.values()) < bonferroni(count), scores


@pytest.mark.slow
def test_u_statistic_with_sigma_of_z_is_that_of_the_score_of_q_by_quadrature():
    """Value and gradient against those with ∇log q(x) in place of ∇_x log q(x|z), on the same draws.

    Given x the second averages to the first, so the difference has mean zero whatever the parameters.
    """
    family, target = quadrature_family("implicit"), sivi.targets.Multimodal()
    kernel = GaussianKernel(BANDWIDTH)
    objective = KernelStein(kernel=kernel)
    noise = family.sample_noise(jax.random.key(5), (4000, 6))

    def exact(family, noise):
        x = jax.vmap(lambda *one: family.joint(*one).x)(*noise)
        delta = jax.vmap(lambda x: target.score(x) - jax.grad(log_q, argnums=1)(family, x))(x)
        terms = kernel.gram(x) * (delta @ delta.T)
        return (jnp.sum(terms) - jnp.trace(terms)) / (len(x) * (len(x) - 1))

    def difference(*noise):
        def value(family):
            return objective.discrepancy(family, target, None, noise) - exact(family, noise)

        return flat(eqx.filter_value_and_grad(value)(family))

    result = monte_carlo(difference, noise, block=500)
    assert float(jnp.abs(paired_z(result)).max()) < bonferroni(result.mean.size)
    # The discrepancy is no small number beside the error of the comparison.
    some = tuple(array[:500].reshape(3000, -1) for array in noise)
    assert float(exact(family, some)) > 20 * float(result.error[0])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("layers", ["linear", "network"])
def test_v_statistic_is_the_u_statistic_plus_the_diagonal(kernel, layers):
    family = linear_gaussian_family() if layers == "linear" else network_family()
    target, m = gaussian_target(), 9
    noise = family.sample_noise(jax.random.key(1), (m,))
    u, v = (
        KernelStein(kernel=KERNELS[kernel], statistic=statistic).discrepancy(family, target, None, noise)
        for statistic in ("U", "V")
    )
    joint = jax.vmap(family.joint)(*noise)
    delta = jax.vmap(target.score)(joint.x) - joint.score
    diagonal = jnp.mean(jnp.diagonal(KERNELS[kernel].gram(joint.x)) * jnp.sum(delta**2, axis=1))
    np.testing.assert_allclose(v, (1 - 1 / m) * u + diagonal / m, rtol=1e-12)


def test_u_statistic_vanishes_at_the_target_for_every_kernel():
    """A family that is the target: the U-statistic averages to zero."""
    family = linear_gaussian_family()
    target = sivi.targets.GaussianMixture([family.conditional.b], [family.conditional.covariance])
    noise = family.sample_noise(jax.random.key(2), (20_000, 8))
    for kernel in (GaussianKernel(BANDWIDTH), IMQKernel(BANDWIDTH), RieszKernel()):
        objective = KernelStein(kernel=kernel)
        result = monte_carlo(lambda *n, o=objective: o.discrepancy(family, target, None, n), noise, block=5000)
        assert max(largest_z(result, jnp.zeros(())).values()) < bonferroni(3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_positive_definite_and_match_their_formula(kernel):
    x = jax.random.normal(jax.random.key(3), (12, 5)) * 3.0 + 1.0
    gram = np.asarray(KERNELS[kernel].gram(x))
    distance = np.linalg.norm(np.asarray(x)[:, None] - np.asarray(x), axis=-1)
    median = np.sqrt(np.median(distance[np.triu_indices(12, 1)] ** 2))
    h = BANDWIDTH if kernel == "gaussian-fixed" else 0.5 * median
    expected = {
        "gaussian": np.exp(-(distance**2) / (2 * h**2)),
        "gaussian-fixed": np.exp(-(distance**2) / (2 * h**2)),
        "imq": 1 / np.sqrt(1 + distance**2 / h**2),
        "riesz": np.abs(x).sum(1)[:, None] + np.abs(x).sum(1) - np.abs(x[:, None] - x).sum(-1),
    }[kernel]
    np.testing.assert_allclose(gram, expected, rtol=1e-9, atol=1e-10)
    assert np.linalg.eigvalsh(gram).min() > 0


def test_gradient_of_the_median_bandwidth_is_kept():
    """By finite differences along a direction that changes all distances."""
    x = jax.random.normal(jax.random.key(4), (8, 2))
    kernel, moved = GaussianKernel(), lambda t: x.at[0].multiply(1.0 + t)
    numeric = (kernel.gram(moved(1e-6)) - kernel.gram(moved(-1e-6))) / 2e-6
    np.testing.assert_allclose(jax.jacfwd(lambda t: kernel.gram(moved(t)))(0.0), numeric, atol=1e-7)
    scaled = jax.jacfwd(lambda t: kernel.gram(x * (1.0 + t)))(0.0)
    np.testing.assert_allclose(scaled, 0.0, atol=1e-12)  # the median makes the kernel free of scale


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize(("num_data", "batch_size"), [(4, 2), (5, 4)])
def test_minibatch_discrepancy_is_unbiased(statistic, num_data, batch_size):
    target, family = linear_gaussian_model(num_data), linear_gaussian_family()
    objective = KernelStein(statistic=statistic)
    noise = family.sample_noise(jax.random.key(2), (6,))
    gradient = eqx.filter_jit(eqx.filter_value_and_grad(lambda f, b: objective.discrepancy(f, target, b, noise)))
    whole = gradient(family, None)
    each = [gradient(family, jnp.array(b)) for b in itertools.permutations(range(num_data), batch_size)]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / len(each), *each)
    for a, b in zip(jax.tree.leaves(mean), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
