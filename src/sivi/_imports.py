"""Ctrl-C is not lost while the library and the packages that it needs are imported, which takes seconds."""

import contextlib

from ._interrupts import interrupts_kept

_importing = contextlib.ExitStack()
_importing.enter_context(interrupts_kept())

#: Called when all is imported.
done = _importing.close
