import json
import os
import platform
import shutil

import numpy as np
import pytest

from fake_experiment import FakeExperiment
from sivi.experiments import DamagedResults, load, run
from sivi.experiments._result_files import write_result
from sivi.experiments.runner import core_shares

JOBS = ("one-0", "two-0", "three-0", "one-1", "two-1", "three-1")


def run_fake(experiment, out, **settings):
    """The outcome, and the lines that were logged."""
    lines = []
    experiment.calls.clear()
    outcome = run(experiment, **{"mode": "full", "seeds": 2, "out": out, "log": lines.append} | settings)
    return outcome, lines


def content_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def done(tmp_path):
    """An experiment that has been run."""
    experiment = FakeExperiment()
    run_fake(experiment, tmp_path)
    return experiment


class TestSkipping:
    def test_what_is_done_is_not_done_again(self, done, tmp_path):
        before = load("fake", "full", tmp_path)
        outcome, lines = run_fake(done, tmp_path)
        assert done.calls == []
        assert outcome.ran == ()
        assert lines == ["6 of 6 jobs are done already"]
        assert [r.job.name for r in outcome.results.done] == list(JOBS)
        assert [r.numbers for r in outcome.results.done] == [r.numbers for r in before.done]
        assert outcome.results.missing == ()

    def test_more_seeds_add_jobs(self, tmp_path):
        experiment = FakeExperiment()
        run_fake(experiment, tmp_path, seeds=1)
        outcome, _ = run_fake(experiment, tmp_path, seeds=2)
        assert outcome.ran == JOBS[3:]
        assert len(outcome.results.done) == 6

    def test_modes_are_apart(self, done, tmp_path):
        outcome, _ = run_fake(done, tmp_path, mode="quick", seeds=1)
        assert outcome.ran == JOBS[:3]
        assert len(load("fake", "full", tmp_path).done) == 6
        assert len(load("fake", "quick", tmp_path).done) == 3

    def test_force(self, done, tmp_path):
        outcome, _ = run_fake(done, tmp_path, force=True)
        assert outcome.ran == JOBS

    def test_only(self, tmp_path):
        experiment = FakeExperiment()
        outcome, _ = run_fake(experiment, tmp_path, only="two")
        assert outcome.ran == ("two-0", "two-1")
        assert outcome.results.missing == ("one-0", "three-0", "one-1", "three-1")
        outcome, _ = run_fake(experiment, tmp_path, only="-0")
        assert outcome.ran == ("one-0", "three-0")
        assert outcome.results.missing == ("one-1", "three-1")
        with pytest.raises(ValueError, match="only must be part of a job's name, such as 'one-0'; got 'four'"):
            run_fake(experiment, tmp_path, only="four")

    def test_only_keeps_the_other_jobs_of_the_combined_result(self, done, tmp_path):
        shutil.rmtree(tmp_path / "fake")  # the files of single jobs are not kept for ever
        outcome, _ = run_fake(done, tmp_path, only="two", force=True)
        assert outcome.ran == ("two-0", "two-1")
        assert [result.job.name for result in outcome.results.done] == list(JOBS)
        assert outcome.results.missing == ()

    def test_changed_settings(self, done, tmp_path):
        done.scales["two"] = 5.0
        outcome, lines = run_fake(done, tmp_path)
        assert outcome.ran == ("two-0", "two-1")
        assert "two-0 is run again: its settings have changed" in lines
        assert outcome.results.first(target="two", seed=1).numbers == {"value": 16.0}
        assert outcome.results.first(target="one", seed=1).numbers == {"value": 7.0}


class TestFailures:
    def test_one_job_does_not_stop_the_others_and_is_run_again(self, tmp_path):
        experiment = FakeExperiment()
        experiment.errors["two-0"] = RuntimeError("no luck")
        outcome, lines = run_fake(experiment, tmp_path)
        assert outcome.failures == {"two-0": "RuntimeError: no luck"}
        assert "run_job" in outcome.tracebacks["two-0"]
        assert outcome.ran == tuple(name for name in JOBS if name != "two-0")
        assert outcome.results.missing == ("two-0",)
        assert "[2/6] two-0: failed: RuntimeError: no luck" in lines
        assert load("fake", "full", tmp_path).missing == ("two-0",)

        experiment.errors.clear()
        outcome, _ = run_fake(experiment, tmp_path)
        assert outcome.ran == ("two-0",)
        assert outcome.failures == {}
        assert outcome.results.missing == ()

    def test_an_interrupted_job_finds_its_scratch_folder(self, tmp_path):
        experiment = FakeExperiment()
        experiment.errors["three-0"] = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            run_fake(experiment, tmp_path)
        assert load("fake", "full", tmp_path).missing == JOBS[2:]

        experiment.errors.clear()
        outcome, _ = run_fake(experiment, tmp_path)
        assert experiment.calls == [("three-0", ["half-way"]), *((name, []) for name in JOBS[3:])]
        assert [result.resumed for result in outcome.results.done] == [False, False, True, False, False, False]
        assert list(tmp_path.rglob("*.partial")) == []

    def test_other_settings_do_not_find_it(self, tmp_path):
        experiment = FakeExperiment()
        experiment.errors["one-0"] = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            run_fake(experiment, tmp_path)
        experiment.errors.clear()
        experiment.scale = 3.0
        outcome, _ = run_fake(experiment, tmp_path)
        assert experiment.calls[0] == ("one-0", [])
        assert not any(result.resumed for result in outcome.results.done)
        assert list(tmp_path.rglob("*.partial")) == []

    def test_a_number_that_json_cannot_hold_is_a_failure(self, tmp_path):
        outcome, _ = run_fake(FakeExperiment(), tmp_path, only="one-0")
        assert outcome.failures == {}
        experiment = FakeExperiment()
        experiment.run_job = lambda job, scratch: ({"kl": float("nan")}, {})
        outcome, _ = run_fake(experiment, tmp_path, only="two-0")
        assert "not JSON compliant" in outcome.failures["two-0"]
        assert outcome.results.missing == JOBS[1:]


