"""The targets of both sets, by name."""

from . import first, second
from .known import Known

SETS: dict[str, dict[str, Known]] = {
    "first": {known.name: known for known in first.TARGETS},
    "second": {known.name: known for known in second.TARGETS},
}
