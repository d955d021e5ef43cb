import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from oracles import LinearGaussianModel, bonferroni, gaussian_target, linear_gaussian_model
from sivi._progress import ProgressBar
from sivi.samplers import _sgld, sgld
from sivi.schedules import Cosine, StepDecay
from sivi.targets import Banana, ScoreFunction, Target

QUIET = {"progress": False}


def moment_scores(draws, mean, covariance):
    """|error| / standard error of the means and of the second moments of Gaussian draws, all entries."""
    draws = np.asarray(draws, float)
    centred = draws - mean
    mean_scores = centred.mean(0) / np.sqrt(np.diag(covariance) / len(draws))
    variances = np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2
    scores = (centred.T @ centred / len(draws) - covariance) / np.sqrt(variances / len(draws))
    return np.abs(np.concatenate([mean_scores, scores[np.triu_indices(len(mean))]]))


def gaussian_moments():
    target = gaussian_target()
    cholesky = np.asarray(target.cholesky[0], float)
    return target, np.asarray(target.means[0], float), cholesky @ cholesky.T


def after(steps, mean, covariance):
    """Exact mean and covariance of SGLD on N(mean, covariance) from N(0, I) after the given step sizes."""
    precision = np.linalg.inv(covariance)
    m, C = np.zeros(len(mean)), np.eye(len(mean))
    for h in steps:
        A = np.eye(len(mean)) - 0.5 * h * precision
        m, C = mean + A @ (m - mean), A @ C @ A.T + h * np.eye(len(mean))
    return m, C


def test_stationary_law_at_a_large_fixed_step():
    """C = (I − hP/2) C (I − hP/2) + hI: variance 1 / (λ(1 − hλ/4)) along an eigenvector of the precision P."""
    target, mean, covariance = gaussian_moments()
    eigenvalues, basis = np.linalg.eigh(np.linalg.inv(covariance))
    h = 1.6 / eigenvalues.max()
    stationary = basis @ np.diag(1 / (eigenvalues * (1 - h * eigenvalues / 4))) @ basis.T
    num_steps = int(np.ceil(np.log(1e-4) / np.log(1 - h * eigenvalues.min() / 2)))
    run = sgld(target, num_particles=40_000, num_steps=num_steps, step_size=h, key=1, **QUIET)
    assert run.draws.shape == (40_000, 1, 3)
    scores = moment_scores(run.flat(), mean, stationary)
    assert scores.max() < bonferroni(scores.size)
    assert moment_scores(run.flat(), mean, covariance).max() > 20  # the bias is there, and is told apart


def test_law_after_a_few_steps_of_a_schedule(precision):
    target, mean, covariance = gaussian_moments()
    schedule = Cosine(0.4, 0.05)
    steps = [float(schedule.bind(5)(t)) for t in range(5)]
    run = sgld(target, num_particles=40_000, num_steps=5, step_size=schedule, key=2, num_samples=3, thin=2, **QUIET)
    assert run.draws.dtype == precision
    assert run.step_size == pytest.approx(steps[-1])
    for place, count in enumerate((1, 3, 5)):
        scores = moment_scores(run.draws[:, place], *after(steps[:count], mean, covariance))
        assert scores.max() < bonferroni(3 * scores.size)


class VisitCounter(Target):
    """Its score at x moves coordinate n by 2/h for each n in the batch: with tiny noise, x counts the visits."""

    data: Array
    h: float = eqx.field(static=True)

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
        return jnp.zeros_like(x).at[rows].add(2.0 / self.h)


def test_every_particle_reads_shuffled_epochs_in_its_own_batches():
    target = VisitCounter(jnp.arange(12.0), 1e-8)
    init = np.zeros((5, 12))
    run = sgld(
        target,
        num_particles=5,
        num_steps=9,
        step_size=1e-8,
        batch_size=4,
        init=init,
        num_samples=9,
        chunk_size=2,
        **QUIET,
    )
    visits = np.rint(run.draws)
    np.testing.assert_allclose(run.draws, visits, atol=0.01)
    per_step = np.diff(visits, axis=1, prepend=0)
    assert (per_step.sum(2) == 4).all()
    for epoch in (1, 2, 3):
        assert (visits[:, 3 * epoch - 1] == epoch).all()
    assert (per_step[:, :3] != per_step[:, 3:6]).any(axis=(1, 2)).all()
    assert all((per_step[:, step] != per_step[:1, step]).any() for step in range(9))


