"""What two rounds of the default call show: the result, its noise per draw, and the weight of the generating component.

    python benchmarks/round_noise.py [NAME ...] [--keys 0] [--out FILE]

Two annealed rounds of 1,000 and 2,000 updates on posteriors of the battery with up to ten unknowns. The noise is the
standard deviation of the loss over the last fifth of a round, times the root of the number of draws: how log q̂ − log p
varies from draw to draw, in nats. `quiet` in `sivi.defaults` was chosen by it.
"""

import argparse
import math
from pathlib import Path

import numpy as np

import sivi
from _common import RESULTS, environment, write
from battery.child import numbers_of
from battery.posteriors import POSTERIORS

ROUNDS = ((800, 1000), (2600, 3000))


def rounds(name: str, key: int) -> dict[str, object]:
    entry = POSTERIORS[name]
    target, what = entry.problem()
    rule = sivi.Doubling(first=1000, share=1e-6, quiet=1e-9, restart=True)
    posterior = sivi.fit(target, **what, key=key, num_steps=3000, stop=rule, progress=False)
    draws = math.sqrt(sivi.defaults.recipe(entry.dim).num_particles)
    losses, weights = posterior.history["loss"], posterior.history["own_weight"]
    sd_ratio = numbers_of(entry, np.asarray(posterior.unconstrained(20_000, key=5)))["sd_ratio_min"]
    return {
        "posterior": name,
        "key": key,
        "result": [float(losses[a:b].mean()) for a, b in ROUNDS],
        "noise": [float(losses[a:b].std() * draws) for a, b in ROUNDS],
        "own_weight": [float(weights[a:b].mean()) for a, b in ROUNDS],
        "sd_ratio_min": sd_ratio,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everyday = [name for name, entry in POSTERIORS.items() if entry.part == "everyday" and entry.dim <= 10]
    parser.add_argument("names", nargs="*", default=[*everyday, "schools-centred"])
    parser.add_argument("--keys", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "round_noise.json")
    args = parser.parse_args()
    rows = []
    for name in args.names:
        for key in args.keys:
            rows.append(rounds(name, key))
            print(rows[-1], flush=True)
            write(args.out, {"script": "benchmarks/round_noise.py", **environment(), "rows": rows})


if __name__ == "__main__":
    main()
