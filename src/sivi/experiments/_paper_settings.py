"""The paper's settings of the toy section, every number of a method in one place.

Targets and networks are those of section 4.1 (appendix E). What the paper's text leaves out is, for SIVI-SM, as in its
authors' runs (rates, decay, clamp); for SIVI and UIVI it was chosen here, and each function says what. The family is
ReLU without skip, K = 1, and all decays are counted in updates.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import defaults
from ..critics import MLPCritic
from ..families import SemiImplicit
from ..objectives import (
    Annealed,
    KernelStein,
    Objective,
    PlugInFisher,
    ScoreMatching,
    SurrogateELBO,
    UnbiasedELBO,
)
from ..optimizers import Adam, RMSProp
from ..schedules import Cosine, Schedule, StepDecay
from ..targets import Banana, ExactTarget, Multimodal, XShaped
from ._call import Call, build_family

TARGETS: dict[str, Callable[[], ExactTarget]] = {"banana": Banana, "multimodal": Multimodal, "x-shaped": XShaped}
TARGET_LABELS = {"banana": "banana", "multimodal": "multimodal", "x-shaped": "X-shaped"}
#: "for all methods, we used the annealing trick during training for the multimodal and X-shaped" (section 4.1).
ANNEALED = ("multimodal", "x-shaped")
NUM_UPDATES = 50_000
DIM = 2


#: z ~ N(0, I₃), x | z ~ N(μ(z), diag σ²) with μ of widths [3, 50, 50, 2]; log σ² starts at 0 and is clamped at −6.
FAMILY = {
    "latent_dim": 3,
    "hidden": (50, 50),
    "activation": "relu",
    "skip": False,
    "scale": "global",
    "sigma_init": 1.0,
    "sigma_floor": math.exp(-3),
    "floor": "clamp",
}


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


def sivi_sm(num_particles: int = 500) -> ScoreMatching:
    """SIVI-SM: critic of widths [2, 128, 128, 2]."""
    return ScoreMatching(
        num_particles=num_particles,
        critic_steps=1,
        critic=MLPCritic((128, 128), activation="relu"),
        psi=0.0,
        optimizer=_adam(1e-3),
        critic_optimizer=_adam(2e-3),
    )


def plug_in(num_particles: int = 500) -> PlugInFisher:
    """The biased estimate of appendix L, with everything else as in SIVI-SM."""
    return PlugInFisher(
        num_particles=num_particles,
        critic_steps=1,
        critic=MLPCritic((128, 128), activation="relu"),
        psi=0.0,
        optimizer=_adam(1e-3),
        critic_optimizer=_adam(2e-3),
    )


def sivi() -> SurrogateELBO:
    """SIVI: L = 50. The paper gives no number of particles or rate: the rate is SIVI-SM's."""
    return SurrogateELBO(num_particles=100, num_aux=50, block_size=128, optimizer=_adam(1e-3))


def uivi() -> UnbiasedELBO:
    """UIVI: one particle, 10 iterations of inner HMC; RMSProp with its authors' rate, which here falls as a cosine."""
    return unbiased(Cosine(0.01))


def unbiased(rate: Schedule, num_particles: int = 1) -> UnbiasedELBO:
    """UIVI as in all experiments: 10 iterations of inner HMC of which 5 are dropped, and RMSProp."""
    return UnbiasedELBO(
        num_particles=num_particles,
        num_iterations=10,
        burn_in=5,
        num_leapfrog=5,
        step_size=0.2,
        target_acceptance=0.9,
        jitter=0.0,
        optimizer=RMSProp(rate, decay=0.9, eps=1.0),
    )


@dataclass(frozen=True)
class Method:
    """A column of the KL table.

    Attributes:
        label: Its heading.
        objective: Its settings; None for the default call, `sivi.fit(target, key=seed)`.
        anneals: Whether it is annealed where the paper's methods are.
        family_changes: Settings of the family that differ from `FAMILY`.
        updates: Of a full fit; None for as many as `sivi.fit` takes by itself, at most.
    """

    label: str
    objective: Callable[[], Objective] | None
    anneals: bool = True
    family_changes: Mapping[str, Any] = field(default_factory=dict)
    updates: int | None = NUM_UPDATES

    def fit_settings(self, target: str, seed: int, annealed: bool | None = None) -> dict[str, Any]:
        """Arguments of `sivi.fit` besides the target and `num_steps`; annealed as in the paper unless told."""
        return self._call(target, annealed).arguments(DIM, seed)

    def described(self, target: str, annealed: bool | None = None) -> dict[str, Any]:
        """The settings as JSON values, to be stored with a result."""
        return self._call(target, annealed).described(DIM)

    def _call(self, target: str, annealed: bool | None) -> Call:
        if self.objective is None:
            return Call()
        objective = self.objective()
        if (self.anneals and target in ANNEALED) if annealed is None else annealed:
            objective = Annealed(objective)
        return Call(objective, {**FAMILY, **self.family_changes})

    @property
    def num_updates(self) -> int:
        """Updates of a full fit, at most."""
        return defaults.recipe(DIM).num_steps if self.updates is None else self.updates


METHODS = {
    "sivi": Method("SIVI", sivi),
    "uivi": Method("UIVI", uivi, family_changes={"sigma_init": 0.5}),
    "sivi-sm": Method("SIVI-SM", sivi_sm),
    "kernel-stein": Method("kernel Stein", KernelStein, family_changes=NARROW, updates=20_000),
    "default": Method("default call", None, updates=None),
    "plug-in": Method("plug-in Fisher (biased)", plug_in),
}
