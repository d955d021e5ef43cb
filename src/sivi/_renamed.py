"""Public names that have changed: the old one raises an error that gives the new."""

from collections.abc import Callable, Mapping
from typing import NoReturn


def renamed(owner: str, names: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """A `__getattr__` for the old names of a module or class; the new ones are written out in full."""

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        if name in names:
            raise AttributeError(f"{owner}.{name} is now {names[name]}.")
        raise AttributeError(f"{owner} has no attribute {name!r}.")

    return __getattr__


#: Fields of `sivi.Posterior` in version 0.1.
POSTERIOR = {
    "batch_size": "posterior.settings.batch_size",
    "batching": "posterior.settings.batching",
    "precision": "posterior.settings.precision",
    "anchored": "posterior.settings.control_variate",
    "stop_rule": "posterior.settings.stop_rule",
    "states": "posterior.run.state.states",
    "streak": "posterior.run.state.streak",
    "stop_state": "posterior.run.state.stop",
    "fingerprint": "stored in the fit file alone",
}
