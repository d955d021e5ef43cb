"""KL(target ‖ q) of every method on the three toy targets."""

from pathlib import Path
from typing import Any

import numpy as np

from ..metrics import knn_kl, noise_floor
from ._fits import exact_draws, fit_stages
from ._kl_table import COLUMNS, K, section, summarise
from ._paper_settings import METHODS, TARGETS
from .base import Experiment, Job, Results


class ToyKL(Experiment):
    """Table 3 of the paper, and two methods beside it."""

    name = "toy-kl"
    title = "KL divergence on the toy targets"
    paper = "Table 3, appendix G"

    def default_seeds(self, mode: str) -> int:
        return 5 if mode == "full" else 1

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        num_draws, repeats = (100_000, 20) if mode == "full" else (5_000, 5)
        common = {"num_draws": num_draws, "k": K}
        jobs = [
            Job(f"{target}-exact", {"target": target, "method": "exact", "repeats": repeats, **common})
            for target in TARGETS
        ]
        for seed in range(seeds):
            for target in TARGETS:
                for name in COLUMNS:
                    method = METHODS[name]
                    settings = {
                        "target": target,
                        "method": name,
                        "seed": seed,
                        "num_steps": method.num_updates if mode == "full" else 300,
                        **common,
                        **method.described(target),
                    }
                    jobs.append(Job(f"{target}-{name}-{seed}", settings))
        return jobs

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = job.settings
        target, num_draws, k = TARGETS[settings["target"]](), settings["num_draws"], settings["k"]
        if settings["method"] == "exact":
            floor = noise_floor(
                knn_kl, target, num_draws=num_draws, repeats=settings["repeats"], key=4000, k=settings["k"]
            )
            return {"kl": floor.tolist()}, {}
        seed, num_steps = settings["seed"], settings["num_steps"]
        arguments = METHODS[settings["method"]].fit_settings(settings["target"], seed)
        posterior = fit_stages(target, [num_steps], scratch, num_steps=num_steps, **arguments)[-1]
        draws = np.asarray(posterior.sample(num_draws, key=2000 + seed))
        kl = knn_kl(exact_draws(target, num_draws, 3000 + seed), draws, k=k)
        return {"kl": kl, "updates": posterior.step, "skipped": sum(posterior.skipped)}, {}

    def summary(self, results: Results) -> dict[str, Any]:
        return summarise(results)

    def report(self, results: Results) -> str:
        return section(results)
