"""The warm-up of targets with symmetries: an optimum from random points, and a diagonal Gaussian around it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from sivi.coordinates import DiagonalMap
from sivi.targets import BayesianModel, HasSymmetries
from sivi.warmup.from_optimum import Optimum, ascend, warmup_from_optimum
from sivi.warmup.status import SETTLED

OPTIMUM = Optimum(steps=600, rate=3e-2, rows=5, scale=0.05)
SETTINGS = {"settings": OPTIMUM, "num_steps": 200}


class TwoSigns(HasSymmetries):
    """A Gaussian with its mirror image: modes ±centre with sds `sd`, in unknowns that do not depend on each other."""

    centre: Float[Array, " dim"]
    sd: Float[Array, " dim"]

    @property
    def dim(self):
        return len(self.centre)

    def log_prob(self, x, batch=None):
        one, other = (-0.5 * jnp.sum(((x - sign * self.centre) / self.sd) ** 2) for sign in (1.0, -1.0))
        return jnp.logaddexp(one, other)

    def predictions(self, x):
        return x * jnp.sign(x[0])

    @property
    def prediction_names(self):
        return tuple(f"f[{i}]" for i in range(self.dim))

    def random_start(self, key):
        return 2.0 * jax.random.normal(key, (self.dim,))


class Line(BayesianModel, HasSymmetries):
    """y ~ N(w₀ w₁ x, 1/γ): the signs of both weights can be changed together."""

    data: dict[str, Array]
    dim: int = eqx.field(static=True, default=2)

    def log_prior(self, x):
        return -0.5 * jnp.sum(x**2)

    def log_likelihood(self, x, datum):
        return -200.0 * (datum["y"] - x[0] * x[1] * datum["x"]) ** 2

    def predictions(self, x):
        return x[:1] * x[1:]

    @property
    def prediction_names(self):
        return ("slope",)

    def random_start(self, key):
        return jax.random.normal(key, (2,))


def test_gaussian_of_one_mode_is_exact():
    """Far from its mirror image a mode is a diagonal Gaussian, which the fit must find: mean and sds."""
    target = TwoSigns(jnp.array([6.0, -3.0, 1.0]), jnp.array([0.5, 1.0, 0.1]))
    found = jax.jit(lambda key: warmup_from_optimum(key, target, target, **SETTINGS, batch_size=None))
    signs = set()
    for key in range(4):
        affine, code = found(jax.random.key(key))
        assert isinstance(affine, DiagonalMap)
        sign = float(jnp.sign(affine.mean[0]))
        signs.add(sign)
        np.testing.assert_allclose(affine.mean, sign * target.centre, atol=2e-2)
        np.testing.assert_allclose(affine.scale, target.sd, rtol=2e-2)
        assert int(code) == SETTLED
    assert signs == {1.0, -1.0}


def test_an_optimum_in_minibatches():
    """w₀ w₁ at the optimum of the whole density, of which a step sees five rows."""
    x = jnp.linspace(-1.0, 1.0, 40)
    target = Line({"x": x, "y": 0.7 * x})
    optimum = jax.jit(lambda key: ascend(key, target, target.random_start(key), OPTIMUM))(jax.random.key(1))
    np.testing.assert_allclose(optimum[0] * optimum[1], 0.7, atol=0.02)
    np.testing.assert_allclose(target.score(optimum) / 40.0, 0.0, atol=0.05)


def test_steps_that_are_not_finite_are_not_taken():
    class Cliff(TwoSigns):
        def log_prob(self, x, batch=None):
            return jnp.where(x[0] > 0.0, jnp.nan, 1.0) * super().log_prob(x)

    target = Cliff(jnp.array([-6.0, 1.0]), jnp.ones(2))
    start = jnp.array([1.0, 1.0])
    np.testing.assert_array_equal(ascend(jax.random.key(0), target, start, OPTIMUM), start)
    affine, _ = warmup_from_optimum(jax.random.key(0), target, target, **SETTINGS, batch_size=None)
    assert np.isfinite(np.asarray(affine.mean)).all()
    assert (np.asarray(affine.scale) > 0).all()


@pytest.mark.parametrize("batch_size", [None, 10])
def test_rows_of_the_gaussian(batch_size):
    x = jnp.linspace(-1.0, 1.0, 40)
    target = Line({"x": x, "y": 0.7 * x})
    affine, _ = jax.jit(lambda key: warmup_from_optimum(key, target, target, **SETTINGS, batch_size=batch_size))(
        jax.random.key(1)
    )
    np.testing.assert_allclose(affine.mean[0] * affine.mean[1], 0.7, atol=0.05)
