"""How busy other processes keep the machine while something is timed."""

import os
import time

from speed import MAX_OTHERS, busy_seconds

__all__ = ["MAX_OTHERS", "Others"]


class Others:
    """Counts, from when it is made, the cores in use by other processes than this one."""

    def __init__(self) -> None:
        self.begin, self.busy, self.own = time.perf_counter(), busy_seconds(), self._own()

    @staticmethod
    def _own() -> float:
        return sum(os.times()[:2])

    def cores(self) -> float:
        others = busy_seconds() - self.busy - (self._own() - self.own)
        return max(others, 0.0) / (time.perf_counter() - self.begin)
