"""The experiments on MNIST and HAPT: settings, tables from made-up numbers, figures, and a curve that is resumed."""

import time
from typing import ClassVar

import matplotlib

matplotlib.use("Agg")

from dataclasses import replace

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_model
from sivi.critics import MLPCritic
from sivi.experiments import EXPERIMENTS, Job, JobResult, Results
from sivi.experiments._curves import fit_curve
from sivi.experiments._multinomial import NAMES, PROBLEMS, fit_arguments, methods
from sivi.experiments.mlr_convergence import MLRConvergence
from sivi.experiments.mlr_curves import FINAL, MLRCurves, curve_stops
from sivi.experiments.mlr_seconds import MLRSeconds
from sivi.objectives import ScoreMatching

COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "dim", "batch", "rate", "psi", "epoch"),
        [("mnist", 7850, 2000, 1e-3, 1.004, 30), ("hapt", 6744, 863, 2e-3, 1.005, 9)],
    )
    def test_sivi_sm_is_the_papers(self, name, dim, batch, rate, psi, epoch):
        assert PROBLEMS[name].dim == dim
        arguments = fit_arguments(PROBLEMS[name], "sivi-sm-200", 3, "full")
        assert (arguments["batch_size"], arguments["batching"], arguments["whiten"]) == (batch, "rotate", None)
        objective = arguments["objective"]
        assert (objective.num_particles, objective.critic_steps, objective.critic.hidden) == (200, 1, (256, 256))
        assert objective.split is False
        halves = fit_arguments(PROBLEMS[name], "sivi-sm-200-halves", 3, "full")["objective"]
        assert (halves.num_particles, halves.splits) == (200, True)
        for optimizer in (objective.optimizer, objective.critic_optimizer):
            assert (optimizer.decay, optimizer.eps) == (0.9, 1.0)
            np.testing.assert_allclose(optimizer.learning_rate(6500), rate * 0.81, rtol=1e-6)
        np.testing.assert_allclose(objective.psi(2 * epoch), psi**-2, rtol=1e-6)
        np.testing.assert_allclose(objective.psi(2 * epoch - 1), psi**-1, rtol=1e-6)
        weights = [leaf.size for leaf in jax.tree.leaves(arguments["family"]) if leaf.ndim == 2]
        assert weights == [100 * 200, 200 * 200, 200 * dim]

    def test_the_others(self):
        problem = PROBLEMS["hapt"]
        sivi_10 = fit_arguments(problem, "sivi-10", 0, "full")["objective"]
        assert (sivi_10.num_particles, float(sivi_10.num_aux(0))) == (10, 200.0)
        uivi = fit_arguments(problem, "uivi-1", 0, "full")
        assert (uivi["objective"].num_particles, uivi["objective"].burn_in) == (1, 5)
        np.testing.assert_allclose(uivi["family"].conditional.at(jnp.ones(100)).sigma, 0.5, rtol=1e-6)
        assert fit_arguments(problem, "default", 4, "full") == {"key": 4}

    def test_full_fits_are_as_long_as_the_papers(self):
        steps = {j.name: j.settings["num_steps"] for j in EXPERIMENTS["mlr-curves"].jobs("full", 1)}
        assert (steps["mnist-sivi-sm-100-0"], steps["hapt-uivi-1-0"]) == (90_000, 40_000)
        assert steps["mnist-default-0"] == sivi.defaults.recipe(7850, 60_000).num_steps
        assert len(steps) == 2 * len(NAMES)


@pytest.mark.parametrize(("num_steps", "number"), [(90_000, 29), (40_000, 27), (8000, 16)])
def test_stops_of_a_curve(num_steps, number):
    stops = curve_stops(num_steps, 500)
    assert (stops[0], stops[-1], len(stops)) == (500, num_steps, number)
    assert all(stop % 500 == 0 for stop in stops)
    gaps = np.diff(stops)
    assert gaps.min() > 0
    assert gaps[:10].sum() <= gaps[-10:].sum()


def test_stops_of_a_short_curve():
    assert curve_stops(20, 5) == [5, 10, 15, 20]
    assert curve_stops(9, 2) == [2, 4, 6, 8, 9]
    assert curve_stops(3, 5) == [3]


def test_a_curve_and_the_seconds_share_the_size_of_a_chunk():
    for mode, size in (("full", 500), ("quick", 5)):
        assert {job.settings["chunk_size"] for job in MLRCurves().jobs(mode, 1)} == {size}
    timed = {(job.settings["chunk_size"], job.settings["num_steps"]) for job in MLRSeconds().jobs("full", 1)}
    assert timed == {(500, 2000)}


