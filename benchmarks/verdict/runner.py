"""Jobs in processes of their own, on cores of their own, and every row as soon as it is there."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _processes import cold, warm
from battery.runner import machine, versions

HERE = Path(__file__).resolve().parent
Row = dict[str, Any]

__all__ = ["machine", "planted_jobs", "rows_of", "versions"]


def planted_jobs(
    set_name: str, dims: dict[str, int], faults: dict[str, list[str]], seeds: list[int], num_exact: int, chunk: int
) -> list[Row]:
    """Cases of one target in a few jobs, longest first.

    Args:
        set_name: "first" or "second".
        dims: By target.
        faults: By target, those that apply.
        seeds: Of every fault.
        num_exact: Sets of exact draws, of every target.
        chunk: Cases of a job, at most.
    """
    jobs = []
    for name in sorted(dims, key=lambda name: -dims[name]):
        # Seeds of a fault stay together: its true effect is computed once in a process.
        cases = [(fault, seed) for fault in faults[name] for seed in seeds]
        cases += [("exact", 100 + seed) for seed in range(num_exact)]
        pieces = -(-len(cases) // chunk)
        for piece in range(pieces):
            first, last = (len(cases) * end // pieces for end in (piece, piece + 1))
            jobs.append({"kind": "planted", "set": set_name, "target": name, "cases": cases[first:last]})
    return jobs


def rows_of(
    jobs: list[Row], num_jobs: int, num_cores: int | None, limit: float = float("inf"), cache: Path | None = None
) -> Iterator[Row]:
    """Rows in the order in which they are done.

    Args:
        jobs: What `child.rows_of_job` takes, in the order in which they are started.
        num_jobs: Processes at once.
        num_cores: Cores of each; None for all there are.
        limit: Seconds after which no job is started and all are stopped; rows that are done are kept.
        cache: A folder of compiled programs that the processes share; none by default.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    share = num_cores or len(cores)
    until = time.monotonic() + limit
    waiting: queue.Queue[Row] = queue.Queue()
    for job in jobs:
        waiting.put(job)
    done: queue.Queue[Row | None] = queue.Queue()
    running: set[subprocess.Popen[str]] = set()

    def work(own: list[int]) -> None:
        try:
            while time.monotonic() < until:
                job = waiting.get_nowait()
                for row in _rows_of_process(job | {"cores": own}, running, until, cache):
                    done.put(row)
        except queue.Empty:
            pass
        finally:
            done.put(None)

    threads = [
        threading.Thread(target=work, args=(cores[i * share : (i + 1) * share],), daemon=True) for i in range(num_jobs)
    ]
    for thread in threads:
        thread.start()
    ended = 0
    try:
        while ended < num_jobs:
            row = done.get()
            if row is None:
                ended += 1
            else:
                yield row
    finally:
        until = 0.0  # nothing more is started
        for process in list(running):
            process.kill()


def _rows_of_process(job: Row, running: set[subprocess.Popen[str]], until: float, cache: Path | None) -> Iterator[Row]:
    environment = cold() if cache is None else warm(cache)
    command = [sys.executable, str(HERE), "--child", json.dumps(job)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    running.add(process)
    left = until - time.monotonic()
    timer = threading.Timer(min(left, threading.TIMEOUT_MAX), process.kill)
    timer.daemon = True
    timer.start()
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    reader.start()
    for line in process.stdout or ():
        if line.startswith("ROW "):
            yield json.loads(line[4:])
    status = process.wait()
    timer.cancel()
    reader.join(1.0)
    running.discard(process)
    if status != 0:
        about = {name: value for name, value in job.items() if name not in ("cores", "cases", "jobs", "kind", "folder")}
        reason = "stopped at the limit" if time.monotonic() >= until else (said or [""])[-1].strip()
        yield about | {"failed": f"exit {status}: {reason}"[:500], "unfinished": True}
