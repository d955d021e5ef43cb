"""Kernels of a user, and names from before there was this room."""

import importlib

import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi._storage import codec
from sivi.kernels import GaussianKernel, IMQKernel, Kernel, RieszKernel


class Quadratic(Kernel):
    """k(x, y) = (1 + xᵀy)², by `gram` alone."""

    def gram(self, x):
        return (1.0 + x @ x.T) ** 2


def test_gram_alone_is_enough_for_a_kernel_of_the_user(x64):
    x = np.random.default_rng(0).normal(size=(6, 3)) + 0.5
    gram, sums = Quadratic().gram_and_gradient_sums(jnp.asarray(x))
    products = 1.0 + x @ x.T
    np.testing.assert_allclose(gram, products**2, rtol=1e-12)
    np.testing.assert_allclose(sums, 2.0 * products.sum(0)[:, None] * x, rtol=1e-12)


@pytest.mark.parametrize("name", ["GaussianKernel", "IMQKernel", "Kernel", "RieszKernel"])
def test_objectives_still_has_the_kernels_it_had(name):
    assert getattr(sivi.objectives, name) is getattr(sivi.kernels, name)
    assert getattr(importlib.import_module("sivi.objectives.kernels"), name) is getattr(sivi.kernels, name)


@pytest.mark.parametrize(
    ("node", "kernel"),
    [
        ({"class": "GaussianKernel", "fields": {"bandwidth": None, "factor": 0.5}}, GaussianKernel()),
        ({"class": "IMQKernel", "fields": {"bandwidth": 2.0, "factor": 0.5}}, IMQKernel(2.0)),
        ({"class": "RieszKernel", "fields": {}}, RieszKernel()),
    ],
)
def test_kernels_are_read_from_files_of_earlier_versions(node, kernel):
    assert codec.decode(node, []) == kernel
    assert codec.encode(kernel, []) == node
