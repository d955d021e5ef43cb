import json
import os
import re
from pathlib import Path

import jax
import matplotlib.image
import numpy as np
import pytest

import sivi
from fake_experiment import FakeExperiment
from sivi.cli import _paper, main
from sivi.experiments import EXPERIMENTS, Job, load
from sivi.experiments import _toy as toy


@pytest.fixture
def fake(monkeypatch):
    """The fake experiment as the only one there is."""
    experiment = FakeExperiment()
    monkeypatch.setattr(_paper, "EXPERIMENTS", {"fake": experiment})
    return experiment


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder without results."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def paper(*arguments):
    return main(["paper", *map(str, arguments)])


def fails(capsys, *arguments):
    """The one sentence that a refused command prints."""
    assert paper(*arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


class TestList:
    def test_every_experiment_and_its_state(self, folder, capsys):
        assert paper("list") == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[2:]] == list(EXPERIMENTS)
        assert all(line.endswith("not run") for line in lines[2:])
        (row,) = [line for line in lines if line.startswith("toy-kl")]
        assert "Table 3, appendix G" in row
        assert "18/78" in row

    def test_states(self, folder, fake, capsys):
        paper("run", "fake", "--full", "--only", "one", "--workers", 1)
        paper("run", "fake", "--workers", 1)
        capsys.readouterr()
        paper("list")
        assert capsys.readouterr().out.rstrip().endswith("quick; full 2 of 6")
        fake.scales["one"] = 9.0
        paper("list")
        text = capsys.readouterr().out.rstrip()
        assert text.endswith("quick (1 with other settings than now); full 2 of 6 (2 with other settings than now)")


class TestRun:
    def test_quick_is_the_default_and_said(self, folder, fake, capsys):
        assert paper("run", "fake", "--workers", 1) == 0
        text = capsys.readouterr().out
        assert "fake (Table 0), 1 seed, a quick run: --full does what the paper did" in text
        assert re.search(r"\[3/3\] three-0: \d+\.\d s", text)
        assert "one-0=6.0 two-0=6.0 three-0=10.0" in text
        names = ["fake", "fake-quick.json", "fake-quick.npz", "fake-quick.png"]
        assert sorted(os.listdir(folder / "results")) == names
        assert len(fake.calls) == 3

    def test_full_seeds_only_force_out(self, folder, fake, capsys):
        common = ("run", "fake", "--full", "--seeds", 3, "--out", "elsewhere", "--workers", 1)
        assert paper(*common, "--only", "two") == 0
        assert [name for name, _ in fake.calls] == ["two-0", "two-1", "two-2"]
        assert paper(*common) == 0
        assert len(fake.calls) == 9
        assert paper(*common) == 0
        assert len(fake.calls) == 9
        assert paper(*common, "--force") == 0
        assert len(fake.calls) == 18
        content = json.loads((folder / "elsewhere" / "fake.json").read_text())
        assert content["command"] == "sivi paper run fake --full --seeds 3"

    def test_a_failed_job(self, folder, fake, capsys):
        fake.errors["two-0"] = RuntimeError("no luck")
        assert paper("run", "fake", "--workers", 1) == 1
        text = capsys.readouterr().out
        assert "two-0: failed: RuntimeError: no luck" in text
        assert "1 job failed, and the same command runs it again: two-0" in text
        assert json.loads((folder / "results" / "fake-quick.json").read_text())["missing"] == ["two-0"]

    def test_interrupted(self, folder, fake, capsys):
        fake.errors["two-0"] = KeyboardInterrupt()
        assert paper("run", "fake", "--workers", 1) == 130
        assert capsys.readouterr().err == "sivi: interrupted\n"
        fake.errors.clear()
        assert paper("run", "fake", "--workers", 1) == 0
        assert [name for name, _ in fake.calls] == ["one-0", "two-0", "two-0", "three-0"]

    def test_without_matplotlib(self, folder, fake, capsys, monkeypatch):
        monkeypatch.setattr(_paper, "use_files_only", lambda: False)
        assert paper("run", "fake", "--workers", 1) == 0
        assert "no figures: they need matplotlib (pip install 'sivi[plot]')" in capsys.readouterr().out
        assert sorted(os.listdir(folder / "results")) == ["fake", "fake-quick.json", "fake-quick.npz"]
        assert paper("report") == 0
        assert "no figures" in capsys.readouterr().out
        assert "![" not in (folder / "docs" / "results.md").read_text()


