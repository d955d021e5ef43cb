"""`sivi.infer`: fit, check, refine if need be, Markov chains if need be; one result that says what was done."""

import time
import warnings as python_warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .._arguments import as_key, check_positive
from .._errors import FitDiverged, FitWarning
from .._fitting.ending import NO_POSTERIOR
from .._fitting.fit import fit
from .._types import KeyLike
from ..posterior import Posterior
from ..targets import Target, as_target
from . import limits
from .check import check
from .findings import worst_first
from .inference import Inference, Step
from .large_data import NOTE, NOTE_OF_PREDICTIONS
from .modes import MAX_FIT_MODES
from .quantities import quantities_of
from .reference import NO_BLACKJAX, default_sampler, faults_of_run, run_reference
from .refine import INTERRUPTED, refine
from .refined import Refined
from .result import HEAVY_TAILS, MANY_MODES, Cost, Verdict

_MOST_SENTENCES = 5
#: What a step may raise for which the steps before it are not lost; JAX's own errors are RuntimeErrors.
_FAILURES = (ValueError, RuntimeError, FloatingPointError)
# Folded into the key; the fit has the key itself, so that it is that of `sivi.fit`.
_CHECK, _REFINE, _CHAINS, _CHECK_CHAINS = 101, 102, 103, 104


def infer(
    target: Target | Callable[..., Array],
    dim: int | None = None,
    *,
    like: PyTree | None = None,
    key: KeyLike = 0,
    effort: float = 1.0,
    **settings: Any,
) -> Inference:
    """Draws of a target that can be believed, or that say they cannot.

    A variational fit is checked (`sivi.check`). If a fault is found, or an unknown is off by more than half of what
    counts as one, its draws are refined by chains on the exact target (`Posterior.refine`). If these are still bad,
    Markov chains run, started from them: NUTS, or HMC where BlackJAX is not installed. Their R-hat and divergences are
    judged, and their draws are checked too. What was judged best is returned. A fit that diverged goes straight to
    Markov chains. A target that knows only its score has none.

    Args:
        target: A `sivi.targets.Target`, or any JAX function x → log p(x), up to a constant.
        dim: Length of x, for a function of a vector.
        like: Instead of `dim`, an example pytree, as for `sivi.fit`.
        key: An int or a JAX key.
        effort: Multiplies what the check, the refinement and the Markov chains may spend.
        settings: Further arguments of `sivi.fit`.

    Returns:
        The draws, the path that led to them, its cost and the verdict. After Ctrl-C it is the best so far.

    Warns:
        FitWarning: Something is found against the draws that are returned, or they could not be judged.

    Example:
        >>> import jax.numpy as jnp, sivi
        >>> def log_density(x):
        ...     return -0.5 * jnp.sum((x - 1.0) ** 2)
        >>> inference = sivi.infer(log_density, dim=2, num_steps=300, progress=False)
        >>> inference.path, inference.level
        (('fit', 'check'), 'no fault found')
    """
    walk = _Walk(as_key(key), check_positive("effort", effort), bool(settings.get("progress", True)))
    inference = walk.infer(target, dim, like, {"key": key, **settings})
    if not inference.believed:
        python_warnings.warn(FitWarning("\n".join(inference.warnings)), stacklevel=2)
    return inference


