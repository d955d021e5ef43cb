"""The waveform experiments: settings, the table from made-up numbers, the figures, and the reference against itself."""

import matplotlib

matplotlib.use("Agg")

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import sivi
from sivi import datasets
from sivi.experiments import EXPERIMENTS, Job, JobResult, Results
from sivi.experiments._waveform import DIM, METHODS
from sivi.experiments.waveform_cov import WaveformCov, plot_entries
from sivi.experiments.waveform_marginals import WaveformMarginals


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


class TestSettings:
    def test_sivi_sm_is_the_papers(self):
        arguments = METHODS["sivi-sm"].call().arguments(DIM, 3)
        assert (arguments["whiten"], arguments["stop"], arguments["key"]) == (None, None, 3)
        objective = arguments["objective"]
        assert (objective.num_particles, objective.critic_steps, objective.critic.hidden) == (100, 1, (256, 256))
        for optimizer, rate in ((objective.optimizer, 1e-3), (objective.critic_optimizer, 3e-3)):
            assert (optimizer.b1, optimizer.b2) == (0.9, 0.99)
            np.testing.assert_allclose(optimizer.learning_rate(6500), rate * 0.81, rtol=1e-6)
        # ψ is divided by 1.004 every 100 updates: 0.45 at the end of 20,000.
        np.testing.assert_allclose(objective.psi(0), 1.0)
        np.testing.assert_allclose(objective.psi(250), 1.004**-2, rtol=1e-6)
        np.testing.assert_allclose(objective.psi(20_000), 0.45, atol=0.001)
        weights = [leaf.size for leaf in jax.tree.leaves(arguments["family"]) if leaf.ndim == 2]
        assert weights == [10 * 100, 100 * 100, 100 * 22]

    def test_the_others(self):
        sivi_ = METHODS["sivi"].call().arguments(DIM, 0)["objective"]
        assert (sivi_.num_particles, float(sivi_.num_aux(0))) == (50, 100.0)
        np.testing.assert_allclose(sivi_.optimizer.learning_rate(200), 0.0081, rtol=1e-6)
        uivi = METHODS["uivi"].call().arguments(DIM, 0)
        settings = uivi["objective"]
        assert (settings.num_particles, settings.num_leapfrog) == (1, 5)
        assert (settings.num_iterations, settings.burn_in) == (10, 5)
        np.testing.assert_allclose(uivi["family"].conditional.at(jnp.ones(10)).sigma, 0.5, rtol=1e-6)
        assert METHODS["default"].call().arguments(DIM, 4) == {"key": 4}

    @pytest.mark.parametrize("name", ["waveform-cov", "waveform-marginals"])
    def test_full_fits_are_as_long_as_the_papers(self, name):
        steps = {j.settings["method"]: j.settings.get("num_steps") for j in EXPERIMENTS[name].jobs("full", 1)}
        default = sivi.defaults.recipe(22, 400).num_steps
        assert steps == {"reference": None, "sivi-sm": 20_000, "sivi": 20_000, "uivi": 20_000, "default": default}


def made_up(rmse, experiment="waveform-cov", seeds=2):
    """Results in which the RMSE is `rmse(method, seed)`."""
    cell = {"rmse": 0.01, "mean_error": 0.2, "smallest_sd": 0.8, "largest_sd": 1.1, "per_point": -0.34, "joint": -0.32}
    cell |= {"mean_errors": [0.1, -0.2, 0.0]}
    parts = dict.fromkeys(("laplace", "mean-field", "sgld", "mala", "hmc"), cell)
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    done = [JobResult(Job("reference", {"method": "reference", "num_draws": 100}), parts, {"cov": cov})]
    for seed in range(seeds):
        for name in METHODS:
            job = Job(f"{name}-{seed}", {"method": name, "seed": seed, "num_draws": 100, "objective": "Objective()"})
            numbers = {**cell, "rmse": rmse(name, seed), "updates": 12_345}
            done.append(JobResult(job, numbers, {"cov": 2.0 * cov}, seconds=30.0))
    return Results(experiment, "full", seeds, tuple(done))


