"""What is judged: draws of a posterior, or from elsewhere, as arrays that the checks can use."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from .._arguments import describe
from .._layout import Layout
from ..posterior import Posterior
from ..samplers.diagnostics import MIN_DRAWS, effective_sample_size, scale_sample_size
from ..samplers.run import SamplerRun, free_names
from . import limits
from .quantities import Quantities

#: Unknowns of which the effective size is computed, at most: it takes ranks of all draws.
_MOST_COLUMNS = 128


class WorthTooFew(ValueError):
    """Draws are so dependent that nothing can be said of them."""


class Draws(NamedTuple):
    """Draws of q, for their several uses.

    Attributes:
        reference: Those whose means are compared with the chains'.
        size: How many independent draws the reference is worth.
        starts: Of the chains: independent, as far as can be told.
        tuning: For the step size.
        frame: For the coordinates.
        frame_size: How many independent draws those are worth.
        not_finite: Share of the draws that is not finite, and left out.
        constant: Names of the unknowns that are the same number in all draws.
        notes: What cannot be judged of so few.
        repeats: Of a fit with several: the number of the one that every draw of the reference, and every start, is of.
        num_repeats: How many there are.
        groups: Of a target with symmetries, the chain or the repeat that every draw of `frame` is of: each has modes
            of its own.
    """

    reference: Float[np.ndarray, "n dim"]
    size: float
    starts: Float[np.ndarray, "chains dim"]
    tuning: Float[np.ndarray, "tuning dim"]
    frame: Float[np.ndarray, "frame dim"]
    frame_size: float
    not_finite: float = 0.0
    constant: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    repeats: tuple[Int[np.ndarray, " n"], Int[np.ndarray, " chains"]] | None = None
    num_repeats: int = 1
    groups: Int[np.ndarray, " frame"] | None = None

    @property
    def for_chains(self) -> Float[np.ndarray, "frame dim"]:
        """Draws whose covariance is that of the chains' coordinates: that within the groups, where there are some.

        What lies between modes is no scale of a step within one.
        """
        if self.groups is None:
            return self.frame
        found = self.frame.astype(float)
        for group in np.unique(self.groups):
            own = self.groups == group
            found[own] -= found[own].mean(0)
        return (found + self.frame.mean(0)).astype(self.frame.dtype)

    def of_repeat(self, number: int) -> "Draws":
        """The reference and the starts of one repeat."""
        assert self.repeats is not None
        reference, starts = (part == number for part in self.repeats)
        own = self.size * float(reference.mean())
        return self._replace(reference=self.reference[reference], size=own, starts=self.starts[starts])


def posterior_draws(posterior: Posterior, key: PRNGKeyArray, num_chains: int, judged: Quantities) -> Draws:
    """Fresh draws of a posterior, in one call: every number of them is a program of its own.

    Args:
        posterior: q.
        key: Random key.
        num_chains: Starts of chains.
        judged: What is judged. If that is predictions, no repeat is judged alone: none has to be right.
    """
    num_frame = limits.COORDINATE_DRAWS
    if posterior.dim <= limits.MAX_DIM_DENSE:
        num_frame = max(num_frame, limits.COORDINATE_DRAWS_PER_DIM * posterior.dim)
    counts = (limits.REFERENCE_DRAWS, num_frame, num_chains, limits.TUNING_DRAWS)
    each = -(-sum(counts) // posterior.repeats)
    by_repeat = np.asarray(posterior.unconstrained(each, key, by_repeat=True))
    drawn = by_repeat.swapaxes(0, 1).reshape(-1, posterior.dim)[: sum(counts)]  # of the repeats in turn
    finite = np.asarray(np.isfinite(drawn).all(axis=1))
    if not finite.any():
        return Draws(drawn[:0], 0.0, drawn[:0], drawn[:0], drawn[:0], 0.0, not_finite=1.0)
    parts = np.split(np.arange(len(drawn)), np.cumsum(counts)[:-1])
    reference, frame, starts, tuning = (drawn[part][finite[part]] for part in parts)
    repeats, groups, notes = None, None, ()
    if posterior.repeats > 1 and judged.are_predictions:
        groups = parts[1][finite[parts[1]]] % posterior.repeats
        notes = (f"each repeat alone: the {posterior.repeats} are judged together, as the mixture that they are",)
    elif posterior.repeats > 1:
        repeats = tuple(part[finite[part]] % posterior.repeats for part in (parts[0], parts[2]))
    return Draws(
        reference,
        float(len(reference)),
        starts,
        tuning,
        frame,
        float(len(frame)),
        not_finite=1.0 - float(finite.mean()),
        constant=_constant(reference, posterior.layout),
        notes=notes,
        groups=groups,
        repeats=repeats,
        num_repeats=posterior.repeats,
    )


def given_draws(
    chains: Float[np.ndarray, "chains draws dim"], judged: Quantities, key: PRNGKeyArray, num: int
) -> Draws:
    """Draws from elsewhere, thinned to about their effective size.

    The same draws are reference and starts: what a chain adds to its start is independent of it. Coordinates are those
    of other draws where there are many, or many unknowns: along directions of most spread, the draws that chose them
    are wider than others.

    Args:
        chains: Unconstrained, chain by chain; draws without chains are one chain.
        judged: What is judged, which tells how many independent draws there are.
        key: Random key: which of the draws chains start from.
        num: Chains, at most.
    """
    layout = judged.target.layout
    total = _checked_total(chains, layout)
    size = _effective_size(judged.for_size(chains))
    every = max(1, int(total / size))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    for_frame, others, worth = chains, chains, size
    if len(judged.names) > limits.MAX_DIM_DENSE or size >= limits.ENOUGH_TO_SPLIT:
        half = -(-chains.shape[1] // 2)
        for_frame, others, worth = chains[:, :half], chains[:, half:], size / 2.0
    thinned = others[:, (others.shape[1] - 1) % every :: every].reshape(-1, layout.dim)
    flat = others.reshape(-1, layout.dim)
    reference = flat[np.linspace(0, len(flat) - 1, min(len(flat), limits.REFERENCE_DRAWS)).astype(int)]
    order = rng.permutation(len(thinned))
    starts = thinned[order[:num]]
    frame = for_frame.reshape(-1, layout.dim)
    # Draws that no chain starts from tune the step, if there are enough of them.
    tuning = (
        thinned[order[::-1][: limits.TUNING_DRAWS]]
        if for_frame is chains
        else frame[:: max(1, len(frame) // limits.TUNING_DRAWS)]
    )
    notes = []
    if size < limits.ENOUGH_DRAWS:
        notes.append(
            f"tails and faults near the limits: {total:,} draws are worth {size:,.0f} independent ones, and "
            f"{limits.ENOUGH_DRAWS:,} are needed"
        )
    if len(starts) < limits.FEWEST_DRAWS:
        raise WorthTooFew(
            f"draws must be worth {limits.FEWEST_DRAWS} independent ones or more; these {total:,} are worth {size:.0f}."
        )
    groups = np.repeat(np.arange(len(chains)), for_frame.shape[1]) if judged.are_predictions else None
    size = min(worth, float(len(reference)))
    return Draws(reference, size, starts, tuning, frame, worth, notes=tuple(notes), groups=groups)


def refined_draws(late: Float[np.ndarray, "n dim"], judged: Quantities, key: PRNGKeyArray, num: int) -> Draws:
    """Draws of a `Refined`, which are late states of chains.

    Args:
        late: Unconstrained.
        judged: What is judged.
        key: Random key: which of the draws tune the step.
        num: Chains, at most.
    """
    _checked_total(late[None], judged.target.layout)
    return late_draws(key, late, judged, num)


def late_draws(
    key: PRNGKeyArray, late: Float[np.ndarray, "n dim"], judged: Quantities, num: int = limits.CHAINS
) -> Draws:
    """Late states of chains, as draws to be judged: worth one independent draw for each chain, at least."""
    num_chains = max(limits.FEWEST_DRAWS, len(late) // (limits.SNAPSHOTS // 2))
    chain = np.arange(len(late)) % num_chains
    mine = np.ones(len(late), bool)
    if len(judged.names) > limits.MAX_DIM_DENSE:  # coordinates are then those of other chains
        mine = chain % 2 == 0
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    frame = late[~mine] if not mine.all() else late
    reference, size = late[mine], num_chains * float(mine.mean())
    # The last snapshot of all chains comes last where there is one mode; a start for every chain then.
    starts = reference[-int(min(size, num)) :]
    tuning = frame[rng.permutation(len(frame))[: limits.TUNING_DRAWS]]
    return Draws(reference, size, starts, tuning, frame, float(num_chains))


def _checked_total(chains: Float[np.ndarray, "chains draws dim"], layout: Layout) -> int:
    """The number of draws; refuses those that are not finite, too few, or do not vary."""
    _with_dim(chains, layout)
    if not np.isfinite(chains).all():
        rows = int((~np.isfinite(chains)).any(-1).sum())
        raise ValueError(f"draws must be finite; {rows:,} of {chains[..., 0].size:,} are not.")
    total = chains.shape[0] * chains.shape[1]
    if total < limits.FEWEST_DRAWS:
        raise ValueError(f"draws must be at least {limits.FEWEST_DRAWS} to be judged; got {total}.")
    flat = chains.reshape(-1, chains.shape[-1])
    if constant := _constant(flat, layout):
        value = flat[0, free_names(layout).index(constant[0])]
        raise ValueError(f"draws must vary in every unknown; {constant[0]} is {value:g} in all of them.")
    return total


def as_chains(draws: Any, layout: Layout) -> Float[np.ndarray, "chains draws dim"]:
    """Draws in any of the forms that are taken, as one array of unconstrained vectors."""
    if isinstance(draws, SamplerRun):
        return _with_dim(np.asarray(draws.draws), layout)
    if isinstance(draws, dict) or not (layout.is_vector or _is_array(draws)):
        return _from_structure(draws, layout)
    kind = np.dtype(getattr(draws, "dtype", np.float64)).kind
    if kind not in "fiub":
        raise TypeError(f"draws must be real numbers; got an array of {np.dtype(draws.dtype).name}.")
    try:
        array = np.asarray(draws, np.result_type(np.float32, getattr(draws, "dtype", np.float64)))
    except (TypeError, ValueError):
        raise TypeError(
            f"draws must be a posterior, an array, a SamplerRun or a dict; got {describe(draws)}."
        ) from None
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise ValueError(f"draws must have shape (draws, dim) or (chains, draws, dim); got {array.shape}.")
    return _with_dim(array, layout)


def _with_dim(array: np.ndarray, layout: Layout) -> np.ndarray:
    if array.shape[-1] != layout.dim:
        raise ValueError(f"draws must have the target's {layout.dim} unknowns; got {array.shape[-1]}.")
    return array


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, jax.Array))


def _from_structure(draws: Any, layout: Layout) -> np.ndarray:
    """A structure as `sample()` returns it, or a flat dict by name, with or without an axis of chains."""
    if isinstance(draws, dict) and set(draws) == set(layout.names):
        draws = jax.tree.unflatten(layout.treedef, [draws[name] for name in layout.names])
    try:
        leaves = layout.treedef.flatten_up_to(draws)
    except ValueError:
        keys = sorted(map(str, draws)) if isinstance(draws, dict) else describe(draws)
        raise ValueError(f"draws must have the unknowns {', '.join(layout.names)}; got {keys}.") from None
    leaves = [np.asarray(leaf) for leaf in leaves]
    num_axes = leaves[0].ndim - len(layout.variables[0].shape)
    if num_axes not in (1, 2):
        raise ValueError(
            f"draws: variable {layout.names[0]!r} must have shape (draws, *{layout.variables[0].shape}) or "
            f"(chains, draws, *{layout.variables[0].shape}); got {leaves[0].shape}."
        )
    leading = {leaf.shape[:num_axes] for leaf in leaves}
    if len(leading) > 1:
        raise ValueError(f"draws must be as many of every unknown; got {sorted(leading)}.")
    flat = [leaf.reshape(-1, *leaf.shape[num_axes:]) for leaf in leaves]
    if not all(np.isfinite(leaf).all() for leaf in flat):
        raise ValueError("draws must be finite; some are not.")
    tree = jax.tree.unflatten(layout.treedef, flat)
    vectors = np.asarray(layout.ravel_many(tree))
    shape = leaves[0].shape[:num_axes]
    return vectors.reshape(*(shape if num_axes == 2 else (1, *shape)), layout.dim)


def _constant(draws: np.ndarray, layout: Layout) -> tuple[str, ...]:
    """Names of the unknowns that do not vary."""
    if not len(draws):
        return ()
    names = free_names(layout)
    return tuple(names[int(i)] for i in np.flatnonzero(np.ptp(draws, axis=0) == 0.0))


def _effective_size(chains: np.ndarray) -> float:
    """The smallest effective size of an unknown, in location or scale."""
    total = chains.shape[0] * chains.shape[1]
    if chains.shape[1] < 2 * MIN_DRAWS:
        return float(chains.shape[0])
    columns = np.linspace(0, chains.shape[2] - 1, min(chains.shape[2], _MOST_COLUMNS)).astype(int)
    part = chains[..., columns]
    sizes = np.minimum(effective_sample_size(part), scale_sample_size(part))
    # Independent draws seem to be worth a little less than they are in the worst of many unknowns.
    size = float(np.nanmin(sizes)) if np.isfinite(sizes).any() else 1.0
    return float(total) if size > 0.8 * total else max(size, 1.0)
