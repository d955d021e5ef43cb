"""`sivi.check`: what is judged, and against which target."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from .._arguments import as_key, check_positive, describe
from .._layout import Layout
from .._traced import float_types_of
from .._types import KeyLike
from ..posterior import Posterior
from ..samplers.run import SamplerRun
from ..targets import Target
from ..targets.evaluate import check_shapes
from ..targets.fingerprint import fingerprint_of, same_fingerprint
from ..targets.functional import as_target
from . import limits
from .check_draws import check_draws
from .draws import WorthTooFew, as_chains, given_draws, posterior_draws, refined_draws
from .errors import errors_of_the_density
from .findings import Finding, worst_first
from .inference import judged_of
from .quantities import Quantities, quantities_of
from .reference import faults_of_chains
from .refined import Refined
from .repeats import repeat_findings
from .result import Cost, Verdict

_INTERRUPTED = "sivi.check was interrupted before it could say anything; the draws are as they were."


def check(posterior: Any, target: Any = None, *, key: KeyLike = 0, effort: float = 1.0, modes: bool = True) -> Verdict:
    """Can these draws be believed: chains on the exact target start from them, and must not drift away.

    Many short chains of Hamiltonian Monte Carlo start from the draws. If those are draws of the target, so is every
    later state, and means, spreads, correlations and quantiles stay as they were. Where they change, the change is
    extrapolated to chains of any length, and compared with its noise and with limits. Then modes are looked for that
    have no draws, and those that have are weighed. See `Verdict` for the answer.

    Args:
        posterior: A `Posterior`, an `Inference`, a `Refined`, or draws from elsewhere: an array (draws, dim) or
            (chains, draws, dim) on the unconstrained scale, a `SamplerRun`, or a dict in the form of
            `Posterior.sample`, with or without a leading axis of chains. Correlated draws are thinned. Chains that
            disagree are a fault. The repeats of a posterior are judged together and each alone, and compared; those of
            a target with symmetries only together, as the mixture that they are.
        target: A sivi `Target`, or a function x -> log p(x). That of the posterior when left out; a `Refined` has none.
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
    posterior, target = judged_of(posterior, target)
    found = target_of(posterior, target)
    with float_types_of(found), errors_of_the_density():
        draw_key, check_key = jax.random.split(run_key)
        num_chains = int(np.clip(limits.CHAINS * effort, limits.FEWEST_CHAINS, limits.CHAINS))
        check_shapes(found, log_prob=found.knows_log_prob)
        more, batch_size, judged = [], None, quantities_of(found)
        if isinstance(posterior, Posterior):
            draws = posterior_draws(posterior, draw_key, num_chains, judged)
            more = [] if judged.are_predictions else repeat_findings(posterior, draw_key)
            batch_size = posterior.settings.batch_size
        elif isinstance(posterior, Refined):
            draws = refined_draws(posterior.draws, judged, draw_key, num_chains)
        else:
            chains = as_chains(posterior, found.layout)
            more = faults = _faults_of(posterior, chains, judged)
            notes = ()
            if not isinstance(posterior, SamplerRun):  # of chains in an array, a large R-hat alone is a fault
                more = [item for item in faults if item.level == limits.BAD]
                notes = tuple(
                    f"whether the chains agree: {item.sentence.rstrip('.').removeprefix('the chains disagree: ')}"
                    for item in faults
                    if item not in more
                )
            try:
                draws = given_draws(chains, judged, draw_key, num_chains)
            except WorthTooFew:
                if all(item.level != limits.BAD for item in faults):
                    raise
                return _disagreeing(chains, faults, found.layout, begin)
            draws = draws._replace(notes=(*draws.notes, *notes))
        try:
            return check_draws(
                check_key, found, draws, effort=effort, modes=modes, begin=begin, more=more, batch_size=batch_size
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_INTERRUPTED) from None


def _faults_of(posterior: Any, chains: Float[np.ndarray, "chains draws dim"], judged: Quantities) -> list[Finding]:
    """R-hat and divergences of chains; nothing of draws without chains, or that are not numbers."""
    layout = judged.target.layout
    if (len(chains) < 2 and not isinstance(posterior, SamplerRun)) or not np.isfinite(chains).all():
        return []
    run = SamplerRun(chains, layout, step_size=float("nan"))
    return faults_of_chains(replace(posterior, layout=layout) if isinstance(posterior, SamplerRun) else run, judged)


def _disagreeing(
    chains: Float[np.ndarray, "chains draws dim"], faults: Sequence[Finding], layout: Layout, begin: float
) -> Verdict:
    """The verdict of chains that disagree so much that their draws are worth too few to start from."""
    flat = chains.reshape(-1, chains.shape[-1])
    some = flat[np.linspace(0, len(flat) - 1, min(len(flat), limits.KEPT_DRAWS)).astype(int)]
    notes = ["everything else: the draws of chains that disagree are worth too few independent ones"]
    cost = Cost(time.perf_counter() - begin, 0)
    return Verdict(worst_first(faults), (), cost, tuple(notes), layout, some, some)


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
    found = found.prepared(posterior.key)
    if found.dim != posterior.dim:
        raise ValueError(f"target must have the posterior's {posterior.dim} unknowns; got {found.dim}.")
    if found is not posterior.target:
        stored = posterior.unattached.fingerprint if posterior.unattached is not None else None
        if stored is None and posterior.target is not None:
            stored = fingerprint_of(posterior.target)
        if stored is not None and not same_fingerprint(fingerprint_of(found), stored):
            raise ValueError(
                "target must be the one that the posterior was fitted to, and its score is another; to judge the draws "
                "against another target, give posterior.unconstrained(10_000, key=0) in place of the posterior."
            )
    return found


def _shape_of(draws: Any, target: Any) -> dict[str, Any]:
    """The dim or structure of a function's argument, from the draws."""
    if isinstance(target, Target):
        return {}
    if isinstance(draws, (SamplerRun, Refined)):
        return {"like": draws.layout}
    if isinstance(draws, (np.ndarray, jax.Array)) and draws.ndim in (2, 3):
        return {"dim": int(draws.shape[-1])}
    if isinstance(draws, dict):
        raise ValueError(
            "target must be a sivi Target for draws in a dict, such as sivi.targets.LogDensity(f, like=example); "
            "a function does not say which axes are those of an unknown."
        )
    raise TypeError(f"posterior must be a Posterior, an array, a SamplerRun or a dict; got {describe(draws)}.")
