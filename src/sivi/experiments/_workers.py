"""Doing jobs: one after the other, or in several processes that share the cores."""

import os
import signal
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import current_process, get_context

from ._cache import JobCache
from ._environment import cores, environment
from .base import Experiment, Job, JobResult

#: A job, its seconds and, if it failed, the error in one line and its traceback.
Attempt = tuple[Job, float, str, str]


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


def attempts(experiment: Experiment, jobs: list[Job], cache: JobCache, workers: int) -> Iterator[Attempt]:
    """Do the jobs, in this process or in several, and say of each how it went when it is over."""
    if min(workers, len(jobs)) > 1:
        yield from _apart(experiment, jobs, cache, min(workers, len(jobs)))
    else:
        for job in jobs:
            yield _attempt(experiment, job, cache)


def _apart(experiment: Experiment, jobs: list[Job], cache: JobCache, workers: int) -> Iterator[Attempt]:
    context = get_context("spawn")  # a fork of a process in which JAX has started can hang
    shares = core_shares(cores(), workers)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_settle, initargs=(shares,)) as pool:
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


def _settle(shares: list[list[int]]) -> None:
    """A worker's first act, before JAX counts its cores."""
    if hasattr(os, "sched_setaffinity"):
        number = int(current_process().name.rpartition("-")[2])  # processes are numbered in the order they start
        os.sched_setaffinity(0, shares[number % len(shares)])
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # where there is a GPU, workers share its memory
    # Ctrl-C ends a worker at once: its checkpoint is whole, and the parent says what happened.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
