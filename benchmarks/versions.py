"""Two versions of the library side by side: seconds to the first update of the default call, and of one update.

Each run is a process of its own, and the versions alternate: what else the machine does falls on both. The ratio of
the medians is what counts.

    python benchmarks/versions.py BEFORE [--runs 9] [--output results/versions.json]

BEFORE is the root of a clone of the earlier version; the other one is this.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from _common import environment, write

HERE = Path(__file__).parents[1]

CHILD = """
import json, time
import jax.numpy as jnp
import sivi
from sivi.optimizers import Adam
from sivi.schedules import StepDecay

critics = sivi.critics if "critics" in sivi.__all__ else sivi.objectives


def log_density(x):
    return -0.5 * jnp.sum(x**2) + 0.1 * jnp.sum(jnp.cos(x))


def to_first(dim):
    marks = []
    start = time.perf_counter()
    sivi.fit(log_density, dim=dim, chunk_size=1, progress=False,
             callbacks=[lambda report: marks.append(time.perf_counter() - start) or True])
    return marks[0]


def per_update(particles, num_steps, chunk):
    marks = []
    rate = StepDecay(1e-3, 0.9, 1000)
    objective = sivi.objectives.ScoreMatching(
        num_particles=particles, psi=0.0, optimizer=Adam(rate, 0.9, 0.99), critic_optimizer=Adam(rate, 0.9, 0.99),
        critic=critics.MLPCritic((128, 128), activation="relu"),
    )
    sivi.fit(sivi.targets.XShaped(), objective=objective, num_steps=num_steps, chunk_size=chunk, whiten=None,
             progress=False, callbacks=[lambda report: marks.append(time.perf_counter())])
    gaps = sorted(b - a for a, b in zip(marks[1:-1], marks[2:]))
    return 1e3 * gaps[len(gaps) // 2] / chunk


print(json.dumps({
    "seconds_to_first_update_22d": to_first(22),
    "ms_per_update_500": per_update(500, 1600, 100),
    "ms_per_update_100": per_update(100, 3200, 200),
}))
"""


def run(root: Path) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for i in range(arguments.runs):
        order = [("before", arguments.before), ("after", HERE)]
        for name, root in order if i % 2 == 0 else order[::-1]:
            found[name].append(run(root))
            print(i, name, {key: round(value, 3) for key, value in found[name][-1].items()}, flush=True)
    summary: dict[str, Any] = {}
    for key in found["before"][0]:
        before, after = (statistics.median(one[key] for one in found[name]) for name in ("before", "after"))
        summary[key] = {"before": before, "after": after, "ratio": after / before}
        print(f"{key:32} {before:8.3f} {after:8.3f}   ratio {after / before:.3f}")
    if arguments.output:
        about = {"before": "0.1 (37050dd)", "environment": environment()}
        write(arguments.output, {"about": about, "medians": summary, "runs": found})


if __name__ == "__main__":
    main()
