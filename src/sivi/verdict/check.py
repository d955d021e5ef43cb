"""`sivi.check`: all checks of draws against their target, in order."""

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .._arguments import as_key, check_positive, describe
from .._layout import Layout
from .._traced import float_types_of
from .._types import KeyLike
from ..posterior import Posterior
from ..samplers.run import SamplerRun, free_names
from ..targets import Target
from ..targets.evaluate import check_shapes
from ..targets.fingerprint import fingerprint_of, same_fingerprint
from ..targets.functional import as_target
from . import limits
from .chains import evaluate, seconds_per_gradient
from .draws import Draws, as_chains, given_draws, posterior_draws
from .drift import run_drift
from .errors import errors_of_the_density
from .findings import Finding, finding, worst_first
from .frame import frame_of
from .judge import is_suspicious, judge, knows_axes
from .large_data import NOTE, minibatch_score_findings
from .minibatch import minibatch_finding
from .mode_findings import by_mass, findings_of_modes
from .modes import ModeSearch, find_modes
from .repeats import repeat_findings
from .result import INTERRUPTED, Cost, ModeFound, Verdict
from .tuning import tune

_INTERRUPTED = "sivi.check was interrupted before it could say anything; the draws are as they were."


def check(posterior: Any, target: Any = None, *, key: KeyLike = 0, effort: float = 1.0, modes: bool = True) -> Verdict:
    """Can these draws be believed: chains on the exact target start from them, and must not drift away.

    Many short chains of Hamiltonian Monte Carlo start from the draws. If those are draws of the target, so is every
    later state, and means, spreads, correlations and quantiles stay as they were. Where they change, the change is
    extrapolated to chains of any length, and compared with its noise and with limits. Then modes are looked for that
    have no draws, and those that have are weighed. See `Verdict` for the answer.

    Args:
        posterior: A `Posterior`, or draws from elsewhere: an array (draws, dim) or (chains, draws, dim) on the
            unconstrained scale, a `SamplerRun`, or a dict in the form of `Posterior.sample`, with or without a leading
            axis of chains. Correlated draws are thinned.
        target: A sivi `Target`, or a function x -> log p(x). That of the posterior when left out.
        key: An int or a JAX key.
        effort: Multiplies the length of the chains; below 1, their number.
        modes: Whether to look for modes.

    Example:
        >>> import numpy as np, sivi
        >>> draws = 0.5 * np.random.default_rng(0).normal(size=(4000, 2))  # half as wide as the target
        >>> sivi.check(draws, lambda x: -0.5 * (x @ x), modes=False).level
        'bad'
    """
    begin = time.perf_counter()
    effort = check_positive("effort", effort)
    run_key = as_key(key)
    found = target_of(posterior, target)
    with float_types_of(found), errors_of_the_density():
        draw_key, check_key = jax.random.split(run_key)
        num_chains = int(np.clip(limits.CHAINS * effort, limits.FEWEST_CHAINS, limits.CHAINS))
        check_shapes(found, log_prob=found.knows_log_prob)
        if isinstance(posterior, Posterior):
            draws = posterior_draws(posterior, draw_key, num_chains)
            more = repeat_findings(posterior, draw_key)
            batch_size = posterior.settings.batch_size
        else:
            chains = as_chains(posterior, found.layout)
            draws, more, batch_size = given_draws(chains, found.layout, draw_key, num_chains), [], None
        try:
            return check_draws(
                check_key, found, draws, effort=effort, modes=modes, begin=begin, more=more, batch_size=batch_size
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_INTERRUPTED) from None


