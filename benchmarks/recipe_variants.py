"""The default call with other numbers in its recipe, on posteriors of the battery: what `defaults` was chosen by.

    python benchmarks/recipe_variants.py VARIANTS.json --output FILE.json [--jobs 16 --cores 1] [--limit 570]

VARIANTS.json is a list of {"variant": name, "recipe": {field: number}, "posteriors": [...], "keys": [...]}; the fields
are those of `sivi.defaults.Recipe`. Jobs start in the order of the list, so the longest should come first. No job is
started that has not ended `--limit` seconds after the first one: such jobs are missing in the result.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from battery import runner, table
from battery.cli import write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--limit", type=float, default=3600.0)
    parser.add_argument("--note")
    args = parser.parse_args()
    variants = json.loads(args.variants.read_text())
    jobs = [
        {"posterior": name, "key": key, "method": "sivi", "variant": v["variant"], "recipe": v.get("recipe", {})}
        | {"settings": v.get("settings"), "steps_times": v.get("steps_times")}
        for v in variants
        for name in v["posteriors"]
        for key in v["keys"]
    ]
    content: dict[str, Any] = {
        "script": "benchmarks/recipe_variants.py",
        "note": args.note,
        "variants": variants,
        "versions": runner.versions(None),
        "machine": runner.machine(args.jobs, args.cores),
    }
    rows: list[dict[str, Any]] = []
    for row in runner.rows_of(jobs, args.jobs, args.cores, None, until=time.monotonic() + args.limit):
        rows.append(row)
        print(f"{row.get('variant', '?'):24s} {table.line_of(row)}", flush=True)
        rows.sort(key=lambda row: (row["posterior"], str(row.get("variant")), row["key"]))
        write(args.output, content | {"rows": rows})


if __name__ == "__main__":
    main()
