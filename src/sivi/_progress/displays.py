"""Two ways to show a run: a bar that is drawn again and again, and lines of a log that come more and more rarely."""

import abc
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tqdm.auto import tqdm

LOGGER = logging.getLogger("sivi")


class _Bar(tqdm):
    monitor_interval = 0  # its own thread, which would stay: here another one refreshes


#: Seconds between two lines of a log: about a tenth of what has passed, between these.
_FEWEST_SECONDS, _MOST_SECONDS = 10.0, 60.0


@dataclass(frozen=True)
class HowFar:
    """Where a run is: steps done, steps in all if that is known, and metrics of the last stretch as text."""

    step: int
    num_steps: int | None
    metrics: Mapping[str, str]


class Display(abc.ABC):
    """What shows a run. `tick` comes from a thread of its own, all else from the one that runs."""

    #: Seconds of steps between two calls of `update`, about.
    seconds: ClassVar[float]

    @abc.abstractmethod
    def begin(self, num_steps: int | None, step: int) -> None:
        """A run has this many steps, of which so many are done."""

    @abc.abstractmethod
    def phase(self, text: str) -> None:
        """Until the next phase or step, this goes on."""

    @abc.abstractmethod
    def update(self, place: HowFar) -> None:
        """More steps are done."""

    @abc.abstractmethod
    def tick(self) -> None:
        """Some time has passed."""

    @abc.abstractmethod
    def close(self, place: HowFar, error: type[BaseException] | None) -> None:
        """The run is over, perhaps by an error."""


class BarDisplay(Display):
    """A bar of tqdm, on a terminal or in a notebook. The rate is that of steps: other phases do not count.

    Args:
        bar: The bar.
        description: What runs.
    """

    seconds = 0.5

    def __init__(self, bar: Any, description: str):
        self._bar, self._description = bar, description
        self._in_phase = False

    def begin(self, num_steps: int | None, step: int) -> None:
        bar = self._bar
        begin = bar.start_t
        bar.reset(num_steps)
        bar.start_t = begin  # which goes on
        bar.initial = bar.n = bar.last_print_n = step
        bar.refresh()

    def phase(self, text: str) -> None:
        self._in_phase = True
        self._bar.set_description_str(f"{self._description} ({text})")

    def update(self, place: HowFar) -> None:
        bar = self._bar
        bar.total = place.num_steps
        bar.set_postfix(place.metrics, refresh=False)
        if not self._in_phase:
            bar.update(place.step - bar.n)
            return
        self._in_phase = False
        bar.set_description_str(self._description, refresh=False)
        bar.initial = bar.n = bar.last_print_n = place.step
        bar.unpause()
        bar.start_t = bar.last_print_t
        bar.refresh()

    def tick(self) -> None:
        self._bar.refresh()

    def close(self, place: HowFar, error: type[BaseException] | None) -> None:
        self._bar.close()


class LogDisplay(Display):
    """Lines of the logger `sivi`: every phase, then one about every ten seconds, later every minute, and the end.

    Args:
        description: What runs.
        unit: What its steps are called.
        clock: Seconds.
    """

    seconds = 2.0

    def __init__(self, description: str, unit: str, clock: Callable[[], float]):
        self._description, self._unit, self._clock = description, unit, clock
        self._begin = self._last = clock()
        self._first: float | None = None  # when the first steps were done
        self._phase = ""

    def begin(self, num_steps: int | None, step: int) -> None:
        self._first = None

    def phase(self, text: str) -> None:
        if text != self._phase:
            self._phase = text
            self._line(text)

    def update(self, place: HowFar) -> None:
        begins, self._phase = bool(self._phase), ""
        self._first = self._clock() if self._first is None else self._first
        if begins or self._is_due():
            self._line(f"{self._unit} {_of(place)}{_listed(place.metrics)}")

    def tick(self) -> None:
        phase = self._phase
        if phase and self._is_due():
            self._line(f"{phase}, {self._clock() - self._begin:.0f} s so far")

    def close(self, place: HowFar, error: type[BaseException] | None) -> None:
        first = "" if self._first is None else f", the first after {self._first - self._begin:.1f} s"
        why = "" if error is None else f", ended by {error.__name__}"
        took = f"in {self._clock() - self._begin:.1f} s"
        self._line(f"{_of(place)} {self._unit}s {took}{first}{why}{_listed(place.metrics)}")

    def _is_due(self) -> bool:
        now = self._clock()
        return now - self._last >= min(max(_FEWEST_SECONDS, 0.1 * (now - self._begin)), _MOST_SECONDS)

    def _line(self, text: str) -> None:
        self._last = self._clock()
        LOGGER.info("%s: %s", self._description, text)


def display_for(description: str, unit: str, place: HowFar, clock: Callable[[], float]) -> Display | None:
    """A bar where there is a terminal or a notebook; else a log, if anyone reads lines of its level; else nothing."""
    settings = {"desc": description, "unit": unit, "disable": None, "dynamic_ncols": True}
    bar: Any = _Bar(total=place.num_steps, initial=place.step, **settings)
    if not bar.disable:
        return BarDisplay(bar, description)
    return LogDisplay(description, unit, clock) if LOGGER.isEnabledFor(logging.INFO) else None


def metrics_text(metrics: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The mean of each metric, as text, the loss first; none of those without values."""
    names = sorted(metrics, key=lambda name: name != "loss")
    return {name: f"{np.mean(metrics[name]):.4g}" for name in names if metrics[name].size}


def _of(place: HowFar) -> str:
    return f"{place.step:,}" if place.num_steps is None else f"{place.step:,} of {place.num_steps:,}"


def _listed(metrics: Mapping[str, str]) -> str:
    return "".join(f", {name} {value}" for name, value in metrics.items())