def check_draws(
    key: PRNGKeyArray,
    target: Target,
    draws: Draws,
    *,
    effort: float,
    modes: bool,
    begin: float,
    more: Sequence[Finding] = (),
    batch_size: int | None = None,
    first: float | None = None,
) -> Verdict:
    """The checks of draws that are in order: finite density, drift, minibatch scale, modes.

    Args:
        key: Random key.
        target: p.
        draws: Of q.
        effort: As for `check`.
        modes: Whether to look for modes.
        begin: When the clock was started.
        more: Findings that are known already.
        batch_size: Of the fit.
        first: Multiplies the gradients of the first round of chains; at most 1 by default.
    """
    tune_key, drift_key, mode_key = jax.random.split(key, 3)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    layout, names = target.layout, free_names(target.layout)
    findings, notes = list(more), list(draws.notes)
    if draws.not_finite > 0.0:
        findings.append(_not_finite(draws.not_finite))
    if len(draws.starts) < limits.FEWEST_DRAWS or len(draws.tuning) < 2:
        notes.append("everything else: too few of the draws are finite")
        return _verdict(findings, None, notes, layout, draws.reference, draws.reference, begin, 0)
    if draws.constant:
        findings.append(_collapsed(draws.constant))
        notes.append("everything else: no chain can start from draws that do not vary")
        return _verdict(findings, None, notes, layout, draws.reference, draws.reference, begin, 0)

    frame = frame_of(draws.frame, draws.frame_size)
    seconds = seconds_per_gradient(target, draws.starts, frame.affine) * limits.PLANNED_GRADIENTS
    allowed = limits.SECONDS * max(effort, 1.0)
    if seconds * limits.SHORT_SHARE > allowed and target.num_data is not None:
        found, gradients = minibatch_score_findings(drift_key, target, frame, draws.reference, names, batch_size)
        some = evaluate(target, draws.reference[:64], frame.affine)
        scale = minibatch_finding(target, batch_size, draws.reference[:64], some.log_prob, rng)
        found, gradients = found if scale is None else [*found, scale], gradients + some.num_gradients
        notes.append(NOTE.format(rows=target.num_data, hours=seconds / 3600.0))
        return _verdict([*findings, *found], None, notes, layout, draws.reference, draws.reference, begin, gradients)
    is_short = seconds > allowed
    if is_short:
        draws = _fewer(draws)
        notes.append(
            "modes, and faults near the limits: fewer chains and no search, since a check would take about "
            f"{seconds / 60.0:.0f} minutes; a larger effort allows it"
        )
    both = evaluate(target, np.concatenate([draws.reference, draws.starts]), frame.affine)
    gradients = both.num_gradients
    reference_log_prob, start_log_prob = np.split(both.log_prob, [len(draws.reference)])
    reference, size = draws.reference, draws.size
    both_usable = np.isfinite(both.grad).all(axis=1)
    if target.knows_log_prob:
        both_usable &= np.isfinite(both.log_prob)
    share = float(np.mean(~both_usable))
    findings += _zero_density(share)
    if share > 0.5:
        notes.append("everything else: most of the draws have no density or no score to start from")
        return _verdict(findings, None, notes, layout, reference, reference, begin, gradients)
    usable, start_usable = np.split(both_usable, [len(draws.reference)])
    reference, reference_log_prob = reference[usable], reference_log_prob[usable]
    draws = draws._replace(starts=draws.starts[start_usable])
    start_log_prob = start_log_prob[start_usable]
    if not target.knows_log_prob:
        notes.append(
            "log density and modes: the target knows only its score, so modes have no mass that can be compared"
        )

    tuned = tune(tune_key, target, draws.tuning, frame.affine)
    drift = run_drift(
        drift_key,
        target,
        frame,
        tuned,
        draws.starts,
        start_log_prob,
        gradients_first=limits.GRADIENTS_FIRST * (min(effort, 1.0) if first is None else first),
        gradients_all=limits.GRADIENTS_ALL * effort,
    )
    drifted = judge(drift, frame, reference, reference_log_prob, size, names, rng)
    if not drifted and is_suspicious(drift, frame, reference, size):
        # A second look, on the same chains further on: where they were slow, it is theirs to say more.
        more_gradients = limits.GRADIENTS_ALL * effort
        drift = run_drift(
            jax.random.fold_in(drift_key, 1),
            target,
            frame,
            tuned,
            draws.starts,
            start_log_prob,
            gradients_first=more_gradients,
            gradients_all=more_gradients,
            before=drift,
        )
        drifted = judge(drift, frame, reference, reference_log_prob, size, names, rng)
    if not knows_axes(size, target.dim):
        notes.append(f"directions: {size:,.0f} draws are few for {target.dim} unknowns")
    gradients += tuned.num_gradients + drift.num_gradients
    findings += drifted
    if drift.acceptance < limits.FEWEST_ACCEPTED:
        findings.append(_not_judged(drift.acceptance))
    scale = minibatch_finding(target, batch_size, reference, reference_log_prob, rng)
    findings += [] if scale is None else [scale]
    search = None
    late = drift.late.reshape(-1, target.dim)
    if modes and not is_short and target.knows_log_prob:
        try:
            ends = drift.late[-1]
            search = find_modes(mode_key, target, frame, tuned, drift.starts, ends, reference, size=size, effort=effort)
        except KeyboardInterrupt:
            notes.append(INTERRUPTED)
    elif not modes:
        notes.append("modes without draws, and the weights of those that have: modes=False")
    if drift.budget_spent and (search is None or len(search.modes) < 2):  # else it is the modes that are remembered
        notes.append(
            f"the full size of faults: the chains are slow here (memory {drift.memory:.2f}), and understate it"
        )
    if search is not None:
        if any(mode.error >= limits.UNKNOWN_MASS for mode in search.modes):
            notes.append("the weights of modes: the mass of some could not be measured")
        gradients += search.num_gradients
        findings += findings_of_modes(search)
        late = by_mass(search, late, rng)
    return _verdict(findings, search, notes, layout, reference, late, begin, gradients, drift.memory)