@dataclass
class _Walk:
    """One call of `infer`: what it may spend, and what it has done and seen so far."""

    key: PRNGKeyArray
    effort: float
    progress: bool
    steps: list[Step] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    posterior: Posterior | None = None

    def infer(self, target: Any, dim: int | None, like: PyTree, settings: dict[str, Any]) -> Inference:
        begin = time.perf_counter()
        try:
            with python_warnings.catch_warnings():
                python_warnings.simplefilter("ignore", FitWarning)  # said at the end, of what is returned
                self.posterior = fit(target, dim, like=like, **settings)
        except FitDiverged as error:
            found = as_target(target, dim, like)
            if not found.knows_log_prob:
                raise
            self.steps.append(Step("fit", Cost(time.perf_counter() - begin, 0), "diverged"))
            self.said.append(f"The fit diverged, so Markov chains ran from random starts: {_first(str(error))}")
            inference = self._chains(found, None)
            if inference is None:
                raise
            return inference
        posterior = self.posterior
        ended = f"{posterior.step:,} updates" if posterior.finished else f"stopped at {posterior.step:,} updates"
        self.steps.append(Step("fit", Cost(time.perf_counter() - begin, gradients_of(posterior)), ended))
        if not posterior.finished and not settings.get("callbacks"):
            self.said.append("Interrupted during the fit: the draws were not judged.")
            return self._end(posterior, "fit", None)
        return self._judged(posterior)

    def _judged(self, posterior: Posterior) -> Inference:
        target, begin = posterior.target, time.perf_counter()
        assert target is not None
        try:
            verdict = check(posterior, key=self._key(_CHECK), effort=self.effort)
        except KeyboardInterrupt:
            self.steps.append(Step("check", Cost(time.perf_counter() - begin, 0), "interrupted"))
            self.said.append("Interrupted during the check: the draws of the fit were not judged.")
            return self._end(posterior, "fit", None)
        except _FAILURES as error:  # draws that cannot be judged, a density that raises, too little memory
            self.steps.append(Step("check", Cost(time.perf_counter() - begin, 0), "not possible"))
            self.said.append(f"The fit could not be checked: {error}")
            fallback = None if self._no_chains(target) else self._chains(target, None)
            return self._end(posterior, "fit", None) if fallback is None else fallback
        self.steps.append(Step("check", verdict.cost, _in_short(verdict)))
        if verdict.interrupted or (verdict.level == limits.NO_FAULT and not verdict.slight):
            return self._end(posterior, "fit", verdict)
        # Chains cannot mend a density that has no posterior.
        if any(remark.kind in NO_POSTERIOR for remark in posterior.warnings):
            return self._end(posterior, "fit", verdict)
        return self._refined(posterior, target, verdict)

    def _refined(self, posterior: Posterior, target: Target, verdict: Verdict) -> Inference:
        if _by_minibatches(verdict):
            self.said.append("Neither refined nor handed to Markov chains: the data are too many for full gradients.")
            return self._end(posterior, "fit", verdict)
        begin = time.perf_counter()
        effort = limits.REFINE_EFFORT * self.effort
        try:
            refined = refine(posterior, key=self._key(_REFINE), effort=effort, verdict=verdict)
        except KeyboardInterrupt:
            self.steps.append(Step("refine", Cost(time.perf_counter() - begin, 0), "interrupted"))
            self.said.append("Interrupted during the refinement: these are the draws of the fit.")
            return self._end(posterior, "fit", verdict)
        except _FAILURES as error:
            self.steps.append(Step("refine", Cost(time.perf_counter() - begin, 0), "not possible"))
            self.said.append(f"The fit could not be refined: {error}")
            return self._end(posterior, "fit", verdict)
        judged = refined.verdict
        if refined.ended == INTERRUPTED:
            self.steps.append(Step("refine", refined.cost, INTERRUPTED))
            if judged is None or _badness(judged) > _badness(verdict):
                self.said.append("Interrupted during the refinement: these are the draws of the fit.")
                return self._end(posterior, "fit", verdict)
            self.said.append(
                "Interrupted during the refinement: these are the draws of the last round that was judged."
            )
            return self._end(refined, "refine", judged)
        if judged is None or refined.ended == "not refined":
            self.steps.append(Step("refine", refined.cost, "not possible"))
            best, starts = (posterior, "fit", verdict), None
            if not verdict.findings:
                return self._end(*best)
        else:
            self.steps.append(Step("refine", refined.cost, _in_short(judged)))
            best, starts = (refined, "refine", judged), refined.draws
            if judged.findings and not verdict.findings:  # only slight effects were to be mended
                return self._end(posterior, "fit", verdict)
            if judged.level != limits.BAD:
                return self._end(*best)
        if self._no_chains(target):
            return self._end(*best)
        by_chains = self._chains(target, starts)
        if by_chains is None or _badness(by_chains.verdict) > _badness(best[2]):
            if by_chains is not None:
                sampler = by_chains.source.upper()
                self.said.append(f"The draws of {sampler} are not returned, since more speaks against them.")
            return self._end(*best)
        return by_chains

    def _no_chains(self, target: Target) -> bool:
        if not target.knows_log_prob:
            self.said.append("No NUTS: the target knows only its score, and Markov chains need its log density.")
        return not target.knows_log_prob

    def _chains(self, target: Target, starts: Float[np.ndarray, "n dim"] | None) -> Inference | None:
        """The Markov chains and their verdict; None if they could not run, or were interrupted."""
        name, begin = default_sampler(), time.perf_counter()
        if name == "hmc":
            self.said.append(f"{NO_BLACKJAX}.")
        num, num_chains = max(100, round(limits.REFERENCE_TRANSITIONS * self.effort)), limits.REFERENCE_CHAINS
        run_key, init = self._key(_CHAINS), None
        if starts is not None:
            rng = np.random.default_rng(np.asarray(jax.random.key_data(run_key)).ravel())
            init = starts[rng.choice(len(starts), num_chains, replace=len(starts) < num_chains)]
        lengths = {"num_chains": num_chains, "num_samples": num, "num_warmup": num, "progress": self.progress}
        try:
            run, cost = run_reference(target, name, run_key, init=init, **lengths)
        except KeyboardInterrupt:
            self.said.append(f"Interrupted during {name.upper()}.")
            return None
        except _FAILURES as error:
            self.said.append(f"{name.upper()} could not run: {error}")
            return None
        faults, verdict = faults_of_run(run, quantities_of(target)), None
        try:
            verdict = check(run, target, key=self._key(_CHECK_CHAINS), effort=self.effort)
            known = {item.sentence for item in verdict.findings}  # the check has those of R-hat and divergences
            new = [item for item in faults if item.sentence not in known]
            verdict = replace(verdict, findings=worst_first([*verdict.findings, *new]))
            cost = Cost(time.perf_counter() - begin, cost.gradients + verdict.cost.gradients)
        except (*_FAILURES, KeyboardInterrupt) as error:
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            self.said.append(f"The draws of {name.upper()} were not checked: {why}")
            self.said += [f"{name.upper()}: {item.sentence}" for item in faults]
        said = "not judged" if verdict is None else _in_short(verdict)
        self.steps.append(Step(name, cost, said))
        ended = limits.NO_FAULT if verdict is not None and not verdict.findings else "budget spent"
        return self._end(Refined(run.flat(), target.layout, verdict, cost, ended), name, verdict, run)

    def _end(self, result: Posterior | Refined, source: str, verdict: Verdict | None, run: Any = None) -> Inference:
        found = () if verdict is None else verdict.findings
        own = () if self.posterior is None else self.posterior.warnings
        has_posterior = not any(remark.kind in NO_POSTERIOR for remark in own)
        of_fit = [str(remark) for remark in own if source == "fit" or remark.kind in NO_POSTERIOR]
        sentences = [f"The draws of {source} are {item.level}: {item.sentence}" for item in found[:_MOST_SENTENCES]]
        if len(found) > _MOST_SENTENCES:
            sentences.append(f"There are {len(found) - _MOST_SENTENCES:,} more findings, in verdict.findings.")
        unseen = [] if verdict is None else _unseen(verdict)
        return Inference(
            result=result,
            source=source,
            steps=tuple(self.steps),
            verdict=verdict,
            warnings=(*sentences, *unseen, *of_fit, *self.said),
            believed=verdict is not None and not found and not unseen and has_posterior,
            posterior=self.posterior,
            run=run,
        )

    def _key(self, number: int) -> PRNGKeyArray:
        return jax.random.fold_in(self.key, number)


