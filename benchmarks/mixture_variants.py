"""Variants of the mixture objective and its settings, on the tuning half of the battery: what `defaults` was chosen by.

    python benchmarks/mixture_variants.py [--names banana,funnel-2] [--only "lr=0.02"] [--keys 0,1] [--out FILE]

Every row is one fit in the coordinates of the warm-up: one round, without a stop rule. `correction` replaces log q̂ by
an estimate with less bias, which is no bound any more:

    half:   2 log q̂_m − log q̂_(m/2), Richardson's extrapolation over halves of the components, with the own one in both;
    half-2: the same to second order, with quarters;
    delta:  log q̂ − w_ii + ½ Σ_{j≠i} w_ij², by the delta method.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from _common import RESULTS, environment, write
from battery.child import numbers_of
from battery.posteriors import POSTERIORS
from sivi._programs import PROGRAMS
from sivi.families import DenseGaussian, DiagonalGaussian, NormalMixing, SemiImplicit
from sivi.objectives import Annealed, Bridged, MixtureKL, mixture_kl
from sivi.optimizers import Adam
from sivi.schedules import Cosine, Ramp
from sivi.targets import IsotropicGaussian, as_target

HARD = (
    "eight-even",
    "five-uneven",
    "widths",
    "banana",
    "funnel-2",
    "funnel-10-wide",
    "schools-centred",
    "curved-pairs",
)
EASY = ("robust", "logistic", "poisson", "schools", "ar", "mixture", "irt")
BASE = {"steps": 4000, "annealed": 0.5, "hold": 0.5}
#: Changes to the base, or to 1,000 updates without annealing for the easy ones. All but "plain" have a correction.
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "plain": {"correction": None},
    "correction=half-2": {"correction": "half-2"},
    "correction=delta": {"correction": "delta"},
    "gradient=full": {"gradient": "full", "clip": None},
    "lr=0.005": {"rate": 5e-3},
    "lr=0.02": {"rate": 2e-2},
    "annealed=0": {"annealed": 0.0},
    "annealed=0.8": {"annealed": 0.8, "hold": 0.8},
    "bridge=0.35": {"bridge": 0.35},
    "diagonal": {"dense": False},
    "global sigma": {"scale": "global"},
    "128 draws": {"draws": 128},
    "512 draws": {"draws": 512},
    "512 more components": {"aux": 512},
    "hidden 128": {"hidden": (128, 128)},
    "16,000 updates": {"steps": 16_000},
}


def log_mixture(correction: str):
    """`mixture_kl._log_mixture` with a correction."""

    def parts(pairs: jax.Array, num: int) -> jax.Array:
        """The mean of log q̂ over equal parts of the components, each with the own one in a place of its own."""
        size, own = pairs.shape[1] // num, jnp.diagonal(pairs)[:, None]
        place = jnp.arange(size) == (jnp.arange(len(pairs)) % size)[:, None]
        blocks = [jnp.where(place, own, pairs[:, i * size : (i + 1) * size]) for i in range(num)]
        return sum(jax.nn.logsumexp(block, axis=1) for block in blocks) / num - math.log(size)

    def estimate(components: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        pairs = components.log_prob_pairs(x)
        total = jax.nn.logsumexp(pairs, axis=1)
        own, plain = jnp.exp(jnp.diagonal(pairs) - total), total - math.log(pairs.shape[1])
        if correction == "half":
            return 2 * plain - parts(pairs, 2), own
        if correction == "half-2":
            return 8 / 3 * plain - 2 * parts(pairs, 2) + parts(pairs, 4) / 3, own
        squares = jnp.sum(jnp.exp(2 * (pairs - total[:, None])), axis=1) - own**2
        return plain - own + 0.5 * squares, own

    return estimate


def family_of(dim: int, key: int, dense: bool, scale: str, hidden: tuple[int, ...]) -> SemiImplicit:
    latent, conditional = max(dim, 3), DenseGaussian if dense else DiagonalGaussian
    networks = {"hidden": hidden, "sigma_init": 0.5, "skip_scale": math.sqrt(0.75), "final_scale": 0.01}
    return SemiImplicit(
        NormalMixing(latent), conditional(latent, dim, scale=scale, key=jax.random.key(key), **networks)
    )


def fit(name: str, key: int, affine: Any, **given: Any) -> tuple[dict[str, Any], Any]:
    settings = {"steps": 1000, "annealed": 0.0, "hold": 0.3, "rate": 1e-2, "gradient": "path", "clip": 3.0}
    settings |= {"draws": 256, "aux": 0, "dense": True, "scale": "network", "hidden": (64, 64), "bridge": 0.0}
    s = settings | {"correction": "half"} | given
    entry = POSTERIORS[name]
    function, what = entry.problem()
    target = as_target(function, **what)
    optimizer = Adam(Cosine(s["rate"], hold=s["hold"]), b1=0.9, b2=0.99)
    objective: Any = MixtureKL(
        num_particles=s["draws"], num_aux=s["aux"], gradient=s["gradient"], clip=s["clip"], optimizer=optimizer
    )
    if s["bridge"]:
        share = Ramp(s["bridge"], 0.0, s["annealed"] + 0.2, after=s["annealed"])
        objective = Bridged(objective, share, base=IsotropicGaussian(target.dim, 1.5))
    if s["annealed"]:
        objective = Annealed(objective, Ramp(0.05, 1.0, s["annealed"]), IsotropicGaussian(target.dim, 1.0))
    family = family_of(target.dim, key, s["dense"], s["scale"], s["hidden"])
    original = mixture_kl._log_mixture
    if s["correction"]:
        mixture_kl._log_mixture = log_mixture(s["correction"])
    try:
        start = time.perf_counter()
        posterior = sivi.fit(
            target,
            key=key,
            family=family,
            objective=objective,
            num_steps=s["steps"],
            whiten="auto" if affine is None else affine,
            progress=False,
        )
        seconds = time.perf_counter() - start
    finally:
        mixture_kl._log_mixture = original
    draws = np.asarray(posterior.unconstrained(50_000 if entry.kl else 20_000, key=5))
    tails = {name: float(posterior.history[name][-100:].mean()) for name in ("loss", "own_weight")}
    noise = float(posterior.history["loss"][-100:].std())
    return {"seconds": seconds, "noise": noise} | tails | numbers_of(entry, draws), posterior.affine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default=",".join((*HARD, *EASY)))
    parser.add_argument("--only", default=",".join(VARIANTS))
    parser.add_argument("--keys", default="0,1")
    parser.add_argument("--steps", type=int, help="instead of those of the variants")
    parser.add_argument("--out", type=Path, default=RESULTS / "mixture_variants.json")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.names.split(","):
        for key in map(int, arguments.keys.split(",")):
            affine = None
            for variant in arguments.only.split(","):
                base = BASE if name in HARD else {}
                steps = {} if arguments.steps is None else {"steps": arguments.steps}
                PROGRAMS.clear()  # a correction changes a function that programs were traced from
                numbers, affine = fit(name, key, affine, **base | VARIANTS[variant] | steps)
                rows.append({"posterior": name, "key": key, "variant": variant} | numbers)
                print(json.dumps(rows[-1]), flush=True)
                write(arguments.out, {"environment": environment(), "rows": rows})


if __name__ == "__main__":
    main()
