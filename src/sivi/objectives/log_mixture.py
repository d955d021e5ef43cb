"""log of an average of conditional densities, in blocks, with a gradient that is in blocks too."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ..families import SemiImplicit

#: What is differentiated: the family, the points, and the log density of each under the z that generated it.
Arguments = tuple[SemiImplicit, Float[Array, "n dim"], Float[Array, " n"]]


@eqx.filter_custom_vjp
def log_mixture(
    arguments: Arguments, key: PRNGKeyArray, num_aux: int | Int[Array, ""], block_size: int
) -> Float[Array, " n"]:
    """log (1/(L+1)) (exp(own_i) + Σ_{l=1..L} q(x_i|z_l)) at every x_i, with z_l ~ q(z) shared by the points.

    Reverse mode through a loop would store every block. Since d log Σ exp t_l = Σ w_l dt_l with the weights
    w_l = exp(t_l) / Σ exp, the backward pass draws each block again from its key and pulls its weights back: memory is
    that of one block, whatever L.

    Args:
        arguments: The family, points x (n, dim), and own = log q(x|z₀) (n,).
        key: Of the auxiliary draws.
        num_aux: L, which may be traced.
        block_size: Auxiliary draws evaluated at once.

    Returns:
        (n,), differentiable in `arguments`.
    """
    _, _, own = arguments

    def add_block(block: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        top, total = carry
        terms = _block_terms(arguments[0], arguments[1], key, block, num_aux, block_size)
        new_top = jnp.maximum(top, jnp.max(terms, axis=1))
        return new_top, total * jnp.exp(top - new_top) + jnp.sum(jnp.exp(terms - new_top[:, None]), axis=1)

    top, total = jax.lax.fori_loop(0, _num_blocks(num_aux, block_size), add_block, (own, jnp.ones_like(own)))
    return top + jnp.log(total) - jnp.log1p(jnp.asarray(num_aux, own.dtype))


@log_mixture.def_fwd
def _forward(
    perturbed: PyTree, arguments: Arguments, key: PRNGKeyArray, num_aux: int | Int[Array, ""], block_size: int
) -> tuple[Array, Array]:
    value = log_mixture(arguments, key, num_aux, block_size)
    return value, value


@log_mixture.def_bwd
def _backward(
    value: Array,
    cotangent: Array,
    perturbed: PyTree,
    arguments: Arguments,
    key: PRNGKeyArray,
    num_aux: int | Int[Array, ""],
    block_size: int,
) -> PyTree:
    family, x, own = arguments
    log_total = value + jnp.log1p(jnp.asarray(num_aux, own.dtype))
    params, static = eqx.partition(family, eqx.is_inexact_array)

    def add_block(block: Array, grads: PyTree) -> PyTree:
        def terms_of(params: PyTree, x: Array) -> Array:
            return _block_terms(eqx.combine(params, static), x, key, block, num_aux, block_size)

        terms, pull_back = jax.vjp(terms_of, params, x)
        weights = jnp.exp(terms - log_total[:, None])
        return jax.tree.map(jnp.add, grads, pull_back(weights * cotangent[:, None]))

    zeros = jax.tree.map(jnp.zeros_like, (params, x))
    params_grad, x_grad = jax.lax.fori_loop(0, _num_blocks(num_aux, block_size), add_block, zeros)
    return params_grad, x_grad, cotangent * jnp.exp(own - log_total)


def _num_blocks(num_aux: int | Int[Array, ""], block_size: int) -> Array:
    return (jnp.asarray(num_aux, jnp.int32) + block_size - 1) // block_size


def _block_terms(
    family: SemiImplicit,
    x: Float[Array, "n dim"],
    key: PRNGKeyArray,
    block: Array,
    num_aux: int | Int[Array, ""],
    block_size: int,
) -> Float[Array, "n block"]:
    """log q(x_i|z_l) for the auxiliary draws of one block; −∞ beyond the last."""
    noise = family.mixing.sample_noise(jax.random.fold_in(key, block), (block_size,))
    terms = family.conditional.at_each(jax.vmap(family.mixing.transform)(noise)).log_prob_pairs(x)
    return jnp.where(block * block_size + jnp.arange(block_size) < num_aux, terms, -jnp.inf)
