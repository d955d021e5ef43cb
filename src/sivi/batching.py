"""Which data a step sees: minibatches of shuffled epochs, on the device."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PRNGKeyArray


class ShuffledBatches(eqx.Module):
    """Minibatches without replacement within an epoch; every epoch has its own permutation.

    The order is a pure function of the key and the step, so a resumed run sees the same batches. The rows
    left over at the end of an epoch are dropped; which ones they are changes with the permutation.

    Attributes:
        key: Key of all permutations; or several keys, and then as many permutations at a time.
        num_data: Number of rows.
        batch_size: Rows per batch.
    """

    key: Key[Array, "*keys"]
    num_data: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    @property
    def steps_per_epoch(self) -> int:
        return self.num_data // self.batch_size

    def order(self, step: Int[Array, ""]) -> Int[Array, "*keys num_data"]:
        """The permutation of the epoch that a step belongs to."""

        def draw(key: PRNGKeyArray) -> Int[Array, " num_data"]:
            return jax.random.permutation(jax.random.fold_in(key, step // self.steps_per_epoch), self.num_data)

        return (jax.vmap(draw) if self.key.ndim else draw)(self.key)

    def next_order(self, step: Int[Array, ""], order: Int[Array, "*keys num_data"]) -> Int[Array, "*keys num_data"]:
        """The permutation at `step`, given the one at the step before: drawn only when an epoch starts."""
        starts = step % self.steps_per_epoch == 0
        return jax.lax.cond(starts, lambda now: self.order(now), lambda now: order, step)

    def batch(self, step: Int[Array, ""], order: Int[Array, " num_data"]) -> Int[Array, " batch_size"]:
        """The row indices of a step."""
        start = (step % self.steps_per_epoch) * self.batch_size
        return jax.lax.dynamic_slice(jnp.asarray(order), (start,), (self.batch_size,))
