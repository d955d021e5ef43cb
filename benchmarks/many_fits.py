"""Memory maps and memory of one process that makes many fits, each of another function; then one closure twice.

    python benchmarks/many_fits.py [--fits 200] [--steps 5] [--optimised] [--out FILE]

Every fit is the default call, cut to a few updates, with draws. Each function has another number in it, so all programs
of a fit are compiled anew. To compile them soon, XLA leaves out most of its optimisations, and makes each program in
one piece: a program then has about a third of its usual memory maps. `--optimised` compiles as a user's call does.
"""

import argparse
import os
import sys
import time
from pathlib import Path

QUICK = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
}
if "--optimised" not in sys.argv:
    for variable, value in QUICK.items():
        os.environ.setdefault(variable, value)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import sivi  # noqa: E402
from _common import RESULTS, environment, write  # noqa: E402
from sivi._programs import MAX_PROGRAMS  # noqa: E402

COMPILED = "/jax/core/compile/backend_compile_duration"


def maps() -> int:
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def fit(scale: float, steps: int) -> None:
    posterior = sivi.fit(lambda x: -0.5 * scale * jnp.sum(x**2), dim=2, num_steps=steps, progress=False)
    jax.block_until_ready(posterior.sample(100, key=0))


def second_fit(steps: int) -> dict[str, float]:
    """What the second fit of one closure over an array compiles, and how long both take."""
    compiled: list[str] = []

    def note(name: str, seconds: float, **details: object) -> None:
        if name == COMPILED:
            compiled.append(str(details.get("fun_name", "")))

    data = jnp.arange(20.0)

    def closure(x: jax.Array) -> jax.Array:
        return -0.5 * jnp.mean((x[0] - data) ** 2) - jnp.logaddexp(x[1], -x[1])

    jax.monitoring.register_event_duration_secs_listener(note)
    result: dict[str, float] = {}
    for name in ("first", "second"):
        start = time.perf_counter()
        before = len(compiled)
        sivi.fit(closure, dim=2, num_steps=steps, progress=False).sample(100, key=0)
        result |= {
            f"{name}_compilations": len(compiled) - before,
            f"{name}_seconds": round(time.perf_counter() - start, 2),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--optimised", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "many_fits.json")
    args = parser.parse_args()
    rows, start = [], time.perf_counter()
    for i in range(args.fits):
        fit(1.0 + i / 100, args.steps)
        seconds = round(time.perf_counter() - start, 1)
        rows.append({"fit": i + 1, "maps": maps(), "megabytes": round(megabytes(), 1), "seconds": seconds})
        print(rows[-1], flush=True)
        half, last = rows[len(rows) // 2], rows[-1]
        summary = {
            "fits": len(rows),
            "programs_kept": MAX_PROGRAMS,
            "megabytes_per_fit": round((last["megabytes"] - rows[0]["megabytes"]) / max(1, i), 2),
            "megabytes_per_fit_in_second_half": round(
                (last["megabytes"] - half["megabytes"]) / max(1, last["fit"] - half["fit"]), 2
            ),
            "maps_after_half": half["maps"],
            "maps_at_the_end": last["maps"],
        }
        content = {
            "how": "all optimisations of XLA" if args.optimised else f"with {QUICK}",
            "summary": summary,
            "environment": environment(),
        }
        if i % 10 == 9 or i + 1 == args.fits:  # what there is, should the process die
            write(args.out, content | {"rows": rows})
    write(args.out, content | {"one_closure": second_fit(args.steps), "rows": rows})


if __name__ == "__main__":
    main()
