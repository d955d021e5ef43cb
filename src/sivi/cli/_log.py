"""Lines of progress where there is no terminal for a bar."""

import contextlib
import logging
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def log_lines() -> Iterator[None]:
    """Within it, what the library logs is printed on the standard error, unless that is a terminal."""
    if sys.stderr is None or sys.stderr.isatty():
        yield
        return
    logger, handler = logging.getLogger("sivi"), logging.StreamHandler(sys.stderr)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
