"""What can be said of a traced function: when two are the same, which arrays it holds, how large its results are.

The keys made here are equal only if the traced functions are the same in all that a compiler or a derivative can see.
What cannot be looked into, such as a Python function that JAX will call later, has a key that is equal to nothing but
itself: its program is then compiled again, and never mistaken for another.
"""

import enum
import hashlib
import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from types import BuiltinFunctionType, FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

#: A rule of a derivative uses the function again, which has a rule. They are followed to the third derivative; a
#: program of this library takes two at most.
_MAX_DEPTH = 3

#: Primitives with a rule for their derivative, and those of their parameters that a trace of the derivative stands for.
_RULES = {
    "custom_jvp_call": {"jvp_jaxpr_fun", "jvp_jaxpr_thunk"},
    "custom_vjp_call": {"fwd_jaxpr_thunk", "bwd", "out_trees"},
    "custom_vjp_call_jaxpr": {"fwd_jaxpr_thunk", "bwd", "out_trees"},
}
#: Primitives whose Python function runs together with the program, and is not traced.
_CALLBACKS = {"pure_callback", "io_callback", "debug_callback"}
#: Primitives that take a precision.
_PRODUCTS = {"dot_general", "conv_general_dilated"}
#: Packages whose objects compare by all that they hold.
_TRUSTED = {"jax", "jaxlib", "numpy", "ml_dtypes"}


def key_of(value: Any, depth: int = 0) -> Hashable:
    """A key of a traced function, or of a parameter in it."""
    if isinstance(value, core.ClosedJaxpr):
        return "closed", _jaxpr_key(value.jaxpr, depth), tuple(map(_array_key, value.consts))
    if isinstance(value, core.Jaxpr):
        return _jaxpr_key(value, depth)
    if value is None or isinstance(value, (bool, int, str, bytes, enum.Enum)):
        return type(value), value
    if isinstance(value, (float, complex, np.generic, np.ndarray, jax.Array)):
        return _array_key(value)
    if isinstance(value, (tuple, list)):
        return type(value), *(key_of(item, depth) for item in value)
    if isinstance(value, dict):
        return dict, *((key_of(name, depth), key_of(value[name], depth)) for name in sorted(value, key=repr))
    if isinstance(value, (set, frozenset)):
        return frozenset, frozenset(key_of(item, depth) for item in value)
    return (type(value), value) if _is_plain(value) else object()


def _is_plain(value: Any) -> bool:
    """Whether an object of JAX says itself, by ==, all that there is to know of it."""
    if isinstance(value, jax.tree_util.PyTreeDef):
        data = value.node_data()  # None for a leaf
        known = data is None or data[0] in (tuple, list, dict, type(None))
        return known and all(map(_is_plain, value.children()))
    if isinstance(value, (FunctionType, BuiltinFunctionType, type)):
        return _package(value) in _TRUSTED and not getattr(value, "__closure__", None)
    if isinstance(value, jax.sharding.Mesh):  # which can be called, as a decorator
        return True
    return _package(type(value)) in _TRUSTED and not callable(value) and not hasattr(value, "call_wrapped")


def _package(thing: Any) -> str:
    return (getattr(thing, "__module__", None) or "").partition(".")[0]


def _array_key(array: Any) -> Hashable:
    """By value, to the last bit: a constant in a program, or a number in a parameter."""
    kind = type(array) if isinstance(array, (float, complex)) else getattr(array, "weak_type", False)
    try:
        numbers = np.asarray(array)
        if numbers.dtype.hasobject:
            return object()
        raw = numbers.tobytes()
    except TypeError:  # random keys, say
        return object()
    return "array", kind, str(numbers.dtype), numbers.shape, raw if len(raw) <= 64 else hashlib.sha256(raw).digest()


def _jaxpr_key(jaxpr: core.Jaxpr, depth: int) -> Hashable:
    numbers: dict[Any, int] = {}

    def variable(atom: Any) -> Hashable:
        if _is_literal(atom):
            return atom.aval, _array_key(atom.val)
        return numbers.setdefault(atom, len(numbers)), atom.aval

    inputs = (*map(variable, jaxpr.constvars), len(jaxpr.constvars), *map(variable, jaxpr.invars))
    equations = tuple(
        (
            equation.primitive,
            tuple(map(variable, equation.invars)),
            _parameters_key(jaxpr, equation, depth),
            tuple(map(variable, equation.outvars)),
            key_of(equation.effects, depth),
            repr(equation.ctx),
        )
        for equation in jaxpr.eqns
    )
    return inputs, equations, tuple(map(variable, jaxpr.outvars))


