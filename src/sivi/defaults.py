"""What `fit` uses for whatever is left out: the one place where such a number is chosen."""

from jaxtyping import PRNGKeyArray

from .families import DiagonalGaussian, Family, NormalMixing, SemiImplicit
from .objectives import Objective, ScoreMatching
from .targets import Target

NUM_STEPS = 20_000


def family(key: PRNGKeyArray, target: Target) -> Family:
    """A semi-implicit family as wide as the target, with a linear skip and a global σ."""
    latent_dim = max(target.dim, 3)
    return SemiImplicit(NormalMixing(latent_dim), DiagonalGaussian(latent_dim, target.dim, key=key))


def objective(target: Target) -> Objective:
    """SIVI-SM."""
    return ScoreMatching()
