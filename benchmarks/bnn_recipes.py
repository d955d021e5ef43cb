"""Networks on regressions of the table: the default call with other recipes, by which `defaults` was chosen.

    python benchmarks/bnn_recipes.py [--sets boston yacht concrete] [--splits 0 1 2 3] [--variants NAME ...] [--resume]
        [--output FILE]

Splits and precisions are those of `sivi paper run bnn-table`, as far as `results/unfinished` has them, and
`SIVI_DATA_DIR` names the data. All fits run in one process, one after the other, so that only the first of a set and a
variant compiles; `seconds` of the others are without it. A variant is a change of the recipe of the default call:

`default`: none. `eight repeats` and the like: in place of 16. `more updates`: 200 in place of 20. `longer climb`: 1,000
steps to the optimum; `longer Gaussian`: 600 of the Gaussian; `longer warm-up`: 3,000 and 1,000. `weights`: coordinates
of all weights, without what is known of the last layer.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import sivi
from _common import RESULTS, environment, write
from _others import Others
from sivi import defaults
from sivi._fitting import start
from sivi.experiments._bnn_data import parts_of
from sivi.experiments._bnn_precisions import model_of

ROOT = Path(__file__).resolve().parents[1]
NUM_DRAWS = 1000
LONGER = {"steps": 1000}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "32 repeats": {"repeats": 32},
    "eight repeats": {"repeats": 8},
    "one repeat": {"repeats": 1},
    "more updates": {"num_steps": 200},
    "longer climb": {"optimum": LONGER},
    "longer Gaussian": {"warmup_steps": 600},
    "longer warm-up": {"optimum": {"steps": 3000}, "warmup_steps": 1000},
    "weights": {"conditional": False},
}


def use(changes: dict[str, Any]) -> None:
    """Let `fit` take the recipe with these changes."""

    def recipe(*sizes: Any) -> defaults.Recipe:
        found = defaults.recipe(*sizes)

        class Changed(type(found)):
            def for_symmetries(self, *, conditional: bool) -> defaults.Recipe:
                chosen = super().for_symmetries(conditional=conditional and changes.get("conditional", True))
                others = {name: value for name, value in changes.items() if name not in ("conditional", "optimum")}
                if "optimum" in changes:
                    assert chosen.optimum is not None
                    others["optimum"] = chosen.optimum._replace(**changes["optimum"])
                return defaults.replace(chosen, **others)

        return Changed(**vars(found))

    start.recipe_for = recipe  # type: ignore[assignment]


def row_of(name: str, split: int, precisions: dict[str, Any]) -> dict[str, Any]:
    """One fit and its scores."""
    parts = parts_of(name, split)
    model, others, begin = model_of(parts, precisions), Others(), time.perf_counter()
    posterior = sivi.fit(model, key=split, progress=False)
    seconds = time.perf_counter() - begin
    scores = sivi.metrics.regression_scores(model, posterior.sample(NUM_DRAWS, key=2000 + split), *parts.test)
    facts = {"rmse": scores.rmse, "nll": scores.nll, "seconds": seconds, "updates": posterior.step}
    facts |= {"repeats": posterior.repeats, "settled": sum(word == "settled" for word in posterior.warmup_status)}
    return {key: round(float(value), 4) for key, value in facts.items()} | {
        "other_cores_in_use": round(others.cores(), 2)
    }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over splits, and the paired difference to the default with its standard error."""
    found = []
    for name, variant in dict.fromkeys((row["set"], row["variant"]) for row in rows):
        own = {row["split"]: row for row in rows if (row["set"], row["variant"]) == (name, variant)}
        base = {row["split"]: row for row in rows if (row["set"], row["variant"]) == (name, "default")}
        line: dict[str, Any] = {"set": name, "variant": variant, "splits": len(own)}
        for score in ("rmse", "nll"):
            line[score] = round(float(np.mean([row[score] for row in own.values()])), 4)
            pairs = [own[split][score] - base[split][score] for split in own if split in base]
            if variant != "default" and len(pairs) > 1:
                error = np.std(pairs, ddof=1) / np.sqrt(len(pairs))
                line[f"{score}_minus_default"] = [round(float(np.mean(pairs)), 4), round(float(error), 4)]
        line["median_seconds"] = round(float(np.median([row["seconds"] for row in own.values()])), 1)
        found.append(line)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["boston", "yacht", "concrete"])
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--resume", action="store_true", help="keep the rows in the file, and add what is missing")
    parser.add_argument("--note", help="what else to say of the machine")
    parser.add_argument("--output", type=Path, default=RESULTS / "bnn_recipes.json")
    args = parser.parse_args()
    table = json.loads((ROOT / "results" / "unfinished" / "bnn-table.json").read_text())
    found = {job["name"]: job["numbers"]["rows"] for job in table["jobs"]}
    rows: list[dict[str, Any]] = []
    if args.resume and args.output.exists():
        rows = json.loads(args.output.read_text())["rows"]
    done = {(row["set"], row["variant"], row["split"]) for row in rows}
    content = {"script": "benchmarks/bnn_recipes.py", "note": args.note, **environment()}
    for name in args.sets:
        precisions = {row["split"]: row for row in found[f"{name}-precisions-0"]}
        for variant in args.variants:
            use(VARIANTS[variant])
            for split in args.splits:
                if (name, variant, split) in done:
                    continue
                rows.append({"set": name, "variant": variant, "split": split} | row_of(name, split, precisions[split]))
                print(json.dumps(rows[-1]), flush=True)
                write(args.output, content | {"summary": summary(rows), "rows": rows})
    for line in summary(rows):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
