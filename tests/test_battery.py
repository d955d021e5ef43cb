"""The battery's posteriors, references and measurement belong together, and its runner runs.

In free coordinates the score S of a density has mean zero under it, E[S] = 0, which holds for draws of that density and
in general for no other's: a test of the data, the density and the reference at once.
"""

import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi.targets import as_target

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from battery import cli
from battery import reference as references
from battery.beside_nuts import ratios
from battery.child import run_job
from battery.entry import SPLIT
from battery.measure import judge, measure
from battery.posteriors import POSTERIORS
from battery.report import page
from battery.runner import judged, rows_of

NUM_DRAWS = 2000
#: Its score has no variance, as theta and mu are as good as equal for small tau; other tests of its draws are in
#: test_benchmark_tasks.py.
NO_VARIANCE = {"schools-centred"}


def test_the_split_names_the_posteriors():
    assert set(SPLIT) == set(POSTERIORS)
    parts = [entry.part for entry in POSTERIORS.values()]
    assert parts.count("everyday") >= 14
    assert parts.count("hard") >= 10
    assert all(3 <= entry.dim <= 100 for entry in POSTERIORS.values() if entry.part == "everyday")


def test_every_kind_is_in_both_halves():
    halves = defaultdict(set)
    for row in SPLIT.values():
        halves[row["part"], row["kind"]].add(row["half"])
    assert {kind for kind, found in halves.items() if found != {"tuning", "confirmation"}} == set()


def test_the_chains_of_the_references_have_mixed():
    content = json.loads(references.SUMMARY.read_text())
    rows = content["posteriors"]
    assert set(rows) == {name for name, entry in POSTERIORS.items() if entry.exact is None}
    assert {n: r["rhat_max"] for n, r in rows.items() if not r["rhat_max"] <= 1.005} == content["exceptions"]
    assert sum(path.stat().st_size for path in references.FOLDER.iterdir()) < 10e6


