"""Which data a step sees: windows of shuffled rows, on the device, a pure function of the key and the step."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray

from ._host_random import generator, is_concrete


def window(order: Int[Array, " num_data"], start: Int[Array, "..."], size: int) -> Int[Array, "... size"]:
    """`size` entries of a permutation from `start` on, over its end to its beginning.

    Args:
        order: The permutation of the rows.
        start: One starting position, or several with a last axis of length 1.
        size: Rows per window.
    """
    return order[(start + jnp.arange(size)) % order.shape[0]]


class Batches(eqx.Module):
    """Windows of a permutation of the rows. A resumed run sees the same ones.

    Attributes:
        key: Key of all permutations; or several keys, for as many permutations at a time.
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
        return jax.lax.cond(starts, lambda first: self.order(first), lambda first: order, step)

    def batch(self, step: Int[Array, ""], order: Int[Array, " num_data"]) -> Int[Array, " batch_size"]:
        start = (step % self.steps_per_epoch) * self.batch_size
        return jax.lax.dynamic_slice(jnp.asarray(order), (start,), (self.batch_size,))


class RotatingBatches(Batches):
    """One permutation for the whole run, read cyclically.

    Where the batch size divides the number of rows, the same few batches come back in rotation.
    """

    def order(self, step: Int[Array, ""]) -> Int[Array, "*keys num_data"]:
        return self._permutation(0)

    def next_order(self, step: Int[Array, ""], order: Int[Array, "*keys num_data"]) -> Int[Array, "*keys num_data"]:
        return order

    def batch(self, step: Int[Array, ""], order: Int[Array, " num_data"]) -> Int[Array, " batch_size"]:
        return window(jnp.asarray(order), self._start(step), self.batch_size)

    def _start(self, step: Int[Array, ""]) -> Int[Array, ""]:
        """step · batch_size modulo num_data, bit by bit, since the product may not fit into 32 bits."""
        step, start = step % self.num_data, jnp.zeros_like(step)
        for bit in f"{self.batch_size:b}":
            start = (2 * start + (step if bit == "1" else 0)) % self.num_data
        return start


class ParticleBatches(eqx.Module):
    """A minibatch for every particle: all read the same shuffled epoch, each from its own random position.

    Whatever the permutation, the mean over the positions is the mean over all rows. So the particles share no noise of
    the batches, and no row is left out by all of them.

    Attributes:
        shuffled: The permutation of every epoch.
        key: Key of the starting positions, which are drawn anew for every epoch.
        num_particles: Number of particles.
    """

    shuffled: ShuffledBatches
    key: PRNGKeyArray
    num_particles: int = eqx.field(static=True)

    def rows(self, step: Int[Array, ""], order: Int[Array, " num_data"]) -> Int[Array, "particles batch"]:
        """The row indices of a step, for every particle, given the permutation of its epoch."""
        num_data, size = self.shuffled.num_data, self.shuffled.batch_size
        epoch, place = jnp.divmod(step, self.shuffled.steps_per_epoch)
        first = jax.random.randint(jax.random.fold_in(self.key, epoch), (self.num_particles, 1), 0, num_data)
        return window(order, first + place * size, size)


#: The largest part of the data, in windows, that `BatchWindows.part` returns.
MAX_WINDOWS = 8


class BatchWindows(eqx.Module):
    """Windows of one permutation, read cyclically, of any size: what the warm-up sees of the data.

    All rows are seen equally often, so that their noise cancels over a round instead of adding up.

    Attributes:
        order: A permutation of the rows.
        size: Rows per window.
    """

    order: Int[Array, " num_data"]
    size: int = eqx.field(static=True)

    @staticmethod
    def for_run(key: PRNGKeyArray, num_data: int, batch_size: int, num_steps: int) -> "BatchWindows | None":
        """Windows of `batch_size` rows, or more, so that half of the steps see all rows; None if one window is all."""
        size = min(num_data, max(batch_size, -(-2 * num_data // num_steps)))
        if size == num_data:
            return None
        if is_concrete(key):  # by NumPy, which has no program to compile
            return BatchWindows(jnp.asarray(generator(key).permutation(num_data).astype(np.int32)), size)
        return BatchWindows(jax.random.permutation(key, num_data), size)

    def at(self, step: Int[Array, ""]) -> Int[Array, " size"]:
        """The row indices of a step."""
        return window(self.order, self._start(step), self.size)

    def part(self, k: Int[Array, ""], num: int, first: Int[Array, ""]) -> Int[Array, " _"]:
        """The k-th of `num` equal parts of all rows; the first part begins with the window of step `first`.

        A part has at most `MAX_WINDOWS` windows: then the parts together are fewer than all rows.
        """
        num_data = self.order.shape[0]
        size = min(max(self.size, -(-num_data // num)), MAX_WINDOWS * self.size)
        return window(self.order, self._start(first) + k * size, size)

    def _start(self, step: Int[Array, ""]) -> Int[Array, ""]:
        # Modulo the number of windows first: step × size would overflow for large data.
        return (step % -(-self.order.shape[0] // self.size)) * self.size


#: What `sivi.fit` calls them.
BATCHING: dict[str, type[Batches]] = {"shuffle": ShuffledBatches, "rotate": RotatingBatches}
