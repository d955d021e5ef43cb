"""Data too many for chains: what minibatch scores can say of the draws.

For q = p, E h = 0 and E (x − m)_k h_k = −s_k² with the preconditioned score h = L Lᵀ S(x), whatever the target. An
unbiased score will do, so every draw has a minibatch of its own, with a control variate at the mean. Where the target
is close to a Gaussian, the two means tell by how much location and scale of an unknown are off.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import default_float
from .._programs import compiled
from ..coordinates import AffineMap
from ..targets import Target
from ..targets.control_variate import ControlVariate
from ..targets.evaluate import values_with_own_rows
from . import findings as words
from . import limits
from .effects import bonferroni
from .findings import Finding
from .frame import Frame
from .limits import LIMITS

NOTE = (
    "all but the mean and spread of each unknown, from minibatch scores: full gradients of {rows:,} data would take "
    "about {hours:.1g} hours"
)
#: The same of predictions, which no score is of.
NOTE_OF_PREDICTIONS = "everything but the scale of minibatches: scores of minibatches say nothing of predictions"


def predictions_not_judged(target: Target, seconds: float) -> words.Finding:
    """The finding that says so, and what would help.

    Args:
        target: p, with data.
        seconds: That a check would take.
    """
    effort = math.ceil(seconds * limits.SHORT_SHARE / limits.SECONDS)
    sentence = (
        f"all predictions together: not judged, since full gradients of {target.num_data:,} data would take about "
        f"{seconds * limits.SHORT_SHARE / 60.0:.0f} minutes; effort={effort} allows it."
    )
    return words.Finding("not judged", (), float("nan"), 0.0, limits.DOUBTFUL, sentence)


def minibatch_score_findings(
    key: PRNGKeyArray,
    target: Target,
    frame: Frame,
    draws: Float[np.ndarray, "n dim"],
    names: list[str],
    batch_size: int | None,
) -> tuple[list[Finding], int]:
    """Findings about means and spreads, and the number of gradients of all data that they took, about.

    Args:
        key: Random key: which rows of data each draw sees.
        target: p, with data.
        frame: Coordinates of the draws.
        draws: Of q.
        names: Of the unknowns.
        batch_size: Rows for a draw; 256 by default.
    """
    num_data = target.num_data
    assert num_data is not None
    points = draws[: limits.MINIBATCH_DRAWS]
    size = min(num_data, batch_size or limits.MINIBATCH_ROWS)
    rows = jax.random.randint(key, (len(points), size), 0, num_data)
    pushed = np.asarray(_preconditioned(target, frame.affine, jnp.asarray(points, default_float()), rows))
    usable = np.isfinite(pushed).all(axis=1)
    pushed, offset = pushed[usable] / frame.scale, frame.standardised(points[usable])
    num = len(pushed)
    if num < limits.FEWEST_DRAWS:
        text = f"{100 * (1.0 - usable.mean()):.3g} % of the draws have no score that is a number."
        return [words.Finding("not finite", (), float(1.0 - usable.mean()), 0.0, limits.BAD, text, 1e3)], 1
    products = -offset * pushed
    precision, precision_error = products.mean(0), products.std(0) / np.sqrt(num)
    safe = np.maximum(precision, 0.05)
    mean, mean_error = pushed.mean(0) / safe, pushed.std(0) / np.sqrt(num) / safe
    spread, spread_error = -0.5 * np.log(safe), precision_error / (2.0 * safe)
    bound, found = bonferroni(len(names)), []
    for kind, effects, errors, sentence in (
        ("mean", mean, mean_error, words.mean_sentence),
        ("spread", spread, spread_error, words.spread_sentence),
    ):
        for i in np.flatnonzero(np.abs(effects) > bound * errors).tolist():
            effect, error = float(effects[i]), float(errors[i])
            text = sentence(names[i], effect, error)
            found.append(words.finding(kind, (names[i],), effect, error, LIMITS[kind], text))
    return [item for item in found if item is not None], 1 + round(2 * num * size / num_data)


@compiled
def _preconditioned(
    target: Target, affine: AffineMap, points: Float[Array, "n dim"], rows: Int[Array, "n size"]
) -> Float[Array, "n dim"]:
    """L Lᵀ S_B(x) of every point, with a control variate at the mean."""
    varied = ControlVariate.at(target, affine.mean)
    scores = values_with_own_rows(varied.score, varied, points, rows)
    return jax.vmap(lambda score: affine.forward(affine.pull_back(score)) - affine.mean)(scores)