class TestFiles:
    @pytest.mark.parametrize(
        "damage",
        [
            lambda path: path.write_text(path.read_text()[:100]),
            lambda path: path.write_text("[]"),
            lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "numbers": 1, "seconds": "x"})),
            lambda path: path.with_suffix(".npz").write_bytes(b"PK"),
            lambda path: path.with_suffix(".npz").unlink(),
        ],
        ids=["truncated", "a list", "wrong types", "other arrays", "no arrays"],
    )
    def test_a_damaged_job_file_is_run_again_with_a_note(self, done, tmp_path, damage):
        damage(tmp_path / "fake" / "full" / "two-0.json")
        outcome, lines = run_fake(done, tmp_path)
        assert outcome.ran == ("two-0",)
        assert lines[0].startswith("two-0 is run again: its result file is damaged")
        assert outcome.results.first(target="two", seed=0).numbers == {"value": 6.0}

    def test_combined_result(self, done, tmp_path):
        content = json.loads((tmp_path / "fake.json").read_text())
        assert content["experiment"] == "fake"
        assert content["command"] == "sivi paper run fake --full --seeds 2"
        assert (content["mode"], content["seeds"], content["missing"]) == ("full", 2, [])
        assert content["summary"] == {"mean": np.mean([6, 6, 10, 7, 7, 11])}
        assert [job["numbers"]["value"] for job in content["jobs"]] == [6, 6, 10, 7, 7, 11]
        assert content["jobs"][4]["settings"] == {"target": "two", "seed": 1, "scale": 2.0}
        assert all(job["seconds"] >= 0 and job["environment"] == 0 for job in content["jobs"])
        (environment,) = content["environments"]
        assert set(environment["machine"]) == {"platform", "device", "cores"}
        assert environment["versions"]["numpy"] == np.__version__
        text = (tmp_path / "fake.json").read_text()
        assert str(tmp_path) not in text
        assert platform.node() not in text

    def test_the_combined_result_is_enough(self, done, tmp_path):
        results = load("fake", "full", tmp_path)
        np.testing.assert_array_equal(results.first(target="three", seed=1).arrays["trace"], np.linspace(0.0, 11.0, 5))
        assert results.where(target="one", seed=1)[0].job.name == "one-1"
        assert results.first(target="four") is None
        assert load("fake", "quick", tmp_path) is None

    @pytest.mark.parametrize("name", ["fake.json", "fake.npz"])
    def test_a_damaged_combined_result_is_told(self, done, tmp_path, name):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:50])
        with pytest.raises(DamagedResults, match=r"fake.json is damaged .*run `sivi paper run fake --full` again"):
            load("fake", "full", tmp_path)

    def test_git_ignores_the_files_of_the_jobs(self, done, tmp_path):
        assert (tmp_path / "fake" / ".gitignore").read_text() == "*\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["fake", "fake.json", "fake.npz"]

    def test_files_are_written_whole_or_not_at_all(self, done, tmp_path, monkeypatch):
        before = content_of(tmp_path)

        def fail(source, destination):
            raise OSError("disk full")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_result(tmp_path / "fake.json", {"new": 1}, {"new": np.zeros(2)})
        assert content_of(tmp_path) == before

    def test_a_crash_between_arrays_and_json_is_seen(self, done, tmp_path, monkeypatch):
        file = tmp_path / "fake" / "full" / "one-0.json"
        real = os.replace

        def fail_on_json(source, destination):
            if str(destination).endswith(".json"):
                raise OSError("disk full")
            real(source, destination)

        monkeypatch.setattr(os, "replace", fail_on_json)
        with pytest.raises(OSError, match="disk full"):
            write_result(file, {**json.loads(file.read_text())}, {"trace": np.zeros(5)})
        monkeypatch.undo()
        outcome, _ = run_fake(done, tmp_path)
        assert outcome.ran == ("one-0",)


@pytest.mark.slow
def test_processes_give_the_same_results(tmp_path):
    here, _ = run_fake(FakeExperiment(), tmp_path / "here", seeds=1)
    apart, lines = run_fake(FakeExperiment(), tmp_path / "apart", seeds=1, workers=2)
    assert set(apart.ran) == set(here.ran)
    assert [r.numbers for r in apart.results.done] == [r.numbers for r in here.results.done]
    assert {line.split()[0] for line in lines} == {"[1/3]", "[2/3]", "[3/3]"}
    shares = {len(share) for share in core_shares(sorted(os.sched_getaffinity(0)), 2)}
    assert {result.environment["machine"]["cores"] for result in apart.results.done} <= shares


def test_cores_are_dealt_out():
    assert core_shares([0, 1, 2, 3, 4], 2) == [[0, 2, 4], [1, 3]]
    assert core_shares([4, 6], 2) == [[4], [6]]
    assert core_shares([4, 6], 3) == [[4], [6], [4]]