def _parameters_key(jaxpr: core.Jaxpr, equation: Any, depth: int) -> Hashable:
    name, parameters = equation.primitive.name, dict(equation.params)
    rule: Hashable = None
    if name in _RULES and _package(type(equation.primitive)) in _TRUSTED:
        if not parameters.get("symbolic_zeros"):  # such a rule can do another thing for every set of its inputs
            rule = _rule_key(jaxpr, equation, is_forward=name == "custom_jvp_call", depth=depth)
            parameters = {key: value for key, value in parameters.items() if key not in _RULES[name]}
    elif name in _CALLBACKS and _package(type(equation.primitive)) in _TRUSTED:
        rule = (parameters.pop("callback", None),)
    return rule, key_of(parameters, depth)


def _rule_key(jaxpr: core.Jaxpr, equation: Any, is_forward: bool, depth: int) -> Hashable:
    """A key of the derivative of one equation: what its rule does when every input that can be changes."""
    if depth >= _MAX_DEPTH:
        return None
    inputs = list(dict.fromkeys(atom for atom in equation.invars if not _is_literal(atom)))
    arguments = list(map(_type, inputs))
    smooth = [bool(jnp.issubdtype(argument.dtype, jnp.inexact)) for argument in arguments]
    changing = [argument for argument, is_smooth in zip(arguments, smooth, strict=True) if is_smooth]
    fixed = [argument for argument, is_smooth in zip(arguments, smooth, strict=True) if not is_smooth]

    def along(changing: list[Any], fixed: list[Any], directions: list[Any]) -> Any:
        def function(*changing: Any) -> list[Any]:
            left, others = iter(changing), iter(fixed)
            values = dict(zip(inputs, (next(left) if is_smooth else next(others) for is_smooth in smooth), strict=True))
            return _bind(jaxpr, equation, [None if _is_literal(atom) else values[atom] for atom in equation.invars])

        if is_forward:
            return jax.jvp(function, tuple(changing), tuple(directions))
        out, pull_back = jax.vjp(function, *changing)
        return out, pull_back(directions)

    try:
        directions = changing if is_forward else list(map(_type, equation.outvars))
        return key_of(jax.make_jaxpr(along)(changing, fixed, directions), depth + 1)
    except Exception:  # a rule that cannot be traced this way is not looked into
        return object()


def _bind(jaxpr: core.Jaxpr, equation: Any, values: Sequence[Any]) -> list[Any]:
    """The results of one equation of a traced function, for values of its inputs."""
    given = {atom: value for atom, value in zip(equation.invars, values, strict=True) if not _is_literal(atom)}
    alone = jaxpr.replace(
        constvars=[], invars=[*given], outvars=equation.outvars, eqns=[equation], effects=equation.effects
    )
    return core.jaxpr_as_fun(core.ClosedJaxpr(alone, ()))(*given.values())


def _is_literal(atom: Any) -> bool:
    return isinstance(atom, core.Literal)


def _type(atom: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype, weak_type=atom.aval.weak_type)


def without_constants(closed: core.ClosedJaxpr) -> tuple[core.ClosedJaxpr, list[Any]]:
    """A traced function whose arrays are its first arguments, and these arrays.

    Also those that it holds through functions under `jax.jit`. Those of such a function inside a loop or a branch stay.
    """
    jaxpr, arrays = closed.jaxpr, _constants(closed)
    if len(arrays) == len(closed.consts):
        inputs = [*jaxpr.constvars, *jaxpr.invars]
        return core.ClosedJaxpr(jaxpr.replace(constvars=[], invars=inputs), ()), arrays

    def function(arrays: list[Any], arguments: list[Any]) -> list[Any]:
        return _evaluate(closed, iter(arrays), arguments)

    return jax.make_jaxpr(function)(arrays, list(map(_type, jaxpr.invars))), arrays


