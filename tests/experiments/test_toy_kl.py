"""The KL table from made-up numbers: the cells, the bar, and the paper's numbers beside."""

import numpy as np
import pytest

from sivi.experiments import EXPERIMENTS, Job, JobResult, Results
from sivi.experiments.toy_kl import COLUMNS, ToyKL, bar

#: Table 3 of the paper.
PUBLISHED = {
    "banana": {"sivi": "0.1876 (0.0230)", "uivi": "0.3602 (0.1106)", "sivi-sm": "0.1936 (0.0169)"},
    "multimodal": {"sivi": "0.1823 (0.0025)", "uivi": "0.0611 (0.0192)", "sivi-sm": "0.0005 (0.0007)"},
    "x-shaped": {"sivi": "0.0341 (0.0118)", "uivi": "0.0236 (0.0083)", "sivi-sm": "0.0046 (0.0038)"},
}
FLOOR = [0.01, 0.03]  # mean 0.02


def made_up(kl, methods=COLUMNS, targets=tuple(PUBLISHED)):
    """Results in which a job's KL is `kl(target, method, seed)`."""
    done = []
    for target in targets:
        settings = {"target": target, "num_draws": 1000, "num_steps": 10, "objective": "Objective()"}
        done.append(JobResult(Job(f"{target}-exact", {**settings, "method": "exact"}), {"kl": FLOOR}))
        for method in methods:
            for seed in range(2):
                job = Job(f"{target}-{method}-{seed}", {**settings, "method": method, "seed": seed})
                done.append(JobResult(job, {"kl": kl(target, method, seed)}, seconds=10.0 + seed))
    return Results("toy-kl", "full", 2, tuple(done))


def test_bar_is_mean_plus_two_sd_plus_allowance():
    np.testing.assert_allclose(bar("banana", "sivi"), 0.2366)
    np.testing.assert_allclose(bar("multimodal", "sivi-sm"), 0.0049)
    np.testing.assert_allclose(bar("x-shaped", "uivi"), 0.0432)
    assert bar("banana", "default") is None


def test_cells_are_less_the_floor():
    summary = ToyKL().summary(made_up(lambda target, method, seed: 0.12 + 0.2 * seed))
    row = summary["banana"]
    np.testing.assert_allclose([row["floor_mean"], row["floor_sd"]], [0.02, np.std(FLOOR, ddof=1)])
    assert row["floor_repeats"] == 2
    cell = row["methods"]["sivi-sm"]
    np.testing.assert_allclose([cell["mean"], cell["sd"], cell["largest"]], [0.2, np.std([0.1, 0.3], ddof=1), 0.3])
    assert (cell["paper_mean"], cell["paper_sd"], cell["num_seeds"], cell["seconds"]) == (0.1936, 0.0169, 2, 10.5)
    assert row["methods"]["kernel-stein"]["within_bar"] is None


@pytest.mark.parametrize(("offset", "within"), [(-1e-6, True), (1e-6, False)])
def test_the_bar_decides(offset, within):
    results = made_up(lambda target, method, seed: (bar(target, method) or 0.0) + 0.02 + offset)
    summary = ToyKL().summary(results)
    for target, methods in PUBLISHED.items():
        for method in methods:
            assert summary[target]["methods"][method]["within_bar"] is within
    assert f"**Within it: {9 if within else 0} of the 9 published cells.**" in ToyKL().report(results)


def test_report_has_the_papers_number_in_every_row():
    report = ToyKL().report(made_up(lambda target, method, seed: 0.05 + 0.02 * seed))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.splitlines() if line.startswith("|")]
    labels = {"banana": "banana", "multimodal": "multimodal", "x-shaped": "X-shaped"}
    names = {"sivi": "SIVI", "uivi": "UIVI", "sivi-sm": "SIVI-SM"}
    for target, methods in PUBLISHED.items():
        for method, published in methods.items():
            (row,) = [row for row in rows if row[:2] == [labels[target], names[method]]]
            assert row[2:5] == ["0.0400 (0.0141)", "0.0500", published]
    (row,) = [row for row in rows if row[:2] == ["multimodal", "SIVI-SM"]]
    assert row[5:7] == ["0.0049", "**no**"]
    (row,) = [row for row in rows if row[:2] == ["banana", "SIVI"]]
    assert row[5:7] == ["0.2366", "yes"]
    assert ["banana", "0.0200 (0.0141)", "2"] in rows


def test_negative_values_and_missing_jobs():
    results = made_up(lambda target, method, seed: 0.01, methods=("sivi-sm",), targets=("banana",))
    report = ToyKL().report(results)
    assert "−0.0100 (0.0000)" in report
    assert "1 of the 1 published cells" in report
    assert "| UIVI |" not in report
    without_floor = Results("toy-kl", "full", 2, results.done[1:])
    assert ToyKL().summary(without_floor)["banana"]["methods"]["sivi-sm"] is None
    assert "0 of the 0 published cells" in ToyKL().report(without_floor)


def test_the_floor_job_is_exact_against_exact(tmp_path):
    (job,) = [job for job in EXPERIMENTS["toy-kl"].jobs("quick", 1) if job.name == "banana-exact"]
    numbers, arrays = ToyKL().run_job(job, tmp_path)
    assert arrays == {}
    assert len(numbers["kl"]) == 5
    # The noise falls like 1/√n from about 0.0035 at 100,000 draws.
    assert abs(np.mean(numbers["kl"])) < 5 * 0.03 / np.sqrt(5)