class TestReport:
    def test_one_page_with_figures(self, folder, fake, capsys):
        paper("run", "fake", "--full", "--workers", 1)
        assert paper("report") == 0
        page = (folder / "docs" / "results.md").read_text()
        assert "## Nothing in particular" in page
        assert "Table 0. Made by `sivi paper run fake --full --seeds 2` (2 seeds, from 0)." in page
        assert "three-1=11.0" in page
        assert "quick" not in page
        (link,) = re.findall(r"!\[Nothing in particular\]\((.*)\)", page)
        assert link == "images/results/fake.png"
        assert matplotlib.image.imread(folder / "docs" / link).shape[2] == 4
        assert f"numpy {np.__version__}" in page
        assert str(folder) not in page

    def test_only_the_combined_files_are_needed(self, folder, fake, capsys):
        paper("run", "fake", "--full", "--workers", 1)
        paper("report", "--out", "first/page.md")
        kept = folder / "kept"
        kept.mkdir()
        for name in ("fake.json", "fake.npz"):
            (folder / "results" / name).rename(kept / name)
        assert paper("report", "--results", kept, "--out", "second/page.md") == 0
        assert (folder / "first/page.md").read_text() == (folder / "second/page.md").read_text()
        images = [(folder / part / "images/results/fake.png").read_bytes() for part in ("first", "second")]
        assert images[0] == images[1]

    def test_full_comes_before_quick(self, folder, fake, capsys):
        paper("run", "fake", "--quick", "--workers", 1)
        paper("report")
        page = (folder / "docs" / "results.md").read_text()
        assert "**A quick run**" in page
        assert "images/results/fake-quick.png" in page
        paper("run", "fake", "--full", "--only", "one", "--workers", 1)
        paper("report")
        page = (folder / "docs" / "results.md").read_text()
        assert "quick" not in page
        assert "**Incomplete:** 4 of 6 jobs are missing." in page

    def test_missing_experiments_are_named(self, folder, fake, capsys, monkeypatch):
        other = FakeExperiment()
        other.name, other.title = "other", "Something else"
        monkeypatch.setattr(_paper, "EXPERIMENTS", {"fake": fake, "other": other})
        paper("run", "fake", "--workers", 1)
        paper("report")
        assert "not run: other" in capsys.readouterr().out
        assert other.title not in (folder / "docs" / "results.md").read_text()


@pytest.mark.usefixtures("as_a_user")
class TestBadInput:
    def test_unknown_name(self, folder, capsys):
        error = fails(capsys, "run", "toy-lk")
        assert f"NAME must be one of {', '.join(EXPERIMENTS)} or all" in error
        assert "'toy-lk'" in error

    @pytest.mark.parametrize("option", ["--seeds", "--workers"])
    def test_counts(self, folder, capsys, option):
        assert f"{option} must be at least 1; got 0" in fails(capsys, "run", "toy-kl", option, 0)
        assert not (folder / "results").exists()

    def test_only(self, folder, fake, capsys):
        assert "only must be part of a job's name" in fails(capsys, "run", "fake", "--only", "x", "--workers", 1)

    def test_unwritable_out(self, folder, capsys):
        Path("file").write_text("")
        assert "--out must be a folder that can be written to" in fails(
            capsys, "run", "toy-kl", "--out", "file/results"
        )

    def test_nothing_to_report(self, folder, capsys):
        error = fails(capsys, "report", "--results", "nowhere")
        assert "--results must be a folder with results of `sivi paper run`; 'nowhere' has none" in error
        assert not (folder / "docs").exists()

    def test_damaged_results(self, folder, fake, capsys):
        paper("run", "fake", "--full", "--workers", 1)
        capsys.readouterr()
        (folder / "results" / "fake.json").write_text("{")
        assert "fake.json is damaged" in fails(capsys, "report")
        assert "run `sivi paper run fake --full` again" in fails(capsys, "list")

    @pytest.mark.parametrize("arguments", [[], ["walk"], ["run"], ["run", "toy-kl", "--quick", "--full"]])
    def test_usage(self, arguments, capsys):
        with pytest.raises(SystemExit) as caught:
            paper(*arguments)
        assert caught.value.code == 2


