"""Which data a step sees: minibatches on the device, a pure function of the key and the step."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PRNGKeyArray


class Batches(eqx.Module):
    """Windows of a permutation of the rows. A resumed run sees the same ones.

    Attributes:
        key: Key of all permutations; or several keys, and then as many permutations at a time.
        num_data: Number of rows.
        batch_size: Rows per batch.
    """

    key: Key[Array, "*keys"]
    num_data: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    @abc.abstractmethod
    def order(self, step: Int[Array, ""]) -> Int[Array, "*keys num_data"]:
        """The permutation that a step belongs to."""

    @abc.abstractmethod
    def next_order(self, step: Int[Array, ""], order: Int[Array, "*keys num_data"]) -> Int[Array, "*keys num_data"]:
        """The permutation at `step`, given the one at the step before."""

    @abc.abstractmethod
    def batch(self, step: Int[Array, ""], order: Int[Array, " num_data"]) -> Int[Array, " batch_size"]:
        """The row indices of a step."""

    def _permutation(self, number: Int[Array, ""] | int) -> Int[Array, "*keys num_data"]:
        """The permutation of that number, of every key."""

        def draw(key: PRNGKeyArray) -> Int[Array, " num_data"]:
            return jax.random.permutation(jax.random.fold_in(key, number), self.num_data)

        return (jax.vmap(draw) if self.key.ndim else draw)(self.key)


class ShuffledBatches(Batches):
    """Minibatches without replacement within an epoch; every epoch has its own permutation.

    The rows left over at the end of an epoch are dropped; which ones they are changes with the permutation.
    """

    @property
    def steps_per_epoch(self) -> int:
        return self.num_data // self.batch_size

    def order(self, step: Int[Array, ""]) -> Int[Array, "*keys num_data"]:
        return self._permutation(step // self.steps_per_epoch)

    def next_order(self, step: Int[Array, ""], order: Int[Array, "*keys num_data"]) -> Int[Array, "*keys num_data"]:
        # Drawn only when an epoch starts.
        starts = step % self.steps_per_epoch == 0
        return jax.lax.cond(starts, lambda now: self.order(now), lambda now: order, step)

    def batch(self, step: Int[Array, ""], order: Int[Array, " num_data"]) -> Int[Array, " batch_size"]:
        start = (step % self.steps_per_epoch) * self.batch_size
        return jax.lax.dynamic_slice(jnp.asarray(order), (start,), (self.batch_size,))


class RotatingBatches(Batches):
    """One permutation for the whole run, gone through again and again, over its end to its beginning.

    Where the batch size divides the number of rows, these are the same few batches in rotation.
    """

    def order(self, step: Int[Array, ""]) -> Int[Array, "*keys num_data"]:
        return self._permutation(0)

    def next_order(self, step: Int[Array, ""], order: Int[Array, "*keys num_data"]) -> Int[Array, "*keys num_data"]:
        return order

    def batch(self, step: Int[Array, ""], order: Int[Array, " num_data"]) -> Int[Array, " batch_size"]:
        rows = self._start(step) + jnp.arange(self.batch_size)
        return jnp.asarray(order)[rows % self.num_data]

    def _start(self, step: Int[Array, ""]) -> Int[Array, ""]:
        """step · batch_size modulo num_data, bit by bit, since the product may not fit into 32 bits."""
        step, start = step % self.num_data, jnp.zeros_like(step)
        for bit in f"{self.batch_size:b}":
            start = (2 * start + (step if bit == "1" else 0)) % self.num_data
        return start


#: What `sivi.fit` calls them.
BATCHING: dict[str, type[Batches]] = {"shuffle": ShuffledBatches, "rotate": RotatingBatches}
