"""What every kernel must do: a row of `plugins.KERNELS`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from contracts.plugins import KERNELS
from sivi import kernels
from sivi._storage import codec
from sivi.kernels import Kernel, RadialKernel


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]()


def particles(num, dim):
    """Neither centred nor of one scale."""
    return jnp.asarray(np.random.default_rng(num + dim).normal(size=(num, dim)) * np.linspace(0.5, 3.0, dim) + 0.7)


def at_fixed_bandwidth(kernel, x):
    """The kernel with the bandwidth that it takes from x as a number."""
    if not isinstance(kernel, RadialKernel) or kernel.bandwidth is not None:
        return kernel
    distances = np.linalg.norm(np.asarray(x)[:, None] - np.asarray(x), axis=-1)[np.triu_indices(len(x), 1)]
    return type(kernel)(kernel.factor * float(np.sqrt(np.median(distances**2))))


def test_every_kernel_has_a_row():
    public = [getattr(kernels, name) for name in kernels.__all__]
    concrete = {cls.__name__ for cls in public if not getattr(cls, "__abstractmethods__", None)}
    assert {type(make()).__name__ for make in KERNELS.values()} == concrete


@pytest.mark.parametrize("dim", [5])
def test_gram_is_positive_semidefinite(kernel, dim, precision):
    x = particles(9, dim)
    gram, sums = kernel.gram_and_gradient_sums(x)
    assert gram.dtype == sums.dtype == precision
    assert sums.shape == x.shape
    np.testing.assert_allclose(gram, kernel.gram(x), rtol=1e-5)
    gram = np.asarray(gram, float)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-5)
    assert np.linalg.eigvalsh(gram).min() > -100 * np.finfo(precision).eps * np.abs(gram).max()


@pytest.mark.parametrize("dim", [2, 5])
def test_gradient_sums_are_those_of_autodiff(kernel, dim, x64):
    """Of the value at one pair, the bandwidth fixed, and by the method that a new kernel inherits.

    A particle beside itself may be at a kink of the kernel: there it is the mean of both sides.
    """
    x = particles(9, dim)
    fixed = at_fixed_bandwidth(kernel, x)

    def value(first, second):
        return fixed.gram(jnp.stack([first, second]))[0, 1]

    def of_all(shift):  # entry (i, j): ∇_{x_j} k(x_j, x_i + shift)
        return jax.vmap(lambda y: jax.vmap(lambda x: jax.grad(value)(x, y + shift))(x))(x)

    beside = jnp.arange(len(x))
    gradients, sides = of_all(0.0), 0.5 * (of_all(1e-7) + of_all(-1e-7))
    gradients = gradients.at[beside, beside].set(sides[beside, beside])
    sums = kernel.gram_and_gradient_sums(x)[1]
    np.testing.assert_allclose(sums, gradients.sum(1), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(Kernel.gram_and_gradient_sums(fixed, x)[1], sums, rtol=1e-9, atol=1e-10)


def test_of_one_particle_and_of_some_in_one_place(kernel):
    """The others push a particle to nowhere, if they are where it is; what is left depends on the origin alone."""
    for num in (1, 4):
        x = jnp.tile(jnp.array([0.5, -2.0]), (num, 1))
        gram, sums = kernel.gram_and_gradient_sums(x)
        assert np.isfinite(gram).all()
        away = 0.0 if isinstance(kernel, RadialKernel) else num * (jnp.sign(x) if "Riesz" in str(kernel) else x)
        np.testing.assert_array_equal(sums, jnp.broadcast_to(away, x.shape))


def test_a_file_holds_it_by_the_name_of_its_class(kernel):
    arrays = []
    node = codec.encode(kernel, arrays)
    assert node["class"] == type(kernel).__name__
    assert eqx.tree_equal(codec.decode(node, arrays), kernel)