def gradients_of(posterior: Posterior) -> int:
    """Gradients of the updates of a fit, in gradients of all data; zero where its objective does not say."""
    objective = posterior.objective
    while objective is not None and not hasattr(objective, "num_particles"):
        objective = getattr(objective, "objective", None)
    each = getattr(objective, "num_particles", 0)
    rows, batch_size = None if posterior.target is None else posterior.target.num_data, posterior.settings.batch_size
    share = 1.0 if rows is None or batch_size is None else batch_size / rows
    return round(posterior.step * posterior.repeats * each * share)


def _badness(verdict: Verdict | None) -> tuple[int, float]:
    """The level of a verdict, then how far its worst finding is beyond its limit: any, where no chains could judge."""
    if verdict is None:
        return len(limits.LEVELS), 0.0
    if np.isnan(verdict.memory):
        return limits.LEVELS.index(verdict.level), float("inf")
    severity = max((item.severity for item in verdict.findings if item.kind != "sampler"), default=0.0)
    return limits.LEVELS.index(verdict.level), severity


def _by_minibatches(verdict: Verdict) -> bool:
    """Whether the data were too many for chains, so that minibatch scores alone have judged."""
    starts = (NOTE.partition(":")[0], NOTE_OF_PREDICTIONS)
    return any(note.startswith(starts) for note in verdict.not_looked_at)


def _unseen(verdict: Verdict) -> list[str]:
    """What was not looked at, where that is too much for the draws to be believed."""
    said = []
    if verdict.interrupted:
        said.append("Interrupted during the check: modes were not looked for.")
    if MANY_MODES.format(most=MAX_FIT_MODES) in verdict.not_looked_at:
        said.append(f"The weights of modes were not looked at: there are more than {MAX_FIT_MODES}.")
    start = HEAVY_TAILS.partition("{")[0]
    said += [f"Not judged: {note}." for note in verdict.not_looked_at if note.startswith(start)]
    if _by_minibatches(verdict) and verdict.predicted is None:
        said.append("Only means and spreads were looked at, by minibatch scores: the data are too many for chains.")
    return said


def _in_short(verdict: Verdict) -> str:
    if not verdict.findings and verdict.slight:
        return f"{verdict.level}, but slight effects: {_first(verdict.slight[0].sentence)}"
    return verdict.level if not verdict.findings else f"{verdict.level}, {_first(verdict.findings[0].sentence)}"


def _first(text: str) -> str:
    """The first sentence of a text."""
    return f"{text.partition('. ')[0].rstrip('.')}."