def _held(equation: Any) -> core.ClosedJaxpr | None:
    """The function of an equation that calls one under `jax.jit`, if that holds arrays."""
    inner = equation.params.get("jaxpr") if equation.primitive.name in ("jit", "pjit") else None
    return inner if isinstance(inner, core.ClosedJaxpr) and _constants(inner) else None


def _constants(closed: core.ClosedJaxpr) -> list[Any]:
    held = [inner for equation in closed.jaxpr.eqns if (inner := _held(equation)) is not None]
    return [*closed.consts, *(array for inner in held for array in _constants(inner))]


def _evaluate(closed: core.ClosedJaxpr, arrays: Iterator[Any], arguments: Sequence[Any]) -> list[Any]:
    """The results of a traced function, with its arrays, and those that it holds, taken one after the other."""
    jaxpr = closed.jaxpr
    own = [next(arrays) for _ in closed.consts]
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*own, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if _is_literal(atom) else values[atom]

    for equation in jaxpr.eqns:
        inner = _held(equation)
        if inner is None:
            results = _bind(jaxpr, equation, list(map(read, equation.invars)))
        else:
            results = _evaluate(inner, arrays, list(map(read, equation.invars)))
        values.update(zip(equation.outvars, results, strict=True))
    return list(map(read, jaxpr.outvars))


def with_precision(jaxpr: core.Jaxpr, precision: Any) -> core.Jaxpr:
    """The traced function with another precision of those matrix products for which none was said."""

    def changed(value: Any) -> Any:
        if isinstance(value, core.ClosedJaxpr):
            return core.ClosedJaxpr(with_precision(value.jaxpr, precision), value.consts)
        if isinstance(value, core.Jaxpr):
            return with_precision(value, precision)
        if isinstance(value, tuple) and any(isinstance(item, (core.Jaxpr, core.ClosedJaxpr)) for item in value):
            items = map(changed, value)
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    def equation_with(equation: Any) -> Any:
        parameters = {name: changed(value) for name, value in equation.params.items()}
        if equation.primitive.name in _PRODUCTS and parameters.get("precision") is None:
            parameters["precision"] = precision
        return equation.replace(params=parameters)

    return jaxpr.replace(eqns=list(map(equation_with, jaxpr.eqns)))


def default_precision() -> Any:
    """The precision that JAX gives a matrix product now, if none is said."""
    if getattr(jax.config, "jax_default_matmul_precision", "") is None:
        return None
    square = jax.ShapeDtypeStruct((1, 1), jnp.float32)
    closed = jax.make_jaxpr(lambda a: jax.lax.dot(a, a))(square)
    return next(equation.params["precision"] for equation in closed.jaxpr.eqns if equation.primitive.name in _PRODUCTS)


def largest_result(jaxpr: core.Jaxpr, depends: Sequence[bool]) -> int:
    """The most numbers in a result, on the way too, of those that depend on the marked inputs."""
    changing = {atom for atom, is_marked in zip(jaxpr.invars, depends, strict=True) if is_marked}
    largest = 1
    for equation in jaxpr.eqns:
        marks = [not _is_literal(atom) and atom in changing for atom in equation.invars]
        if not any(marks):
            continue
        changing.update(equation.outvars)
        largest = max(largest, *(math.prod(getattr(atom.aval, "shape", ())) for atom in equation.outvars))
        for inner in _inner(equation):
            largest = max(largest, largest_result(inner, _marks_inside(equation, marks, len(inner.invars))))
    return largest


def _marks_inside(equation: Any, marks: list[bool], num_inputs: int) -> list[bool]:
    """Which inputs of a function inside an equation depend on what the marked inputs of the equation do."""
    name = equation.primitive.name
    if name == "scan":  # all that is handed on from one turn to the next, or may be
        kept = equation.params.get("num_consts", 0)  # newer versions of JAX say it otherwise: then any may
        marks = [*marks[:kept], *([True] * (len(marks) - kept))]
    elif name == "cond":
        marks = marks[1:]  # the first says which branch
    return marks if len(marks) == num_inputs and name != "while" else [True] * num_inputs


def _inner(equation: Any) -> Iterator[core.Jaxpr]:
    parameters = [value if isinstance(value, tuple) else (value,) for value in equation.params.values()]
    for value in chain.from_iterable(parameters):
        if isinstance(value, (core.Jaxpr, core.ClosedJaxpr)):
            yield value.jaxpr if isinstance(value, core.ClosedJaxpr) else value
