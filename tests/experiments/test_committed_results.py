"""The results page and the README say what the committed results say."""

from pathlib import Path

from sivi.experiments import EXPERIMENTS, load, page
from sivi.experiments.report import mean_sd

ROOT = Path(__file__).parents[2]


def committed():
    found = {name: load(name, "full", ROOT / "results") for name in EXPERIMENTS}
    return {name: results for name, results in found.items() if results is not None}


def test_every_experiment_is_there_in_full_and_with_the_settings_of_now():
    assert set(committed()) == set(EXPERIMENTS)
    for name, results in committed().items():
        assert results.missing == (), name
        jobs = {job.name: job.settings for job in EXPERIMENTS[name].jobs("full", results.seeds)}
        assert {result.job.name: result.job.settings for result in results.done} == jobs, name


def test_page_is_made_from_them():
    results, folder = committed(), ROOT / "docs/images/results"
    images = {
        name: [f"images/results/{path.name}" for path in sorted(folder.glob(f"{name}*.png"), key=lambda p: p.stem)]
        for name in results
    }
    assert (ROOT / "docs/results.md").read_text() == page(list(EXPERIMENTS.values()), results, images)
    shown = [name for name, links in images.items() if links]
    assert shown == [
        "toy-samples",
        "toy-dynamics",
        "toy-convergence",
        "toy-bias",
        "waveform-marginals",
        "waveform-cov",
        "mlr-curves",
        "mlr-convergence",
    ]


def test_readme_quotes_them():
    summary = EXPERIMENTS["toy-kl"].summary(committed()["toy-kl"])
    readme = (ROOT / "README.md").read_text().replace("**", "")
    for target, label in {"banana": "banana", "multimodal": "multimodal", "x-shaped": "X-shaped"}.items():
        methods = summary[target]["methods"]
        cells = [mean_sd(methods[m]["mean"], methods[m]["sd"]) for m in ("sivi", "uivi", "sivi-sm", "default")]
        paper = mean_sd(methods["sivi-sm"]["paper_mean"], methods["sivi-sm"]["paper_sd"])
        assert f"| {' | '.join([label, *cells, paper])} |" in readme
