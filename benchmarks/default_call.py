"""One and the same call, `sivi.fit(target, key=key)`, on every task, with three keys and no other argument.

    python benchmarks/default_call.py [--tasks banana,waveform] [--keys 0,1] [--workers N] [--quick] [--out FILE]

A function also gets `dim` or `like`, without which there is nothing to fit. Every fit is a process of its own, so that
its seconds hold all the compiling; with several workers each has its share of the cores, and times are not judged.
The waveform task reads the folder named by SIVI_DATA_DIR. Only a run of all tasks and keys writes to
`benchmarks/results` by itself.

`--call module:function` tries another call: a function of what is fitted, a dict with `dim` or `like` (or nothing),
and the key, that returns a posterior. `--quick` does this with 200 updates, and measures with few draws.
"""

import argparse
import importlib
import json
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import sivi
from _common import RESULTS, environment, write
from sivi.experiments.runner import core_shares, cores
from tasks import TASKS, Sizes

OUT = RESULTS / "default_call.json"
KEYS = (0, 1, 2)
DEFAULT = "sivi.fit(target, key=key), and dim= or like= for a function"
#: Judged only when a fit has the machine to itself.
TIMES = ("seconds",)

Call = Callable[[Any, dict[str, Any], int], sivi.Posterior]
Row = dict[str, Any]


def default(target: Any, what: dict[str, Any], key: int) -> sivi.Posterior:
    return sivi.fit(target, **what, key=key)


def short(target: Any, what: dict[str, Any], key: int) -> sivi.Posterior:
    """Not the default call: to see that everything runs."""
    return sivi.fit(target, **what, key=key, num_steps=200)


def call_of(name: str) -> Call:
    module, _, function = name.partition(":")
    sys.path.append(os.getcwd())
    return getattr(importlib.import_module(module), function)


def one_fit(name: str, key: int, call: str, sizes: Sizes) -> Row:
    """Fit, then measure; what goes wrong is part of the result."""
    task = TASKS[name]
    row: Row = {"task": name, "key": key, "numbers": {}}
    target, what = task.problem()
    start = time.perf_counter()
    try:
        posterior = call_of(call)(target, what, key)
        row["numbers"] |= {"seconds": time.perf_counter() - start, "peak_gb": peak_gb()}
        row |= {"steps": posterior.step, "num_steps": posterior.num_steps, "skipped": posterior.skipped}
        row["numbers"] |= task.numbers(posterior, key, sizes)
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        row["numbers"].setdefault("seconds", time.perf_counter() - start)
    return row


