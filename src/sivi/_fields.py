"""Fields of settings: one line each, with the name, the default and the check of what is given."""

from functools import partial
from typing import Any

import equinox as eqx

from ._arguments import check_count, check_kind, check_optional, check_positive


def count_field(name: str, default: int | None, minimum: int = 1) -> Any:
    """A whole number of at least `minimum`. A default of None is for the class to replace."""
    return eqx.field(static=True, converter=partial(check_count, name, minimum=minimum), default=default)


def positive_field(name: str, default: float) -> Any:
    """A positive, finite number."""
    return eqx.field(static=True, converter=partial(check_positive, name), default=default)


def optional_positive_field(name: str, default: float | None = None) -> Any:
    """A positive, finite number, or None."""
    return eqx.field(static=True, converter=partial(check_optional, check_positive, name), default=default)


def module_field(name: str, kind: type, what: str, default: eqx.Module) -> Any:
    """A module of the class `kind`; `what` says in an error what it must be."""
    return eqx.field(converter=partial(check_kind, name, kind, what), default=default)