def _fewer(draws: Draws) -> Draws:
    """Draws of a short check, for a target that takes long."""
    reference = draws.reference[: limits.SHORT_REFERENCE]
    return draws._replace(
        reference=reference,
        size=min(draws.size, float(len(reference))),
        starts=draws.starts[: limits.SHORT_CHAINS],
        tuning=draws.tuning[: limits.SHORT_CHAINS // 2],
    )


def _verdict(
    findings: Sequence[Finding],
    search: ModeSearch | None,
    notes: Sequence[str],
    layout: Layout,
    draws: np.ndarray,
    late: np.ndarray,
    begin: float,
    gradients: int,
    memory: float = float("nan"),
) -> Verdict:
    modes = () if search is None else search.modes
    return Verdict(
        findings=worst_first(findings),
        modes=tuple(ModeFound(np.asarray(m.place), m.mass, m.error, m.share) for m in modes),
        cost=Cost(time.perf_counter() - begin, int(gradients)),
        not_looked_at=tuple(notes),
        layout=layout,
        draws=draws[: limits.KEPT_DRAWS],
        late=late,
        memory=memory,
    )


def target_of(posterior: Any, target: Any) -> Target:
    """The target of the check; refuses one that is not the posterior's, and none for draws from elsewhere."""
    if not isinstance(posterior, Posterior):
        if target is None:
            raise ValueError("target must be given with draws from elsewhere; got None.")
        return as_target(target, **_shape_of(posterior, target))
    if target is None:
        if posterior.target is None:
            raise ValueError("target must be given for a fit that was loaded without it; got None.")
        return posterior.target
    found = as_target(target, **({} if isinstance(target, Target) else {"like": posterior.layout}))
    if found.dim != posterior.dim:
        raise ValueError(f"target must have the posterior's {posterior.dim} unknowns; got {found.dim}.")
    if found is not posterior.target:
        stored = posterior.unattached.fingerprint if posterior.unattached is not None else None
        if stored is None and posterior.target is not None:
            stored = fingerprint_of(posterior.target)
        if stored is not None and not same_fingerprint(fingerprint_of(found), stored):
            raise ValueError(
                "target must be the one that the posterior was fitted to, and its score is another; to judge the draws "
                "against another target, give posterior.unconstrained(10_000) in place of the posterior."
            )
    return found


def _shape_of(draws: Any, target: Any) -> dict[str, Any]:
    """The dim or structure of a function's argument, from the draws."""
    if isinstance(target, Target):
        return {}
    if isinstance(draws, SamplerRun):
        return {"like": draws.layout}
    if isinstance(draws, (np.ndarray, jax.Array)) and draws.ndim in (2, 3):
        return {"dim": int(draws.shape[-1])}
    if isinstance(draws, dict):
        raise ValueError(
            "target must be a sivi Target for draws in a dict, such as sivi.targets.LogDensity(f, like=example); "
            "a function does not say which axes are those of an unknown."
        )
    raise TypeError(f"posterior must be a Posterior, an array, a SamplerRun or a dict; got {describe(draws)}.")


def _not_finite(share: float) -> Finding:
    sentence = f"{100 * share:.3g} % of the draws are not finite."
    return Finding("not finite", (), share, 0.0, limits.BAD, sentence, 1e3)


def _collapsed(names: tuple[str, ...]) -> Finding:
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    sentence = f"{shown}: all draws are the same number; the fit has collapsed or run off."
    return Finding("collapsed", names, 1.0, 0.0, limits.BAD, sentence, 1e3)


def _not_judged(acceptance: float) -> Finding:
    sentence = (
        f"all unknowns together: the chains hardly move from the draws (acceptance {acceptance:.2g}), so nothing can "
        "be said of these."
    )
    return Finding("not judged", (), acceptance, 0.0, limits.DOUBTFUL, sentence)


def _zero_density(share: float) -> list[Finding]:
    sentence = f"{100 * share:.3g} % of the draws lie where the target has no density or score that is a number."
    new = finding("zero density", (), share, 0.0, limits.LIMITS["zero density"], sentence)
    return [] if new is None else [new]
