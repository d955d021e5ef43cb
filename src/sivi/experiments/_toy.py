"""The paper's settings of the toy section, every number of a method in one place.

Targets and networks are those of section 4.1 (appendix E). What the paper's text leaves out is, for SIVI-SM, as in its
authors' runs (rates, decay, clamp); for SIVI and UIVI it was chosen here, and each function says what. The family is
ReLU without skip, K = 1, and all decays are counted in updates.
"""

from collections.abc import Callable
from typing import Any

from .. import defaults
from ..families import SemiImplicit
from ..objectives import Annealed, KernelStein, Objective, PlugInFisher, ScoreMatching, SurrogateELBO, UnbiasedELBO
from ..optimizers import Adam
from ..schedules import Cosine, StepDecay
from ..targets import Banana, ExactTarget, Multimodal, XShaped
from ._method import Call, Method, build_family, paper_family, unbiased, with_critic

TARGETS: dict[str, Callable[[], ExactTarget]] = {"banana": Banana, "multimodal": Multimodal, "x-shaped": XShaped}
TARGET_LABELS = {"banana": "banana", "multimodal": "multimodal", "x-shaped": "X-shaped"}
#: "for all methods, we used the annealing trick during training for the multimodal and X-shaped" (section 4.1).
ANNEALED = ("multimodal", "x-shaped")
NUM_UPDATES = 50_000
DIM = 2

#: z ~ N(0, I₃), and μ of widths [3, 50, 50, 2].
FAMILY = paper_family(3, (50, 50))

#: What differs from it for kernel Stein: a smooth network with a linear skip that starts near N(0, ¼ I).
NARROW = {
    "hidden": (64, 64),
    "activation": "silu",
    "skip": True,
    "skip_scale": 0.4330127018922193,
    "final_scale": 0.01,
    "sigma_init": 0.25,
    "sigma_floor": 0.001,
    "floor": "smooth",
}


def family(key: int, *, dim: int = DIM, **changes: Any) -> SemiImplicit:
    """The paper's family with fresh weights; `changes` are of single settings in `FAMILY`."""
    return build_family(key, dim, FAMILY | changes)


def _adam(rate: float) -> Adam:
    return Adam(StepDecay(rate, factor=0.9, every=1000), b1=0.9, b2=0.99)


def sivi_sm(num_particles: int = 500, objective: type[ScoreMatching] | type[PlugInFisher] = ScoreMatching) -> Objective:
    """SIVI-SM: critic of widths [2, 128, 128, 2]."""
    optimizers = {"optimizer": _adam(1e-3), "critic_optimizer": _adam(2e-3)}
    return with_critic(objective, 128, num_particles=num_particles, psi=0.0, **optimizers)


def plug_in(num_particles: int = 500) -> Objective:
    """The biased estimate of appendix L, with everything else as in SIVI-SM."""
    return sivi_sm(num_particles, PlugInFisher)


def sivi() -> SurrogateELBO:
    """SIVI: L = 50. The paper gives no number of particles or rate: the rate is SIVI-SM's."""
    return SurrogateELBO(num_particles=100, num_aux=50, block_size=128, optimizer=_adam(1e-3))


def uivi() -> UnbiasedELBO:
    """UIVI: one particle, 10 iterations of inner HMC; RMSProp with its authors' rate, which here falls as a cosine."""
    return unbiased(Cosine(0.01))


def method(
    label: str, objective: Callable[[], Objective], num_updates: int = NUM_UPDATES, **family_changes: Any
) -> Method:
    """A method whose `call` takes the name of the target, and whether to anneal it: as in the paper unless told.

    Args:
        label: Its heading.
        objective: Its settings.
        num_updates: Of a full fit.
        family_changes: Settings of the family that differ from `FAMILY`.
    """

    def call(target: str, annealed: bool | None = None) -> Call:
        anneals = target in ANNEALED if annealed is None else annealed
        return Call(Annealed(objective()) if anneals else objective(), FAMILY | family_changes)

    return Method(label, call, num_updates)


METHODS = {
    "sivi": method("SIVI", sivi),
    "uivi": method("UIVI", uivi, sigma_init=0.5),
    "sivi-sm": method("SIVI-SM", sivi_sm),
    "kernel-stein": method("kernel Stein", KernelStein, num_updates=20_000, **NARROW),
    "default": Method("default call", lambda target, annealed=None: Call(), defaults.recipe(DIM).num_steps),
    "plug-in": method("plug-in Fisher (biased)", plug_in),
}


def fit_settings(name: str, target: str, seed: int, annealed: bool | None = None) -> dict[str, Any]:
    """Arguments of `sivi.fit` besides the target and `num_steps`."""
    return METHODS[name].call(target, annealed).arguments(DIM, seed)


def described(name: str, target: str, annealed: bool | None = None) -> dict[str, Any]:
    """The same as JSON values, to be stored with a result."""
    return METHODS[name].call(target, annealed).described(DIM)
