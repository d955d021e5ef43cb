"""What a run tells of itself: phases, steps and metrics; and in what stretches it runs while someone looks on."""

import time
from collections.abc import Iterator
from types import TracebackType

import numpy as np

from .displays import Display, HowFar, display_for, metrics_text
from .ticker import Ticker

#: Seconds between two looks at the clock while a program compiles or runs.
_TICK = 0.5
#: A stretch is at most so many times as long as the one before.
_GROWTH = 8


class ProgressBar:
    """Shows a run from its first second: compiling, other phases, then steps with the mean of their metrics.

    On a terminal or in a notebook that is a bar. Elsewhere it is lines of the logger `sivi`, for those who have asked
    for its level INFO. It begins with the first phase or stretch, so that what is refused before shows nothing. While a
    phase or a long stretch goes on, a thread refreshes what is shown.

    Args:
        num_steps: The total; None if it is not known yet.
        step: Steps already done.
        enabled: False shows nothing at all.
        description: What runs.
        unit: What its steps are called.
    """

    def __init__(
        self,
        num_steps: int | None,
        step: int,
        enabled: bool,
        description: str = "sivi.fit",
        unit: str = "step",
    ):
        self._place = HowFar(step, num_steps, {})
        self._names = description, unit
        self._waits = enabled  # for the first phase
        self._display: Display | None = None
        self._ticker: Ticker | None = None
        self._length, self._is_timed = 1, False

    @staticmethod
    def clock() -> float:
        """Seconds, for the length of stretches and for what a log says; tests have another."""
        return time.monotonic()

    def begin(self, num_steps: int, step: int) -> None:
        """A run of so many steps begins, of which some are done: the first one of this bar, or another."""
        self._place = HowFar(step, num_steps, {})
        self._length, self._is_timed = 1, False
        if self._display is not None:
            self._display.begin(num_steps, step)

    def phase(self, text: str) -> None:
        """Say what goes on until the next phase or step."""
        if self._waits:
            self._waits = False
            self._display = display_for(*self._names, self._place, self.clock)
            if self._display is not None:
                self._ticker = Ticker(self._display.tick, _TICK)
        if self._display is not None:
            self._display.phase(text)

    def update(self, steps: int, metrics: dict[str, np.ndarray], num_steps: int | None = None) -> None:
        """More steps are done.

        Args:
            steps: How many.
            metrics: Those of these steps.
            num_steps: The total, if it has changed.
        """
        num_steps = self._place.num_steps if num_steps is None else num_steps
        if self._display is not None:
            self._place = HowFar(self._place.step + steps, num_steps, metrics_text(metrics))
            self._display.update(self._place)

    def stretches(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The steps from `first` to `last`, to be run one stretch after the other.

        One stretch if nobody looks on. Otherwise each takes about as long as a display may stand still: the first
        two are of one step, and the first is not timed, since its program may have to be compiled.
        """
        if not self._is_timed:
            self.phase("compiling")
        if self._display is None:
            yield first, last
            return
        while first < last:
            end, begin = min(first + self._length, last), self.clock()
            yield first, end
            if end - first == self._length:
                self._adapt(self._display.seconds, self.clock() - begin)
            first = end

    def _adapt(self, wanted: float, seconds: float) -> None:
        """The length of the next stretch, after one that took so long."""
        if self._is_timed:
            most = _GROWTH * self._length
            self._length = max(1, min(int(wanted * self._length / max(seconds, 1e-6)), most))
        self._is_timed = True

    def close(self, error: type[BaseException] | None = None) -> None:
        """Show the end, once, and end the thread."""
        ticker, display = self._ticker, self._display
        self._waits, self._ticker, self._display = False, None, None
        if ticker is not None:
            ticker.stop()
        if display is not None:
            display.close(self._place, error)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(kind)
