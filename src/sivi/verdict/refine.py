"""`Posterior.refine`: draws carried on by the chains of the check until their own verdict has no finding."""

import time
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._arguments import as_key, check_positive
from .._traced import float_types_of
from .._types import KeyLike
from ..targets import Target
from . import limits
from .check import check, check_draws, target_of
from .draws import Draws
from .errors import errors_of_the_density
from .refined import Refined
from .result import Cost, Verdict

#: Rounds at most: the budget ends it before.
_MOST_ROUNDS = 16


def refine(
    posterior: Any,
    target: Any = None,
    *,
    key: KeyLike = 0,
    effort: float = limits.REFINE_EFFORT,
    verdict: Verdict | None = None,
) -> Refined:
    """Mend draws with chains on the exact target, which start from them.

    The draws are checked, and replaced by late states of the check's chains, with every mode as often as its mass
    says. These are checked in turn, by chains of their own that run twice as far, and so on, until a check finds no
    fault or the effort is spent; `Refined.ended` says which. Chains that are slow understate a fault, so what is left
    is what the last verdict says, at least.

    Args:
        posterior: A `Posterior`, or draws in any form that `sivi.check` takes.
        target: As for `sivi.check`.
        key: An int or a JAX key.
        effort: Most gradients to spend, in units of the most that a check's chains take, about 2.2 million.
        verdict: That of a check of the same draws, if there was one; its chains are carried on.
    """
    begin = time.perf_counter()
    budget = check_positive("effort", effort) * limits.CHAINS * limits.GRADIENTS_ALL
    found = target_of(posterior, target)
    first_key, run_key = jax.random.split(as_key(key))
    spent = 0
    if verdict is None:
        verdict = check(posterior, target, key=first_key)
        spent = verdict.cost.gradients
    if np.isnan(verdict.memory):  # no chains ran: nothing to start from, or data too many
        cost = Cost(time.perf_counter() - begin, spent)
        return Refined(verdict.late, verdict.layout, verdict, cost, "not refined")
    with float_types_of(found), errors_of_the_density():
        return _rounds(run_key, found, verdict, budget, begin, spent)


def _rounds(key: PRNGKeyArray, target: Target, first: Verdict, budget: float, begin: float, spent: int) -> Refined:
    late, last, length = first.late, None, 1.0
    draws = late
    for number in range(_MOST_ROUNDS):
        round_key = jax.random.fold_in(key, number)
        judged = check_draws(
            round_key, target, late_draws(round_key, late), effort=length, modes=False, begin=begin, first=length
        )
        spent += judged.cost.gradients
        # Chains stay in their modes, whose weights are those that the first check found.
        modes = tuple(mode._replace(share=mode.mass) for mode in first.modes)
        notes = tuple(note for note in judged.not_looked_at if not note.startswith("modes"))
        notes += tuple(note for note in first.not_looked_at if "modes" in note.partition(":")[0])
        draws, last = late, replace(judged, modes=modes, not_looked_at=notes)
        if not judged.findings or spent >= budget:
            break
        late, length = judged.late, 2.0 * length
    ended = limits.NO_FAULT if last is not None and not last.findings else "budget spent"
    return Refined(draws, first.layout, last, Cost(time.perf_counter() - begin, spent), ended)


def late_draws(key: PRNGKeyArray, late: Float[np.ndarray, "n dim"]) -> Draws:
    """Late states of chains, as draws to be judged: worth one independent draw for each chain, at least."""
    num_chains = max(limits.FEWEST_DRAWS, len(late) // (limits.SNAPSHOTS // 2))
    chain = np.arange(len(late)) % num_chains
    judged = np.ones(len(late), bool)
    if late.shape[1] > limits.MAX_DIM_DENSE:  # coordinates are then those of other chains
        judged = chain % 2 == 0
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    frame = late[~judged] if not judged.all() else late
    reference, size = late[judged], num_chains * float(judged.mean())
    # The last snapshot of all chains comes last where there is one mode; a start for every chain then.
    starts = reference[-int(min(size, limits.CHAINS)) :]
    tuning = frame[rng.permutation(len(frame))[: limits.TUNING_DRAWS]]
    return Draws(reference, size, starts, tuning, frame, float(num_chains))
