"""Whether moving code has changed a number: hashes of the draws of many short fits, to be compared between versions.

Every fit makes 50 updates and is sampled once. The file of a run holds, for each of them, the SHA-256 of the draws and
of the loss, and a few of the draws, so that two versions whose bits differ can be compared in size.

    python benchmarks/fit_hashes.py [--only NAME ...] [--output FILE.json]   # run
    python benchmarks/fit_hashes.py --old-warmup-key --output FILE.json      # with the key of 0.1 in critic warm-ups
    python benchmarks/fit_hashes.py --compare BEFORE.json AFTER.json         # print what differs
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from sivi import objectives, targets
from sivi.schedules import Ramp, StepDecay

critics = sivi.critics if "critics" in sivi.__all__ else sivi.objectives  # where 0.1 had them
STEPS = 50
SHOWN = 64  # numbers kept of the draws


def banana(x: jax.Array) -> jax.Array:
    return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2 - 1.0) ** 2 / 0.5)


def family(dim: int = 2, *, mixing: str = "normal", conditional: str = "gaussian", scale: str = "global") -> Any:
    keys = jax.random.split(jax.random.key(7))
    z = sivi.NormalMixing(3) if mixing == "normal" else sivi.ImplicitMixing(4, 3, hidden=(16,), key=keys[0])
    make = sivi.DiagonalGaussian if conditional == "gaussian" else sivi.StudentT
    return sivi.SemiImplicit(z, make(3, dim, hidden=(16, 16), scale=scale, key=keys[1]))


def rows(num: int, dim: int, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    inputs = np.concatenate([np.ones((num, 1)), generator.normal(size=(num, dim - 1))], axis=1)
    scores = inputs @ generator.normal(size=(dim, classes))
    return inputs, np.argmax(scores + generator.gumbel(size=scores.shape), axis=1)


def fit(target: Any = banana, dim: int | None = 2, **settings: Any) -> sivi.Posterior:
    dim = None if isinstance(target, targets.Target) or "like" in settings else dim
    return sivi.fit(target, dim, **{"key": 5, "num_steps": STEPS, "progress": False} | settings)


def in_x(objective: Any, **settings: Any) -> sivi.Posterior:
    """In the coordinates of x, with a family that is given."""
    return fit(objective=objective, **{"family": family(), "whiten": None} | settings)


def resumed() -> sivi.Posterior:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "part.sivi"
        fit(checkpoint=file, chunk_size=20, callbacks=[lambda report: report.step >= 20])
        return fit(resume=file)


def constrained() -> sivi.Posterior:
    def log_density(p: dict[str, jax.Array]) -> jax.Array:
        return -(p["a"] ** 2) - p["s"] - jnp.sum(p["w"] ** 2) * p["s"]

    return fit(log_density, like={"a": 0.0, "s": sivi.positive(), "w": np.zeros(2)}, repeats=2)


def wide(x: jax.Array) -> jax.Array:
    scales = jnp.linspace(0.5, 3.0, 150)
    return -0.5 * jnp.sum((x / scales) ** 2) - 0.05 * (x[0] - x[1]) ** 2


def logistic() -> Any:
    return targets.LogisticRegression(*rows(600, 5))


def multinomial() -> Any:
    return targets.MultinomialRegression(*rows(400, 40, classes=5))


SMALL = {"num_particles": 32, "critic": critics.MLPCritic((16, 16))}
STRUCTURED = {"num_particles": 32, "critic": critics.StructuredCritic((16, 16))}

FITS: dict[str, Callable[[], sivi.Posterior]] = {
    "default": fit,
    "default-x64": lambda: _in_x64(fit),
    "default-repeats": lambda: fit(repeats=3),
    "default-resumed": resumed,
    "default-score-only": lambda: fit(targets.ScoreFunction(jax.grad(banana), 2)),
    "default-constrained-repeats": constrained,
    "default-10d": lambda: fit(lambda x: -jnp.sum(jnp.cosh(x)) + x[0] * x[1], dim=12),
    "default-low-rank": lambda: fit(wide, dim=150),
    "default-minibatches": lambda: fit(logistic(), batch_size=100),
    "default-minibatches-repeats": lambda: fit(logistic(), batch_size=100, repeats=2),
    "default-rotated-minibatches": lambda: fit(multinomial(), batch_size=100, batching="rotate"),
    "score-matching": lambda: in_x(objectives.ScoreMatching(**SMALL)),
    "score-matching-paper": lambda: in_x(objectives.ScoreMatching(psi=0.0, critic_steps=2, critic_warmup=5, **SMALL)),
    "score-matching-scheduled": lambda: in_x(objectives.ScoreMatching(psi=StepDecay(1.0, 0.9, 3), **SMALL)),
    "score-matching-structured": lambda: in_x(objectives.ScoreMatching(**STRUCTURED)),
    "score-matching-minibatches": lambda: in_x(
        objectives.ScoreMatching(**SMALL), target=logistic(), family=family(5), batch_size=100, whiten="auto"
    ),
    "score-matching-rotated": lambda: in_x(
        objectives.ScoreMatching(**SMALL), target=logistic(), family=family(5), batch_size=100, batching="rotate"
    ),
    "plug-in": lambda: in_x(objectives.PlugInFisher(**SMALL)),
    "path-kl": lambda: in_x(objectives.PathKL(**SMALL)),
    "path-kl-structured": lambda: in_x(objectives.PathKL(**STRUCTURED)),
    "path-kl-network-scale": lambda: in_x(objectives.PathKL(**SMALL), family=family(scale="network")),
    "surrogate-elbo": lambda: in_x(objectives.SurrogateELBO(num_particles=16, num_aux=Ramp(1, 9), block_size=3)),
    "unbiased-elbo": lambda: in_x(
        objectives.UnbiasedELBO(num_particles=4), family=family(mixing="implicit", conditional="student")
    ),
    "kernel-stein": lambda: in_x(objectives.KernelStein(num_particles=16)),
    "annealed": lambda: in_x(
        objectives.Annealed(objectives.ScoreMatching(**SMALL), Ramp(0.0, 1.0, 0.5), targets.Multimodal())
    ),
    "bridged": lambda: in_x(
        objectives.Bridged(objectives.PathKL(**SMALL), Ramp(0.4, 0.0, 0.6), base=targets.Multimodal())
    ),
}


def _in_x64(function: Callable[[], sivi.Posterior]) -> sivi.Posterior:
    with jax.enable_x64(True):
        return function()


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def record(name: str) -> dict[str, Any]:
    posterior = FITS[name]()
    with jax.enable_x64("x64" in name):
        draws = np.asarray(posterior.unconstrained(1000, key=1))
    loss = np.asarray(posterior.history["loss"])
    return {
        "draws": digest(draws),
        "loss": digest(loss),
        "scale": float(draws.std()),
        "first": [float(x) for x in draws.reshape(-1)[:SHOWN]],
    }


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print what differs; the number of fits that do."""
    changed = 0
    for name, old in before["fits"].items():
        new = after["fits"].get(name)
        if new is None:
            print(f"{name:32} missing")
            changed += 1
        elif (old["draws"], old["loss"]) != (new["draws"], new["loss"]):
            gap = np.abs(np.subtract(old["first"], new["first"])).max() / old["scale"]
            print(
                f"{name:32} draws {old['draws'] == new['draws']}, loss {old['loss'] == new['loss']}, gap {gap:.1e} sd"
            )
            changed += 1
    print(f"{len(before['fits']) - changed} of {len(before['fits'])} fits equal bit for bit")
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=FITS, metavar="NAME", default=list(FITS))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--compare", nargs=2, type=Path)
    parser.add_argument("--old-warmup-key", action="store_true", help="the one number on purpose not that of 0.1")
    arguments = parser.parse_args()
    if arguments.old_warmup_key:
        from sivi.objectives import critic_objective

        critic_objective._WARMUP_STREAM = 1  # 0.1: fold_in(key, 1), which is also split(key)[1]
    if arguments.compare:
        sys.exit(compare(*(json.loads(path.read_text()) for path in arguments.compare)) > 0)
    fits = {}
    for name in arguments.only:
        fits[name] = record(name)
        print(f"{name:32} {fits[name]['draws']} {fits[name]['loss']}", flush=True)
    about = {
        "old_warmup_key": arguments.old_warmup_key,
        "jax": jax.__version__,
        "device": jax.default_backend(),
        "cores": os.cpu_count(),
        "key": 5,
        "steps": STEPS,
    }
    if arguments.output:
        arguments.output.write_text(json.dumps({"about": about, "fits": fits}, indent=1) + "\n")


if __name__ == "__main__":
    main()