def test_rows_left_over_in_an_epoch_differ_between_particles():
    """11 rows in batches of 4: each particle sees 8 rows of every epoch once, and every row is seen by some."""
    target = VisitCounter(jnp.arange(11.0), 1e-8)
    run = sgld(
        target, num_particles=200, num_steps=4, step_size=1e-8, batch_size=4, init=np.zeros((200, 11)), num_samples=4,
        **QUIET,
    )  # fmt: skip
    visits = np.rint(run.draws)
    first, second = visits[:, 1], visits[:, 3] - visits[:, 1]
    for epoch in (first, second):
        assert set(np.unique(epoch)) == {0.0, 1.0}
        assert (epoch.sum(1) == 8).all()
        assert (epoch.sum(0) > 100).all()


def location_model(num_data):
    """Scattered data with one unknown mean: every datum has the same precision, so all laws are closed forms."""
    y = np.random.default_rng(5).normal(0.7, 3.0, size=num_data)
    return LinearGaussianModel((jnp.ones((num_data, 1)), jnp.asarray(y)))


@pytest.mark.parametrize(
    ("num_data", "batch_size", "thin"),
    [
        pytest.param(200, 2, 100, id="many batches", marks=pytest.mark.slow),
        pytest.param(201, 2, 100, id="a row left over"),
        pytest.param(10, 7, 30, id="one batch per epoch", marks=pytest.mark.slow),
    ],
)
def test_law_of_the_ensemble_with_minibatches(x64, num_data, batch_size, thin):
    """At any time the particles scatter around the posterior's mean, with variance (1 + hV/4) / (λ(1 − hλ/4)).

    In an epoch of B batches two of them have covariance −V/(B − 1). With a = 1 − hλ/2 that takes the share
    2a / ((1 − a)(B − 1)) from V at the end of an epoch, up to terms of the order of a^B. (With a row left over, the
    covariance is −V batch_size/(num_data − batch_size).) The draws are taken at the ends of epochs.
    """
    model, num_particles, num_samples = location_model(num_data), 500, 150
    mean, covariance = model.posterior()
    precision = 1 / covariance[0, 0]
    h = 0.5 / precision
    run = sgld(
        model, num_particles=num_particles, num_steps=thin * num_samples, step_size=h, batch_size=batch_size,
        num_samples=num_samples, thin=thin, init=np.full((num_particles, 1), mean[0]), key=7, chunk_size=10**6, **QUIET,
    )  # fmt: skip
    score_variance = num_data**2 / batch_size * (1 - batch_size / num_data) * np.var(model.data[1], ddof=1) / 0.5**4
    a = 1 - 0.5 * h * precision
    share = 2 * a / (1 - a) * batch_size / (num_data - batch_size) if num_data >= 2 * batch_size else 0.0
    variance = (1 + 0.25 * h * score_variance * (1 - share)) / (precision * (1 - 0.25 * h * precision))
    ensembles = run.draws[:, :, 0]
    # Every epoch has a permutation of its own, and its noise is forgotten at the end of the next: 150 repetitions.
    variances = ensembles.var(axis=0, ddof=1)
    error = variances.std(ddof=1) / np.sqrt(num_samples)
    assert abs(variances.mean() - variance) / error < bonferroni(1)
    # Sharp enough to tell the noise of the batches: without it, as among particles that share them, it is far off.
    assert (variances.mean() - covariance[0, 0] / (1 - 0.25 * h * precision)) / error > 15
    # The means of all ensembles scatter as those of independent particles do: none is shifted as a whole.
    scores = (ensembles.mean(axis=0) - mean[0]) / np.sqrt(variances / num_particles)
    assert np.abs(scores).max() < bonferroni(num_samples)
    assert abs(np.mean(scores**2) - 1) / np.sqrt(2 / num_samples) < bonferroni(1)


def test_blocks_of_particles_do_not_matter(x64, monkeypatch):
    class Again(LinearGaussianModel):
        """Another class, so that it is compiled anew."""

    model = linear_gaussian_model()
    arguments = {"num_particles": 7, "num_steps": 9, "step_size": 1e-3, "batch_size": 6, "key": 4, **QUIET}
    at_once = sgld(model, **arguments).draws
    # A row is three features and a response: 24 numbers per particle, hence blocks of 3, 3 and 1.
    monkeypatch.setattr("sivi.targets.evaluate.MAX_POINTS_TIMES_ROWS", 3 * 24 + 5)
    calls, real = [], jax.lax.map
    monkeypatch.setattr(jax.lax, "map", lambda *a, **k: calls.append(k) or real(*a, **k))
    np.testing.assert_allclose(sgld(Again(model.data), **arguments).draws, at_once, rtol=1e-12)
    assert calls == [{"batch_size": 3}] * len(calls) != []


