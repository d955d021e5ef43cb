"""What `versions.py` measures of one version, in the process that it is called in; prints JSON.

    python benchmarks/_version_child.py first function|logistic KEY
    python benchmarks/_version_child.py updates NUM_CHUNKS

Only what version 0.1 has too is used, or asked for first.
"""

import json
import sys
import time
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import sivi
from _flops import flops_of, matmul_gflops
from sivi.objectives import PathKL
from sivi.optimizers import Adam
from sivi.schedules import Cosine, StepDecay

DIM, DRAWS, NUM_DATA, CHUNK = 22, 256, 400, 100
critics = sivi.critics if "critics" in sivi.__all__ else sivi.objectives


def log_density(x: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(x**2) + 0.1 * jnp.sum(jnp.cos(x))


def target_of(name: str, data_key: int = 0) -> tuple[Any, dict[str, int]]:
    """A function that costs nothing, or logistic regression; both have 22 unknowns."""
    if name == "function":
        return log_density, {"dim": DIM}
    return sivi.targets.LogisticRegression(*sivi.datasets.waveform_generator(data_key, NUM_DATA)), {}


def to_first(name: str, data_key: int) -> dict[str, float]:
    """Seconds from the default call to the end of its first update; the data are there before."""
    target, what = jax.block_until_ready(target_of(name, data_key))
    marks: list[float] = []
    start = time.perf_counter()

    def stop(report: Any) -> bool:
        marks.append(time.perf_counter() - start)
        return True

    sivi.fit(target, **what, chunk_size=1, progress=False, callbacks=[stop])
    return {"seconds": marks[0]}


def ms_per_update(target: Any, what: dict[str, int], num_chunks: int, **settings: Any) -> float:
    """Median over the chunks after the first, by when callbacks are called."""
    marks: list[float] = []
    settings = {"num_steps": CHUNK * num_chunks, "chunk_size": CHUNK} | settings
    sivi.fit(target, **what, progress=False, callbacks=[lambda report: marks.append(time.perf_counter())], **settings)
    gaps = sorted(b - a for a, b in zip(marks[1:-1], marks[2:], strict=True))
    return 1e3 * gaps[len(gaps) // 2] / settings["chunk_size"]


def default_settings() -> dict[str, Any]:
    """The default call's family and objective, with 256 draws and no other components: 0.1 has that many."""
    recipe = sivi.defaults.recipe(DIM)
    if hasattr(recipe, "mixture"):
        recipe = replace(recipe, num_particles=DRAWS, num_aux=0)
    assert recipe.num_particles == DRAWS
    return {"family": recipe.family(jax.random.key(0)), "objective": recipe.objective()}


def critic_settings(constant_rate: bool = False) -> dict[str, Any]:
    """`PathKL` as in the default call of 0.1, without the path from the Gaussian, and its family."""
    recipe = sivi.defaults.recipe(DIM)
    recipe = recipe.with_critic() if hasattr(recipe, "with_critic") else recipe
    rates = [rate if constant_rate else Cosine(rate) for rate in (1e-3, 2e-3)]
    objective = PathKL(
        num_particles=DRAWS,
        critic_steps=2,
        critic_warmup=0,
        optimizer=Adam(rates[0], b1=0.9, b2=0.99),
        critic_optimizer=Adam(rates[1], b1=0.9, b2=0.99),
        critic=critics.MLPCritic((128, 128), skip=True, skip_scale=1.0, final_scale=0.01),
        clip=3.0,
    )
    return {"family": recipe.family(jax.random.key(0)), "objective": objective}


def score_matching(particles: int) -> dict[str, Any]:
    rate = StepDecay(1e-3, 0.9, 1000)
    objective = sivi.objectives.ScoreMatching(
        num_particles=particles,
        psi=0.0,
        optimizer=Adam(rate, 0.9, 0.99),
        critic_optimizer=Adam(rate, 0.9, 0.99),
        critic=critics.MLPCritic((128, 128), activation="relu"),
    )
    return {"objective": objective, "whiten": None}


def mflop_per_update(target: Any, what: dict[str, int], family: Any, objective: Any) -> float:
    """Of the objective's step in x itself: the map to the coordinates of the fit is not counted."""
    key, target = jax.random.key(0), sivi.targets.as_target(target, **what)
    state = objective.init(key, family, target)
    arrays, static = eqx.partition((family, state, target), eqx.is_array)

    def step(arrays: Any) -> Any:
        return eqx.filter(objective.step(key, *eqx.combine(arrays, static), None), eqx.is_array)

    return flops_of(step, arrays) / 1e6


def without_rates(objective: Any) -> Any:
    """The inner objective at constant rates: a schedule has to know the length of its run."""
    inner = getattr(objective, "objective", objective)
    if type(inner).__name__ == "PathKL":
        return critic_settings(constant_rate=True)["objective"]
    return type(inner)(num_particles=inner.num_particles, num_aux=inner.num_aux, clip=inner.clip, optimizer=Adam(1e-3))


def updates(num_chunks: int) -> dict[str, float]:
    """Milliseconds of one update, and the share of the machine's rate of matrix products that it uses."""
    found: dict[str, float] = {}
    rate = matmul_gflops()
    for name in ("function", "logistic"):
        target, what = target_of(name)
        for method, settings in (("default", default_settings()), ("path_kl", critic_settings())):
            ms = ms_per_update(target, what, num_chunks, **settings)
            mflop = mflop_per_update(target, what, settings["family"], without_rates(settings["objective"]))
            found |= {f"ms_{method}_{name}": ms, f"mflop_{method}_{name}": mflop}
            found[f"gflops_{method}_{name}"] = mflop / ms
    rate = found["matmul_gflops"] = max(rate, matmul_gflops())
    for name in [name for name in found if name.startswith("gflops_")]:
        found[name.replace("gflops_", "share_of_matmul_")] = found.pop(name) / rate
    for particles in (500, 100):
        found[f"ms_score_matching_{particles}"] = ms_per_update(
            sivi.targets.XShaped(), {}, num_chunks, **score_matching(particles)
        )
    return found


if __name__ == "__main__":
    asked = sys.argv[1:]
    print(json.dumps(to_first(asked[1], int(asked[2])) if asked[0] == "first" else updates(int(asked[1]))))
