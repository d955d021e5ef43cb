"""`sivi demo`: two posteriors whose answers are known, fitted, judged and drawn."""

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..fit import FitReport, fit
from ..metrics import knn_kl
from ..objectives import ScoreMatching
from ..plots import plot_critic, plot_marginals, plot_samples, plot_traces
from ..posterior import Posterior
from ..targets import LinearRegression, XShaped
from ._errors import UsageError
from ._output import save_figure, table, use_files_only, writable_folder

_NUM_DRAWS = 20_000
_NUM_CHUNKS = 40
_SNAPSHOTS = (1, 2, 4, 8)  # after so many chunks


def add_to(commands: Any) -> None:
    """Add the `demo` command."""
    command = commands.add_parser(
        "demo",
        help="fit two posteriors with known answers, and draw them",
        description="Fit the X-shaped mixture of two Gaussians and a small Bayesian regression on generated data; "
        "both can be drawn exactly, so the table says how far each fit is from the truth.",
        epilog="example:\n  sivi demo --out demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--out", metavar="DIR", default="demo", help="folder for the figures (default: %(default)s)")
    command.add_argument(
        "--steps", type=int, default=10_000, metavar="N", help="updates per fit (default: %(default)s)"
    )
    command.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit both, print the table, write the figures."""
    if args.steps < _NUM_CHUNKS:
        raise UsageError(f"--steps must be at least {_NUM_CHUNKS}; got {args.steps}.")
    folder = writable_folder(args.out)
    figures = use_files_only()
    rows = [_x_shaped(args, folder, figures), _regression(args, folder, figures)]
    header = [
        "posterior",
        "dim",
        "KL(exact|fit)",
        "KL(exact|exact)",
        "mean error / sd",
        "sd ratio",
        "seconds",
    ]
    print()
    print(table(header, rows))
    print(
        f"\nKL: nearest-neighbour estimate from {_NUM_DRAWS} draws each; beside it the same between two exact sets, "
        "its noise.\nmean error: the largest over coordinates; sd ratio: fit over exact, smallest to largest."
    )
    if figures:
        print(f"figures in {folder}: {', '.join(sorted(path.name for path in folder.glob('*.png')))}")
    else:
        print("no figures: they need matplotlib (pip install 'sivi[plot]')")
    return 0


def _x_shaped(args: argparse.Namespace, folder: Path, figures: bool) -> list[str]:
    print("1/2  X-shaped mixture of two Gaussians")
    target = XShaped()
    snapshots: list[tuple[int, Any, np.ndarray]] = []

    def snapshot(report: FitReport) -> None:
        if report.step * _NUM_CHUNKS // report.num_steps not in _SNAPSHOTS:
            return
        keys = jax.random.split(jax.random.key(report.step), 1000)
        draws = np.asarray(jax.vmap(report.family.sample)(keys))
        critic = report.objective.field(report.state, target)
        snapshots.append((report.step, critic, draws))

    start = time.perf_counter()
    posterior = fit(
        target,
        objective=ScoreMatching(),  # without the default's annealing, so that the critic is that of the target
        num_steps=args.steps,
        key=args.seed,
        chunk_size=args.steps // _NUM_CHUNKS,
        callbacks=[snapshot] if figures else [],
    )
    seconds = time.perf_counter() - start
    draws, exact = _draws(posterior, target, args.seed)
    if figures:
        ax = plot_samples(draws[:2000], target, label="fit")
        ax.set_title("X-shaped: draws of the fit over the target")
        save_figure(ax.figure, folder / "x_shaped_samples.png")
        save_figure(_snapshot_figure(snapshots), folder / "x_shaped_critic.png")
        save_figure(plot_traces(posterior.history), folder / "x_shaped_traces.png")
    return ["X-shaped", *_judge(draws, *exact), f"{seconds:.0f}"]


def _regression(args: argparse.Namespace, folder: Path, figures: bool) -> list[str]:
    print("2/2  Bayesian linear regression, unknown noise, 8 generated data")
    target = _generated_regression(args.seed)
    start = time.perf_counter()
    posterior = fit(target, num_steps=args.steps, key=args.seed + 1)
    seconds = time.perf_counter() - start
    draws, exact = _draws(posterior, target, args.seed)
    if figures:
        figure = plot_marginals(draws, exact[0], names=["log noise sd", "intercept", "slope"])
        save_figure(figure, folder / "regression_marginals.png")
        save_figure(_prediction_figure(target, draws, exact[0]), folder / "regression_predictions.png")
    return ["regression", *_judge(draws, *exact), f"{seconds:.0f}"]


def _generated_regression(seed: int) -> LinearRegression:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, 8)
    y = 0.5 + 1.5 * x + rng.normal(0.0, 0.7, 8)
    return LinearRegression(np.stack([np.ones(8), x], axis=1), y)


def _draws(posterior: Posterior, target: Any, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Draws of the fit, and two independent sets of exact ones."""
    sample = jax.jit(jax.vmap(target.sample))
    keys = (jax.random.split(jax.random.key(seed + 100 + i), _NUM_DRAWS) for i in range(2))
    return np.asarray(posterior.unconstrained(_NUM_DRAWS, key=seed + 10)), [np.asarray(sample(k)) for k in keys]


def _judge(draws: np.ndarray, exact: np.ndarray, other_exact: np.ndarray) -> list[str]:
    mean_error = np.abs(draws.mean(0) - exact.mean(0)) / exact.std(0)
    ratio = draws.std(0) / exact.std(0)
    return [
        str(draws.shape[1]),
        f"{knn_kl(exact, draws):.3f}",
        f"{knn_kl(exact, other_exact):.3f}",
        f"{mean_error.max():.3f}",
        f"{ratio.min():.2f}-{ratio.max():.2f}",
    ]


def _snapshot_figure(snapshots: list[tuple[int, Any, np.ndarray]]) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(snapshots), figsize=(3.4 * len(snapshots), 3.5), layout="constrained", sharex=True, sharey=True
    )
    for ax, (step, field, draws) in zip(axes, snapshots, strict=True):
        plot_critic(field, draws, ax=ax, corners=((-4.5, -4.5), (4.5, 4.5)))
        ax.set_title(f"update {step}")
    figure.suptitle(
        "The critic, which learns g = S - grad log q (arrows, each panel to its own scale), over draws of the fit"
    )
    return figure


def _prediction_figure(target: LinearRegression, draws: np.ndarray, exact: np.ndarray) -> Any:
    import matplotlib.pyplot as plt

    x = np.linspace(-1.5, 1.5, 100)
    inputs = np.stack([np.ones_like(x), x], axis=1)
    figure, ax = plt.subplots(figsize=(5.0, 3.6), layout="constrained")
    styles = [(draws, "fit", {"color": "#e07b28"}), (exact, "exact", {"color": "#1b3a5c", "linestyle": "--"})]
    for points, label, style in styles:
        lines = points[:, 1:] @ inputs.T
        low, high = np.quantile(lines, [0.05, 0.95], axis=0)
        if label == "fit":
            ax.fill_between(x, low, high, alpha=0.4, linewidth=0, label="fit, 90 %", color=style["color"])
        else:
            ax.plot(x, low, linewidth=1.2, label="exact, 90 %", **style)
            ax.plot(x, high, linewidth=1.2, **style)
    features, outputs = target.data
    ax.plot(np.asarray(features)[:, 1], np.asarray(outputs), "o", color="black", markersize=4, label="data")
    ax.set(xlabel="input", ylabel="mean response", title="Regression line: posterior band")
    ax.legend(loc="upper left")
    return figure