class TestTable:
    @pytest.mark.parametrize(("value", "within"), [(0.0249, "yes"), (0.0251, "**no**")])
    def test_the_bar_of_sivi_sm(self, value, within):
        results = made_up(lambda method, seed: value if method == "sivi-sm" else 1.0)
        assert WaveformCov().summary(results)["sivi-sm"]["within_bar"] is (within == "yes")
        row = f"| SIVI-SM | {value:.4f} (0.0000) | 0.025 | {within} | 0.200 (1) | 0.800 to 1.100 | −0.3400 (0.0000) |"
        assert row in WaveformCov().report(results)

    def test_means_and_deviations_over_seeds(self):
        row = WaveformCov().summary(made_up(lambda method, seed: 0.01 + 0.02 * seed))["sivi"]
        np.testing.assert_allclose(row["rmse"], [0.02, np.std([0.01, 0.03], ddof=1)])
        assert (row["num_seeds"], row["bar"], row["within_bar"], row["seconds"]) == (2, None, None, 30.0)

    def test_rows_of_the_reference_and_of_missing_jobs(self):
        results = made_up(lambda method, seed: 0.02)
        assert "| Laplace | 0.0100 | – | – |" in WaveformCov().report(results)
        assert "- default call: 12,345 updates of `Objective()`" in WaveformCov().report(results)
        partly = Results("waveform-cov", "full", 2, results.done[1:2], ("reference",))
        report = WaveformCov().report(partly)
        assert "| SIVI-SM |" in report
        assert "| Laplace |" not in report
        assert len(WaveformCov().figures(partly)["waveform-cov"].axes) == 4

    def test_standard_deviations_of_five_coefficients(self):
        numbers = {"sd_ratio": [0.9, 0.8, 0.7, 0.6, 0.5], "mean_error": [0.0, -0.4, 0.1, 0.0, 0.2], "updates": 10}
        job = Job("uivi-0", {"method": "uivi", "seed": 0, "num_draws": 40_000})
        report = WaveformMarginals().report(Results("waveform-marginals", "full", 1, (JobResult(job, numbers),)))
        assert "| UIVI | 0.900 | 0.800 | 0.700 | 0.600 | 0.500 | 0.400 |" in report
        assert "from 40,000 draws" in report


class TestFigures:
    def test_regression_line(self):
        """Of entries twice the reference's, plus noise of mean zero that is orthogonal to them."""
        _, ax = plt.subplots()
        plot_entries(ax, np.array([[0.0, 1.0], [1.0, 2.0]]), np.array([[0.1, 2.1], [2.1, 4.1]]))
        x, y = ax.lines[1].get_data()
        np.testing.assert_allclose(y, 2.0 * np.asarray(x) + 0.1)
        assert len(ax.collections[0].get_offsets()) == 4

    def test_one_panel_per_method(self):
        figure = WaveformCov().figures(made_up(lambda method, seed: 0.0123))["waveform-cov"]
        assert [ax.get_title() for ax in figure.axes] == [method.label for method in METHODS.values()]
        assert all(ax.texts[0].get_text() == "RMSE 0.0123" for ax in figure.axes)

    def test_one_triangle_per_method(self):
        draws = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
        done = [JobResult(Job("reference", {"method": "reference"}), {}, {"draws": draws})]
        for name in ("sivi-sm", "default"):
            done.append(JobResult(Job(f"{name}-0", {"method": name, "seed": 0}), {}, {"draws": draws + 1.0}))
        results = Results("waveform-marginals", "full", 1, tuple(done))
        figure = WaveformMarginals().figures(results)["waveform-marginals"]
        assert [len(part.axes) for part in figure.subfigs] == [15, 0, 0, 15]


@pytest.mark.needs_data
class TestReference:
    def test_covariance_errors_of_the_references(self, tmp_path):
        """Laplace from Newton's method in float64; 250 draws of the factorised Gaussian; 1000 of Markov chains."""
        (job,) = [job for job in EXPERIMENTS["waveform-cov"].jobs("quick", 1) if job.name == "reference"]
        numbers, arrays = WaveformCov().run_job(job, tmp_path)
        np.testing.assert_allclose(numbers["laplace"]["rmse"], 0.0118882, atol=2e-6)
        reference = datasets.load_reference("waveform")
        exact = (reference.others["mode"][0] - reference.mean) / np.sqrt(np.diagonal(reference.cov))
        # Of 4000 draws at the mode, 22 of them: false-failure rate below 1e-4.
        np.testing.assert_allclose(numbers["laplace"]["mean_errors"], exact, atol=5 / np.sqrt(4000))
        np.testing.assert_allclose(numbers["mean-field"]["rmse"], 0.0463368, atol=1e-6)
        np.testing.assert_allclose([numbers[name]["rmse"] for name in ("sgld", "mala")], 0.006, atol=0.0015)
        np.testing.assert_allclose(numbers["sgld"]["per_point"], -0.3430, atol=6e-5)
        np.testing.assert_allclose(arrays["cov"], datasets.load_reference("waveform").cov, rtol=1e-6)

    def test_reference_draws_shown(self, tmp_path):
        (job,) = [job for job in EXPERIMENTS["waveform-marginals"].jobs("quick", 1) if job.name == "reference"]
        _, arrays = WaveformMarginals().run_job(job, tmp_path)
        assert arrays["draws"].shape == (1000, 5)
        reference = datasets.load_reference("waveform")
        error = (arrays["draws"].mean(0) - reference.mean[1:6]) / np.sqrt(np.diagonal(reference.cov)[1:6] / 1000)
        assert np.abs(error).max() < 4.5  # false-failure rate below 1e-4


def test_without_data_a_job_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.delenv("SIVI_DATA_DIR", raising=False)
    for name in ("waveform-cov", "waveform-marginals"):
        job = EXPERIMENTS[name].jobs("quick", 1)[1]
        with pytest.raises(datasets.DatasetError, match=r"^(the reference posterior of )?waveform is not here: "):
            EXPERIMENTS[name].run_job(job, tmp_path)