class TestCurve:
    SETTINGS: ClassVar = {
        "objective": ScoreMatching(num_particles=8, critic=MLPCritic((4,))),
        "whiten": None,
        "batch_size": 4,
        "num_steps": 9,
    }

    def run(self, scratch, stops, evaluated, pause=0.0):
        def evaluate(posterior):
            time.sleep(pause)
            evaluated.append(posterior.step)
            return {"score": float(posterior.step)}

        return fit_curve(linear_gaussian_model(12), stops, scratch, evaluate, chunk_size=2, **self.SETTINGS)

    def test_goes_on_where_it_ended(self, tmp_path):
        for name in ("whole", "parts"):
            (tmp_path / name).mkdir()
        evaluated = []
        whole, rows = self.run(tmp_path / "whole", [2, 6, 9], evaluated)
        assert evaluated == [2, 6, 9]
        assert [(row["step"], row["score"]) for row in rows] == [(2, 2.0), (6, 6.0), (9, 9.0)]
        assert np.all(np.diff([row["seconds"] for row in rows]) > 0.0)
        evaluated.clear()
        self.run(tmp_path / "parts", [2, 6], evaluated)
        again, rows = self.run(tmp_path / "parts", [2, 6, 9], evaluated)
        assert evaluated == [2, 6, 9]
        assert [row["step"] for row in rows] == [2, 6, 9]
        np.testing.assert_array_equal(whole.history["loss"], again.history["loss"])
        assert self.run(tmp_path / "parts", [2, 6, 9], evaluated)[1] == rows
        assert evaluated == [2, 6, 9]

    @pytest.mark.parametrize("at", [2, 9])
    @pytest.mark.filterwarnings("ignore:fit was interrupted")
    def test_an_interruption_is_no_result(self, at, tmp_path):
        def evaluate(posterior):
            if posterior.step == at:
                raise KeyboardInterrupt
            return {}

        with pytest.raises(KeyboardInterrupt):
            fit_curve(linear_gaussian_model(12), [2, 6, 9], tmp_path, evaluate, chunk_size=2, **self.SETTINGS)
        evaluated = []
        _, rows = self.run(tmp_path, [2, 6, 9], evaluated)
        assert evaluated == [stop for stop in (2, 6, 9) if stop >= at]
        assert [row["step"] for row in rows] == [2, 6, 9]

    def test_compiles_the_updates_once(self, tmp_path):
        for name in ("whole", "parts"):
            (tmp_path / name).mkdir()
        compiled = []

        def note(name, seconds, **details):
            if name == COMPILED:
                compiled.append(details.get("fun_name", ""))

        jax.clear_caches()
        jax.monitoring.register_event_duration_secs_listener(note)
        try:
            self.run(tmp_path / "whole", [2, 6, 9], [])
            assert sum("run_chunk" in function for function in compiled) == 1
            for stops in ([2], [2, 6], [2, 6, 9]):
                self.run(tmp_path / "parts", stops, [])
            assert sum("run_chunk" in function for function in compiled) == 1
        finally:
            jax.monitoring.clear_event_listeners()

    def test_seconds_are_of_fitting_alone(self, tmp_path):
        self.run(tmp_path, [2], [])
        _, rows = self.run(tmp_path, [2, 4, 6, 8, 9], [], pause=0.5)
        assert rows[-1]["seconds"] - rows[1]["seconds"] < 1.0
        assert all(0.0 < row["first"] <= row["seconds"] for row in rows)

    def test_refuses_a_stop_within_a_chunk(self, tmp_path):
        with pytest.raises(ValueError, match=r"multiples of chunk_size, 2, or num_steps; got \[3, 7\]"):
            self.run(tmp_path, [2, 3, 7], [])


def curves():
    done = []
    for problem in PROBLEMS:
        for i, name in enumerate(NAMES):
            settings = {"problem": problem, "method": name, "seed": 0, "draws": 100, "last_draws": 200}
            settings["chunk_size"] = 1
            numbers = dict.fromkeys(FINAL, -0.25) | {"fit_seconds": 61.4, "updates": 12_345, "accuracy": 0.9 + 0.01 * i}
            rows = [[1, 2, 3], [0.1, 0.2, 0.3], [-0.4, -0.3, -0.29], [-0.5, -0.3, -0.28], [20.0, 0.1, 0.1]]
            arrays = {"curve": np.array(rows)}
            done.append(JobResult(Job(f"{problem}-{name}-0", settings), numbers, arrays))
    return Results("mlr-curves", "full", 1, tuple(done))


