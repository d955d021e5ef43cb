"""How well draws of a posterior predict data that they were not fitted to."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.special import logsumexp

from .._types import ArrayLike, default_float, describe
from ..targets import BayesianModel
from ._draws import check_draws, check_same_dim

_DRAWS = 1000  # at once, at most
_TERMS = 2**20  # likelihood terms at once


@dataclass(frozen=True)
class PredictiveScores:
    """Log likelihoods of held-out data under a set of draws, per datum; higher is better.

    Attributes:
        per_point: (1/N) Σ_n log mean_s p(y_n | x_s): each datum predicted on its own.
        joint: (1/N) log mean_s Π_n p(y_n | x_s): all of them predicted at once, by the same draw.
    """

    per_point: float
    joint: float


def predictive_scores(model: BayesianModel, draws: ArrayLike, data: PyTree) -> PredictiveScores:
    """The held-out log likelihood of a model whose unknowns are draws x_1, …, x_S, in its two forms.

        per point  (1/N) Σ_n log (1/S) Σ_s p(y_n | x_s)
        joint      (1/N) log (1/S) Σ_s Π_n p(y_n | x_s)

    Papers print either under one name. They answer different questions. Per point is the score of the posterior
    predictive distribution: on average over data that the model and its prior generate, none is better than the exact
    posterior's, though on one data set an approximation may be. Joint is, for many data, little more than the log
    likelihood of the best single draw: it rewards draws close together around a good point, that is, a posterior that
    is too narrow, and can be higher for it than for the exact one. Both estimates are biased low, by the logarithm of
    a mean of S; joint much more so.

    Args:
        model: A Bayesian model; its own data, prior and minibatches play no role.
        draws: (S, dim), of its unknowns: `posterior.unconstrained(S)` for a model with named ones.
        data: Held-out data, in the structure of `model.data`, with another number of rows.

    Returns:
        Both scores. Draws go through the model in blocks, so memory does not grow with their number.

    Example:
        >>> from sivi.targets import LogisticRegression
        >>> model = LogisticRegression([[1.0], [1.0]], [0, 1])
        >>> scores = predictive_scores(model, [[0.0], [0.0]], ([[2.0]], [1.0]))
        >>> round(scores.per_point, 4), round(scores.joint, 4)  # both log ½
        (-0.6931, -0.6931)
    """
    if not isinstance(model, BayesianModel):
        raise TypeError(f"model must be a sivi.targets.BayesianModel; got {describe(model)}.")
    points = check_draws("draws", draws, minimum=1)
    check_same_dim(draws=points.shape[1], model=model.dim)
    held_out, num_data = _like_the_models(data, model)
    size = max(1, min(_DRAWS, len(points), _TERMS // num_data))
    per_point, joint = np.full(num_data, -np.inf), np.empty(len(points))
    for start in range(0, len(points), size):
        block = points[start : start + size]
        # The last block is filled up, so that all have one shape and are compiled once.
        filled = np.concatenate([block, np.repeat(block[-1:], size - len(block), axis=0)])
        terms = np.asarray(_terms(model, jnp.asarray(filled, default_float()), held_out), float)[: len(block)]
        if np.isnan(terms).any():
            raise ValueError(
                f"model must have a log likelihood at every draw; at {np.isnan(terms).any(1).sum()} or "
                "more draws it is not a number."
            )
        per_point = np.logaddexp(per_point, logsumexp(terms, axis=0))
        joint[start : start + size] = terms.sum(1)
    log_count = np.log(len(points))
    return PredictiveScores(
        per_point=float(np.mean(per_point) - log_count), joint=float(logsumexp(joint) - log_count) / num_data
    )


@eqx.filter_jit
def _terms(model: BayesianModel, points: Float[Array, "draws dim"], data: PyTree) -> Float[Array, "draws num_data"]:
    return jax.vmap(lambda x: jax.vmap(lambda datum: model.log_likelihood(x, datum))(data))(points)


def _like_the_models(data: PyTree, model: BayesianModel) -> tuple[PyTree, int]:
    """`data` as arrays of the model's types, or an error if their structure or their rows differ from its own."""
    treedef = jax.tree.structure(model.data)
    try:
        leaves = treedef.flatten_up_to(data)
        arrays = [
            jnp.asarray(leaf, own.dtype) for leaf, own in zip(leaves, treedef.flatten_up_to(model.data), strict=True)
        ]
    except (TypeError, ValueError) as error:
        raise ValueError(f"data must have the structure of model.data, {treedef}; got {describe(data)}.") from error
    own_rows = [leaf.shape[1:] for leaf in jax.tree.leaves(model.data)]
    lengths = {leaf.shape[:1] for leaf in arrays}
    if [leaf.shape[1:] for leaf in arrays] != own_rows or len(lengths) != 1 or () in lengths or (0,) in lengths:
        raise ValueError(
            f"data must have rows of shapes {own_rows}, as model.data has, and one leading length of at least 1; "
            f"got arrays of shapes {[leaf.shape for leaf in arrays]}."
        )
    return jax.tree.unflatten(treedef, arrays), len(arrays[0])
