"""A likelihood of minibatches that is not scaled to all data is said so, before the first update and after the last."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import sivi
from sivi.targets import LogisticRegression, Target, Tempered
from sivi.targets.minibatch_scale import batches_of_all, is_scaled_by_library, slope_of_minibatches

N = 60
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, 2))
Y = X @ [1.0, -2.0] + _RNG.normal(size=N)


class Own(Target):
    """A regression whose author writes the minibatches."""

    x: jax.Array
    y: jax.Array
    factor: float = 1.0
    dim: int = 2
    num_data = N

    def log_prob(self, x, batch=None):
        inputs, outputs = (self.x, self.y) if batch is None else (self.x[batch], self.y[batch])
        scale = 1.0 if batch is None else self.factor * N / batch.shape[0]
        return jnp.sum(norm.logpdf(x, 0.0, 100.0)) + scale * jnp.sum(norm.logpdf(outputs, inputs @ x))


def own(factor=1.0):
    return Own(jnp.asarray(X, float), jnp.asarray(Y, float), factor)


@pytest.mark.parametrize(("num_data", "size"), [(60, 12), (60, 7), (10, 3), (7, 6), (1000, 999)])
def test_batches_hold_every_row_equally_often(num_data, size):
    batches = batches_of_all(num_data, size, np.random.default_rng(1))
    counts = np.bincount(batches.ravel(), minlength=num_data)
    assert batches.shape[1] == size
    equally = len(batches) * size % num_data == 0
    assert counts.max() - counts.min() == (0 if equally else 1)
    assert equally or len(batches) == 4 * -(-num_data // size)
    assert batches.size <= 8 * num_data


@pytest.mark.parametrize("factor", [1.0, 0.2, 5.0])
def test_slope_is_the_factor(x64, factor):
    points = jnp.asarray(np.random.default_rng(2).normal(size=(6, 2)))
    slope, error = slope_of_minibatches(own(factor), batches_of_all(N, 12, np.random.default_rng(0)), points)
    assert abs(slope - factor) < 1e-3 * factor  # the prior is not scaled
    assert error < 1e-3


def fitted(target, **other):
    objective = sivi.objectives.PathKL(num_particles=16, critic_steps=1, critic_warmup=0)
    return sivi.fit(
        target, objective=objective, whiten=None, num_steps=2, batch_size=12, key=0, progress=False, **other
    )


def test_forgetting_to_scale_is_said():
    with pytest.warns(sivi.FitWarning, match=r"changes 0\.2 times as much .* by N/\|batch\| = 5 in log_prob"):
        posterior = fitted(own(0.2))
    (remark,) = posterior.warnings
    assert remark.kind == "minibatch-scale"


def test_nothing_is_said_of_a_right_one():
    assert fitted(own()).warnings == ()


def test_a_target_that_the_library_scales_is_not_looked_at():
    model = LogisticRegression(X, Y > 0)
    assert is_scaled_by_library(model)
    assert is_scaled_by_library(Tempered(model, jnp.asarray(0.5), model))
    assert not is_scaled_by_library(own())
    assert not is_scaled_by_library(Tempered(own(), jnp.asarray(0.5), model))
