"""What `fit(..., repeats=4)` costs, against four single fits and against one.

    python benchmarks/repeats.py [--quick] [--dims 2,22,50] [--rounds 3] [--out FILE]

On the device that JAX takes by itself, for Gaussians of several dims: fits of a fixed number of updates, the kinds in
turn. Four repeats do the work of four fits, so on a CPU they are compared with those, and on an accelerator, which a
single fit leaves idle, with one. The first round holds the compiling; milliseconds per update are the median over the
chunks of later rounds. The log density's traces and XLA's compilations are counted on the first round: four repeats
are one program, and should need no more of either than one fit.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import sivi
from _common import RESULTS, environment, write
from _others import MAX_OTHERS, Others
from sivi.targets import GaussianMixture, Target

DIMS = (2, 22, 50)
REPEATS = 4
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"

traces = 0
compilations: list[float] = []


class Counted(Target):
    """A target that counts how often its log density is traced."""

    inner: GaussianMixture

    @property
    def dim(self) -> int:
        return self.inner.dim

    def log_prob(self, x: jax.Array, batch: jax.Array | None = None) -> jax.Array:
        global traces
        traces += 1
        return self.inner.log_prob(x, batch)


def gaussian(dim: int) -> Counted:
    """Random directions, standard deviations from 0.3 to 3, a mean off the origin."""
    rng = np.random.default_rng(dim)
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return Counted(GaussianMixture([rng.normal(size=dim)], [basis @ np.diag(np.geomspace(0.1, 10.0, dim)) @ basis.T]))


def timed_fit(target: Target, key: int, repeats: int, num_steps: int, chunk_size: int) -> dict[str, Any]:
    """One fit: all its seconds, milliseconds per update of every chunk but the first, traces and compilations."""
    traces_before, compiled_before = traces, len(compilations)
    start = time.perf_counter()
    marks: list[float] = []
    sivi.fit(
        target,
        key=key,
        repeats=repeats,
        num_steps=num_steps,
        stop=None,
        chunk_size=chunk_size,
        progress=False,
        callbacks=[lambda report: marks.append(time.perf_counter())],
    )
    return {
        "seconds": time.perf_counter() - start,
        "ms": [1e3 * value / chunk_size for value in np.diff(marks)],
        "traces": traces - traces_before,
        "compilations": len(compilations) - compiled_before,
        "seconds_of_compiling": sum(compilations[compiled_before:]),
    }


def compare(dim: int, num_steps: int, chunk_size: int, rounds: int) -> dict[str, Any]:
    target, others = gaussian(dim), Others()
    together, apart = [], []
    for number in range(rounds + 1):
        first = REPEATS * number
        together.append(timed_fit(target, first, REPEATS, num_steps, chunk_size))
        apart.append([timed_fit(target, first + i, 1, num_steps, chunk_size) for i in range(REPEATS)])
    ms = {
        "repeats": statistics.median(value for fit in together[1:] for value in fit["ms"]),
        "single": statistics.median(value for fits in apart[1:] for fit in fits for value in fit["ms"]),
    }
    seconds = {
        "repeats": [fit["seconds"] for fit in together],
        "single": [[fit["seconds"] for fit in fits] for fits in apart],
    }
    four = [sum(fits) for fits in seconds["single"]]
    one = statistics.median(value for fits in seconds["single"][1:] for value in fits)
    later = statistics.median(seconds["repeats"][1:])
    counts = ("traces", "compilations", "seconds_of_compiling")
    return {
        "dim": dim,
        "seconds": seconds,
        "ms_per_update": ms,
        "first_fit": {
            "repeats": {name: together[0][name] for name in counts},
            "single": {name: apart[0][0][name] for name in counts},
        },
        "compilations_of_later_fits": sum(fit["compilations"] for fit in together[1:])
        + sum(fit["compilations"] for fits in apart for fit in fits[1:]),
        "ratio": {
            "update, to four": ms["repeats"] / (REPEATS * ms["single"]),
            "update, to one": ms["repeats"] / ms["single"],
            "whole, to four, with compiling": seconds["repeats"][0] / four[0],
            "whole, to four": later / statistics.median(four[1:]),
            "whole, to one": later / one,
        },
        "cores_used_by_others": others.cores(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--dims", default=",".join(map(str, DIMS)))
    parser.add_argument("--rounds", type=int, default=3, help="after the first, which compiles")
    parser.add_argument("--out", type=Path, default=None, help="benchmarks/results/repeats_cpu.json, or the device's")
    args = parser.parse_args()
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compilations.append(seconds) if event == COMPILE_EVENT else None
    )
    settings = {"num_steps": 300, "chunk_size": 100, "rounds": 1}
    if not args.quick:
        settings = {"num_steps": 3000, "chunk_size": 500, "rounds": args.rounds}
    rows = []
    for dim in map(int, args.dims.split(",")):
        row = compare(dim, **settings)
        rows.append(row)
        ms, ratio, first = row["ms_per_update"], row["ratio"], row["first_fit"]
        print(
            f"dim {dim:3d}: an update of {REPEATS} repeats {ms['repeats']:.3f} ms, of one fit {ms['single']:.3f} ms: "
            f"{ratio['update, to four']:.2f} of four, {ratio['update, to one']:.2f} of one"
        )
        print(
            "         whole fits: "
            + ", ".join(f"{name} {value:.2f}" for name, value in ratio.items() if name.startswith("whole"))
        )
        print(
            "         first fit: "
            + "; ".join(
                f"{kind} {counts['traces']} traces, {counts['compilations']} compilations "
                f"({counts['seconds_of_compiling']:.1f} s)"
                for kind, counts in first.items()
            )
            + f"; {row['compilations_of_later_fits']} compilations in later fits",
            flush=True,
        )
        if row["cores_used_by_others"] > MAX_OTHERS:
            print(f"         NOT VALID: other processes used {row['cores_used_by_others']:.1f} cores meanwhile")
    out = args.out or RESULTS / f"repeats_{jax.default_backend()}.json"
    write(
        out,
        {
            "script": "benchmarks/repeats.py",
            "quick": args.quick,
            "repeats": REPEATS,
            "settings": settings,
            **environment(),
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
