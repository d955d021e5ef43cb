"""All checks of draws against their target, in order."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._fitting.remarks import listed
from ..samplers.run import free_names
from ..targets import Target
from . import findings as words
from . import limits
from .chains import evaluate, seconds_per_gradient
from .draws import Draws
from .drift import Drift, run_drift
from .findings import Finding, worst_first
from .frame import Frame, frame_of
from .judge import is_suspicious, slight
from .judging import Judging
from .large_data import NOTE, NOTE_OF_PREDICTIONS, minibatch_score_findings, predictions_not_judged
from .minibatch import minibatch_finding
from .mode_findings import by_mass, findings_of_modes
from .modes import MAX_FIT_MODES, ModeSearch, find_modes
from .quantities import Quantities, quantities_of
from .result import INTERRUPTED, MANY_MODES, SLOW, Cost, ModeFound, Predicted, Verdict
from .tuning import Tuned, tune

#: What a short check leaves out.
_SHORT = "modes, and faults near the limits: fewer chains and no search"


@dataclass
class _Found:
    """What a check has found so far.

    Attributes:
        target: p.
        draws: Of q, less those that have turned out to be of no use.
        effort: As for `check`.
        batch_size: Of the fit.
        rng: For everything that is not JAX's.
        begin: When the clock was started.
        findings: What is wrong.
        notes: What was not looked at.
        gradients: Of the target, so far.
        repeats: Findings about each repeat alone.
        slight: Effects that are no faults.
        judged: What statistics are of: the unknowns, or what they predict.
    """

    target: Target
    draws: Draws
    effort: float
    batch_size: int | None
    rng: np.random.Generator
    begin: float
    findings: list[Finding]
    notes: list[str]
    gradients: int = 0
    repeats: tuple[tuple[Finding, ...], ...] = ()
    slight: tuple[Finding, ...] = ()
    judged: Quantities = field(init=False)

    def __post_init__(self) -> None:
        self.judged = quantities_of(self.target)

    def verdict(
        self, late: np.ndarray | None = None, search: ModeSearch | None = None, memory: float = float("nan")
    ) -> Verdict:
        reference, layout = self.draws.reference, self.target.layout
        late = reference if late is None else late
        modes = () if search is None else search.modes
        kept, predicted = reference[: limits.KEPT_DRAWS], None
        if self.judged.are_predictions:
            predicted = Predicted(self.judged.names, self.judged.at(kept), self.judged.at(late))
        return Verdict(
            findings=worst_first(self.findings),
            modes=tuple(ModeFound(np.asarray(m.place), m.mass, m.error, m.share) for m in modes),
            cost=Cost(time.perf_counter() - self.begin, int(self.gradients)),
            not_looked_at=tuple(self.notes),
            layout=layout,
            draws=kept,
            late=late,
            memory=memory,
            repeats=self.repeats,
            slight=self.slight,
            predicted=predicted,
        )


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
    found = _Found(target, draws, effort, batch_size, rng, begin, list(more), list(draws.notes))
    if not _can_start(found):
        return found.verdict()
    frame = frame_of(draws.for_chains, draws.frame_size)
    found.notes += _of_symmetries(found)
    seconds = seconds_per_gradient(target, draws.starts, frame.affine) * limits.PLANNED_GRADIENTS
    allowed = limits.SECONDS * max(effort, 1.0)
    if seconds * limits.SHORT_SHARE > allowed and target.num_data is not None:
        return _by_minibatches(found, drift_key, frame, seconds)
    is_short = seconds > allowed
    if is_short:
        found.draws = _fewer(draws, rng)
        left_out = "faults near the limits: fewer chains" if found.judged.are_predictions else _SHORT
        found.notes.append(
            f"{left_out}, since a check would take about {seconds / 60.0:.0f} minutes; a larger effort allows it"
        )
    densities = _densities(found, frame)
    if densities is None:
        return found.verdict()
    if not _has_quantities(found):
        return found.verdict()
    tuned = tune(tune_key, target, found.draws.tuning, frame.affine)
    drift = _drift(found, drift_key, frame, tuned, *densities, first)
    search = None
    if found.judged.are_predictions:
        pass
    elif modes and not is_short and target.knows_log_prob:
        search = _search(found, mode_key, frame, tuned, drift)
    elif not modes:
        found.notes.append("modes without draws, and the weights of those that have: modes=False")
    return found.verdict(_late(found, drift, search), search, drift.memory)


def _can_start(found: _Found) -> bool:
    """Whether there are draws that chains can start from."""
    draws = found.draws
    if draws.not_finite > 0.0:
        found.findings.append(words.not_finite(draws.not_finite))
    if len(draws.starts) < limits.FEWEST_DRAWS or len(draws.tuning) < 2:
        found.notes.append("everything else: too few of the draws are finite")
        return False
    if draws.constant:
        found.findings.append(words.collapsed(draws.constant))
        found.notes.append("everything else: no chain can start from draws that do not vary")
        return False
    return True


def _of_symmetries(found: _Found) -> list[str]:
    """What is not looked at where predictions are judged."""
    if not found.judged.are_predictions:
        return []
    unknowns, predictions = found.target.dim, len(found.judged.names)
    return [
        f"modes, and the {unknowns:,} unknowns themselves: the target has equal modes without number, so "
        f"{predictions:,} predictions are judged in their place"
    ]


def _has_quantities(found: _Found) -> bool:
    """Whether what is judged varies, as predictions at some inputs need not."""
    judged = found.judged.varying(found.draws.reference)
    constant = tuple(name for name in found.judged.names if name not in set(judged.names))
    found.judged = judged
    if judged.names and constant:
        found.notes.append(f"{listed(constant)}: the same number for all draws")
    elif constant:
        found.findings.append(words.collapsed(constant))
    return bool(judged.names)


def _by_minibatches(found: _Found, key: PRNGKeyArray, frame: Frame, seconds: float) -> Verdict:
    """The verdict where data are too many for chains."""
    target, reference, names = found.target, found.draws.reference, free_names(found.target.layout)
    if found.judged.are_predictions:
        faults, gradients = [predictions_not_judged(target, seconds)], 0
        found.notes.append(NOTE_OF_PREDICTIONS)
    else:
        faults, gradients = minibatch_score_findings(key, target, frame, reference, names, found.batch_size)
        found.notes.append(NOTE.format(rows=target.num_data, hours=seconds / 3600.0))
    some = evaluate(target, reference[:64], frame.affine)
    scale = minibatch_finding(target, found.batch_size, reference[:64], some.log_prob, found.rng)
    found.findings += faults if scale is None else [*faults, scale]
    found.gradients += gradients + some.num_gradients
    return found.verdict()


def _densities(found: _Found, frame: Frame) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " chains"]] | None:
    """log p of the reference and of the starts, less those without density; None if most have none."""
    target, draws = found.target, found.draws
    both = evaluate(target, np.concatenate([draws.reference, draws.starts]), frame.affine)
    found.gradients += both.num_gradients
    both_usable = np.isfinite(both.grad).all(axis=1)
    if target.knows_log_prob:
        both_usable &= np.isfinite(both.log_prob)
    share = float(np.mean(~both_usable))
    found.findings += words.zero_density(share)
    if share > 0.5:
        found.notes.append("everything else: most of the draws have no density or no score to start from")
        return None
    reference_log_prob, start_log_prob = np.split(both.log_prob, [len(draws.reference)])
    usable, start_usable = np.split(both_usable, [len(draws.reference)])
    repeats = draws.repeats and (draws.repeats[0][usable], draws.repeats[1][start_usable])
    found.draws = draws._replace(reference=draws.reference[usable], starts=draws.starts[start_usable], repeats=repeats)
    if not target.knows_log_prob:
        found.notes.append(
            "log density and modes: the target knows only its score, so modes have no mass that can be compared"
        )
    return reference_log_prob[usable], start_log_prob[start_usable]


def _drift(
    found: _Found,
    key: PRNGKeyArray,
    frame: Frame,
    tuned: Tuned,
    reference_log_prob: Float[np.ndarray, " n"],
    start_log_prob: Float[np.ndarray, " chains"],
    first: float | None,
) -> Drift:
    """Run the chains and judge where they have gone."""
    target, starts = found.target, found.draws.starts
    all_gradients = limits.GRADIENTS_ALL * found.effort
    first_gradients = limits.GRADIENTS_FIRST * (min(found.effort, 1.0) if first is None else first)
    plan = {"gradients_first": first_gradients, "gradients_all": all_gradients}
    judging = Judging.of(found.judged, found.draws, frame, reference_log_prob, found.rng)
    settings = {"judged": (found.judged, judging.frame)}
    drift = run_drift(key, target, frame, tuned, starts, start_log_prob, **plan, **settings)
    drifted, unknown = judging(drift)
    if is_suspicious(unknown):
        # A second look, on the same chains further on: where they were slow, it is theirs to say more.
        again, plan = jax.random.fold_in(key, 1), {"gradients_first": all_gradients, "gradients_all": all_gradients}
        drift = run_drift(again, target, frame, tuned, starts, start_log_prob, before=drift, **plan, **settings)
        drifted, unknown = judging(drift)
    found.notes += judging.notes(drift)
    found.gradients += tuned.num_gradients + drift.num_gradients
    found.findings += drifted
    found.slight = worst_first(slight(unknown, found.judged.names)) if unknown else ()
    found.repeats = tuple(_of_repeats(found, drift, judging))
    if drift.acceptance < limits.FEWEST_ACCEPTED:
        found.findings.append(words.not_moving(drift.acceptance))
    scale = minibatch_finding(target, found.batch_size, found.draws.reference, reference_log_prob, found.rng)
    found.findings += [] if scale is None else [scale]
    return drift


def _of_repeats(found: _Found, drift: Drift, judging: Judging) -> Iterator[tuple[Finding, ...]]:
    """What the chains that start from the draws of each repeat say of that repeat alone; nothing where there is one."""
    if found.draws.repeats is None:
        return
    of_reference, of_starts = found.draws.repeats
    for number in range(found.draws.num_repeats):
        own, chains = found.draws.of_repeat(number), of_starts == number
        if len(own.starts) < limits.FEWEST_DRAWS:
            found.notes.append(f"repeat {number} alone: {len(own.starts)} chains start from its draws")
            yield ()
            continue
        of_chains = drift._replace(
            starts=own.starts,
            start_log_prob=drift.start_log_prob[chains],
            late=drift.late[:, chains],
            late_log_prob=drift.late_log_prob[:, chains],
        )
        yield worst_first(judging.findings(of_chains, of_reference == number, own.size))


def _search(found: _Found, key: PRNGKeyArray, frame: Frame, tuned: Tuned, drift: Drift) -> ModeSearch | None:
    """Look for modes; None if that was interrupted."""
    (reference, size, *_), ends = found.draws, drift.late[-1]
    try:
        return find_modes(
            key, found.target, frame, tuned, drift.starts, ends, reference, size=size, effort=found.effort
        )
    except KeyboardInterrupt:
        found.notes.append(INTERRUPTED)
        return None


def _late(found: _Found, drift: Drift, search: ModeSearch | None) -> Float[np.ndarray, "m dim"]:
    """What the modes say, and the draws that the chains have carried on, modes by their masses."""
    late = drift.late.reshape(-1, found.target.dim)
    if drift.budget_spent and (search is None or len(search.modes) < 2):  # else it is the modes that are remembered
        found.notes.append(f"{SLOW}: the chains are slow here (memory {drift.memory:.2f}), and understate it")
    if search is None:
        return late
    if search.num_fit_modes > MAX_FIT_MODES:
        found.notes.append(MANY_MODES.format(most=MAX_FIT_MODES))
    if any(mode.error >= limits.UNKNOWN_MASS for mode in search.modes):
        found.notes.append("the weights of modes: the mass of some could not be measured")
    found.gradients += search.num_gradients
    found.findings += findings_of_modes(search)
    return by_mass(search, late, found.rng)


def _fewer(draws: Draws, rng: np.random.Generator) -> Draws:
    """Draws of a short check, for a target that takes long: some at random, since they may come chain by chain."""

    def some(points: np.ndarray, num: int) -> np.ndarray:
        return rng.permutation(len(points))[:num]

    reference = some(draws.reference, limits.SHORT_REFERENCE)
    starts = some(draws.starts, limits.SHORT_CHAINS)
    return draws._replace(
        reference=draws.reference[reference],
        size=min(draws.size, float(len(reference))),
        starts=draws.starts[starts],
        tuning=draws.tuning[some(draws.tuning, limits.SHORT_CHAINS // 2)],
        repeats=None if draws.repeats is None else (draws.repeats[0][reference], draws.repeats[1][starts]),
    )
