"""What a posterior is compared with: exact draws, or those of NUTS that `references.py` has stored."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .entry import Entry

FOLDER = Path(__file__).parent / "references"
SUMMARY = FOLDER / "summary.json"
#: Exact draws, as many as the k-NN estimate of KL takes.
EXACT_DRAWS, EXACT_SEED = 50_000, 0


@dataclass(frozen=True)
class Reference:
    """Draws of the judged quantities, nearly independent, and their moments, which may be from more draws.

    Attributes:
        draws: (num, quantities).
        mean: Of every quantity.
        sd: Likewise.
        free: (num, dim): draws of the free numbers, for the identity of Stein.
        exact: Whether the draws are exact.
    """

    draws: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    free: np.ndarray
    exact: bool


@functools.cache
def reference_of(entry: Entry, num: int = EXACT_DRAWS) -> Reference:
    """The reference of an entry; `num` exact draws, or all that are stored."""
    if entry.exact is not None:
        free = entry.exact(np.random.default_rng(EXACT_SEED), num)
        draws = entry.quantities(free)
        return Reference(draws, draws.mean(0), draws.std(0, ddof=1), free, exact=True)
    with np.load(FOLDER / f"{entry.name}.npz") as file:
        draws = file["draws"].astype(float)
        free = file["free"].astype(float) if "free" in file else draws
        return Reference(draws, file["mean"], file["sd"], free, exact=False)


def summary() -> dict[str, dict[str, object]]:
    """By posterior, how good its chains are."""
    return json.loads(SUMMARY.read_text())["posteriors"]
