"""`sivi.compare`: a fit beside Markov chains on the same target, or beside draws that are known to be good."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from scipy import stats

from .._arguments import as_key
from .._traced import float_types_of
from .._types import KeyLike
from ..posterior import Posterior
from ..samplers import SamplerRun
from ..samplers.diagnostics import MIN_DRAWS, effective_sample_size, scale_sample_size
from . import limits
from .check import target_of
from .comparison import Comparison
from .draws import as_chains
from .inference import judged_of
from .quantities import Quantities, quantities_of
from .reference import NO_BLACKJAX, default_sampler, faults_of_run, run_reference
from .refined import Refined
from .result import Cost

_NAMES = {"nuts": "NUTS", "hmc": "HMC"}


class _Set(NamedTuple):
    """A set of draws: entries of the variables, and how many independent ones tell their means and their spreads."""

    values: Float[np.ndarray, "n entries"]
    for_mean: Float[np.ndarray, " entries"]
    for_spread: Float[np.ndarray, " entries"]


class _Given(NamedTuple):
    """The reference as chains, with what is to be said of it."""

    chains: Float[np.ndarray, "chains draws dim"]
    name: str
    doubts: tuple[str, ...]
    notes: tuple[str, ...]
    cost: Cost
    run: SamplerRun | None


def compare(
    posterior: Any, target: Any = None, *, key: KeyLike = 0, reference: Any = None, **settings: Any
) -> Comparison:
    """Compare a fit with Markov chains on the same target, unknown by unknown.

    The chains must pass before they are believed: R-hat at most 1.01 in every unknown, draws that are worth 400
    independent ones, and at most 1 in 1,000 transitions that diverged. They start at random, wherever the fit is. R-hat
    does not see a mode that all of them have missed; `sivi.check` looks for those. Of a target with symmetries, such as
    a network, predictions are compared, and R-hat is that of predictions.

    Args:
        posterior: A `Posterior`, a `Refined`, an `Inference`, or draws in any form that `sivi.check` takes.
        target: A sivi `Target`, or a function x -> log p(x). That of the posterior when left out.
        key: An int or a JAX key.
        reference: "nuts", "hmc", or draws of your own: an array (draws, dim) or (chains, draws, dim) on the
            unconstrained scale, a `SamplerRun`, or a dict in the form of `Posterior.sample`. When left out it is NUTS,
            or HMC where BlackJAX is not installed, and the result says so.
        settings: Further arguments of the sampler, such as `num_samples`, `num_warmup`, `init` or `progress`.

    Example:
        >>> import numpy as np, sivi
        >>> rng = np.random.default_rng(0)
        >>> narrow, exact = 0.5 * rng.normal(size=(4000, 2)), rng.normal(size=(4000, 2))
        >>> comparison = sivi.compare(narrow, lambda x: -0.5 * (x @ x), reference=exact)
        >>> comparison.level, comparison.sd_ratio.round(1).tolist()
        ('bad', [0.5, 0.5])
    """
    posterior, target = judged_of(posterior, target)
    found = target_of(posterior, target)
    draw_key, run_key = jax.random.split(as_key(key))
    with float_types_of(found):
        judged = quantities_of(found)
        fitted = _fitted(posterior, judged, draw_key)
        given = _reference(reference, judged, run_key, settings)
        other = _of_chains(given.chains, judged)
    return _compared(fitted, other, judged, given)


def _reference(reference: Any, judged: Quantities, key: Any, settings: dict[str, Any]) -> _Given:
    target, notes = judged.target, ()
    if reference is None:
        reference = default_sampler()
        notes = () if reference == "nuts" else (f"{NO_BLACKJAX}.",)
    if isinstance(reference, str):
        if reference not in _NAMES:
            raise ValueError(f'reference must be "nuts", "hmc" or draws; got {reference!r}.')
        run, cost = run_reference(target, reference, key, **settings)
        doubts = tuple(item.sentence for item in faults_of_run(run, judged))
        return _Given(np.asarray(run.draws), _NAMES[reference], doubts, notes, cost, run)
    if settings:
        raise TypeError(f"settings are those of a sampler, and reference is draws; got {', '.join(settings)}.")
    chains = as_chains(reference, target.layout)
    if not np.isfinite(chains).all():
        raise ValueError(f"reference must be finite; {int((~np.isfinite(chains)).any(-1).sum()):,} draws are not.")
    if chains.shape[0] * chains.shape[1] < limits.FEWEST_DRAWS:
        got = chains.shape[0] * chains.shape[1]
        raise ValueError(f"reference must have at least {limits.FEWEST_DRAWS} draws; got {got}.")
    if len(chains) == 1 and not isinstance(reference, SamplerRun):
        return _Given(
            chains, "draws", (), ("draws without chains are taken as they are: no R-hat.",), Cost(0.0, 0), None
        )
    run = SamplerRun(chains, target.layout, step_size=float("nan"))
    if isinstance(reference, SamplerRun):
        run = replace(reference, layout=target.layout)
    doubts = tuple(item.sentence for item in faults_of_run(run, judged))
    return _Given(chains, _NAMES.get(run.sampler, "draws"), doubts, (), Cost(0.0, 0), run)


def _fitted(posterior: Any, judged: Quantities, key: Any) -> _Set:
    if not isinstance(posterior, (Posterior, Refined)):
        chains = as_chains(posterior, judged.target.layout)
        if not np.isfinite(chains).all():
            raise ValueError("draws must be finite; some are not.")
        if (got := chains.shape[0] * chains.shape[1]) < limits.FEWEST_DRAWS:
            raise ValueError(f"draws must be at least {limits.FEWEST_DRAWS} to be compared; got {got}.")
        return _of_chains(chains, judged)
    points = (
        posterior.unconstrained(limits.COMPARED_DRAWS, key) if isinstance(posterior, Posterior) else posterior.draws
    )
    values = _values(np.asarray(points), judged)
    if not np.isfinite(values).all():
        raise ValueError("posterior must have finite draws; some are not, and sivi.check says more.")
    # Several states of a chain of the refinement are worth one draw, at least.
    worth = len(values) if isinstance(posterior, Posterior) else max(1, len(values) // (limits.SNAPSHOTS // 2))
    size = np.full(values.shape[1], float(worth))
    return _Set(values, size, size)


def _of_chains(chains: Float[np.ndarray, "chains draws dim"], judged: Quantities) -> _Set:
    flat = _values(chains.reshape(-1, chains.shape[-1]), judged)
    by_chain = flat.reshape(*chains.shape[:2], -1)
    total = float(len(flat))
    if chains.shape[1] < 2 * MIN_DRAWS:
        size = np.full(flat.shape[1], float(len(chains)))
        return _Set(flat, size, size)
    sizes = (effective_sample_size(by_chain), scale_sample_size(by_chain))
    for_mean, for_spread = (np.clip(np.nan_to_num(size, nan=total), 1.0, total) for size in sizes)
    return _Set(flat, for_mean, for_spread)


def _values(points: Float[np.ndarray, "n dim"], judged: Quantities) -> Float[np.ndarray, "n entries"]:
    """Entries of the variables; of a target with symmetries, predictions."""
    if judged.are_predictions and np.isfinite(points).all():
        return np.asarray(judged.at(points), float)
    return np.asarray(jax.jit(jax.vmap(judged.target.layout.elements))(points), float)


def _compared(fitted: _Set, other: _Set, judged: Quantities, given: _Given) -> Comparison:
    mean, sd = fitted.values.mean(0), fitted.values.std(0, ddof=1)
    reference_mean, reference_sd = other.values.mean(0), other.values.std(0, ddof=1)
    # Entries that a constraint fixes vary by rounding alone.
    moves = reference_sd > 1e-6 * np.maximum(np.abs(reference_mean), 1e-30)
    unit = np.where(moves, reference_sd, np.nan)
    ratio = sd / unit
    mean_noise = np.sqrt(1.0 / other.for_mean + np.minimum(ratio, 1e6) ** 2 / fitted.for_mean)
    pairs = zip(fitted.values.T, other.values.T, strict=True)
    distances = [float(next(iter(stats.ks_2samp(a, b, method="asymp")))) for a, b in pairs]
    return Comparison(
        unknowns=judged.names if judged.are_predictions else tuple(judged.target.layout.element_names()),
        mean=mean,
        sd=sd,
        reference_mean=reference_mean,
        reference_sd=reference_sd,
        mean_error=(mean - reference_mean) / unit,
        mean_noise=mean_noise,
        sd_ratio=ratio,
        sd_noise=np.sqrt(_spread_noise(fitted) + _spread_noise(other)),
        ks=np.where(moves, distances, np.nan),
        ks_noise=0.87 * np.sqrt(1.0 / fitted.for_mean + 1.0 / other.for_mean),  # the mean of Kolmogorov's distribution
        reference=given.name,
        doubts=given.doubts,
        notes=given.notes,
        cost=given.cost,
        run=given.run,
    )


def _spread_noise(draws: _Set) -> Float[np.ndarray, " entries"]:
    """Variance of the logarithm of a standard deviation, (kurtosis − 1) / 4n."""
    offsets = draws.values - draws.values.mean(0)
    sd = offsets.std(0)
    kurtosis = np.mean((offsets / np.where(sd > 0.0, sd, 1.0)) ** 4, axis=0)
    return np.maximum(kurtosis - 1.0, 0.0) / (4.0 * draws.for_spread)
