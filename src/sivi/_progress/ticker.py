"""A thread that calls a function again and again, while another one waits for a compiler or for a device."""

import contextlib
import threading
from collections.abc import Callable

#: Seconds to wait for the thread; what it does takes a few milliseconds.
_PATIENCE = 2.0


class Ticker:
    """Calls `tick` every `seconds` until it is stopped. The first error of `tick` ends it, in silence.

    Args:
        tick: What to call.
        seconds: Between two calls.

    Example:
        >>> done = threading.Event()
        >>> ticker = Ticker(done.set, 0.001)
        >>> done.wait()
        True
        >>> ticker.stop()
    """

    def __init__(self, tick: Callable[[], None], seconds: float):
        self._tick, self._seconds = tick, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sivi-progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # a terminal that has gone away, say
            while not self._stopped.wait(self._seconds):
                self._tick()

    def stop(self) -> None:
        """Stop it, and wait until its thread is gone: not for ever, since an interrupt may have left a lock closed."""
        self._stopped.set()
        self._thread.join(_PATIENCE)
