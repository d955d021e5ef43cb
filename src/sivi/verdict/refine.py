"""`Posterior.refine`: draws carried on by the chains of the check until their own verdict has no finding."""

import time
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .._arguments import as_key, check_positive, describe
from .._layout import Layout
from .._traced import float_types_of
from .._types import KeyLike
from ..targets import Target
from . import limits
from .check import check, target_of
from .check_draws import check_draws
from .draws import late_draws
from .errors import errors_of_the_density
from .findings import worst_first
from .inference import judged_of
from .quantities import quantities_of
from .refined import Refined
from .result import SLOW, Cost, ModeFound, Verdict

#: Rounds at most: the budget ends it before. A round that is shorter than this says too little.
_MOST_ROUNDS, _SHORTEST = 16, 0.5
#: How a refinement ended that Ctrl-C has stopped.
INTERRUPTED = "interrupted"


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
    fault or the effort is spent; `Refined.ended` says which. Where slight effects are left (`Verdict.slight`), there is
    one more round. Chains that are slow understate a fault, so what is left is what the last verdict says, at least.
    The share of a mode is that which the draws were picked by, its mass; where masses are not known nothing was picked,
    and it is the share that the first check found.

    Args:
        posterior: A `Posterior`, or draws in any form that `sivi.check` takes.
        target: As for `sivi.check`.
        key: An int or a JAX key.
        effort: Most gradients to spend, in units of the most that a check's chains take, about 2.2 million. A round is
            only begun if what it plans is left; the first is half of one, at the least.
        verdict: That of a check of the same draws, if there was one; its chains are carried on.

    Returns:
        The draws. After Ctrl-C, those of the last round that was judged, or the late states of the check's chains.
    """
    begin = time.perf_counter()
    budget = check_positive("effort", effort) * limits.CHAINS * limits.GRADIENTS_ALL
    posterior, target = judged_of(posterior, target)
    found = target_of(posterior, target)
    if verdict is not None and not (isinstance(verdict, Verdict) and _alike(verdict.layout, found.layout)):
        got = f"one of {', '.join(verdict.layout.names)}" if isinstance(verdict, Verdict) else describe(verdict)
        raise ValueError(f"verdict must be that of a check of {', '.join(found.layout.names)}; got {got}.")
    first_key, run_key = jax.random.split(as_key(key))
    spent = 0
    if verdict is None:
        verdict = check(posterior, target, key=first_key)
        spent = verdict.cost.gradients
        if verdict.interrupted:
            return Refined(verdict.late, verdict.layout, None, verdict.cost, INTERRUPTED)
    if np.isnan(verdict.memory):  # no chains ran: nothing to start from, or data too many
        cost = Cost(time.perf_counter() - begin, spent)
        return Refined(verdict.late, verdict.layout, verdict, cost, "not refined")
    with float_types_of(found), errors_of_the_density():
        return _rounds(run_key, found, verdict, budget, begin, spent)


def _rounds(key: PRNGKeyArray, target: Target, first: Verdict, budget: float, begin: float, spent: int) -> Refined:
    late, last, length, is_last, ended = first.late, None, 1.0, False, None
    draws = late
    # Chains stay in their modes, whose weights are those that the first check found.
    modes = _picked(first.modes)
    unmended = [item for item in first.findings if item.kind in ("lost mode", "mode weight")]
    unmended = unmended if modes is first.modes else []
    for number in range(_MOST_ROUNDS):
        round_key = jax.random.fold_in(key, number)
        starting = late_draws(round_key, late, quantities_of(target))
        left = (budget - spent) / (len(starting.starts) * limits.GRADIENTS_ALL)
        if last is not None and left < _SHORTEST:
            break
        length = min(length, max(left, _SHORTEST))
        settings = {"effort": length, "first": length, "modes": False, "begin": time.perf_counter()}
        try:
            judged = check_draws(round_key, target, starting, **settings)
        except KeyboardInterrupt:
            ended = INTERRUPTED
            break
        spent += judged.cost.gradients
        if judged.findings and is_last:
            break  # what was there before the one more round is better
        # Of several modes, chains remember which one they are in.
        left_out = ("modes", SLOW) if len(modes) > 1 else ("modes",)
        notes = tuple(note for note in judged.not_looked_at if not note.startswith(left_out))
        notes += tuple(note for note in first.not_looked_at if "modes" in note.partition(":")[0])
        found = worst_first([*judged.findings, *unmended])
        draws, last = late, replace(judged, findings=found, modes=modes, not_looked_at=notes)
        if not judged.findings and (not judged.slight or is_last):
            break
        is_last = not judged.findings
        late, length = judged.late, 2.0 * length
    if ended is None:
        ended = limits.NO_FAULT if last is not None and not last.findings else "budget spent"
    return Refined(draws, first.layout, last, Cost(time.perf_counter() - begin, spent), ended)


def _alike(first: Layout, second: Layout) -> bool:
    return (first.names, first.dim) == (second.names, second.dim)


def _picked(modes: tuple[ModeFound, ...]) -> tuple[ModeFound, ...]:
    """Modes with the share that the refined draws have of them: their mass, if all were weighed."""
    weighed = [mode for mode in modes if np.isfinite(mode.mass) and mode.mass > 0.0]
    if len(weighed) < 2 or any(not mode.error < limits.UNKNOWN_MASS for mode in modes):
        return modes
    total = sum(mode.mass for mode in weighed)
    return tuple(mode._replace(share=mode.mass / total if mode.mass > 0.0 else 0.0) for mode in modes)
