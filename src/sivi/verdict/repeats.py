"""Do the repeats of a fit agree: each against all of them."""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from ..posterior import Posterior
from ..samplers.run import free_names
from . import limits
from .effects import bonferroni
from .findings import Finding, finding

_DRAWS = 2000


def repeat_findings(posterior: Posterior, key: PRNGKeyArray) -> list[Finding]:
    """Unknowns whose mean or spread differs between repeats, by more than a limit: at most one finding a repeat.

    Which of them is wrong is for chains to say. If one differs, at least one is.
    """
    if posterior.repeats < 2:
        return []
    draws = np.asarray(posterior.unconstrained(_DRAWS, jax.random.fold_in(key, 1), by_repeat=True), float)
    lost = [i for i, own in enumerate(draws) if not np.isfinite(own).all()]
    if lost:
        numbers = ", ".join(map(str, lost))
        sentence = f"repeat{'s' if len(lost) > 1 else ''} {numbers}: draws are not finite; the others are not compared."
        return [Finding("repeats", (), float(len(lost)), 0.0, limits.BAD, sentence, 1e3)]
    names, found = free_names(posterior.layout), []
    pooled = draws.reshape(-1, draws.shape[-1])
    centre, scale = pooled.mean(0), np.maximum(pooled.std(0), 1e-30)
    z = (draws - centre) / scale
    num_tests = 2 * z.shape[0] * z.shape[2]
    for number, own in enumerate(z):
        mean, spread = own.mean(0), np.log(np.maximum(own.std(0), 1e-30))
        mean_error = own.std(0) / np.sqrt(len(own))
        kurtosis = np.mean((own - mean) ** 4, 0) / np.maximum(own.var(0), 1e-30) ** 2
        spread_error = np.sqrt(np.maximum(kurtosis - 1.0, 0.1) / len(own)) / 2.0
        candidates = []
        for kind, effect, error in (("mean", mean, mean_error), ("spread", spread, spread_error)):
            worst = int(np.argmax(np.abs(effect)))
            if abs(effect[worst]) <= bonferroni(num_tests) * error[worst]:
                continue
            size = (
                f"its mean is {effect[worst]:+.2f} sd away from that of all repeats"
                if kind == "mean"
                else f"its sd is {np.exp(effect[worst]):.2f} times that of all repeats"
            )
            sentence = f"repeat {number} differs from the others, most in {names[worst]}: {size}."
            numbers = (float(effect[worst]), float(error[worst]))
            candidates.append(finding("repeats", (names[worst],), *numbers, limits.LIMITS[kind], sentence))
        kept = [item for item in candidates if item is not None]
        found += [max(kept, key=lambda item: item.severity)] if kept else []
    return found
