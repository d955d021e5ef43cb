"""What the structured critic costs beside the family it belongs to, against `dim`.

    python benchmarks/structured_critic.py [--quick] [--out FILE]

For every dim, blocks of updates in turn, each compiled before: a full update of `PathKL` (the family's, and K = 2 of
the critic), and the family's alone: the same draws, the gradient of the surrogate for a given value of the field, the
optimiser's step. Beside them the same with the plain critic, whose size grows with dim, and the plain critic's number
of parameters. The target is a standard normal, whose score costs next to nothing.
"""

import argparse
import statistics
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

import sivi
from _common import RESULTS, environment, write
from sivi import optimizers
from sivi.critics import MLPCritic, StructuredCritic
from sivi.objectives import PathKL

DIMS = (100, 1_000, 10_000)
LATENT, HIDDEN, PARTICLES, CRITIC_STEPS, SEED = 64, 64, 256, 2, 0
BAR = 3.0  # a full update over the family's alone, at the largest dim


def compiled_block(update, start, num_updates):
    """A compiled run of `num_updates` updates of a pytree, ready to be timed."""
    arrays, static = eqx.partition(start, eqx.is_array)

    def run(arrays):
        def one(i, arrays):
            key = jax.random.fold_in(jax.random.key(SEED + 1), i)
            return eqx.filter(update(key, eqx.combine(arrays, static)), eqx.is_array)

        return jax.lax.fori_loop(0, num_updates, one, arrays)

    run = jax.jit(run)
    jax.block_until_ready(run(arrays))
    return lambda: jax.block_until_ready(run(arrays))


def players(dim, num_updates):
    """The three runs at a dim, and the number of parameters of each critic."""
    family_key, field_key, state_key = jax.random.split(jax.random.key(SEED), 3)
    conditional = sivi.DiagonalGaussian(
        LATENT, dim, hidden=(HIDDEN, HIDDEN), skip_scale=0.75**0.5, sigma_init=0.5, final_scale=0.01, key=family_key
    )
    family = sivi.SemiImplicit(sivi.NormalMixing(LATENT), conditional)
    target = sivi.targets.IsotropicGaussian(dim)
    given = jax.random.normal(field_key, (PARTICLES, dim))
    runs, parameters = {}, {}
    for name, critic in (
        ("structured", StructuredCritic((128, 128))),
        ("plain", MLPCritic((128, 128), skip=dim <= 1000)),
    ):
        objective = PathKL(num_particles=PARTICLES, critic_steps=CRITIC_STEPS, critic_warmup=0, critic=critic)
        objective = objective.bind(num_updates)
        state = objective.init(state_key, family, target)
        parameters[name] = sum(a.size for a in jax.tree.leaves(eqx.filter(state.critic, eqx.is_inexact_array)))

        def full(key, carry, objective=objective):
            family, state = carry
            return objective.step(key, family, state, target, None)[:2]

        runs[name] = compiled_block(full, (family, state), num_updates)
    optimizer = objective.optimizer

    def family_alone(key, carry):
        family, state = carry
        noise = family.sample_noise(key, (PARTICLES,))

        def surrogate(family):
            return -jnp.mean(jnp.sum(given * jax.vmap(family.joint)(*noise).x, axis=-1))

        family, state = optimizers.update(optimizer, eqx.filter_grad(surrogate)(family), state, family)
        return family, state

    runs["family alone"] = compiled_block(family_alone, (family, optimizers.init(optimizer, family)), num_updates)
    return runs, parameters


def times(dim, num_updates, alternations):
    runs, parameters = players(dim, num_updates)
    ms = {name: [] for name in runs}
    for _ in range(alternations):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            ms[name].append(1e3 * (time.perf_counter() - start) / num_updates)
    median = {name: statistics.median(values) for name, values in ms.items()}
    return {
        "dim": dim,
        "updates_per_block": num_updates,
        "ms": ms,
        "median_ms": median,
        "critic_parameters": parameters,
        # Of each turn, whose two blocks ran one after the other.
        "ratio": statistics.median(a / b for a, b in zip(ms["structured"], ms["family alone"], strict=True)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "structured_critic.json")
    args = parser.parse_args()
    rows = [times(dim, max(2, (20_000 if args.quick else 60_000) // max(dim, 1_000)), 7) for dim in DIMS]
    write(
        args.out,
        {
            "script": "benchmarks/structured_critic.py",
            "quick": args.quick,
            "settings": {
                "latent_dim": LATENT,
                "hidden": [HIDDEN, HIDDEN],
                "num_particles": PARTICLES,
                "critic_steps": CRITIC_STEPS,
                "critic": [128, 128],
                "seed": SEED,
            },
            **environment(),
            "rows": rows,
            "bar": BAR,
            "passed": rows[-1]["ratio"] <= BAR,
        },
    )
    for row in rows:
        ms = {name: f"{value:.2f} ms" for name, value in row["median_ms"].items()}
        print(f"dim {row['dim']:6d}: {ms}, ratio {row['ratio']:.2f}, parameters {row['critic_parameters']}")


if __name__ == "__main__":
    main()
