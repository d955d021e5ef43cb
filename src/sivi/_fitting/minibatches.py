"""Whether the scores of minibatches are scaled to all data, asked before the first update."""

import jax.numpy as jnp
import numpy as np

from .._arguments import default_float
from .._backend import matmul_precision
from .._repeats import member_of
from .._run import FitSettings, Remark
from ..coordinates import CoordinateMap
from ..targets import Target
from ..targets.minibatch_scale import batches_of_all, is_scaled_by_library, slope_of_minibatches
from . import member

#: Points at which scores are compared, and how far from 1 their slope may be, beyond this many standard errors too.
NUM_POINTS, MOST_OFF, MOST_ERRORS = 8, 0.05, 6.0


def remarks_on_scale(settings: FitSettings, target: Target, affines: CoordinateMap) -> tuple[Remark, ...]:
    """A sentence if the mean score of minibatches is not that of all data.

    Nothing is computed for a target whose log density and score are methods of this library, which scales them.
    """
    num_data, size = target.num_data, settings.batch_size
    if size is None or num_data is None or size >= num_data or is_scaled_by_library(target):
        return ()
    rng = np.random.default_rng(0)
    affine = member_of(affines, 0)
    u = jnp.asarray(rng.normal(size=(NUM_POINTS, target.dim)), default_float())
    points = member.points_of(affine, u)
    try:
        with matmul_precision(settings.precision):
            found = slope_of_minibatches(target, batches_of_all(num_data, size, rng), points)
    except (TypeError, ValueError, IndexError):
        return ()  # a target that cannot be evaluated so; the updates will tell
    if found is None or not abs(found[0] - 1.0) > max(MOST_OFF, MOST_ERRORS * found[1]):
        return ()
    return (
        Remark(
            "minibatch-scale",
            f"The mean score of minibatches of {size} changes {found[0]:.3g} times as much as the score on all data: "
            f"another posterior is fitted. Multiply the likelihood of a batch by N/|batch| = {num_data / size:.3g} in "
            "log_prob(x, batch), or use sivi.model, which does it.",
        ),
    )
