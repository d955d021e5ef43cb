"""Every constant of the verdict: what counts as a fault, and how much is spent to look for one."""

from typing import NamedTuple

# ---- levels ----
NO_FAULT, DOUBTFUL, BAD = "no fault found", "doubtful", "bad"
#: From best to worst.
LEVELS = (NO_FAULT, DOUBTFUL, BAD)


class Limit(NamedTuple):
    """Sizes of an effect from which it counts: as doubtful, and as bad."""

    doubtful: float
    bad: float


#: By kind of statistic; the units are those of the findings.
LIMITS = {
    "mean": Limit(0.1, 0.3),  # standard deviations
    "spread": Limit(0.1, 0.3),  # of the logarithm of a standard deviation
    "correlation": Limit(0.1, 0.3),
    "probability": Limit(0.03, 0.1),
    "tail": Limit(0.015, 0.05),
    "log density": Limit(0.2, 0.6),  # of dim / 2
    "log density quantile": Limit(0.1, 0.3),
    "mode weight": Limit(0.05, 0.15),
    "lost mass": Limit(0.01, 0.05),
    "minibatch scale": Limit(0.05, 0.05),
}

# ---- when an effect is more than noise ----
#: Probability of a false finding in one group of statistics; there are about twelve, and 1 % in all.
ALPHA = 0.01 / 12
#: An effect counts from this many standard errors beyond its limit.
ERRORS_BEYOND_LIMIT = 2.0
#: From this share of the errors that count on, an effect beyond its limit is looked at with longer chains.
SUSPICIOUS = 0.8
#: Part of its limit from which an effect that is no fault is told as slight.
SLIGHT = 0.5
#: Chains whose pull on an effect is taken for noise, at the least.
INFLUENTIAL_CHAINS = 4
#: A slope beyond this says that the chains have not moved: extrapolation stops there.
MAX_SLOPE = 0.9
#: With slower chains than this, findings about directions are dropped: they were false alarms.
MAX_MEMORY_FOR_DIRECTIONS = 0.8

# ---- statistics ----
QUANTILES = (0.005, 0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975, 0.995)
#: Draws that must lie beyond a quantile: the noise of fewer is not normal, and that quantile is left out.
FEWEST_BEYOND_QUANTILE = 10
#: Quantiles at or beyond these are tails.
TAIL = 0.025
CLIP = 5.0
RANDOM_DIRECTIONS, CHOSEN_DIRECTIONS = 32, 3
#: Unknowns up to which all pairs are looked at; beyond, as many pairs, chosen by the draws.
MAX_DIM_ALL_PAIRS = 128
MAX_PAIRS = MAX_DIM_ALL_PAIRS * (MAX_DIM_ALL_PAIRS - 1) // 2

#: Where one draw in a thousand makes more than this share of a variance, a standard deviation is not known.
RARE, MOST_OF_RARE = 0.001, 0.25

# ---- draws ----
REFERENCE_DRAWS, TUNING_DRAWS = 10_000, 512
COORDINATE_DRAWS, COORDINATE_DRAWS_PER_DIM = 10_000, 50
CHAINS = 1024
#: Fewer effective draws than this leave some questions open.
ENOUGH_DRAWS = 1000
#: From so many on, one half gives the coordinates and the other is judged.
ENOUGH_TO_SPLIT = 8192
#: Draws for every unknown below which they are not judged along their own axes.
DRAWS_PER_AXIS = 20
#: Of predictions, directions with less than this share of all spread are not looked at.
LEAST_SPREAD = 0.001
#: Fewer than this, and nothing can be said.
FEWEST_DRAWS = 50
#: Unknowns up to which coordinates have a full matrix.
MAX_DIM_DENSE = 128
MAX_RANK = 32
#: Unknowns up to which all eigenvectors of their correlations are computed.
MAX_DIM_EIGEN = 2048

# ---- chains ----
#: Chains in a block of the one program, at most.
BLOCK = 512
SNAPSHOTS = 16
TARGET_ACCEPTANCE = 0.8
TUNING_ROUNDS, TRANSITIONS_PER_ROUND = 16, 3
MIN_LEAPFROG, MAX_LEAPFROG, TRAJECTORY = 3, 32, 3.0
#: A step is ε·U(low, high); with probability SMALL_SHARE it is ε·10^(−SMALL_DECADES·U) instead.
JITTER = (0.7, 1.1)
SMALL_SHARE, SMALL_DECADES = 0.25, 1.5
#: One transition in so many has small steps in all chains, and this many times as many of them.
FINE_EVERY, FINE_LENGTH = 3, 4
#: Gradients of a chain: of the first round of drift, and of all rounds.
GRADIENTS_FIRST, GRADIENTS_ALL = 300, 2200
ENOUGH_MEMORY = 0.25
#: Chains that accept fewer of their steps have not moved, and say nothing.
FEWEST_ACCEPTED = 0.1
#: From this error on, the mass of a mode is not known.
UNKNOWN_MASS = 0.5
FEWEST_CHAINS = 256
#: Share of the draws with density zero: q has mass where p has none, and no noise blurs that.
LIMITS["zero density"] = Limit(0.0005, 0.01)

# ---- what is kept and shown ----
KEPT_DRAWS = 4096

# ---- refinement ----
#: Effort that `refine` may spend, in the most that the chains of a check take.
REFINE_EFFORT = 8.0

# ---- targets that take long ----
#: Seconds that chains may take, about, and a check with modes in gradients, about.
SECONDS, PLANNED_GRADIENTS = 200.0, 8e5
#: The share of a check that a short one does: fewer chains, no modes.
SHORT_SHARE, SHORT_CHAINS, SHORT_REFERENCE = 0.15, 256, 2000
#: Draws and rows of data of the check on minibatches.
MINIBATCH_DRAWS, MINIBATCH_ROWS = 4096, 256

# ---- Markov chains as a reference ----
#: The largest R-hat, and the share of transitions that diverged.
RHAT, DIVERGENT = Limit(1.01, 1.05), Limit(0.001, 0.01)
#: Fewer independent draws than this tell neither means nor R-hat.
FEWEST_EFFECTIVE = 400
#: Draws of a fit that are compared, and chains and transitions (and as many of warm-up) of `infer`.
COMPARED_DRAWS, REFERENCE_CHAINS, REFERENCE_TRANSITIONS = 20_000, 4, 1000
