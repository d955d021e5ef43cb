"""Seconds of a call: on the wall, and of all cores that it keeps busy."""

import resource
import time

__all__ = ["Clock"]


class Clock:
    """Runs from when it is made. CPU seconds are those of all threads of this process and of its ended children."""

    def __init__(self) -> None:
        self.start, self.cpu = time.perf_counter(), _cpu_seconds()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self.start, "cpu_seconds": _cpu_seconds() - self.cpu}


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
