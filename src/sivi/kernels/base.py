"""What a kernel is: values between all pairs of particles, and the sums of gradients that move particles."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

#: Enough for a median distance. To sort the distances of all pairs would cost more than the rest of an update.
_MEDIAN_PARTICLES = 100
#: The default bandwidth, in median distances. A kernel as wide as the particles sees little of their shape.
DEFAULT_FACTOR = 0.5


class Kernel(eqx.Module):
    """A positive definite kernel k(x, y). A subclass writes `gram`."""

    @abc.abstractmethod
    def gram(self, x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
        """k(x_i, x_j) for all pairs, differentiable in x; a bandwidth chosen from x is differentiated too."""

    def gram_and_gradient_sums(self, x: Float[Array, "n dim"]) -> tuple[Float[Array, "n n"], Float[Array, "n dim"]]:
        """The kernel between all pairs, and Σ_j ∇_{x_j} k(x_j, x_i) for every i: what repels x_i from the others.

        Here by autodiff of `gram`, at the cost of `dim` derivatives. A subclass with a closed form overrides it, and
        so must one whose bandwidth depends on x, since the gradient is that of the kernel at a fixed bandwidth.
        """

        def column_sums(shift: Float[Array, " dim"]) -> Float[Array, " n"]:
            return jnp.sum(self.gram(x + shift), axis=0)

        # Shifting all particles moves both arguments. What the second contributes is known from the whole sum, in
        # which x_i is as often the first argument as the second: gram is symmetric.
        of_both = jax.jacfwd(column_sums)(jnp.zeros(x.shape[1], x.dtype))
        of_second = 0.5 * jax.grad(lambda x: jnp.sum(self.gram(x)))(x)
        return self.gram(x), of_both - of_second


class RadialKernel(Kernel):
    """A kernel of ‖x − y‖² / h² alone; a subclass says which function of it.

    Attributes:
        bandwidth: h; when left out, `factor` times the median distance between two of the first 100 particles,
            with its gradient in `gram`, and held fixed in the gradients of `gram_and_gradient_sums`.
        factor: See `bandwidth`.
    """

    bandwidth: eqx.AbstractVar[float | None]
    factor: eqx.AbstractVar[float]

    @abc.abstractmethod
    def profile(self, ratio: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """The kernel as a function of ‖x − y‖² / h², entry by entry."""

    def gram(self, x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
        squares = _squared_distances(x)
        return self.profile(squares / _squared_bandwidth(squares, self.bandwidth, self.factor))

    def gram_and_gradient_sums(self, x: Float[Array, "n dim"]) -> tuple[Float[Array, "n n"], Float[Array, "n dim"]]:
        """As for every kernel, by one product of matrices: Σ_j ∇_{x_j} k(x_j, x_i) = (2/h²) Σ_j φ'_ij (x_j − x_i).

        φ' is the derivative of `profile`. If the median distance is zero, or there is only one particle, h = 1.
        """
        squares = _squared_distances(x)
        square = _positive_squared_bandwidth(squares, self.bandwidth, self.factor)
        ratio = squares / square
        gram, slopes = jax.jvp(self.profile, (ratio,), (jnp.ones_like(ratio),))
        centred = x - jnp.mean(x, axis=0)  # the difference of sums below then cancels fewer digits
        sums = jnp.matmul(slopes, centred, precision="highest") - jnp.sum(slopes, axis=1)[:, None] * centred
        return gram, 2.0 * sums / square


def _squared_distances(x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
    if x.shape[1] <= 3:  # no cancellation, and no product of thin matrices
        return jnp.sum((x[:, None] - x) ** 2, axis=-1)
    centred = x - jnp.mean(x, axis=0)
    norms = jnp.sum(centred**2, axis=-1)
    squares = norms[:, None] + norms - 2.0 * centred @ centred.T
    return jnp.where(jnp.eye(len(x), dtype=bool), 0.0, jnp.maximum(squares, 0.0))


def _squared_bandwidth(squares: Float[Array, "n n"], bandwidth: float | None, factor: float) -> Array:
    if bandwidth is not None:
        return jnp.asarray(bandwidth**2, squares.dtype)
    return factor**2 * jnp.median(squares[np.triu_indices(min(len(squares), _MEDIAN_PARTICLES), k=1)])


def _positive_squared_bandwidth(squares: Float[Array, "n n"], bandwidth: float | None, factor: float) -> Array:
    """As above, and 1 where the median distance is zero, or there is none."""
    if bandwidth is None and len(squares) == 1:
        return jnp.ones((), squares.dtype)
    square = _squared_bandwidth(squares, bandwidth, factor)
    return square if bandwidth is not None else jnp.where(square > 0.0, square, 1.0)
