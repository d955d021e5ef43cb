"""Markov chains as a reference: which sampler runs, and whether its run is believed."""

import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from .._types import KeyLike
from ..samplers import SamplerRun, hmc, nuts
from ..samplers.diagnostics import MIN_DRAWS
from ..samplers.run import free_names
from ..targets import Target
from . import limits
from .findings import Finding
from .quantities import Quantities
from .result import Cost

_SAMPLERS = {"nuts": nuts, "hmc": hmc}
NO_BLACKJAX = "HMC in place of NUTS, since BlackJAX is not installed (pip install 'sivi[mcmc]')"


class Reference(NamedTuple):
    """A run of a sampler, and what it took."""

    run: SamplerRun
    cost: Cost


def default_sampler() -> str:
    """NUTS, or HMC where BlackJAX is missing."""
    return "hmc" if find_spec("blackjax") is None else "nuts"


def run_reference(target: Target, name: str, key: KeyLike, **settings: Any) -> Reference:
    """Run a sampler by its name.

    Args:
        target: What is drawn from.
        name: "nuts" or "hmc".
        key: An int or a JAX key.
        settings: Further arguments of the sampler.
    """
    begin = time.perf_counter()
    run = _SAMPLERS[name](target, key=key, **settings)
    return Reference(run, Cost(time.perf_counter() - begin, run.num_gradients or 0))


def faults_of_run(run: SamplerRun, judged: Quantities | None = None) -> list[Finding]:
    """What the chains' own diagnostics say against them: R-hat, effective size, divergences.

    Args:
        run: The chains.
        judged: What R-hat and the effective size are of; the unknowns by default.
    """
    num_chains, num_samples, _ = run.draws.shape
    if num_chains < 2 or num_samples < MIN_DRAWS:
        sentence = f"R-hat needs two chains of {MIN_DRAWS} draws or more; there are {num_chains} of {num_samples:,}."
        return [_fault((), float("nan"), limits.BAD, sentence)]
    own, names = _judged(run, judged)
    return [*_rhat_fault(own, names), *_size_fault(own, names), *_divergence_fault(run)]


def faults_of_chains(run: SamplerRun, judged: Quantities) -> list[Finding]:
    """Those faults that count in a check of the draws: R-hat and divergences; of a single chain there is no R-hat.

    Args:
        run: The chains.
        judged: What R-hat is of.
    """
    if run.draws.shape[0] < 2 or run.draws.shape[1] < MIN_DRAWS:
        return _divergence_fault(run)
    return [*_rhat_fault(*_judged(run, judged)), *_divergence_fault(run)]


def _judged(run: SamplerRun, judged: Quantities | None) -> tuple[SamplerRun, Sequence[str]]:
    """The chains of what is judged, and its names; of predictions, those that vary."""
    if judged is None or not judged.are_predictions:
        return run, free_names(run.layout)
    varying = judged.varying(run.flat())
    return replace(run, draws=varying.at(run.draws)), varying.names


def _rhat_fault(run: SamplerRun, names: Sequence[str]) -> list[Finding]:
    rhat = np.asarray(run.rhat)
    if not len(rhat):
        return []
    worst = int(np.argmax(np.where(np.isnan(rhat), np.inf, rhat)))  # NaN: chains that do not move
    if rhat[worst] <= limits.RHAT.doubtful:
        return []
    level = limits.DOUBTFUL if rhat[worst] <= limits.RHAT.bad else limits.BAD
    sentence = f"the chains disagree: R-hat is {rhat[worst]:.3f} at {names[worst]}, above {limits.RHAT.doubtful}."
    return [_fault((names[worst],), float(rhat[worst]), level, sentence)]


def _size_fault(run: SamplerRun, names: Sequence[str]) -> list[Finding]:
    if not len(run.ess):
        return []
    fewest = int(np.argmin(np.where(np.isnan(run.ess), np.inf, run.ess)))
    if not run.ess[fewest] < limits.FEWEST_EFFECTIVE:
        return []
    sentence = (
        f"the chains are too short: their draws of {names[fewest]} are worth {run.ess[fewest]:,.0f} independent "
        f"ones, below {limits.FEWEST_EFFECTIVE}."
    )
    return [_fault((names[fewest],), float(run.ess[fewest]), limits.DOUBTFUL, sentence)]


def _divergence_fault(run: SamplerRun) -> list[Finding]:
    total = run.draws.shape[0] * run.draws.shape[1]
    share = run.divergences / total
    if share <= limits.DIVERGENT.doubtful:
        return []
    level = limits.DOUBTFUL if share <= limits.DIVERGENT.bad else limits.BAD
    sentence = (
        f"{run.divergences:,} of {total:,} transitions diverged: the chains cannot enter some region of the target."
    )
    return [_fault((), share, level, sentence)]


def _fault(unknowns: tuple[str, ...], effect: float, level: str, sentence: str) -> Finding:
    return Finding("sampler", unknowns, effect, 0.0, level, sentence)
