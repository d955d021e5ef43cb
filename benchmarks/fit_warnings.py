"""What fits say of themselves at their end: densities that have no posterior, good ones, and the battery.

    python benchmarks/fit_warnings.py                        # densities below, 2,000 updates each
    python benchmarks/fit_warnings.py constant far           # some of them
    python benchmarks/fit_warnings.py --battery all --keys 0 1 2 3 4 --out results.json
    python benchmarks/fit_warnings.py --battery linear funnel-2 --keys 0

A row has the kinds and sentences of the warnings, or the error of a fit that diverged; whether something had to be said
(`expected`); the seconds of the fit; and of these the seconds of the remarks.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from _common import environment, write
from sivi._fitting import ending


class Case(NamedTuple):
    """A density, its number of unknowns, and whether something must be said of its fit."""

    log_density: Callable[[Any], Any]
    dim: int
    expected: bool


def _two_modes(x: Any) -> Any:
    return jnp.logaddexp(-0.5 * jnp.sum((x - 4.0) ** 2), -0.5 * jnp.sum((x + 4.0) ** 2))


def _funnel(x: Any) -> Any:
    return -0.5 * (x[0] / 3.0) ** 2 - 0.5 * jnp.sum((x[1:] * jnp.exp(-0.5 * x[0])) ** 2) - 0.5 * (len(x) - 1) * x[0]


CASES = {
    # Without a posterior: no score, or none that would hold draws.
    "constant": Case(lambda x: 0.0 * jnp.sum(x), 2, True),
    "unused": Case(lambda x: -0.5 * x[0] ** 2, 2, True),
    "round": Case(lambda x: -0.5 * jnp.sum(jnp.round(x) ** 2), 2, True),
    "argmax": Case(lambda x: jnp.argmax(x).astype(x.dtype), 2, True),
    "underflow": Case(lambda x: -0.5 * jnp.sum((x / 1e30) ** 2), 2, True),
    "wrong-sign": Case(lambda x: 0.5 * jnp.sum(x**2), 2, True),
    "fourth-power": Case(lambda x: jnp.sum(x**4), 2, True),
    "saddle": Case(lambda x: 0.5 * (x[0] ** 2 - x[1] ** 2), 2, True),
    "linear": Case(lambda x: x[0], 2, True),
    "linear-in-one": Case(lambda x: x[0] - 0.5 * x[1] ** 2, 2, True),
    "heavy": Case(lambda x: -0.25 * jnp.sum(jnp.log1p(x**2)), 2, True),
    "collapsing-scale": Case(lambda x: -x[1] - 0.5 * (x[0] * jnp.exp(-x[1])) ** 2, 2, True),
    "pole": Case(lambda x: -jnp.sum(jnp.log(jnp.abs(x))), 2, True),
    "cosine": Case(lambda x: jnp.sum(jnp.cos(50.0 * x)), 2, True),
    "softmax": Case(lambda x: jax.nn.log_softmax(x) @ jnp.array([10.0, 5.0, 5.0]), 3, True),
    # With one.
    "normal": Case(lambda x: -0.5 * jnp.sum(x**2), 3, False),
    "far": Case(lambda x: -0.5 * jnp.sum((x - 1e4) ** 2), 2, False),
    "laplace": Case(lambda x: -jnp.sum(jnp.abs(x)), 2, False),
    "student-t-2": Case(lambda x: -1.5 * jnp.sum(jnp.log1p(x**2 / 2.0)), 3, False),
    "cauchy": Case(lambda x: -jnp.sum(jnp.log1p(x**2)), 2, False),
    "funnel": Case(_funnel, 3, False),
    "two-modes": Case(_two_modes, 2, False),
    "uniform": Case(lambda x: -jax.nn.softplus(x[0]) - jax.nn.softplus(-x[0]), 1, False),
}


def measured(fit: Callable[[], sivi.Posterior]) -> dict[str, Any]:
    """What one fit says, and the seconds of it."""
    seconds: list[float] = []
    remarks_of = ending.remarks_of

    def timed(posterior: sivi.Posterior) -> Any:
        start = time.perf_counter()
        remarks = remarks_of(posterior)
        seconds.append(time.perf_counter() - start)
        return remarks

    ending.remarks_of = timed
    start, row = time.perf_counter(), {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = fit()
        row = {
            "kinds": [remark.kind for remark in posterior.warnings],
            "sentences": list(map(str, posterior.warnings)),
            "updates": posterior.step,
            "warmup_status": list(posterior.warmup_status),
        }
    except Exception as error:
        row = {"kinds": [type(error).__name__], "sentences": [" ".join(str(error).split())]}
    finally:
        ending.remarks_of = remarks_of
    total = time.perf_counter() - start
    return row | {"seconds": round(total, 2), "remark_seconds": round(sum(seconds), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all of them if no --battery is given")
    parser.add_argument("--steps", type=int, default=2000, help="updates of the cases, 0 for the default (%(default)s)")
    parser.add_argument("--battery", nargs="+", default=[], metavar="NAME", help="posteriors of the battery, or all")
    parser.add_argument("--keys", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, help="a JSON file of the rows")
    args = parser.parse_args()
    rows = []

    def report(row: dict[str, Any]) -> None:
        rows.append(row)
        share = 100 * row["remark_seconds"] / row["seconds"]
        print(
            f"{row['name']:18} key {row['key']}  {row['seconds']:6.1f} s, remarks {share:4.1f} %  {row['kinds']}",
            flush=True,
        )
        for sentence in row["sentences"]:
            print(f"    {sentence}", flush=True)
        if args.out is not None:
            write(args.out, {"script": "benchmarks/fit_warnings.py", **environment(), "rows": rows})

    for name in args.cases or ([] if args.battery else CASES):
        case = CASES[name]
        for key in args.keys:
            row = measured(
                lambda case=case, key=key: sivi.fit(
                    case.log_density, dim=case.dim, key=key, num_steps=args.steps or None, progress=False
                )
            )
            report({"name": name, "key": key, "expected": case.expected} | row)
    if args.battery:
        from battery.posteriors import POSTERIORS

        for name in POSTERIORS if args.battery == ["all"] else args.battery:
            target, what = POSTERIORS[name].problem()
            for key in args.keys:
                row = measured(lambda t=target, w=what, key=key: sivi.fit(t, **w, key=key, progress=False))
                report({"name": name, "key": key, "expected": None} | row)
    shares = [row["remark_seconds"] / row["seconds"] for row in rows]
    missed = [row["name"] for row in rows if row["expected"] and not row["kinds"]]
    false = [row["name"] for row in rows if row["expected"] is False and row["kinds"]]
    print(f"remarks took {100 * np.median(shares):.1f} % of a fit (median), {100 * max(shares):.1f} % at most")
    print(f"missed: {missed or 'none'}; false alarms: {false or 'none'}")


if __name__ == "__main__":
    main()
