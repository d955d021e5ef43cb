"""Runs an experiment's jobs: those that are not done, in one process or several that share the cores."""

import os
import platform
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import current_process, get_context
from pathlib import Path
from typing import Any

import jax

from .._version import package_version
from ._result_files import JobCache, load, save
from .base import Experiment, Job, JobResult, Results

Log = Callable[[str], object]

#: A job, its seconds and, if it failed, the error in one line and its traceback.
Attempt = tuple[Job, float, str, str]

_PACKAGES = ("sivi", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


@dataclass(frozen=True)
class Outcome:
    """What a run did.

    Attributes:
        results: All there is now, of this run and of earlier ones.
        ran: Names of the jobs that this run did.
        failures: By job, the error in one line; `tracebacks` says where it came from.
    """

    results: Results
    ran: tuple[str, ...] = ()
    failures: dict[str, str] = field(default_factory=dict)
    tracebacks: dict[str, str] = field(default_factory=dict)


def run(
    experiment: Experiment,
    *,
    mode: str,
    seeds: int,
    out: Path,
    workers: int = 1,
    force: bool = False,
    only: str | Sequence[str] = "",
    log: Log = lambda line: None,
) -> Outcome:
    """Do the jobs that are not done, and write the combined result, also if interrupted.

    Args:
        experiment: What is run.
        mode: `quick` or `full`.
        seeds: How many seeds.
        out: Folder of the results. The jobs' own files are in `<out>/<name>/<mode>/`.
        workers: Processes, which share the cores; 1 runs the jobs in this process.
        force: Also run the jobs that are done.
        only: Run only jobs with this, or with one of these, in their name. Of the others, the combined result keeps
            what it has.
        log: Receives a line of progress now and then.

    Returns:
        Results and failures. A job that fails does not keep the others from running.
    """
    jobs = experiment.jobs(mode, seeds)
    texts = (only,) if isinstance(only, str) else tuple(only)
    for text in texts:
        if not any(text in job.name for job in jobs):
            raise ValueError(f"only must be part of a job's name, such as {jobs[0].name!r}; got {text!r}.")
    chosen = [job for job in jobs if not texts or any(text in job.name for text in texts)]
    cache = JobCache(out / experiment.name / mode)
    pending = _pending(chosen, cache, force, log)
    ran, failures, tracebacks = [], {}, {}
    try:
        for i, (job, seconds, error, trace) in enumerate(_attempts(experiment, pending, cache, workers), 1):
            if error:
                failures[job.name], tracebacks[job.name] = error, trace
                log(f"[{i}/{len(pending)}] {job.name}: failed: {error}")
            else:
                ran.append(job.name)
                log(f"[{i}/{len(pending)}] {job.name}: {seconds:.1f} s")
    finally:
        earlier, names = load(experiment.name, mode, out) if any(texts) else None, {job.name for job in chosen}
        kept = {result.job.name: result for result in earlier.done if result.job.name not in names} if earlier else {}
        results = _collect(experiment, mode, seeds, jobs, cache, kept)
        if results.done:
            save(experiment, results, out)
    return Outcome(results, tuple(ran), failures, tracebacks)


def _pending(jobs: list[Job], cache: JobCache, force: bool, log: Log) -> list[Job]:
    pending = []
    for job in jobs:
        result, why = cache.read(job)
        if force:
            cache.forget(job)
        elif result is not None:
            continue
        elif why:
            log(f"{job.name} is run again: {why}")
        pending.append(job)
    if len(pending) < len(jobs):
        log(f"{len(jobs) - len(pending)} of {len(jobs)} jobs are done already")
    return pending


def _collect(
    experiment: Experiment, mode: str, seeds: int, jobs: list[Job], cache: JobCache, kept: dict[str, JobResult]
) -> Results:
    """What the folder of jobs has, and for the rest what is kept of an earlier run, with the settings of that run."""
    results = [cache.read(job)[0] or kept.get(job.name) for job in jobs]
    missing = tuple(job.name for job, result in zip(jobs, results, strict=True) if result is None)
    return Results(experiment.name, mode, seeds, tuple(result for result in results if result is not None), missing)


def _attempts(experiment: Experiment, jobs: list[Job], cache: JobCache, workers: int) -> Iterator[Attempt]:
    """Do the jobs, in this process or in several, and say of each how it went when it is over."""
    if min(workers, len(jobs)) > 1:
        yield from _in_processes(experiment, jobs, cache, min(workers, len(jobs)))
    else:
        for job in jobs:
            yield _attempt(experiment, job, cache)


def _in_processes(experiment: Experiment, jobs: list[Job], cache: JobCache, workers: int) -> Iterator[Attempt]:
    context = get_context("spawn")  # a fork of a process in which JAX has started can hang
    shares = core_shares(cores(), workers)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_pin_worker, initargs=(shares,)) as pool:
        futures = {pool.submit(_attempt, experiment, job, cache): job for job in jobs}
        try:
            for future in as_completed(futures):
                error = future.exception()
                yield (futures[future], 0.0, _one_line(error), "") if error else future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def core_shares(available: list[int], workers: int) -> list[list[int]]:
    """The cores dealt out to the workers; where there are too few, some share one."""
    return [available[i::workers] or [available[i % len(available)]] for i in range(workers)]


def _pin_worker(shares: list[list[int]]) -> None:
    """A worker's first act, before JAX counts its cores."""
    if hasattr(os, "sched_setaffinity"):
        number = int(current_process().name.rpartition("-")[2])  # processes are numbered in the order they start
        os.sched_setaffinity(0, shares[number % len(shares)])
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # where there is a GPU, workers share its memory
    # Ctrl-C ends a worker at once: its checkpoint is whole, and the parent says what happened.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _attempt(experiment: Experiment, job: Job, cache: JobCache) -> Attempt:
    start = time.perf_counter()
    try:
        scratch = cache.scratch(job)
        resumed = any(scratch.iterdir())
        numbers, arrays = experiment.run_job(job, scratch)
        seconds = time.perf_counter() - start
        cache.write(JobResult(job, numbers, arrays, seconds, resumed, environment()))
    except Exception as error:
        return job, time.perf_counter() - start, _one_line(error), traceback.format_exc()
    return job, seconds, "", ""


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def environment() -> dict[str, Any]:
    """Versions and the kind of machine: no host name, no paths."""
    return {
        "versions": {"python": platform.python_version()} | {name: package_version(name) for name in _PACKAGES},
        "machine": {
            "platform": platform.machine(),
            "device": jax.devices()[0].device_kind,
            "cores": len(cores()),
        },
    }


def cores() -> list[int]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
