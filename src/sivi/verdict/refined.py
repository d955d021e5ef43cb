"""Draws that chains on the exact target have carried on."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .._arguments import as_key, check_count, default_float, needs_key
from .._layout import Layout
from .._types import KeyLike

if TYPE_CHECKING:
    from xarray import DataTree

    from .result import Cost, Verdict

_SAMPLE = 7  # folded into the key of draws


@dataclass(frozen=True, eq=False, repr=False)
class Refined:
    """Draws of a posterior, mended: carried on by chains on the target, modes weighed by their masses.

    Attributes:
        draws: All of them, unconstrained: several of every chain, so not independent.
        layout: Names, shapes and constraints of the unknowns.
        verdict: What a check of these draws, by chains of its own, has found; None if there was none.
        cost: Seconds and gradients of the refinement, with its checks; without that of a verdict it was given.
        ended: "no fault found" if the last check found none, "budget spent" if the effort ran out before, "not judged"
            without a check, "not refined" where chains could not run: the verdict says why; "interrupted" by Ctrl-C.
    """

    draws: Float[np.ndarray, "n dim"]
    layout: Layout
    verdict: "Verdict | None"
    cost: "Cost"
    ended: str

    @property
    def dim(self) -> int:
        return self.layout.dim

    @needs_key
    def sample(self, num_samples: int, key: KeyLike) -> PyTree:
        """Draws in the form of `Posterior.sample`.

        They are picked from the stored ones, without repetition as long as those suffice.

        Args:
            num_samples: How many.
            key: An int or a JAX key.
        """
        points = self.unconstrained(num_samples, key)
        return points if self.layout.is_vector else self.layout.unravel_many(points)

    @needs_key
    def unconstrained(self, num_samples: int, key: KeyLike) -> Float[Array, "num_samples dim"]:
        """The draws of `sample` as plain vectors of real numbers, (num_samples, dim)."""
        num_samples = check_count("num_samples", num_samples)
        key = jax.random.fold_in(as_key(key), _SAMPLE)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        stored = len(self.draws)
        if not stored:
            raise ValueError("there are no draws: none of those that were judged is finite.")
        rounds = [rng.permutation(stored) for _ in range(-(-num_samples // stored))]
        return jnp.asarray(self.draws[np.concatenate(rounds)[:num_samples]], default_float())

    def to_arviz(self, num_samples: int = 1000, key: KeyLike = 0) -> "DataTree":
        """The draws as an ArviZ 1.x `DataTree` with one chain; needs the packages of `pip install 'sivi[arviz]'`.

        Args:
            num_samples: Draws.
            key: An int or a JAX key.
        """
        from ..interop.arviz import draws_to_arviz

        return draws_to_arviz(np.asarray(self.unconstrained(num_samples, key))[None], self.layout)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the draws and their verdict to one file, whole or not at all; see `sivi.load_verdict`.

        Args:
            path: The file's name. An existing file is replaced.
        """
        from .files import save_refined

        save_refined(self, path)

    def __repr__(self) -> str:
        judged = "" if self.verdict is None else f"\n{self.verdict}"
        return f"refined: {len(self.draws):,} draws of {self.dim} unknowns, {self.ended} ({self.cost}){judged}"
