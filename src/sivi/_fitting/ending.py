"""The end of a fit: what is said of it, once, as a warning and in the posterior."""

import warnings
from dataclasses import replace

from .._errors import FitWarning
from .._run import Remark, Run
from ..defaults import recipe
from ..posterior import Posterior
from ..targets.symmetric import symmetric_inside
from .checkpoint import Checkpoint
from .probe import EndProbe, probes_of
from .remarks import Place, of_divergence, of_draws, of_losses, of_target, of_warmup, still_improving

#: Updates below which the target is not looked at: so few are a trial, not a fit.
MIN_UPDATES = 100
#: Updates below which a run that its rule has ended is not taken for complete.
MIN_UPDATES_OF_A_RULE = 500

#: Kinds of remarks on draws that have run off, and on a density that has no posterior: its fit is not judged further.
_RAN_OFF = {"far-draws", "unbounded"}
NO_POSTERIOR = {"zero-score", "unused-unknown", "unbounded"}


def ended(posterior: Posterior, checkpoint: Checkpoint | None, said: tuple[Remark, ...] = ()) -> Posterior:
    """The posterior with what there is to say of it, which is also issued, to the caller of `fit`, as one warning.

    Args:
        posterior: The fit.
        checkpoint: Where it is written.
        said: What was said, and issued, before the first update.
    """
    remarks = remarks_of(posterior)
    if not remarks and not said:
        return posterior  # which has none: a run that is continued starts without those that it ended with before
    posterior = replace(posterior, run=replace(posterior.run, warnings=said + remarks))
    if checkpoint is not None:
        checkpoint.write(posterior)
    if remarks:
        warnings.warn(FitWarning("\n".join(remarks)), stacklevel=3)
    return posterior


def remarks_of(posterior: Posterior) -> tuple[Remark, ...]:
    """What there is to say of a fit with its target."""
    # A repeat of such a target is one of its modes, and is judged by what all of them predict.
    symmetric = posterior.target is not None and symmetric_inside(posterior.target) is not None
    probes = _probes(posterior) if posterior.step >= _least_updates(posterior, symmetric) else None
    found: list[list[Remark]] = []
    for i in range(posterior.repeats):
        place = Place(posterior, i)
        own = [*of_warmup(place), *of_losses(posterior, i)]
        if probes is not None:
            of_family = list(of_draws(probes[i], place))
            own += of_target(probes[i], place, any(remark.kind in _RAN_OFF for remark in of_family))
            own += of_family
            if not NO_POSTERIOR & {remark.kind for remark in own} and not symmetric:
                own += of_divergence(probes[i], posterior, i, _is_full(posterior.run))
        found.append(own)
    return merge(found) or tuple(still_improving(posterior))


def _probes(posterior: Posterior) -> list[EndProbe] | None:
    """A look at every repeat; None where a target cannot be evaluated now. What was fitted is not lost for it."""
    try:
        return probes_of(posterior)
    except Exception:
        return None


def cause_of_divergence(posterior: Posterior | None) -> str:
    """What is wrong with the density of a fit that has diverged, in sentences; empty if that is not seen."""
    try:
        probes = None if posterior is None else _probes(posterior)
    except KeyboardInterrupt:  # the fit ends all the same
        return ""
    if posterior is None or probes is None:
        return ""
    found = []
    for i, probe in enumerate(probes):
        place = Place(posterior, i)
        found.append([*of_target(probe, place, ran_off=True), *(r for r in of_warmup(place) if place.ran_away)])
    return " ".join(merge(found))


def merge(found: list[list[Remark]]) -> tuple[Remark, ...]:
    """The remarks of all repeats, one of each kind: the first, with the numbers of the repeats that have it."""
    kinds = list(dict.fromkeys(remark.kind for own in found for remark in own))
    merged = []
    for kind in kinds:
        where = [i for i, own in enumerate(found) if any(remark.kind == kind for remark in own)]
        first = next(remark for remark in found[where[0]] if remark.kind == kind)
        sentence = str(first)
        if len(found) > 1:
            which = "all repeats" if len(where) == len(found) else f"repeat {where[0]}"
            if 1 < len(where) < len(found):
                which = f"{len(where)} of {len(found)} repeats"
            sentence = f"In {which}, {sentence[0].lower()}{sentence[1:]}"
        merged.append(Remark(kind, sentence, first.unknowns, tuple(where)))
    return tuple(merged)


def _least_updates(posterior: Posterior, symmetric: bool) -> int:
    """Updates from which the target is looked at: all of a recipe that has fewer than a trial."""
    target = posterior.target
    if target is None or not symmetric:
        return MIN_UPDATES
    return min(MIN_UPDATES, recipe(target.dim, target.num_data).for_target(target).num_steps)


def _is_full(run: Run) -> bool:
    """Whether a run has had the updates that it needs: the default number, or where its rule ended it."""
    stopped = run.settings.stop_rule is not None and MIN_UPDATES_OF_A_RULE <= run.step < run.settings.num_steps
    default = recipe(run.families.dim).with_critic().num_steps
    return run.finished and (stopped or run.settings.num_steps >= default)
