"""Values that arguments should not have, by a name that says what they are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Unusable:
    """An object that is nothing in particular."""

    def __repr__(self) -> str:
        return "Unusable()"


def raises(*_: Any, **__: Any) -> Any:
    """A user's function that fails."""
    raise RuntimeError("the user's function failed")


NAN, INF = float("nan"), float("inf")

#: Wrong types, and numbers out of range, that any argument can be given.
ANY: dict[str, Any] = {
    "None": None,
    "nan": NAN,
    "inf": INF,
    "-inf": -INF,
    "-1": -1,
    "0": 0,
    "0.5": 0.5,
    "2.5": 2.5,
    "1e300": 1e300,
    "10**12": 10**12,
    "10**400": 10**400,
    "True": True,
    "a string": "no such thing",
    "an empty string": "",
    "bytes": b"bytes",
    "a complex number": 1j,
    "an object": Unusable(),
    "a class": Unusable,
    "a function of nothing": lambda: None,
    "a function that raises": raises,
    "a function to a string": lambda *_: "text",
    "an empty list": [],
    "an empty dict": {},
    "a set": {1, 2},
    "a list of strings": ["a", "b"],
    "a list of two lengths": [[1.0], [1.0, 2.0]],
    "a tuple of None": (None, None),
    "a range": range(3),
    "a vector": np.arange(3.0),
    "a vector of counts": np.array([1, 2]),
    "a matrix": np.ones((2, 3)),
    "a tensor": np.ones((2, 2, 2)),
    "an empty array": np.zeros((0, 2)),
    "an array without axes": np.array(0.5),
    "an array of bool": np.array([True, False]),
    "an array with nan": np.array([[NAN, 1.0], [0.5, 2.0], [1.0, 0.0]]),
    "an array with inf": np.array([[INF, 1.0], [0.5, 2.0], [1.0, 0.0]]),
    "an array of strings": np.array(["a", "b"]),
    "an array of objects": np.array([None, Unusable()], dtype=object),
    "a complex array": np.ones((3, 2)) + 1j,
    "a JAX array": jnp.ones(3),
    "a JAX array of ints": jnp.arange(2),
    "a JAX bool": jnp.asarray(True),
    "many keys": jax.random.split(jax.random.key(0), 3),
    "a raw key of five words": np.zeros(5, np.uint32),
    "a dict of arrays": {"x": np.ones(3)},
    "a date": np.datetime64("2020-01-01"),
    "a generator": "generator",  # made anew for every call
}


def value_of(name: str) -> Any:
    """The value of a name."""
    return (i for i in range(2)) if name == "a generator" else ANY[name]
