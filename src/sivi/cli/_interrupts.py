"""How often Ctrl-C was pressed, also where the KeyboardInterrupt has not arrived."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupts:
    """Counts signals. What is raised may be lost in code that catches everything; the number stays."""

    def __init__(self) -> None:
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Within it, signals are counted, and then do what they did before."""
        before = signal.getsignal(signal.SIGINT)
        # A job in the background of a shell ignores the signal, and other threads get none.
        if not callable(before) or threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(number: int, frame: FrameType | None) -> None:
            self._count += 1
            before(number, frame)

        signal.signal(signal.SIGINT, handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
