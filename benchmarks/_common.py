"""What every benchmark writes beside its numbers, and the paper's settings."""

import json
import math
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax

import sivi
from sivi.objectives import Annealed, MLPCritic, ScoreMatching
from sivi.optimizers import Adam
from sivi.schedules import StepDecay

RESULTS = Path(__file__).parent / "results"


def environment() -> dict[str, object]:
    """Versions and the kind of machine."""

    def installed(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "source tree"

    names = ("sivi", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")
    return {
        "versions": {"python": platform.python_version()} | {name: installed(name) for name in names},
        "machine": {
            "platform": platform.machine(),
            "device": jax.devices()[0].device_kind,
            "cores": len(os.sched_getaffinity(0)),
        },
    }


def write(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def paper_family(key: int, dim: int = 2, latent: int = 3, hidden: int = 50) -> sivi.SemiImplicit:
    """The family of the paper's toy experiments: ReLU, no skip, log σ² clamped at −6."""
    conditional = sivi.DiagonalGaussian(
        latent,
        dim,
        hidden=(hidden, hidden),
        activation="relu",
        skip=False,
        sigma_init=1.0,
        sigma_floor=math.exp(-3),
        floor="clamp",
        key=jax.random.key(key),
    )
    return sivi.SemiImplicit(sivi.NormalMixing(latent), conditional)


def paper_objective(num_particles: int = 500, annealed: bool = False) -> sivi.objectives.Objective:
    """SIVI-SM as in the paper's toy experiments: Adam (0.9, 0.99), rate × 0.9 every 1000 updates, K = 1."""

    def adam(rate: float) -> Adam:
        return Adam(StepDecay(rate, factor=0.9, every=1000), b1=0.9, b2=0.99)

    objective = ScoreMatching(
        num_particles=num_particles,
        critic_steps=1,
        critic=MLPCritic((128, 128), activation="relu"),
        psi=0.0,
        optimizer=adam(1e-3),
        critic_optimizer=adam(2e-3),
    )
    return Annealed(objective) if annealed else objective
