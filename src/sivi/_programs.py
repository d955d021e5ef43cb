"""Compiled programs that do not pile up.

JAX keeps a compiled program for as long as the function that it was made of, and a function of this library lives as
long as the process. Every target, family and shape has programs of its own, of hundreds of memory maps each, and Linux
allows a process 65,530: after some forty fits of different densities the process died. So the library keeps its
programs here, the last `MAX_PROGRAMS` used, and drops the others. Programs of the user's own functions are not touched.

A program is found by what does not change inside it: the static parts of the arguments, by equality, and the shapes
and types of their arrays. Each has a function of its own under `jax.jit`, so that JAX forgets the program with the
function, and sees to all else that a program depends on: precision, device, float types.
"""

import contextlib
import functools
import gc
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
from jax.core import Tracer
from jaxtyping import PyTree

from . import _compiler
from ._interrupts import interrupts_kept

P = ParamSpec("P")
R = TypeVar("R")

#: Programs kept, at most: those of about ten fits of different densities, or of a few whose posteriors are used a lot.
MAX_PROGRAMS = 48

#: Share of the memory maps that a process may have, beyond which old programs are dropped even if they are few.
MAX_MAPS_SHARE = 0.4

_MAPS, _MAX_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")


class _NotArrays(eqx.Module):
    """The part of a result that is no array."""

    tree: PyTree = eqx.field(static=True)


class ProgramCache:
    """The programs used last, of all functions together. Threads may share it.

    Args:
        max_programs: How many are kept.
        max_maps_share: Share of the memory maps that a process may have, beyond which the older half is dropped.
    """

    def __init__(self, max_programs: int = MAX_PROGRAMS, max_maps_share: float = MAX_MAPS_SHARE):
        self.max_programs = max_programs
        self.max_maps_share = max_maps_share
        self._programs: OrderedDict[Hashable, Callable[..., Any]] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, key: Hashable, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """The program of this key, which is now the one used last; a new one drops the oldest."""
        with self._lock:
            if key in self._programs:
                self._programs.move_to_end(key)
                return self._programs[key]
            self._make_room()
            program = self._programs[key] = make()
            return program

    def clear(self) -> None:
        """Drop all programs."""
        with self._lock:
            self._programs.clear()

    def _make_room(self) -> None:
        while len(self._programs) >= self.max_programs:
            self._programs.popitem(last=False)
        # Only what nothing else refers to is freed at once; the rest is garbage that refers to itself.
        if self._programs and _share_of_maps() > self.max_maps_share:
            gc.collect()
            while self._programs and _share_of_maps() > self.max_maps_share:
                for _ in range(-(-len(self._programs) // 2)):
                    self._programs.popitem(last=False)
                gc.collect()


def _share_of_maps() -> float:
    """The share of the memory maps that this process may have and has; 0 where that is not known."""
    try:
        return _MAPS.read_bytes().count(b"\n") / int(_MAX_MAPS.read_text())
    except (OSError, ValueError, ZeroDivisionError):
        return 0.0


_RUNNING: ContextVar[Callable[[], None] | None] = ContextVar("running", default=None)


@contextlib.contextmanager
def when_running(tell: Callable[[], None]) -> Iterator[None]:
    """Within it, `tell` is called whenever this thread has got a program, compiled, and begins to wait for it."""
    token = _RUNNING.set(tell)
    try:
        yield
    finally:
        _RUNNING.reset(token)


#: All programs of the library that depend on a target or a family.
PROGRAMS = ProgramCache()


def compiled(function: Callable[P, R], options: Callable[[], dict[str, str]] = _compiler.options) -> Callable[P, R]:
    """`function`, compiled for its arguments: arrays are inputs of the program, everything else is part of it.

    Use it in place of `equinox.filter_jit` wherever a target, a family or another object of the user is an argument.
    Inside another trace the function is called as it is.

    Args:
        function: Takes and returns any pytrees. Its arguments must be hashable where they are no arrays.
        options: Gives options of the compiler, by name; they may depend on the device, which is not known before.

    Example:
        >>> import jax.numpy as jnp
        >>> @compiled
        ... def power(x, n: int):
        ...     return x**n
        >>> float(power(jnp.array(3.0), 2))
        9.0
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, treedef = jax.tree.flatten((args, kwargs))
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            return function(*args, **kwargs)
        arrays = [leaf for leaf in leaves if eqx.is_array(leaf)]
        others = [None if eqx.is_array(leaf) else leaf for leaf in leaves]
        key = (call, treedef, *map(_static_key, others), *map(_array_key, arrays))
        program = PROGRAMS.get(key, lambda: _new_program(function, treedef, others, options()))
        with interrupts_kept(), _errors_of_equinox():
            results = program(arrays)
            if (tell := _RUNNING.get()) is not None:
                tell()
            found, rest = jax.block_until_ready(results)
        return eqx.combine(found, rest.tree)

    return call


@contextlib.contextmanager
def _errors_of_equinox() -> Iterator[None]:
    """An `equinox.error_if` in a user's function says its sentence, without the tracebacks of JAX around it."""
    logger, mark = logging.getLogger("jax._src.callback"), "_EquinoxRuntimeError: "

    def is_news(record: logging.LogRecord) -> bool:
        return record.getMessage() != "jax.pure_callback failed"  # which the error says as well

    logger.addFilter(is_news)
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:  # which of the two depends on the path through JAX
        if mark not in str(error):
            raise
        sentence = str(error).rpartition(mark)[2].partition("\n\n")[0].strip()
        raise eqx.EquinoxRuntimeError(sentence) from None
    finally:
        logger.removeFilter(is_news)


def _new_program(function: Callable[..., Any], treedef: Any, others: list[Any], options: dict[str, str] | None) -> Any:
    """A function of its own for one set of static arguments: `others`, with None in the places of arrays."""

    def program(arrays: list[Any]) -> tuple[PyTree, _NotArrays]:
        left = iter(arrays)
        args, kwargs = jax.tree.unflatten(treedef, [next(left) if leaf is None else leaf for leaf in others])
        found, rest = eqx.partition(function(*args, **kwargs), eqx.is_array)
        return found, _NotArrays(rest)

    program.__name__ = program.__qualname__ = getattr(function, "__name__", "program")
    return jax.jit(program, compiler_options=options) if options else jax.jit(program)


def _static_key(leaf: Any) -> Hashable:
    # 1, 1.0 and True are equal, and so are 0.0 and -0.0, but they do not make the same programs.
    return type(leaf), leaf.hex() if isinstance(leaf, float) else leaf


def _array_key(array: Any) -> Hashable:
    return array.shape, array.dtype, getattr(array, "weak_type", False)
