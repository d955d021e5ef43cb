"""How heavy the tail of importance weights is: the shape of a generalised Pareto distribution, k-hat."""

import numpy as np
from jaxtyping import Float

#: Above it, means of weights are governed by a few of them (Vehtari et al., 2024).
MAX_K_HAT = 0.7


def k_hat(log_weights: Float[np.ndarray, " num"]) -> float:
    """The tail index of importance weights, as in Pareto-smoothed importance sampling.

    Below 0.5 the weights have a variance, and below 0.7 a mean of them can be estimated. It is that of the largest
    min(20 %, 3 √num) weights, −∞ if they are all equal, and NaN where there are fewer than five of them.
    """
    finite = log_weights[np.isfinite(log_weights)]
    length = int(min(0.2 * len(log_weights), 3.0 * np.sqrt(len(log_weights))))
    if length < 5 or len(finite) <= length:
        return float("nan")
    ordered = np.sort(finite) - finite.max()
    cutoff = np.exp(max(ordered[-length - 1], np.log(np.finfo(float).tiny)))
    excesses = np.exp(ordered[-length:]) - cutoff
    excesses = excesses[excesses > 0]
    return _pareto_shape(excesses) if len(excesses) >= 5 else float("-inf")


def _pareto_shape(excesses: Float[np.ndarray, " num"]) -> float:
    """The posterior mean of the shape (Zhang and Stephens, 2009), with the weak prior of PSIS; sorted excesses."""
    num = len(excesses)
    grid = 30 + int(np.sqrt(num))
    quartile = excesses[int(num / 4 + 0.5) - 1]
    theta = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    theta = theta / (3 * quartile) + 1 / excesses[-1]
    shapes = np.mean(np.log1p(-theta[:, None] * excesses), axis=1)
    log_likelihoods = num * (np.log(-theta / shapes) - shapes - 1)
    weights = np.exp(log_likelihoods - log_likelihoods.max())
    mean = float(np.sum(theta * weights) / np.sum(weights))
    shape = float(np.mean(np.log1p(-mean * excesses)))
    return (shape * num + 5.0) / (num + 10.0)