def test_minibatch_noise_has_mean_zero():
    """The score of a Gaussian is linear, so the mean of a long run is the posterior's, with batches as without."""
    model = linear_gaussian_model()
    mean, covariance = model.posterior()
    h = 0.02 * np.linalg.eigvalsh(covariance).min()
    run = sgld(
        model, num_particles=20, num_steps=30_000, step_size=h, batch_size=6, num_samples=500, thin=50,
        init=np.tile(mean, (20, 1)), chunk_size=20_000, key=3, **QUIET,
    )  # fmt: skip
    # The particles share the shuffled order of an epoch: their mean over time, in blocks, has independent parts.
    blocks = run.draws.astype(float).mean(0).reshape(25, 20, 3).mean(1)
    scores = np.abs(blocks.mean(0) - mean) / (blocks.std(0, ddof=1) / 5)
    assert scores.max() < 5.6  # Student's t with 24 degrees of freedom, three of them, 1e-5 each
    # Sharp enough: with the likelihood scaled by anything but N/|batch| the mean would move by many standard errors.
    features, y = (np.asarray(a, float) for a in model.data)
    wrong = np.linalg.solve(np.eye(3) + 0.25 * features.T @ features / 0.25, 0.25 * features.T @ y / 0.25)
    assert (np.abs(wrong - mean) / (blocks.std(0, ddof=1) / 5)).max() > 8


def test_minibatches_do_not_depend_on_the_chunks():
    model = linear_gaussian_model()
    runs = [
        sgld(
            model, num_particles=7, num_steps=23, step_size=StepDecay(1e-3, 0.5, 10), batch_size=6,
            num_samples=6, thin=3, chunk_size=chunk_size, key=jax.random.key(4), **QUIET,
        ).draws
        for chunk_size in (1, 5, 23, 1000)
    ]  # fmt: skip
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0], other)


def test_key_decides():
    arguments = {"num_particles": 5, "num_steps": 10, "step_size": 0.01, **QUIET}
    first, again, other = (sgld(Banana(), key=key, **arguments).draws for key in (5, jax.random.key(5), 6))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


TRACES = []


class Watched(Target):
    tag: int = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=2)

    def log_prob(self, x, batch=None):
        TRACES.append(self.tag)
        return -0.5 * jnp.sum(x**2)


def test_one_compilation_however_many_chunks():
    for tag, chunk_size in ((1, 10), (2, 3)):
        sgld(Watched(tag), num_particles=4, num_steps=10, step_size=0.1, chunk_size=chunk_size, **QUIET)
    assert TRACES.count(1) == TRACES.count(2) > 0


def test_score_alone_is_enough():
    run = sgld(ScoreFunction(lambda x: -(x - 1.0), dim=1), num_particles=20_000, num_steps=60, step_size=0.4, **QUIET)
    scores = moment_scores(run.flat(), np.ones(1), np.array([[1 / 0.9]]))
    assert scores.max() < bonferroni(2)


def test_named_variables_of_a_function():
    run = sgld(
        lambda p: -0.5 * p["a"] ** 2 - 0.5 * jnp.sum((p["b"] - 5.0) ** 2),
        like={"a": 0.0, "b": np.zeros(2)},
        num_steps=100, num_particles=50, step_size=0.1, **QUIET,
    )  # fmt: skip
    named = run.named()
    assert named["a"].shape == (50, 1)
    assert named["b"].shape == (50, 1, 2)
    assert abs(named["a"].mean()) < 1 < 4 < named["b"].mean()


def test_a_particle_that_leaves_for_infinity_is_reported():
    with pytest.raises(
        FloatingPointError, match=r"\d+ of 10 chains are not finite after 200 steps: the step size is too large"
    ):
        sgld(Banana(), num_particles=10, num_steps=200, step_size=5.0, **QUIET)


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

    monkeypatch.setattr(_sgld, "ProgressBar", Spy)
    sgld(Watched(1), num_particles=4, num_steps=10, step_size=0.1, chunk_size=4)
    assert bars == [((10, 0, True, "sivi.samplers.sgld"), [4, 4, 2])]
    assert capsys.readouterr() == ("", "")
