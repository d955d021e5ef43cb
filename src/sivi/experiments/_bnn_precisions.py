"""λ and γ of every split, in the paper's way and in the library's: the first job of a set, which the others read."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._storage.atomic import write_whole
from ..targets import BayesianNeuralNetwork
from ._bnn_data import Parts, parts_of
from ._bnn_side_by_side import run_side_by_side
from ._bnn_stein import Stein, all_log_precisions
from ._bnn_target import HIDDEN, filled_network, stacked
from ._result_files import DamagedFile, load, read_result
from .base import Job


def find_precisions(settings: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    """Both kinds for every split, as the numbers of a job.

    Returns:
        `rows`, each with `paper_weight` and `paper_noise`, λ and γ in units of the dataset, and `own_weight`, λ of both
        layers, and `own_noise`, γ in units of the standardised targets.
    """
    name, seed = settings["set"], settings["seed"]
    all_parts = [parts_of(name, split, settings["most_rows"]) for split in settings["splits"]]
    paper, seconds = _by_stein(all_parts, settings, scratch)
    rows = []
    for split, parts, of_paper in zip(settings["splits"], all_parts, paper, strict=True):
        own = kept_row(scratch / f"own-{split}.json", lambda p=parts, s=split: _by_library(p, seed, s))
        rows.append({"split": split, **of_paper, **own})
    return {"rows": rows, "seconds": seconds, "members": len(rows)}


def precisions_of(job: Job, scratch: Path) -> dict[int, dict[str, Any]]:
    """The rows of the job `job`, by split: of its own file or of the combined results, or else found now.

    Args:
        job: The set's job of precisions.
        scratch: Of the job that asks, in the folder where the runner keeps the results of all.
    """
    folder = scratch.parent
    numbers = _read_job(folder / f"{job.name}.json", job)
    if numbers is None:
        combined = load(folder.parent.name, folder.name, folder.parent.parent)
        found = [r for r in combined.done if r.job == job] if combined is not None else []
        numbers = found[0].numbers if found else find_precisions(job.settings, made(scratch / "precisions"))
    return {row["split"]: row for row in numbers["rows"]}


def kept_row(file: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A row that takes long, from the file that an interrupted job has left, or else made now and written there."""
    if file.exists():
        return json.loads(file.read_text())
    row = compute()
    write_whole(file, lambda path: path.write_text(json.dumps(row)))
    return row


def model_of(parts: Parts, precisions: Mapping[str, Any] | None = None) -> BayesianNeuralNetwork:
    """The network on all rows for fitting, with the library's precisions if they are given."""
    given = {}
    if precisions is not None:
        given = {"weight_precision": precisions["own_weight"], "noise_precision": precisions["own_noise"]}
    return BayesianNeuralNetwork(*parts.train, HIDDEN, **given)


def _by_stein(
    all_parts: list[Parts], settings: Mapping[str, Any], scratch: Path
) -> tuple[list[dict[str, float]], float]:
    num_filled = len(all_parts[0].fit.y)
    targets = stacked([filled_network(parts.fit, num_filled, 1.0, 1.0) for parts in all_parts])
    keys = jax.vmap(lambda split: jax.random.fold_in(jax.random.key(settings["seed"]), split))(
        np.asarray(settings["splits"])
    )
    (particles, _), seconds = run_side_by_side(Stein(), targets, keys, settings["num_steps"], scratch)
    dev = np.stack([parts.dev.x for parts in all_parts]), np.stack([parts.dev.y for parts in all_parts])
    logs = all_log_precisions(particles, targets, *(np.asarray(part, np.float32) for part in dev))
    weight, noise = (np.exp(np.asarray(part, np.float64)) for part in logs)
    rows = [{"paper_weight": float(w), "paper_noise": float(n)} for w, n in zip(weight, noise, strict=True)]
    return rows, seconds


def _by_library(parts: Parts, seed: int, split: int) -> dict[str, Any]:
    model = model_of(parts).with_precisions(1000 * seed + split)
    weight, noise = np.asarray(model.weight_precision, float), np.asarray(model.noise_precision, float)
    return {"own_weight": weight.tolist(), "own_noise": float(noise)}


def made(folder: Path) -> Path:
    """A folder, which may be there already."""
    folder.mkdir(exist_ok=True)
    return folder


def _read_job(file: Path, job: Job) -> Mapping[str, Any] | None:
    if not file.exists():
        return None
    try:
        content, _ = read_result(file)
        return content["numbers"] if content["settings"] == job.settings else None
    except (DamagedFile, KeyError):
        return None
