"""The one loop that every sampler runs in: steps in chunks, draws kept, progress shown, infinities refused."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._layout import Layout
from .._programs import compiled
from .._progress import ProgressBar
from .run import SamplerRun


class Moved(NamedTuple):
    """What one step of all chains gave.

    Attributes:
        positions: Where the chains are now.
        acceptance: Their acceptance probabilities; None for a sampler that accepts every step.
        diverged: Whether their energy error blew up; None for a sampler without trajectories.
    """

    positions: Float[Array, "chains dim"]
    acceptance: Float[Array, " chains"] | None = None
    diverged: Bool[Array, " chains"] | None = None


class SamplerKernel(eqx.Module):
    """What tells one sampler from another: how all chains make one step together."""

    @abc.abstractmethod
    def step(self, index: Int[Array, ""], state: PyTree) -> tuple[PyTree, Moved]:
        """One step of all chains.

        Args:
            index: The number of the step, from 0. Randomness comes from it and from a key that the kernel holds.
            state: What the step before returned.

        Returns:
            The next state, of the same structure, and what happened.
        """


class Kept(eqx.Module):
    """What stays of the steps.

    Attributes:
        draws: The states to come back.
        acceptance: Sum of the acceptance probabilities over the steps that led to a draw.
        diverging: Whether the step that led to each draw diverged.
    """

    draws: Float[Array, "draws chains dim"]
    acceptance: Float[Array, " chains"] | None
    diverging: Bool[Array, "draws chains"] | None

    @staticmethod
    def empty(num_samples: int, starts: Float[Array, "chains dim"], *, has_trajectories: bool) -> "Kept":
        """Room for the draws, and for acceptance and divergences of a sampler that has trajectories."""
        num_chains = starts.shape[0]
        return Kept(
            draws=jnp.zeros((num_samples, *starts.shape), starts.dtype),
            acceptance=jnp.zeros(num_chains, starts.dtype) if has_trajectories else None,
            diverging=jnp.zeros((num_samples, num_chains), bool) if has_trajectories else None,
        )

    def as_run(
        self,
        sampler: str,
        layout: Layout,
        step_size: float | Float[np.ndarray, " chains"] | None,
        max_depth_hits: int | None = None,
        num_gradients: int | None = None,
        interacting: bool = False,
    ) -> SamplerRun:
        """The result that the user gets, on the host, chain by chain."""
        return SamplerRun(
            draws=np.asarray(jnp.swapaxes(self.draws, 0, 1)),
            layout=layout,
            step_size=step_size,
            acceptance=None if self.acceptance is None else np.asarray(self.acceptance / len(self.draws)),
            diverging=None if self.diverging is None else np.asarray(self.diverging.T),
            max_depth_hits=max_depth_hits,
            sampler=sampler,
            num_gradients=num_gradients,
            interacting=interacting,
        )


def run_kernel(
    kernel: SamplerKernel,
    state: PyTree,
    kept: Kept,
    bar: ProgressBar,
    *,
    num_burn_in: int = 0,
    thin: int = 1,
    chunk_size: int,
) -> tuple[PyTree, Kept]:
    """Run a kernel until all places of `kept` are filled.

    Args:
        kernel: The sampler.
        state: Its first state.
        kept: Empty places for the draws.
        bar: Told of every chunk, or of shorter stretches if it shows them.
        num_burn_in: Steps before the one that gives the first draw.
        thin: Steps between two draws.
        chunk_size: Steps between two visits to Python. The result does not depend on it.

    Returns:
        The last state, and what was kept.

    Raises:
        FloatingPointError: A chain has diverged to infinity.
    """
    num_steps = num_burn_in + 1 + (len(kept.draws) - 1) * thin
    places = (jnp.int32(num_burn_in), jnp.int32(thin))
    chunks = ((first, min(first + chunk_size, num_steps)) for first in range(0, num_steps, chunk_size))
    for first, last in (stretch for chunk in chunks for stretch in bar.stretches(*chunk)):
        state, kept, num_lost = _run_chunk(kernel, state, kept, jnp.int32(first), jnp.int32(last), *places)
        if int(num_lost):
            raise FloatingPointError(
                f"{int(num_lost)} of {kept.draws.shape[1]} chains are not finite after {last} steps: the step size is "
                "too large."
            )
        bar.update(last - first, {})
    return state, kept


@compiled
def _run_chunk(
    kernel: SamplerKernel,
    state: PyTree,
    kept: Kept,
    first: Int[Array, ""],
    last: Int[Array, ""],
    num_burn_in: Int[Array, ""],
    thin: Int[Array, ""],
) -> tuple[PyTree, Kept, Int[Array, ""]]:
    """The steps from `first` to `last`, and how many chains are not finite after them.

    All numbers are arguments, so that one program serves every chunk.
    """

    def body(loop: tuple[Array, PyTree, Kept, Bool[Array, " chains"]]) -> tuple[Array, PyTree, Kept, Array]:
        index, state, kept, _ = loop
        state, moved = kernel.step(index, state)
        # Every state is written to the place of the next draw due; the one that is due stays, since no other follows.
        place = jnp.maximum(0, (index - num_burn_in + thin - 1) // thin)
        acceptance, diverging = kept.acceptance, kept.diverging
        if acceptance is not None and moved.acceptance is not None:
            is_due = (index >= num_burn_in) & ((index - num_burn_in) % thin == 0)
            acceptance = acceptance + jnp.where(is_due, moved.acceptance, 0.0)
        if diverging is not None and moved.diverged is not None:
            diverging = diverging.at[place].set(moved.diverged)
        is_finite = jnp.all(jnp.isfinite(moved.positions), axis=1)
        return index + 1, state, Kept(kept.draws.at[place].set(moved.positions), acceptance, diverging), is_finite

    everywhere = jnp.ones(kept.draws.shape[1], bool)
    _, state, kept, is_finite = jax.lax.while_loop(lambda loop: loop[0] < last, body, (first, state, kept, everywhere))
    return state, kept, jnp.sum(~is_finite)
