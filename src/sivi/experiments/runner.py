"""Runs an experiment's jobs: those that are not done, in one process or several, and combines the results."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import combined
from ._cache import JobCache
from ._workers import attempts
from .base import Experiment, Job, Results

Log = Callable[[str], object]


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
    only: str = "",
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
        only: Run only jobs with this in their name.
        log: Receives a line of progress now and then.

    Returns:
        Results and failures. A job that fails does not keep the others from running.
    """
    jobs = experiment.jobs(mode, seeds)
    chosen = [job for job in jobs if only in job.name]
    if not chosen:
        raise ValueError(f"only must be part of a job's name, such as {jobs[0].name!r}; got {only!r}.")
    cache = JobCache(out / experiment.name / mode)
    pending = _pending(chosen, cache, force, log)
    ran, failures, tracebacks = [], {}, {}
    try:
        for i, (job, seconds, error, trace) in enumerate(attempts(experiment, pending, cache, workers), 1):
            if error:
                failures[job.name], tracebacks[job.name] = error, trace
                log(f"[{i}/{len(pending)}] {job.name}: failed: {error}")
            else:
                ran.append(job.name)
                log(f"[{i}/{len(pending)}] {job.name}: {seconds:.1f} s")
    finally:
        results = _collect(experiment, mode, seeds, jobs, cache, out)
        if results.done:
            combined.save(experiment, results, out)
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


def _collect(experiment: Experiment, mode: str, seeds: int, jobs: list[Job], cache: JobCache, out: Path) -> Results:
    found = [cache.read(job)[0] for job in jobs]
    missing = tuple(job.name for job, result in zip(jobs, found, strict=True) if result is None)
    return Results(experiment.name, mode, seeds, tuple(result for result in found if result is not None), missing, out)
