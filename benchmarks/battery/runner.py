"""Every fit in a fresh process, on cores of its own, and every row on disk as soon as it is there."""

import json
import os
import platform
import queue
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _processes import ROOT, cold, run_json

from .measure import judge
from .posteriors import POSTERIORS

HERE = Path(__file__).resolve().parent
Row = dict[str, Any]


def rows_of(
    jobs: list[Row],
    num_jobs: int,
    num_cores: int | None,
    source: Path | None,
    limit: float = float("inf"),
    until: float = float("inf"),
    script: Path = HERE,
) -> Iterator[Row]:
    """The judged rows, in the order in which they are done.

    Args:
        jobs: What `child.run_job` takes.
        num_jobs: Processes at once.
        num_cores: Cores of each; None for all there are.
        source: A checkout whose `src` the fits use; that of this file when left out. NUTS is always this one's.
        limit: Seconds after which a process is stopped.
        until: When, by `time.monotonic`, all processes are stopped.
        script: What runs a job, given `--child` and the job.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    share = num_cores or len(cores)
    free: queue.Queue[list[int]] = queue.Queue()
    for i in range(num_jobs):
        free.put(cores[i * share : (i + 1) * share] if cores else [])

    def run(job: Row) -> Row:
        own = free.get()
        try:
            return _in_process(script, job, own, source, min(limit, until - time.monotonic()))
        finally:
            free.put(own)

    with ThreadPoolExecutor(num_jobs) as pool:
        futures = [pool.submit(run, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield judged(future.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def judged(row: Row) -> Row:
    """The row with what is known of its posterior, its bars, and whether they are met; a failure misses all."""
    entry = POSTERIORS[row["posterior"]]
    about = {"part": entry.part, "half": entry.half, "kind": entry.kind, "dim": entry.dim}
    return row | about | judge(entry, row)


def _in_process(script: Path, job: Row, cores: list[int], source: Path | None, limit: float) -> Row:
    row = {name: job[name] for name in ("posterior", "key", "method", "variant") if name in job}
    if limit <= 0:
        return row | {"failed": "not started in time"}
    environment = cold(source if job["method"] == "sivi" else None)
    start = time.perf_counter()
    try:
        arguments = ["--child", json.dumps(job | {"cores": cores})]
        found = run_json(script, arguments, environment, limit if limit < float("inf") else None)
    except subprocess.TimeoutExpired:
        return row | {"failed": f"stopped after {limit:.0f} s"}
    except RuntimeError as error:
        return row | {"failed": str(error)}
    return found | {"process_seconds": round(time.perf_counter() - start, 1)}


def machine(num_jobs: int, num_cores: int | None) -> dict[str, Any]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"kind": "CPU", "cores": count, "processes_at_once": num_jobs, "cores_each": num_cores or count}


def versions(source: Path | None, others: tuple[str, ...] = ("numpyro",)) -> dict[str, str | None]:
    from sivi._version import package_version

    packages = {name: package_version(name) for name in ("jax", "jaxlib", "numpy", "scipy", "sivi")}
    for name in ("blackjax", *others):
        packages[name] = package_version(name) if find_spec(name) else "not installed"
    return {"python": platform.python_version()} | packages | {"commit": _commit(source or ROOT)}


def _commit(folder: Path) -> str | None:
    """Of the checkout that is measured; None where there is no git."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
