"""Sentences about a fit that has ended, each from numbers that the run has, or from a look at the target.

Two things are told apart. Some facts are wrong after any number of updates: a score that is zero, a warm-up that ran
away. Others, such as two scores that differ, are what a short run has anyway, and are said only of a complete one, or
where they are gross.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._repeats import member_of
from .._run import Remark
from ..coordinates import AffineMap
from ..defaults import recipe
from ..posterior import Posterior
from ..samplers.run import free_names
from ..stopping import Doubling
from ..warmup.status import FAR, NEVER_MOVED, NOT_RUN, RAN_AWAY, SETTLED, STATUS, UNKNOWN
from .probe import EndProbe

#: Updates below which only a complete run is judged by its scores.
MIN_UPDATES_TO_JUDGE = 1000

#: ‖S − ∇log q‖² in units of ‖∇log q‖², by medians, of a complete run and of any: good fits have less than 0.3.
MAX_DIVERGENCE, GROSS_DIVERGENCE = 1.0, 100.0
#: The mean weight of the generating component above which the mixture says little of the score of q.
MAX_OWN_WEIGHT = 0.5
#: The Fisher divergence that a run with a critic records, per unknown: of a complete run on all data, and of others.
MAX_LOSS, GROSS_LOSS = 0.75, 100.0

#: In standard deviations of the warm-up: where the typical draw is far, and where nine in ten draws spread too widely.
FAR_DRAWS, WIDE_DRAWS = 50.0, 20.0
#: By how much log p is higher there than at the warm-up's centre, in nats per unknown, if it is without bound.
MAX_GAIN = 100.0

#: Shares: of skipped updates; of the last losses, and of draws with a score, that are not finite.
MAX_SKIPPED, MAX_NAN_LOSSES, MAX_NOT_FINITE = 0.02, 0.5, 0.05
#: Times its floor up to which σ is at it.
AT_FLOOR = 1.05
#: Nats by which the last round of a run of the default length lowers the loss; for right fits of many modes up to 0.09.
MIN_IMPROVEMENT = 0.2

_MOST_NAMES = 4
_MATRIX_UP_TO = 128  # unknowns
_IMPROPER = "a density that cannot be normalised has no posterior"


@dataclass(frozen=True)
class Place:
    """One repeat: its coordinates, how they were found, and the names of its unknowns."""

    posterior: Posterior
    index: int

    @property
    def affine(self) -> AffineMap:
        """The affine part of the coordinates, whose result has the same names."""
        return member_of(self.posterior.affines, self.index).affine_part

    @property
    def status(self) -> str:
        return self.posterior.warmup_status[self.index]

    @property
    def has_scale(self) -> bool:
        """Whether u is in units that a warm-up has found."""
        return self.status not in (NOT_RUN, UNKNOWN)

    @property
    def ran_away(self) -> bool:
        return self.status == STATUS[RAN_AWAY]

    def names(self, which: Bool[np.ndarray, " dim"], sizes: Float[np.ndarray, " dim"] | None = None) -> tuple[str, ...]:
        """The unknowns of these free numbers, the largest first if sizes are given."""
        order = np.flatnonzero(which) if sizes is None else [i for i in np.argsort(-sizes) if which[i]]
        names = free_names(self.posterior.layout)
        return tuple(dict.fromkeys(names[i] for i in order))


def listed(names: Iterable[str]) -> str:
    """Names in a sentence: a few of them."""
    names = list(names)
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def of_warmup(place: Place) -> Iterator[Remark]:
    """A warm-up that found no coordinates."""
    if place.status == STATUS[NEVER_MOVED]:
        yield Remark(
            "warm-up",
            "The warm-up never moved: from no start did finite scores lead anywhere, so the scale of the unknowns is a "
            "guess; write bounds as constraints, shift and rescale the unknowns, or give whiten=(m, L).",
        )
    elif place.ran_away:
        sds, means = np.sqrt(np.asarray(place.affine.covariance_diagonal)), np.abs(np.asarray(place.affine.mean))
        sizes = np.where(np.isfinite(sds), np.maximum(sds, means), np.inf)
        names = place.names(sizes >= min(FAR, float(np.max(sizes))), sizes)
        yield Remark(
            "warm-up",
            f"The warm-up ran away in {listed(names)}, to a standard deviation of {np.max(sds):.2g}: nothing in the "
            f"density holds it, and {_IMPROPER}; look for an unknown without a prior, or for a wrong sign.",
            names,
        )


def of_target(probe: EndProbe, place: Place, ran_off: bool) -> list[Remark]:
    """A density that no score, or a constant one, says how to fit, or one that is convex where a fit has run off."""
    finite = np.isfinite(probe.x_scores).all(1)
    scores = probe.x_scores[finite]
    if len(scores) < probe.num // 4:
        return []
    zero = (scores == 0.0).all(0)
    if zero.all():
        log_probs = probe.log_probs[np.isfinite(probe.log_probs)]
        varies = len(log_probs) > 0 and np.ptp(log_probs) > 0
        why = (
            "though the log density varies: it rounds, compares or counts, or its gradient underflows; use smooth "
            "functions, or unknowns on a scale near 1"
            if varies
            else f"so the density is constant there, and {_IMPROPER} unless it has bounds; write those as constraints"
        )
        return [Remark("zero-score", f"The score is zero at all {len(scores)} points that were looked at, {why}.")]
    found = []
    if zero.any():
        names = place.names(zero)
        found.append(
            Remark(
                "unused-unknown",
                f"The score of {listed(names)} is zero at all {len(scores)} points that were looked at: the density "
                f"does not depend on {'it' if len(names) == 1 else 'them'}, and {_IMPROPER}; give a prior, or leave "
                "such an unknown out.",
                names,
            )
        )
    spread = np.max(np.abs(probe.x_scores[finite]), axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        constant = ~zero & (np.ptp(scores, axis=0) <= 1e-6 * spread)
    if constant.any():
        names = place.names(constant, spread)
        found.append(
            Remark(
                "unbounded",
                f"The log density rises along {listed(names)} with the same slope, {spread[constant].max():.2g}, at "
                f"all {len(scores)} points that were looked at, so it has no upper bound, and {_IMPROPER}; give a "
                "prior.",
                names,
            )
        )
    elif ran_off and not zero.any() and (convex := _convex_directions(probe, place)):
        found.append(convex)
    return found


def _convex_directions(probe: EndProbe, place: Place) -> Remark | None:
    """Directions in which the mean curvature of log p over N(0, I) is of the wrong sign, where a warm-up was lost."""
    points, scores = probe.normal, probe.u_scores[probe.num :].astype(float)
    finite = np.isfinite(scores).all(1)
    if place.status in (STATUS[SETTLED], NOT_RUN, UNKNOWN) or points.shape[1] > _MATRIX_UP_TO:
        return None
    if finite.sum() < 2 * points.shape[1]:
        return None
    # Stein: E[S uᵀ] = E[∂S/∂u], which is −I at the optimum of a Gaussian.
    centred = scores[finite] - np.median(scores[finite], axis=0)
    curvature = centred.T @ points[finite] / finite.sum()
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    if not values[-1] > 0.1 * max(1.0, float(np.abs(values).max())):
        return None
    direction = np.asarray(place.affine.forward(jnp.asarray(vectors[:, -1], probe.normal.dtype)) - place.affine.mean)
    sizes = np.abs(direction) / np.sqrt(np.asarray(place.affine.covariance_diagonal))
    names = place.names(sizes >= 0.5 * np.max(sizes), sizes)
    return Remark(
        "unbounded",
        f"The log density is curved upwards along {listed(names)} (mean curvature {values[-1]:+.2g} where that of a "
        f"fitted density is -1): it grows without bound, or falls too slowly, and {_IMPROPER}; look for a wrong sign "
        "or a missing prior.",
        names,
    )


def of_draws(probe: EndProbe, place: Place) -> Iterator[Remark]:
    """Draws that have run off or are not of the target's support, and conditionals that have collapsed."""
    num, dim = probe.draws.shape
    finite = np.asarray(np.isfinite(probe.draws).all(axis=1))
    with np.errstate(all="ignore"):
        distances = np.where(finite, np.sqrt(np.mean(probe.draws.astype(float) ** 2, axis=1)), np.inf)
        far = float(np.median(distances))
        # Between 5 % and 95 %, which is 3.29 for N(0, I), up to 6 times that for funnels, 4 for a Cauchy density.
        low, high = np.quantile(np.where(finite[:, None], probe.draws, np.inf), [0.05, 0.95], axis=0)
        widths = np.where(np.isfinite(high - low), high - low, np.inf) / 3.29
        gain = float(np.median(probe.log_probs[:num]) - probe.log_probs[num])
    if not finite.all():
        yield _ran_off("are not all finite", gain, dim)
    elif place.has_scale and far > FAR_DRAWS:
        yield _ran_off(f"are {far:.2g} standard deviations of the warm-up away from its centre", gain, dim)
    elif place.has_scale and np.max(widths) > WIDE_DRAWS:
        yield _ran_off(f"are up to {np.max(widths):.2g} times as wide as the warm-up found the density", gain, dim)
    bad = ~np.isfinite(probe.x_scores[:num]).all(1) & finite
    if bad.mean() > MAX_NOT_FINITE:
        yield Remark(
            "not-finite",
            f"The score is not finite at {bad.sum()} of {num} draws of the fit ({100 * bad.mean():.0f} %), which is "
            "fitted to the rest; write bounds as constraints, or try float64.",
        )
    if probe.sigma is not None and probe.sigma_floor is not None:
        low_sigma = probe.sigma <= AT_FLOOR * probe.sigma_floor
        if low_sigma.any():
            yield Remark(
                "sigma-floor",
                f"The standard deviation of q(x|z) is at its floor, {probe.sigma_floor:.2g}, in {low_sigma.sum()} of "
                f"{dim} coordinates, a sign of a collapse; try a smaller learning rate, whiten='auto' or a lower "
                "sigma_floor.",
            )


