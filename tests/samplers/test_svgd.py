"""Stein variational gradient descent against its formulas, written out, and the fixed points that are known."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose

from oracles import LinearGaussianModel, gaussian_target, linear_gaussian_model
from sivi._progress import ProgressBar
from sivi.kernels import GaussianKernel, IMQKernel, Kernel, LinearKernel, RieszKernel
from sivi.optimizers import AdaGrad, Adam
from sivi.samplers import _svgd, svgd
from sivi.schedules import Cosine
from sivi.targets import Banana, IsotropicGaussian, ScoreFunction, Target

QUIET = {"progress": False}


def median_bandwidth(x, factor):
    return factor * np.median([np.sum((x[i] - x[j]) ** 2) for i in range(len(x)) for j in range(i)]) ** 0.5


def gaussian(h):
    def value_and_gradient(x, y):
        k = np.exp(-np.sum((x - y) ** 2) / (2 * h**2))
        return k, -k * (x - y) / h**2

    return value_and_gradient


def imq(h):
    def value_and_gradient(x, y):
        inside = 1 + np.sum((x - y) ** 2) / h**2
        return inside**-0.5, -(inside**-1.5) * (x - y) / h**2

    return value_and_gradient


def riesz(x, y):
    return np.abs(x).sum() + np.abs(y).sum() - np.abs(x - y).sum(), np.sign(x) - np.sign(x - y)


def linear(x, y):
    return 1 + x @ y, y


#: A kernel, and by the particles the function (x, y) → k(x, y), ∇_x k(x, y).
PAIRS = {
    "gaussian": (GaussianKernel(1.7), lambda x: gaussian(1.7)),
    "gaussian-median": (GaussianKernel(factor=0.8), lambda x: gaussian(median_bandwidth(x, 0.8))),
    "imq": (IMQKernel(0.9), lambda x: imq(0.9)),
    "imq-median": (IMQKernel(), lambda x: imq(median_bandwidth(x, 0.5))),
    "riesz": (RieszKernel(), lambda x: riesz),
    "linear": (LinearKernel(), lambda x: linear),
}


def field_of(value_and_gradient, x, scores):
    """φ by a loop over all pairs."""
    field = np.zeros_like(x)
    for i, j in itertools.product(range(len(x)), repeat=2):
        k, gradient = value_and_gradient(x[j], x[i])
        field[i] += (k * scores[j] + gradient) / len(x)
    return field


@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("name", PAIRS)
def test_the_field_is_that_of_a_loop_over_pairs(name, dim, precision):
    kernel, pair = PAIRS[name]
    rng = np.random.default_rng(dim)
    x, scores = rng.normal(size=(8, dim)) * 1.5 + 0.4, rng.normal(size=(8, dim)) - 0.3
    field = _svgd.stein_field(kernel, jnp.asarray(x, precision), jnp.asarray(scores, precision))
    tolerance = 200 * np.finfo(precision).eps
    assert field.dtype == precision
    assert_allclose(field, field_of(pair(x), x, scores), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("num_steps", [1, 4])
def test_the_default_is_the_algorithm_of_the_paper(num_steps, x64):
    """exp(−‖x − y‖²/h²) with h² = med²/log n at every step, and AdaGrad with an average, all in NumPy."""
    target, x = gaussian_target(), np.random.default_rng(1).normal(size=(6, 3))
    run = svgd(target, num_particles=6, num_steps=num_steps, init=x, **QUIET)
    score = jax.vmap(target.score)
    schedule, average = Cosine(0.1).bind(num_steps), None
    for step in range(num_steps):
        median = median_bandwidth(x, 1.0)
        field = field_of(gaussian(median / math.sqrt(2 * math.log(6))), x, np.asarray(score(jnp.asarray(x))))
        average = field**2 if average is None else 0.9 * average + 0.1 * field**2
        x = x + float(schedule(step)) * field / (1e-6 + np.sqrt(average))
    assert_allclose(run.flat(), x, rtol=1e-9)
    assert run.step_size == pytest.approx(float(schedule(num_steps - 1)))


def test_the_default_kernel_sums_to_one_over_particles_at_the_median_distance():
    for num in (2, 100):
        weight = _svgd.median_kernel(num).profile(jnp.asarray(1.0 / _svgd.median_kernel(num).factor ** 2).reshape(1, 1))
        assert float(num * weight[0, 0]) == pytest.approx(1.0, rel=1e-5)


def exact_moments(num, mean, covariance):
    """Points with exactly this mean and covariance (1/n)."""
    noise = np.random.default_rng(2).normal(size=(num, len(mean)))
    noise -= noise.mean(0)
    noise = noise @ np.linalg.inv(np.linalg.cholesky(noise.T @ noise / num)).T
    return mean + noise @ np.linalg.cholesky(covariance).T


def gaussian_moments():
    target = gaussian_target()
    cholesky = np.asarray(target.cholesky[0], float)
    return target, np.asarray(target.means[0], float), cholesky @ cholesky.T


def test_with_the_linear_kernel_the_field_vanishes_at_exact_moments(x64):
    target, mean, covariance = gaussian_moments()
    x = jnp.asarray(exact_moments(8, mean, covariance))
    field = _svgd.stein_field(LinearKernel(), x, jax.vmap(target.score)(x))
    assert_allclose(field, 0.0, atol=1e-11)
    wider = mean + 1.01 * (x - mean)
    assert float(jnp.abs(_svgd.stein_field(LinearKernel(), wider, jax.vmap(target.score)(wider))).max()) > 0.01


@pytest.mark.parametrize("num_particles", [4, 9])
def test_with_the_linear_kernel_particles_at_rest_have_the_exact_moments(num_particles, precision):
    target, mean, covariance = gaussian_moments()
    run = svgd(
        target, num_particles=num_particles, num_steps=6000, kernel=LinearKernel(), optimizer=optax.sgd(0.02), key=3,
        **QUIET,
    )  # fmt: skip
    draws = run.flat().astype(float)
    tolerance = 1e-4 if precision == "float32" else 1e-9
    assert_allclose(draws.mean(0), mean, atol=tolerance)
    assert_allclose(np.cov(draws, rowvar=False, bias=True), covariance, atol=10 * tolerance)
    assert run.step_size is None  # an Optax transform does not tell it


def test_as_many_particles_as_unknowns_are_not_enough_for_the_covariance(x64):
    target, _, covariance = gaussian_moments()
    arguments = {"num_steps": 3000, "kernel": LinearKernel(), "optimizer": optax.sgd(0.02), **QUIET}
    draws = svgd(target, num_particles=3, **arguments).flat()
    assert np.abs(np.cov(draws, rowvar=False, bias=True) - covariance).max() > 0.05


def test_a_gaussian_in_two_dimensions_by_the_default():
    """A set of 100 particles has the mean; its variances are too small by some percent, as the particles are few."""
    target = IsotropicGaussian(2, 0.7)
    draws = svgd(target, num_steps=1000, key=1, **QUIET).flat()
    assert_allclose(draws.mean(0), 0.0, atol=0.01)
    variances = draws.var(0) / 0.49
    assert (variances > 0.85).all()
    assert (variances < 1.0).all()


def test_spread_is_underestimated_in_many_dimensions():
    """What the page says: 50 particles in 50 dimensions have less than a fifth of the variance."""
    draws = svgd(IsotropicGaussian(50), num_particles=50, num_steps=500, **QUIET).flat()
    assert draws.var(0).mean() < 0.2


def test_one_particle_climbs_to_the_mode():
    run = svgd(Banana(), num_particles=1, num_steps=500, **QUIET)
    assert_allclose(run.draws, [[[0.0, 1.0]]], atol=1e-3)


def test_chunks_do_not_matter_and_the_key_decides():
    arguments = {"num_particles": 7, "num_steps": 23, "batch_size": 6, **QUIET}
    model = linear_gaussian_model()
    first, *others = (svgd(model, key=4, chunk_size=size, **arguments).draws for size in (1, 5, 23, 1000))
    for other in others:
        np.testing.assert_array_equal(first, other)
    np.testing.assert_array_equal(svgd(model, key=jax.random.key(4), **arguments).draws, first)
    assert (svgd(model, key=5, **arguments).draws != first).all()
    # With given starts only the minibatches are left to the key.
    init = first[:, 0]
    two = [svgd(model, key=key, init=init, **arguments).draws for key in (1, 2)]
    assert (two[0] != two[1]).all()
    whole = [svgd(model, key=key, init=init, num_particles=7, num_steps=9, **QUIET).draws for key in (1, 2)]
    np.testing.assert_array_equal(*whole)


@pytest.mark.parametrize(("num_data", "batch_size"), [(5, 2), (6, 5)])
def test_the_field_of_a_minibatch_is_unbiased(num_data, batch_size, x64):
    target = linear_gaussian_model(num_data)
    mover = _svgd.SVGDKernel(target, _svgd.median_kernel(6), optax.sgd(0.1), None)
    x = jax.random.normal(jax.random.key(1), (6, target.dim))
    subsets = jnp.array(list(itertools.combinations(range(num_data), batch_size)))
    fields = jax.vmap(lambda rows: mover.field(x, rows))(subsets)
    assert float(fields.std(0).max()) > 0.1
    assert_allclose(fields.mean(0), mover.field(x, None), rtol=1e-10, atol=1e-10)


class Constant(Kernel):
    """k = 1: every particle moves by the mean of all scores."""

    def gram(self, x):
        return jnp.ones((len(x), len(x)), x.dtype)


class VisitCounter(Target):
    """Its score is 1 in coordinate n for each n in the batch."""

    data: Array

    @property
    def dim(self):
        return len(self.data)

    @property
    def num_data(self):
        return len(self.data)

    @property
    def knows_log_prob(self):
        return False

    def log_prob(self, x, batch=None):
        raise NotImplementedError

    def score(self, x, batch=None):
        rows = jnp.arange(self.dim) if batch is None else batch
        return jnp.zeros_like(x).at[rows].add(1.0)


def test_all_particles_see_the_same_rows_and_an_epoch_is_all_of_them():
    target, arguments = VisitCounter(jnp.arange(12.0)), {"kernel": Constant(), "optimizer": optax.sgd(1.0), **QUIET}
    visits = [
        svgd(target, num_particles=3, num_steps=steps, batch_size=4, init=np.zeros((3, 12)), **arguments).draws[:, 0]
        for steps in (1, 2, 3, 6)
    ]
    for counts, total in zip(visits, (4, 8, 12, 24), strict=True):
        assert (counts == counts[0]).all()
        assert counts[0].sum() == total
    assert (visits[2] == 1).all()
    assert (visits[3] == 2).all()
    assert set(np.unique(visits[1])) == {0, 1}


TRACES = []


class Watched(LinearGaussianModel):
    def log_prior(self, x):
        TRACES.append(x.shape)
        return -0.5 * jnp.sum(x**2)


def test_one_compilation_for_all_chunks_and_for_other_data():
    features, y = linear_gaussian_model().data
    counts = []
    for chunk_size, shift in ((10, 0.0), (3, 1.0)):
        svgd(Watched((features, y + shift)), num_particles=4, num_steps=10, chunk_size=chunk_size, **QUIET)
        counts.append(len(TRACES))
    assert counts[0] > 0
    # The second is traced for its shapes alone, which compiles nothing.
    shapes_alone = len(TRACES)
    eqx.filter_eval_shape(Watched((features, y)).score, jax.ShapeDtypeStruct((features.shape[1],), jnp.float32))
    assert counts[1] - counts[0] <= 2 * (len(TRACES) - shapes_alone)


def test_a_score_alone_is_enough_and_unknowns_have_names():
    run = svgd(ScoreFunction(lambda x: -(x - 3.0), dim=1), num_particles=30, num_steps=300, **QUIET)
    assert abs(run.flat().mean() - 3.0) < 0.02
    run = svgd(
        lambda p: -0.5 * p["a"] ** 2 - 0.5 * jnp.sum((p["b"] - 5.0) ** 2), like={"a": 0.0, "b": np.zeros(2)},
        num_particles=20, num_steps=300, optimizer=Adam(Cosine(0.2)), **QUIET,
    )  # fmt: skip
    named = run.named()
    assert named["b"].shape == (20, 1, 2)
    assert abs(float(named["a"].mean())) < 0.05 < 4.9 < float(named["b"].mean())


def test_a_run_says_that_particles_are_no_independent_draws():
    run = svgd(Banana(), num_particles=5, num_steps=3, **QUIET)
    assert run.interacting
    assert np.isnan(run.rhat).all()
    assert np.isnan(run.ess).all()
    assert "R-hat and effective sample size: not defined, the particles depend on each other" in str(run)
    assert list(run.summary().columns) == ["mean", "sd", "eti89_lb", "eti89_ub"]
    assert run.summary().said.startswith("5 particles that depend on each other; interval")
    with pytest.raises(ValueError, match=r"^thinned needs Markov chains; got 5 particles of svgd\.$"):
        run.thinned()


def test_particles_that_leave_for_infinity_are_reported():
    with pytest.raises(FloatingPointError, match=r"\d+ of 10 chains are not finite after 50 steps: the step size is"):
        svgd(Banana(), num_particles=10, num_steps=50, optimizer=optax.sgd(100.0), **QUIET)


def test_progress_is_told_per_chunk_and_silent_without_a_terminal(monkeypatch, capsys):
    bars = []

    class Spy(ProgressBar):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            bars.append((arguments, updates := []))
            self.updates = updates

        def update(self, steps, metrics):
            self.updates.append(steps)
            super().update(steps, metrics)

    monkeypatch.setattr(_svgd, "ProgressBar", Spy)
    svgd(Banana(), num_particles=4, num_steps=10, chunk_size=4)
    assert bars == [((10, 0, True, "sivi.samplers.svgd"), [4, 4, 2])]
    assert capsys.readouterr() == ("", "")


def test_optimisers_that_look_at_the_particles():
    """Weight decay needs the particles: without a force, they shrink by 1 − rate · decay in every step."""
    decay = optax.chain(optax.add_decayed_weights(0.5), optax.sgd(0.1))
    init = np.array([[1.0, -2.0], [3.0, 0.5]])
    run = svgd(ScoreFunction(jnp.zeros_like, dim=2), num_particles=2, num_steps=3, kernel=Constant(), optimizer=decay,
               init=init, **QUIET)  # fmt: skip
    assert_allclose(run.flat(), init * 0.95**3, rtol=1e-6)


def test_adagrad_is_the_average_that_starts_at_the_first_square(x64):
    gradients = np.random.default_rng(3).normal(size=(5, 4))
    transform = AdaGrad(0.05, decay=0.8, eps=1e-3).bind(5).build()
    state, average = transform.init(jnp.zeros(4)), gradients[0] ** 2
    for step, gradient in enumerate(gradients):
        average = average if step == 0 else 0.8 * average + 0.2 * gradient**2
        updates, state = transform.update(jnp.asarray(gradient), state)
        assert_allclose(updates, -0.05 * gradient / (np.sqrt(average) + 1e-3), rtol=1e-12)