def peak_gb() -> float:
    """The largest resident set of this process so far; not getrusage's, which also covers the parent."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return 1024 * int(fields["VmHWM"].split()[0]) / 1e9


def one_job(job: dict[str, Any]) -> dict[str, Any]:
    sizes = Sizes(**job["sizes"])
    if job["key"] is None:
        return {"task": job["task"], "floors": TASKS[job["task"]].floors(sizes)}
    return one_fit(job["task"], job["key"], job["call"], sizes)


def run_apart(jobs: list[dict[str, Any]], workers: int) -> Iterator[dict[str, Any]]:
    """Every job in a fresh process, on the cores of a free worker."""
    free: queue.Queue[list[int]] = queue.Queue()
    for share in core_shares(cores(), workers):
        free.put(share)

    def run(job: dict[str, Any]) -> dict[str, Any]:
        share = free.get()
        command = [sys.executable, __file__, "--job", json.dumps(job | {"cores": share})]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        finally:
            free.put(share)
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"task": job["task"], "key": job["key"], "numbers": {}, "error": f"exit {done.returncode}: {last}"}

    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def judge(row: Row, floors: dict[str, float], workers: int) -> Row:
    """The row with its bars, those that it misses, and distances in units of their floors."""
    task, numbers = TASKS[row["task"]], dict(row["numbers"])
    for name in floors:
        if name in numbers:
            numbers[f"{name}_over_floor"] = numbers[name] / floors[name]
    bars = {name: bar for name, bar in task.all_bars(floors).items() if workers == 1 or name not in TIMES}
    # Written so that NaN and a number that is not there miss their bar.
    missed = [name for name, bar in bars.items() if not numbers.get(name, float("nan")) <= bar]
    met = None if not bars and "error" not in row else not missed and "error" not in row
    return row | {"numbers": numbers, "bars": bars, "missed": missed, "met": met}


def line_of(row: Row) -> str:
    shown = [
        f"{name} {value:.4g}" + (f" (≤ {row['bars'][name]:.3g})" if name in row["bars"] else "")
        for name, value in row["numbers"].items()
        if name not in ("seconds", "peak_gb") or name in row["bars"]
    ]
    verdict = {True: "met", False: "NOT MET", None: ""}[row["met"]]
    seconds = row["numbers"].get("seconds", float("nan"))
    return f"{row['task']:14s} {row['key']}  {seconds:6.1f} s  {verdict:7s}  {', '.join(shown)} {row.get('error', '')}"


def summary(rows: list[Row]) -> Iterator[str]:
    """The worst of each judged number over the keys."""
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        bars = own[0]["bars"]
        worst = {name: max(row["numbers"].get(name, float("inf")) for row in own) for name in bars}
        met = [row["met"] for row in own]
        count = f"{met.count(True)} of {len(met)} met" if bars else f"{len(met)} runs"
        yield f"{task:14s} {count:13s} " + ", ".join(f"worst {n} {v:.4g} (≤ {bars[n]:.3g})" for n, v in worst.items())


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS), help="of: %(default)s")
    parser.add_argument("--keys", default=",".join(map(str, KEYS)))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--call", help="module:function, instead of the default call")
    parser.add_argument("--quick", action="store_true", help="200 updates, key 0, few draws")
    parser.add_argument("--floors-from", type=Path, help="a result of this script, whose floors are used again")
    parser.add_argument(
        "--add-to", type=Path, help="a result of this script, to whose rows those of other tasks are added"
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    args = parser.parse_args()
    everything = args.tasks == ",".join(TASKS) and args.keys == ",".join(map(str, KEYS))
    if args.out is None and everything and not (args.quick or args.call):
        args.out = OUT
    args.call = args.call or f"{Path(__file__).stem}:{'short' if args.quick else 'default'}"
    args.tasks = args.tasks.split(",")
    if unknown := [name for name in args.tasks if name not in TASKS]:
        parser.error(f"--tasks must be of {', '.join(TASKS)}; got {', '.join(unknown)}")
    args.keys = [0] if args.quick else [int(key) for key in args.keys.split(",")]
    return args


def added_to(args: argparse.Namespace) -> dict[str, Any]:
    """What an earlier result, of the same keys and sizes, says of tasks that are not run now."""
    if not args.add_to:
        return {"tasks": {}, "floors": {}, "rows": []}
    found = json.loads(args.add_to.read_text())
    sizes = Sizes.quick() if args.quick else Sizes()
    if (found["keys"], found["sizes"], found["workers"]) != (args.keys, vars(sizes), args.workers):
        sys.exit(f"--add-to must have the same keys, sizes and workers; {args.add_to} has others.")
    rows = [row for row in found["rows"] if row["task"] not in args.tasks]
    kept = {row["task"] for row in rows}
    return {"rows": rows} | {
        part: {name: value for name, value in found[part].items() if name in kept} for part in ("tasks", "floors")
    }


def main() -> None:
    args = options()
    if args.job:
        job = json.loads(args.job)
        if hasattr(os, "sched_setaffinity"):  # before JAX's first computation, which is when it counts the cores
            os.sched_setaffinity(0, job["cores"])
        print(json.dumps(one_job(job)))
        return
    sizes = Sizes.quick() if args.quick else Sizes()
    common = {"call": args.call, "sizes": vars(sizes)}
    known = json.loads(args.floors_from.read_text())["floors"] if args.floors_from else {}
    earlier = added_to(args)
    floors = {name: known[name] for name in args.tasks if name in known}
    wanted = [{"task": name, "key": None, **common} for name in args.tasks if name not in known]
    for answer in run_apart([job for job in wanted if TASKS[job["task"]].reference], args.workers):
        if "error" in answer:
            sys.exit(f"{answer['task']}: no exact draws: {answer['error']}")
        floors[answer["task"]] = answer["floors"]
    content = {
        "script": "benchmarks/default_call.py",
        "call": DEFAULT if args.call == f"{Path(__file__).stem}:default" else args.call,
        "keys": args.keys,
        "quick": args.quick,
        "workers": args.workers,
        "sizes": vars(sizes),
        **environment(),
        "tasks": earlier["tasks"] | {name: TASKS[name].about for name in args.tasks},
        "floors": earlier["floors"] | floors,
    }
    jobs = [
        {"task": name, "key": key, **common}
        for name in args.tasks
        for key in args.keys
        if TASKS[name].keys is None or key in TASKS[name].keys
    ]
    rows: list[Row] = []
    for answer in run_apart(jobs, args.workers):
        rows.append(judge(answer, floors.get(answer["task"], {}), args.workers))
        print(line_of(rows[-1]), flush=True)
        rows.sort(key=lambda row: (args.tasks.index(row["task"]), row["key"]))
        if args.out:  # after every fit, so that nothing is lost
            write(args.out, content | {"rows": [*earlier["rows"], *rows]})
    print("\n" + "\n".join(summary(rows)))


if __name__ == "__main__":
    main()
