"""A fit at several updates: its draws, its critic as a field of arrows, and how far it is from the target."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics import knn_kl
from ..plots import plot_arrows, plot_samples
from ._figures import WINDOWS, around, arrow_grid, legend_below, panels
from ._fits import critic_at, exact_draws, fit_stages, shown_draws
from ._toy import TARGETS, described, fit_settings
from .base import Job, Results
from .report import markdown_table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def snapshot_jobs(
    rows: Mapping[str, tuple[str, bool]], target: str, mode: str, seeds: int, *, stops: list[int], num_steps: int
) -> list[Job]:
    """One fit per row of the figure and seed, with pictures after `stops` updates.

    Args:
        rows: By row, the method, and whether the target is annealed.
        target: The toy target.
        mode: `quick` or `full`.
        seeds: How many seeds.
        stops: Numbers of updates, ascending.
        num_steps: Updates of the whole fit, to which schedules are relative.
    """
    common = {"stops": stops, "num_steps": num_steps, "num_draws": 100_000 if mode == "full" else 5_000}
    return [
        Job(
            f"{row}-{seed}",
            {"row": row, "target": target, "method": method, "seed": seed, "annealed": annealed}
            | common
            | described(method, target, annealed),
        )
        for seed in range(seeds)
        for row, (method, annealed) in rows.items()
    ]


def take_snapshots(job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Run the fit.

    Returns:
        Per stop the update, KL(target ‖ q), E‖g‖² and β; draws and arrows, on one grid that shows them all.
    """
    settings = job.settings
    seed, num_draws = settings["seed"], settings["num_draws"]
    target = TARGETS[settings["target"]]()
    arguments = fit_settings(settings["method"], settings["target"], seed, settings["annealed"])
    posteriors = fit_stages(target, settings["stops"], scratch, num_steps=settings["num_steps"], **arguments)
    exact = exact_draws(target, num_draws, 3000 + seed)
    shown = [shown_draws(posterior, 2000 + seed) for posterior in posteriors]
    corners = around(WINDOWS[settings["target"]], np.concatenate(shown))
    grid = arrow_grid(corners)
    snapshots: list[dict[str, Any]] = []
    arrays = {"grid": grid, "corners": np.array(corners)}
    for i, posterior in enumerate(posteriors):
        draws = np.asarray(posterior.sample(num_draws, key=2000 + seed))
        size = np.linalg.norm(critic_at(posterior, target, draws[:10_000]), axis=1)
        beta = posterior.history["beta"][posterior.step - 1] if "beta" in posterior.history else 1.0
        snapshots.append(
            {
                "update": posterior.step,
                "kl": knn_kl(exact, draws),
                "critic_norm": float(np.mean(size**2)),
                "critic_size": float(np.quantile(size, 0.95)),  # what an arrow's length is measured in
                "beta": float(beta),
            }
        )
        arrays[f"draws_{i}"], arrays[f"arrows_{i}"] = shown[i], critic_at(posterior, target, grid)
    return {"snapshots": snapshots}, arrays


def snapshot_figure(results: Results, rows: dict[str, str], num_stops: int) -> "Figure":
    """One row per fit, one column per stop; window and scale of the arrows are the same along a row."""
    figure, axes = panels(len(rows), num_stops, size=(3.3, 3.1))
    for i, (row, label) in enumerate(rows.items()):
        result = results.first(row=row, seed=0)
        if result is None:
            continue
        target, arrays, snapshots = result.job.settings["target"], result.arrays, result.numbers["snapshots"]
        scale = max(snapshot["critic_size"] for snapshot in snapshots)
        for j, (ax, snapshot) in enumerate(zip(axes[i], snapshots, strict=True)):
            plot_samples(arrays[f"draws_{j}"], TARGETS[target](), ax=ax, corners=tuple(arrays["corners"]))
            plot_arrows(arrays["grid"], arrays[f"arrows_{j}"], ax=ax, scale=scale)
            ax.set_title(f"{label}, update {snapshot['update']:,}", fontsize="medium")
            if j:
                ax.set_ylabel("")
    legend_below(figure, arrows=True)
    return figure


def snapshot_table(results: Results, rows: dict[str, str]) -> str:
    """Per fit and stop: β, E‖g‖² and KL, of seed 0."""
    lines = []
    for row, label in rows.items():
        result = results.first(row=row, seed=0)
        for s in [] if result is None else result.numbers["snapshots"]:
            lines.append([label, f"{s['update']:,}", number(s["beta"], 2), number(s["critic_norm"]), number(s["kl"])])
    return markdown_table(["fit", "update", "β", "E‖g‖²", "KL(target ‖ q)"], lines)