def _ran_off(how: str, gain: float, dim: int) -> Remark:
    if gain > MAX_GAIN * dim:
        return Remark(
            "unbounded",
            f"The draws {how}, and the log density is higher there by {gain:.2g}: it grows without bound, and "
            f"{_IMPROPER}; look for a wrong sign or a missing prior.",
        )
    return Remark(
        "far-draws",
        f"The draws {how}: the fit has run off, or the density has no finite mass; look for an improper prior, or "
        "give whiten=(m, L) on the scale of the posterior.",
    )


def of_losses(posterior: Posterior, index: int) -> Iterator[Remark]:
    """Losses and updates that are not finite."""
    losses, step = _losses(posterior, index), posterior.step
    last = losses[-max(1, step // 20) :]
    if step and len(last) and (bad := 1.0 - float(np.mean(np.isfinite(last)))) > MAX_NAN_LOSSES:
        yield Remark(
            "loss",
            f"The loss is not finite in {100 * bad:.0f} % of the last {len(last)} updates, so nothing is known of how "
            "the fit ended; write bounds as constraints, try float64, or use a smaller learning rate.",
        )
    skipped = posterior.skipped[index]
    if skipped > max(4, MAX_SKIPPED * step):
        yield Remark(
            "skipped",
            f"{skipped} of {step} updates ({100 * skipped / step:.1f} %) were not finite and were skipped; write "
            "bounds as constraints, try float64, or use a smaller learning rate.",
        )


def _losses(posterior: Posterior, index: int) -> np.ndarray:
    losses = np.asarray(posterior.history.get("loss", np.zeros(0)))
    return losses if losses.ndim == 1 else losses[index]


def of_divergence(probe: EndProbe, posterior: Posterior, index: int, full: bool) -> Iterator[Remark]:
    """Scores of the target and of q that differ by far more than a good fit's, typically over draws."""
    if not full and posterior.step < MIN_UPDATES_TO_JUDGE:
        return
    dim, place = posterior.dim, Place(posterior, index)
    if probe.q_scores is not None and probe.own_weight < MAX_OWN_WEIGHT:
        with np.errstate(all="ignore"):
            gaps = np.sum((probe.u_scores[: probe.num].astype(float) - probe.q_scores) ** 2, axis=1)
            sizes = np.sum(probe.q_scores**2, axis=1)
            usable = np.isfinite(gaps) & np.isfinite(sizes)
            # Medians: heavy tails and funnels have few draws of large scores, which means would be made of.
            found = float(np.median(gaps[usable]) / np.median(sizes[usable])) if usable.any() else np.inf
        limit, what = (MAX_DIVERGENCE if full else GROSS_DIVERGENCE), "in units of the size of the latter, squared"
    elif "critic_norm" in posterior.history and place.has_scale:
        last = _losses(posterior, index)[-max(1, posterior.step // 20) :]
        found = float(np.median(last[np.isfinite(last)])) / dim if np.isfinite(last).any() else np.inf
        on_all_data = posterior.settings.batch_size is None
        limit, what = (MAX_LOSS if full and on_all_data else GROSS_LOSS), "per unknown"
    else:
        return
    if found > limit:
        yield Remark(
            "divergence",
            f"The scores of the density and of the fit differ by {found:.2g} ({what}; a good fit has less than 0.3), "
            "so the fit has not found the density; see what posterior.check() says, and try posterior.refine(), more "
            "updates, another key, or unknowns on other scales.",
        )


def still_improving(posterior: Posterior) -> Iterator[Remark]:
    """A last round, of a run of the default length, that still paid."""
    settings, rule = posterior.run.settings, posterior.run.settings.stop_rule
    chosen = recipe(posterior.dim)
    lengths = chosen.num_steps, chosen.for_modes().num_steps
    default = settings.most_own_weight is not None and settings.num_steps in lengths
    if not default or not isinstance(rule, Doubling) or posterior.step < settings.num_steps:
        return
    ends = rule.round_ends(settings.num_steps, posterior.step)
    for i in range(posterior.repeats):
        tails = [_losses(posterior, i)[first:last] for first, last in ends]
        if len(tails) < 2 or not all(np.isfinite(tail).any() for tail in tails):
            continue
        results = [float(np.nanmean(tail)) for tail in tails]
        improvement = min(results[:-1]) - results[-1]
        if improvement > max(MIN_IMPROVEMENT, rule.share * float(np.nanstd(tails[-1]))):
            yield Remark(
                "still-improving",
                f"The last round of the run still lowered the loss by {improvement:.2g} nats; continue with "
                f"resume=posterior and num_steps={4 * settings.num_steps}.",
            )
            return
