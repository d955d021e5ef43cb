"""Calls of the public interface with one argument that is wrong, and fit files that someone has changed.

`cases(num, seed)` are always the same ones. `tests/test_bad_calls.py` runs some hundreds of them, and
`benchmarks/bad_calls.py` thousands, of any version of the library.
"""

from .cases import Case as Case
from .cases import cases as cases
from .outcomes import GOOD as GOOD
from .outcomes import Outcome as Outcome
from .outcomes import run as run