class TestTables:
    def test_curves(self):
        text = MLRCurves().report(curves())
        assert "| SIVI-SM(100) | −0.2500 | −0.2500 | 0.9000 | −0.2500 | −0.2500 | 61 | 12,345 |" in text
        assert "**HAPT**" in text
        assert "from 100 draws, the table from 200 draws" in text
        figures = MLRCurves().figures(curves())
        assert set(figures) == {"mlr-curves", "mlr-curves-seconds"}
        assert [len(ax.lines) for ax in figures["mlr-curves"].axes] == [len(NAMES)] * 4

    def test_seconds_of_a_curve_count_from_the_call(self):
        settings = {"problem": "mnist", "method": NAMES[0], "seed": 0}
        timed = Results("mlr-seconds", "full", 1, (JobResult(Job("timed", settings), {"milliseconds": 500.0}, {}),))
        results = replace(curves(), related={"mlr-seconds": timed})
        (line,) = MLRCurves().figures(results)["mlr-curves-seconds"].axes[0].lines
        np.testing.assert_allclose(line.get_xdata(), [20.0, 20.5, 21.0])

    def test_convergence(self):
        trace = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 0.5], [4.0, 2.0]])
        settings = {"problem": "mnist", "method": "sivi-sm-100", "seed": 0}
        arrays = {"loss": trace, "critic_norm": trace}
        result = JobResult(Job("mnist-sivi-sm-100-0", settings), {"loss": 60.0, "critic_norm": 58.0}, arrays)
        results = Results("mlr-convergence", "full", 1, (result,), ("hapt-sivi-sm-100-0",))
        text = MLRConvergence().report(results)
        assert "| MNIST | SIVI-SM(100) | 60.00 | 58.00 | 58.51 |" in text
        assert "| HAPT | SIVI-SM(100), halves | not run | not run | 8.27 |" in text
        axes = MLRConvergence().figures(results)["mlr-convergence"].axes
        assert [bool(ax.lines) for ax in axes] == [True, False, False, False]

    def test_seconds(self):
        settings = {"problem": "mnist", "method": "uivi-1", "seed": 0, "chunks": 4, "chunk_size": 500}
        result = JobResult(Job("mnist-uivi-1-0", settings), {"milliseconds": 12.344, "all": [1.0]})
        text = MLRSeconds().report(Results("mlr-seconds", "full", 1, (result,)))
        assert "| UIVI(1) | 12.34 | 50.7 | not run | 49.3 |" in text
        assert "| default call | not run | – | not run | – |" in text
        assert "over 3 stretches of 500 updates" in text


def test_labels_name_the_particles():
    assert [method.label for method in methods(PROBLEMS["mnist"]).values()] == [
        "SIVI-SM(100)", "SIVI-SM(200)", "SIVI-SM(100), halves", "SIVI-SM(200), halves",
        "SIVI(1)", "SIVI(10)", "SIVI(20)", "UIVI(1)", "default call",
    ]  # fmt: skip


def quick_job(experiment, folder):
    job = next(job for job in experiment.jobs("quick", 1) if "hapt" in job.name)
    return job.settings, *experiment.run_job(job, folder)


@pytest.mark.slow
@pytest.mark.needs_data
def test_a_quick_job_of_curves_ends_with_the_scores_of_the_last_point(tmp_path):
    settings, numbers, arrays = quick_job(MLRCurves(), tmp_path)
    assert (numbers["updates"], numbers["skipped"]) == (settings["num_steps"], 0)
    steps, seconds, joint, per_point, _ = arrays["curve"]
    assert steps.tolist() == list(curve_stops(settings["num_steps"], settings["chunk_size"]))
    assert (np.diff(seconds) > 0).all()
    np.testing.assert_allclose([joint[-1], per_point[-1]], [numbers["joint"], numbers["per_point"]], rtol=1e-4)
    assert per_point[-1] < 0.0 < numbers["accuracy"] <= 1.0


@pytest.mark.slow
@pytest.mark.needs_data
def test_a_quick_job_of_seconds_takes_the_median_of_all_chunks_but_the_first(tmp_path):
    settings, numbers, _ = quick_job(MLRSeconds(), tmp_path)
    assert len(numbers["all"]) == settings["chunks"] - 1
    assert min(numbers["all"]) > 0.0
    assert numbers["milliseconds"] == np.median(numbers["all"])


@pytest.mark.slow
@pytest.mark.needs_data
def test_a_quick_job_of_convergence_ends_with_the_last_of_its_traces(tmp_path):
    settings, numbers, arrays = quick_job(MLRConvergence(), tmp_path)
    for name in ("loss", "critic_norm"):
        ends, means, low, high = arrays[name]
        assert ends[-1] == settings["num_steps"]
        assert ((low <= means) & (means <= high)).all()
        np.testing.assert_allclose(numbers[name], means[-1], rtol=1e-5)
