"""How much arithmetic an update is, and how fast the machine multiplies matrices.

Counted are the matrix products in the jaxpr of an update, two for each multiplication and addition, a scan as often as
its length, and the triangular solves. XLA's own cost analysis is not used: it counts the body of a loop once.
"""

import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval

__all__ = ["flops_of", "matmul_gflops"]


def flops_of(function: Any, *arguments: Any) -> float:
    """Of one call; what does not reach the result is left out."""
    closed = jax.make_jaxpr(function)(*arguments)
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return _flops(jaxpr)


def _flops(jaxpr: Any) -> float:
    return sum(_of_equation(equation) for equation in jaxpr.eqns)


def _of_equation(equation: Any) -> float:
    name, parameters = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        left, result = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
        return 2.0 * math.prod(result) * math.prod(left[i] for i in contracted)
    if name == "triangular_solve":
        return float(math.prod(equation.outvars[0].aval.shape)) * equation.invars[0].aval.shape[-1]
    inner = [_flops(part) for value in parameters.values() for part in _jaxprs(value)]
    if name == "cond":
        return max(inner, default=0.0)
    return sum(inner) * (parameters["length"] if name == "scan" else 1)


def _jaxprs(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [part for one in value for part in _jaxprs(one)]
    if hasattr(value, "eqns"):
        return [value]
    return [value.jaxpr] if hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns") else []


def matmul_gflops(size: int = 1024, repetitions: int = 20) -> float:
    """float32 GFLOP/s of a square matrix product by JAX, the best of several."""
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(size, size)), jnp.float32)
    multiply = jax.jit(jnp.matmul)
    multiply(matrix, matrix).block_until_ready()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        multiply(matrix, matrix).block_until_ready()
        times.append(time.perf_counter() - start)
    return 2.0 * size**3 / min(times) / 1e9
