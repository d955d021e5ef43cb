"""Networks on several splits as one stack of targets: rows are filled up to one length, and the filling never counts.

A program over all splits at once needs arrays of one shape, but parts of a split differ in their number of rows.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Scalar
from ..targets import BayesianNeuralNetwork, Target
from ._bnn_data import Rows

#: As in the paper: one hidden layer of 50 ReLU units.
HIDDEN = (50,)


class FilledNetwork(Target):
    """A network of which only the first rows are its own.

    Attributes:
        model: With rows of zeros behind its own.
        num_rows: N, how many are its own.
        weight: Of each row where all are used: 1, or more for a target of the first rows alone.
    """

    model: BayesianNeuralNetwork
    num_rows: Int[Array, ""]
    weight: Scalar

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def num_data(self) -> int:
        """With the filling, which is computed too; `num_rows` are without."""
        return self.model.num_data

    @property
    def numbers_per_row(self) -> int:
        return self.model.numbers_per_row

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        model, point = self.model, self.model.point(x)
        if batch is None:
            terms = model.log_likelihoods(point, model.data)
            is_own = jnp.arange(len(terms)) < self.num_rows
            return model.log_prior(point) + self.weight * jnp.sum(jnp.where(is_own, terms, 0.0))
        data = jax.tree.map(lambda leaf: leaf[batch], model.data)
        total = jnp.sum(model.log_likelihoods(point, data))
        return model.log_prior(point) + self.weight * self.num_rows / len(batch) * total

    def window(self, index: Int[Array, ""], size: int) -> Int[Array, " size"]:
        """The rows of a minibatch: the next ones in their order, which is random, over the end to the beginning."""
        return (index * size + jnp.arange(size)) % self.num_rows

    def first_rows(self, most: int) -> "FilledNetwork":
        """The first rows in place of all, each with a larger weight."""
        if most >= len(self.model.data["y"]):
            return self
        model = eqx.tree_at(lambda m: m.data, self.model, jax.tree.map(lambda leaf: leaf[:most], self.model.data))
        num_rows = jnp.minimum(self.num_rows, most)
        return FilledNetwork(model, num_rows, self.weight * self.num_rows / num_rows)

    def with_precisions(self, weight: Scalar, noise: Scalar) -> "FilledNetwork":
        """The same with one λ for all weights, and γ."""
        return eqx.tree_at(
            lambda t: (t.model.weight_precision, t.model.noise_precision),
            self,
            (jnp.broadcast_to(weight, jnp.shape(self.model.weight_precision)), noise),
        )


def filled_network(
    rows: Rows, num_filled: int, weight_precision: float | Sequence[float], noise_precision: float
) -> FilledNetwork:
    """The network on these rows, in their own units, filled up to `num_filled`.

    Args:
        rows: From which alone the units are computed.
        num_filled: At least as many as there are rows.
        weight_precision: λ, one for all weights or one for each layer.
        noise_precision: γ, in the units in which the targets have standard deviation 1.
    """
    precisions = weight_precision if isinstance(weight_precision, float) else tuple(weight_precision)
    model = BayesianNeuralNetwork(
        *rows, HIDDEN, weight_precision=precisions, noise_precision=noise_precision, judged_at=rows.x[:1]
    )
    num_rows = len(rows.y)
    filling = num_filled - num_rows

    def fill(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, filling)] + [(0, 0)] * (leaf.ndim - 1))

    model = eqx.tree_at(lambda m: m.data, model, jax.tree.map(fill, model.data))
    return FilledNetwork(model, jnp.int32(num_rows), jnp.ones((), model.data["x"].dtype))


def stacked(targets: Sequence[FilledNetwork]) -> FilledNetwork:
    """One target whose arrays have a leading axis of members."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *targets)