def test_help_has_examples(capsys):
    for arguments in (["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as caught:
            paper(*arguments)
        assert caught.value.code == 0
        assert "sivi paper run toy-kl --full" in capsys.readouterr().out


class TestShortened:
    """A few updates with few particles: every step from the command to the figure, held against a plain fit."""

    @pytest.fixture(autouse=True)
    def _short(self, folder, monkeypatch):
        import matplotlib.pyplot as plt

        monkeypatch.setitem(toy.METHODS, "sivi-sm", toy.method("SIVI-SM", lambda: toy.sivi_sm(8)))
        shorter = {"num_steps": 30, "stops": [10, 20, 30], "num_draws": 500}

        def jobs_of(real):
            def jobs(mode, seeds):
                return [
                    Job(job.name, {key: shorter.get(key, value) for key, value in job.settings.items()})
                    for job in real(mode, seeds)
                ]

            return jobs

        for experiment in EXPERIMENTS.values():
            monkeypatch.setattr(experiment, "jobs", jobs_of(experiment.jobs))
        self.titles = []
        close = plt.close

        def look_and_close(figure):
            self.titles.append([ax.get_title() for ax in figure.axes if ax.has_data()])
            close(figure)

        monkeypatch.setattr(plt, "close", look_and_close)

    def run(self, name, only):
        """The only job's numbers and arrays."""
        assert paper("run", name, "--only", only, "--workers", 1) == 0
        (result,) = load(name, "quick", Path("results")).done
        return result.numbers, result.arrays

    def fit(self, target, num_steps=30):
        settings = toy.fit_settings("sivi-sm", target, 0)
        return sivi.fit(
            toy.TARGETS[target](),
            num_steps=30,
            chunk_size=10,
            progress=False,
            callbacks=[lambda report: report.step >= num_steps],
            **settings,
        )

    def test_samples_and_kl(self):
        numbers, arrays = self.run("toy-samples", "banana-sivi-sm")
        posterior = self.fit("banana")
        np.testing.assert_array_equal(arrays["draws"], posterior.sample(1000, key=2000))
        exact = jax.vmap(sivi.targets.Banana().sample)(jax.random.split(jax.random.key(3000), 500))
        np.testing.assert_allclose(numbers["kl"], sivi.metrics.knn_kl(exact, posterior.sample(500, key=2000)))
        assert self.titles == [["banana: SIVI-SM"]]
        kl = self.run("toy-kl", "banana-sivi-sm")[0]["kl"]
        np.testing.assert_allclose(kl, numbers["kl"])

    def test_convergence(self):
        numbers, arrays = self.run("toy-convergence", "banana")
        history = self.fit("banana").history
        for name in ("loss", "critic_norm"):
            np.testing.assert_allclose(numbers[name], history[name][-3:].mean(), rtol=1e-5)
            np.testing.assert_allclose(arrays[name], [np.arange(1, 31), *[history[name]] * 3], rtol=1e-6)
        assert self.titles == [["banana"]]

    def test_snapshots(self):
        numbers, arrays = self.run("toy-bias", "sivi-sm")
        assert [snapshot["update"] for snapshot in numbers["snapshots"]] == [10, 20, 30]
        half_way = self.fit("multimodal", 20)
        assert half_way.step == 20
        np.testing.assert_array_equal(arrays["draws_1"], half_way.sample(1000, key=2000))
        np.testing.assert_allclose(
            [snapshot["beta"] for snapshot in numbers["snapshots"]], self.fit("multimodal").history["beta"][9::10]
        )
        np.testing.assert_allclose(
            arrays["arrows_1"], jax.vmap(half_way.state.inner.critic)(arrays["grid"]), rtol=1e-4, atol=1e-6
        )
        assert self.titles == [[f"SIVI-SM, update {update}" for update in (10, 20, 30)]]
