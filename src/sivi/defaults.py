"""What `fit` uses for whatever is left out: the one place where such a number is chosen."""

import math

from jaxtyping import PRNGKeyArray

from .families import DiagonalGaussian, Family, NormalMixing, SemiImplicit
from .objectives import Annealed, Objective, ScoreMatching
from .schedules import Ramp
from .targets import IsotropicGaussian, Target

NUM_STEPS = 20_000

#: Standard deviation, in every direction, of the family at the start.
START_SD = 0.5


def family(key: PRNGKeyArray, target: Target) -> Family:
    """A semi-implicit family as wide as the target, with a linear skip and a global σ, that starts near N(0, ¼ I)."""
    latent_dim = max(target.dim, 3)
    # Three quarters of the variance from z, through the skip, and one from σ; next to nothing from the network.
    conditional = DiagonalGaussian(
        latent_dim,
        target.dim,
        sigma_init=math.sqrt(0.25) * START_SD,
        skip_scale=math.sqrt(0.75) * START_SD,
        final_scale=0.01,
        key=key,
    )
    return SemiImplicit(NormalMixing(latent_dim), conditional)


def objective(target: Target) -> Objective:
    """SIVI-SM on the geometric path from the family's start, which reaches the target half-way through the run.

    Without the path, descent of the Fisher divergence can run off: from N(0, I) it does on a regression with
    unknown noise, where log σ has a steep side and a flat one, even with the exact critic.
    """
    return Annealed(ScoreMatching(), Ramp(0.0, 1.0, 0.5), IsotropicGaussian(target.dim, START_SD))