@pytest.mark.parametrize("name", sorted(set(POSTERIORS) - NO_VARIANCE))
def test_the_mean_score_is_zero_under_the_reference(name, x64):
    """At 5 standard errors, of draws taken to be independent; stored ones are thinned until nearly so."""
    entry = POSTERIORS[name]
    problem, what = entry.problem()
    target = as_target(problem, **what)
    free = references.reference_of(entry, NUM_DRAWS).free
    draws = free[:: max(1, len(free) // NUM_DRAWS)]
    assert draws.shape[1] == target.dim == len(entry.free_names)
    scores = np.asarray(jax.jit(lambda x: jax.lax.map(target.score, x, batch_size=250))(jnp.asarray(draws)))
    errors = scores.std(0) / np.sqrt(len(draws))
    assert (np.abs(scores.mean(0)) <= 5.0 * errors).all(), np.abs(scores.mean(0) / errors).max()


@pytest.mark.parametrize("name", ["linear", "five-uneven", "horseshoe"])
def test_measure_sees_an_error_and_no_more(name):
    entry = POSTERIORS[name]
    reference = references.reference_of(entry, 8000)
    half = len(reference.draws) // 2
    others = replace(reference, draws=reference.draws[half:])
    right = reference.draws[:half]
    numbers = measure(right, others, modes=entry.modes, kl=entry.kl)
    assert numbers["mean_error"] < 0.06
    assert 0.9 < numbers["sd_ratio_min"] <= numbers["sd_ratio_max"] < 1.1
    assert numbers["ks"] < numbers["ks_noise"] < 0.06
    assert 0.5 < numbers["distance"] / numbers["distance_floor"] < 1.5
    assert abs(numbers.get("kl", 0.0)) < 0.05
    assert numbers.get("weights_tv", 0.0) < 0.03

    wide = measure(reference.mean + 1.2 * (right - reference.mean), others)
    np.testing.assert_allclose(wide["sd_ratio_max"], 1.2 * numbers["sd_ratio_max"], rtol=1e-6)
    shifted = right.copy()
    shifted[:, -1] += 0.5 * reference.sd[-1]
    found = measure(shifted, others, names=entry.names)
    assert 0.4 < found["mean_error"] < 0.6
    assert found["mean_error_at"] == found["ks_at"] == entry.names[-1]


def test_a_planted_error_misses_its_bar_and_so_does_a_failure():
    entry = POSTERIORS["linear"]
    reference = references.reference_of(entry)
    right = judge(entry, measure(reference.draws, reference))
    assert right["met"]
    wide = judge(entry, measure(reference.mean + 1.2 * (reference.draws - reference.mean), reference))
    assert "sd_ratio_max" in wide["missed"]
    assert measure(np.full((10, entry.dim), np.nan), reference) == {"not_finite": 1.0}
    failed = judged({"posterior": "linear", "key": 0, "method": "sivi", "failed": "stopped"})
    assert failed["met"] is False
    assert set(failed["missed"]) == set(entry.bars)


def test_a_lost_mode_is_seen():
    entry = POSTERIORS["five-even"]
    draws = references.reference_of(entry, 5000).draws
    kept = draws[((draws - entry.modes.means[0]) ** 2).sum(1) > 4.0]
    assert abs(entry.modes.total_variation(kept) - 0.2) < 0.02


def test_judged_quantities_are_those_of_the_model():
    """The horseshoe's coefficients from free numbers, against those from the named unknowns."""
    entry = POSTERIORS["horseshoe"]
    problem, what = entry.problem()
    x = np.random.default_rng(0).normal(size=(5, entry.dim))
    p = jax.vmap(as_target(problem, **what).layout.named)(jnp.asarray(x, jnp.float32))
    expected = p["tau"][:, None] * p["lambda"] * p["z"]
    np.testing.assert_allclose(entry.quantities(x), expected, rtol=1e-4)


@pytest.mark.slow
def test_a_quick_run_writes_rows_and_a_page(tmp_path, capsys):
    output = tmp_path / "quick.json"
    cli.main(["--quick", "--no-nuts", "banana", "linear", "--output", str(output)])
    content = json.loads(output.read_text())
    assert [(row["posterior"], row["updates"]) for row in content["rows"]] == [("banana", 150), ("linear", 150)]
    assert all(row["seconds"] > 0 and 0 <= row["ks"] <= 1 and "failed" not in row for row in content["rows"])
    assert "geometric mean of seconds: sivi" in capsys.readouterr().out.splitlines()[-1]
    text = page(content, content)
    assert all(f"| {name} |" in text for name in ("banana", "linear"))


@pytest.mark.slow
def test_nuts_is_measured_alike():
    row = judged(run_job({"posterior": "multimodal", "key": 0, "method": "nuts", "quick": True}))
    assert "failed" not in row
    assert row["seconds"] > 0
    assert row["mean_error"] < 1.0
    assert "distance" in row


def test_numpyros_nuts_is_measured_alike():
    pytest.importorskip("numpyro")
    row = judged(run_job({"posterior": "multimodal", "key": 0, "method": "numpyro", "quick": True}))
    assert "failed" not in row
    assert row["cpu_seconds"] > 0
    assert row["mean_error"] < 1.0
    assert row["rhat_max"] < 1.5


def test_the_page_compares_with_the_faster_nuts():
    """Ratios 2 and 1/2: NumPyro's on the one posterior, BlackJAX's on the other, as NumPyro's has failed there."""
    known = {"met": True, "missed": [], "dim": 7, "half": "confirmation", "key": 0, "updates": 1}
    seconds = {"linear": {"sivi": 8.0, "nuts": 5.0, "numpyro": 4.0}, "robust": {"sivi": 3.0, "nuts": 6.0}}
    rows = [
        {"posterior": name, "method": method, "seconds": value, **known}
        for name, by in seconds.items()
        for method, value in by.items()
    ]
    rows.append({"posterior": "robust", "method": "numpyro", "failed": "stopped", **known, "met": False})
    assert ratios(rows) == {"linear": 2.0, "robust": 0.5}
    run = {"rows": rows, "keys": [0], "machine": {"cores_each": 2}, "versions": {}}
    text = page(run, beside=run)
    assert "| linear | 8.0 | 5.0 | 4.0 | NumPyro's | 2.00 | 1/1 | 1/1 |" in text
    assert "| robust | 3.0 | 6.0 | – | BlackJAX's | 0.50 | 1/1 | 1/1 |" in text
    assert "the geometric mean of the 2 ratios is 1.00, the largest 2.00 (linear)" in text
    assert "* robust, NumPyro's NUTS, key 0: stopped" in text


def test_nuts_is_left_out_without_blackjax(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    monkeypatch.setattr(cli, "_quick_rows", lambda jobs: asked.extend(jobs) or iter(()))
    cli.main(["--quick"])
    assert "without NUTS" in capsys.readouterr().out
    assert {job["method"] for job in asked} == {"sivi"}


def test_a_process_that_takes_too_long_is_a_failed_row():
    job = {"posterior": "far", "key": 0, "method": "sivi"}
    (row,) = rows_of([job], 1, None, None, 0.01)
    assert row["failed"] == "stopped after 0 s"
    assert row["met"] is False


def test_names_part_and_half_choose():
    names = cli.chosen(cli.parser_of_arguments().parse_args(["--part", "hard", "--half", "tuning"]))
    assert names == [n for n, row in SPLIT.items() if (row["part"], row["half"]) == ("hard", "tuning")]
    with pytest.raises(SystemExit):
        cli.main(["no-such-posterior"])
