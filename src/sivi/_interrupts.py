"""Ctrl-C that Python would lose.

Python raises a KeyboardInterrupt wherever the main thread happens to be. In a callback of the garbage collector (JAX
has one, and tracing collects a lot), of a weak reference or in a `__del__` nobody can catch it: Python prints it as
"ignored", and the program goes on.
"""

import _thread
import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

#: Seconds after which a lost interrupt is sent again: by then the callback that lost it is over.
_SOON = 0.02

_watching = False


@contextlib.contextmanager
def interrupts_kept() -> Iterator[None]:
    """Within it, a KeyboardInterrupt that Python would drop comes again a moment later. In the main thread alone.

    Example:
        >>> with interrupts_kept():
        ...     pass
    """
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def hook(lost: Any) -> None:
        if not (isinstance(lost.exc_type, type) and issubclass(lost.exc_type, KeyboardInterrupt)):
            before(lost)
            return
        again = threading.Timer(_SOON, _thread.interrupt_main)
        again.daemon = True
        again.start()

    sys.unraisablehook, _watching = hook, True
    try:
        yield
    finally:
        _watching = False
        if sys.unraisablehook is hook:  # nobody has put another one in its place
            sys.unraisablehook = before
