"""The results page and the README say what the committed results say."""

from pathlib import Path

from sivi.experiments import EXPERIMENTS, load, page
from sivi.experiments.report import mean_sd

ROOT = Path(__file__).parents[2]


def committed():
    found = {name: load(name, "full", ROOT / "results") for name in EXPERIMENTS}
    return {name: results for name, results in found.items() if results is not None}


def test_what_was_run_was_run_in_full_for_the_jobs_of_now():
    """By name and seed; `sivi paper list` says which ran with other settings than those of now.

    An experiment without results is no error, and has no section in the page.
    """
    assert "toy-kl" in committed(), "the README quotes it"
    for name, results in committed().items():
        assert results.missing == (), name
        jobs = EXPERIMENTS[name].jobs("full", results.seeds)
        assert names_and_seeds(result.job for result in results.done) == names_and_seeds(jobs), name


def names_and_seeds(jobs):
    return {job.name: job.settings.get("seed") for job in jobs}


def test_page_is_made_from_them():
    results, folder = committed(), ROOT / "docs/images/results"
    images = {
        name: [f"images/results/{path.name}" for path in sorted(folder.glob(f"{name}*.png"), key=lambda p: p.stem)]
        for name in results
    }
    assert (ROOT / "docs/results.md").read_text() == page(list(EXPERIMENTS.values()), results, images)
    figures = {path.name for path in folder.glob("*.png")}
    assert figures == {Path(link).name for links in images.values() for link in links}
    for start in ("toy-samples", "toy-dynamics", "toy-convergence", "toy-bias", "waveform-", "mlr-c"):
        assert all(links for name, links in images.items() if name.startswith(start)), start


def test_readme_quotes_them():
    summary = EXPERIMENTS["toy-kl"].summary(committed()["toy-kl"])
    readme = (ROOT / "README.md").read_text().replace("**", "")
    for target, label in {"banana": "banana", "multimodal": "multimodal", "x-shaped": "X-shaped"}.items():
        methods = summary[target]["methods"]
        cells = [mean_sd(methods[m]["mean"], methods[m]["sd"]) for m in ("sivi", "uivi", "sivi-sm", "default")]
        paper = mean_sd(methods["sivi-sm"]["paper_mean"], methods["sivi-sm"]["paper_sd"])
        assert f"| {' | '.join([label, *cells, paper])} |" in readme
