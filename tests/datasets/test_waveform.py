import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.io import savemat

from local_data import assert_same_arrays, with_checksum
from oracles import bonferroni
from sivi import datasets
from sivi.datasets import waveform_generator
from sivi.datasets._waveform_generator import PAIRS, base_waves, moments
from sivi.metrics import covariance_rmse, predictive_scores
from sivi.targets import LogisticRegression


class TestGenerator:
    def test_base_waves_are_triangles_of_height_six(self):
        waves = base_waves()
        assert waves.shape == (3, 21)
        np.testing.assert_array_equal(waves[0, 4:17], [0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0])
        np.testing.assert_array_equal(waves[1], np.roll(waves[0], 4))
        np.testing.assert_array_equal(waves[2], np.roll(waves[0], -4))

    def test_moments_of_the_definition(self):
        """Of waves before standardisation, in 64 bits, from a million uniforms on a grid instead of at random."""
        u = (np.arange(1000) + 0.5)[:, None] / 1000
        waves = base_waves()
        clean = np.concatenate([u * waves[a] + (1 - u) * waves[b] for a, b in PAIRS])
        mean, sd = moments()
        np.testing.assert_allclose(mean, clean.mean(0), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(sd, np.sqrt(clean.var(0) + 1.0), rtol=1e-5)

    def test_draws_have_the_moments_of_each_class(self, precision):
        n = 60_000
        inputs, labels = (np.asarray(part, float) for part in waveform_generator(3, n))
        assert waveform_generator(3, 2)[0].dtype == precision
        np.testing.assert_array_equal(inputs[:, 0], 1.0)
        mean, sd = moments()
        # Label 0 is the pair h₁, h₃; label 1 the mixture of the two others.
        waves = base_waves()
        middle = [(waves[a] + waves[b]) / 2 for a, b in PAIRS]
        expected = {0: (middle[1] - mean) / sd, 1: ((middle[0] + middle[2]) / 2 - mean) / sd}
        for label, truth in expected.items():
            rows = inputs[labels == label, 1:]
            z = (rows.mean(0) - truth) / (rows.std(0) / np.sqrt(len(rows)))
            assert np.abs(z).max() < bonferroni(42, 1e-5)
        assert abs(labels.mean() - 2 / 3) / np.sqrt(2 / 9 / n) < 4.5  # false-failure rate below 1e-5
        squares = inputs[:, 1:] ** 2
        z = (squares.mean(0) - 1.0) / (squares.std(0) / np.sqrt(n))
        assert np.abs(z).max() < bonferroni(21, 1e-5)

    def test_neighbours_covary_as_defined(self):
        inputs = np.asarray(waveform_generator(4, 100_000)[0], float)[:, 1:]
        u = (np.arange(1000) + 0.5)[:, None] / 1000
        waves = base_waves()
        clean = np.concatenate([u * waves[a] + (1 - u) * waves[b] for a, b in PAIRS])
        sd = moments()[1]
        exact = (np.cov(clean, rowvar=False, ddof=0) + np.eye(21)) / np.outer(sd, sd)
        # Each entry has a standard error of about 1/√n; 6 of them are left to the largest of 231.
        np.testing.assert_allclose(np.cov(inputs, rowvar=False), exact, atol=6 * np.sqrt(2 / 100_000))

    def test_wrong_number(self):
        with pytest.raises(ValueError, match="num_data must be at least 1; got 0"):
            waveform_generator(0, 0)


@pytest.mark.needs_data
class TestFiles:
    def test_features_and_labels_are_those_of_the_generator(self):
        """Class by class, up to sampling: 5000 rows of the file, exact means of the definition."""
        data = datasets.load("waveform")
        inputs = np.concatenate([data.train[0], data.test[0]])
        labels = np.concatenate([data.train[1], data.test[1]])
        assert (data.train[0].shape, data.test[0].shape) == ((400, 22), (4600, 22))
        assert len(data.about.columns) == 22
        np.testing.assert_array_equal(inputs[:, 0], 1.0)
        np.testing.assert_allclose(inputs[:, 1:].mean(0), 0.0, atol=1e-6)
        np.testing.assert_allclose(inputs[:, 1:].std(0, ddof=1), 1.0, atol=1e-6)
        generated, kinds = (np.asarray(part, float) for part in waveform_generator(5, 200_000))
        for label in (0, 1):
            here, there = inputs[labels == label, 1:], generated[kinds == label, 1:]
            error = here.std(0) * np.sqrt(1 / len(here) + 1 / len(there))
            assert np.abs((here.mean(0) - there.mean(0)) / error).max() < bonferroni(42, 1e-5)
        assert abs(labels.mean() - 2 / 3) / np.sqrt(2 / 9 / 5000) < 4.5

    def test_reference_belongs_to_the_data(self, x64):
        """Zero score at the stored mode; and E[S] = 0 over the draws."""
        reference = datasets.load_reference("waveform")
        model = LogisticRegression(*datasets.load("waveform").train, prior_scale=10.0)
        mode = jnp.asarray(reference.others["mode"][0])
        precision = -jax.hessian(model.log_prob)(mode)
        newton = np.linalg.solve(precision, model.score(mode))
        assert np.abs(newton / np.sqrt(np.diagonal(np.linalg.inv(precision)))).max() < 1e-4
        scores = np.asarray(jax.jit(jax.vmap(model.score))(jnp.asarray(reference.draws, float)))
        z = scores.mean(0) / (scores.std(0) / np.sqrt(len(scores)))
        assert np.abs(z).max() < bonferroni(22, 1e-5)

    def test_stated_numbers(self):
        """Covariance errors of 1000-draw sets, and test log likelihoods, as the data's own page has them."""
        reference, data = datasets.load_reference("waveform"), datasets.load("waveform")
        assert reference.draws.shape == (4000, 22)
        assert covariance_rmse(reference.draws, reference.cov) < 0.005
        assert covariance_rmse(reference.others["sgld"], reference.cov) < 0.008
        model = LogisticRegression(*data.train, prior_scale=10.0)
        for draws, stated in [
            (reference.others["sgld"], -0.3430),
            (reference.others["mala"], -0.3414),
            (reference.others["mean-field"], -0.3452),
        ]:
            np.testing.assert_allclose(predictive_scores(model, draws, data.test).per_point, stated, atol=6e-5)

    def test_compact_and_origin_load_alike(self, monkeypatch, tmp_path):
        """The values of the compact file, in the form of the public one."""
        compact = datasets.load("waveform")
        arrays = dict(zip(("X_train", "y_train"), compact.train, strict=True))
        arrays |= dict(zip(("X_test", "y_test"), compact.test, strict=True))
        file = tmp_path / "waveform" / "waveform.mat"
        file.parent.mkdir()
        savemat(file, {**arrays, "BetaMCMC": np.zeros((22, 250))})
        with_checksum(monkeypatch, "waveform", file)
        monkeypatch.setenv("SIVI_DATA_DIR", str(tmp_path))
        origin = datasets.load("waveform", download=False)
        assert list(origin.sha256) == ["waveform/waveform.mat"]
        assert_same_arrays(origin, compact)


def test_reference_is_not_here(monkeypatch):
    monkeypatch.delenv("SIVI_DATA_DIR", raising=False)
    rule = (
        r"^the reference posterior of waveform is not here: waveform/posterior_reference.npz is .*\(not set\).* "
        r"and has no public origin; `sivi.samplers.hmc` of "
    )
    with pytest.raises(datasets.DatasetError, match=rule):
        datasets.load_reference("waveform")
    with pytest.raises(ValueError, match=r"^name must be 'waveform'; got 'mnist'\.$"):
        datasets.load_reference("mnist")
