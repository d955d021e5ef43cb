"""What SIVI and UIVI cost, and how far UIVI's inner chain is from forgetting its start.

    python benchmarks/elbo_methods.py [--quick] [--out FILE]

* UIVI: milliseconds per update against the number of particles m, on banana with the paper's family, blocks of each m
  in turn; and per particle against m = 1.
* SIVI: XLA's own count of the temporary memory of one compiled update, gradient included, against L.
* The default inner chain on the linear-Gaussian family of the tests: its gradient against the exact one, and the
  correlation, given x, of the z it keeps with the z that generated x.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import sivi
from _common import RESULTS, environment, write
from sivi.experiments import _toy as paper_settings
from sivi.objectives import SurrogateELBO, UnbiasedELBO
from sivi.objectives.unbiased_elbo import surrogate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import oracles

PARTICLES = (1, 2, 4, 8, 16, 64, 256)
AUXILIARY = (100, 1_000, 10_000, 100_000)


def uivi_times(block: int, alternations: int) -> dict[str, object]:
    """Milliseconds per update for every m: blocks of updates, alternating, each compiled before."""
    target = sivi.targets.Banana()
    runs, times = {}, {m: [] for m in PARTICLES}
    for m in PARTICLES:
        objective = UnbiasedELBO(num_particles=m).bind(block)
        family = paper_settings.family(0)
        state = objective.init(jax.random.key(0), family, target)
        arrays, static = eqx.partition((family, state), eqx.is_array)

        def updates(arrays, objective=objective, static=static):
            def one(i, arrays):
                family, state = eqx.combine(arrays, static)
                family, state, _ = objective.step(jax.random.fold_in(jax.random.key(1), i), family, state, target, None)
                return eqx.filter((family, state), eqx.is_array)

            return jax.lax.fori_loop(0, block, one, arrays)

        runs[m] = (jax.jit(updates), arrays)
        jax.block_until_ready(runs[m][0](arrays))
    for _ in range(alternations):
        for m, (run, arrays) in runs.items():
            start = time.perf_counter()
            jax.block_until_ready(run(arrays))
            times[m].append(1e3 * (time.perf_counter() - start) / block)
    median = {m: statistics.median(values) for m, values in times.items()}
    return {
        "ms_per_update": median,
        "ms_of_each_block": times,
        "per_particle_relative_to_m_1": {m: median[m] / m / median[1] for m in PARTICLES},
        "updates_per_block": block,
        "bars": {
            "m = 64 per particle at most a quarter of m = 1": median[64] / 64 <= 0.25 * median[1],
            "at most linear in m": all(median[m] <= m * median[1] for m in PARTICLES),
        },
    }


def sivi_memory() -> dict[int, int]:
    """Bytes of temporary memory of one update with 500 particles and blocks of 50, against L."""
    target, family = sivi.targets.Banana(), paper_settings.family(0)

    def temporary(num_aux: int) -> int:
        objective = SurrogateELBO(num_particles=500, num_aux=num_aux, block_size=50).bind(10)
        state = objective.init(jax.random.key(0), family, target)
        compiled = eqx.filter_jit(objective.step).lower(jax.random.key(0), family, state, target, None).compile()
        return int(compiled.compiled.memory_analysis().temp_size_in_bytes)

    return {num_aux: temporary(num_aux) for num_aux in AUXILIARY}


def chain_bias(objective: UnbiasedELBO, num_samples: int) -> dict[str, object]:
    """Mean and standard error of the chain's gradient less the exact one, by parameter, and what z remembers."""
    family, target = oracles.linear_gaussian_family(), oracles.gaussian_target()
    conditional = family.conditional
    noise = family.sample_noise(jax.random.key(0), (num_samples,))
    x = jax.vmap(lambda *one: family.joint(*one).x)(*noise)
    step_size = jnp.log(jnp.asarray(objective.step_size))
    average = eqx.filter_jit(objective.average_score)
    for i in range(100):  # until the step size has settled
        part = slice(500 * i, 500 * (i + 1))
        _, step_size, _ = average(jax.random.key(10 + i), family, x[part], noise[0][part], step_size)
    scores, _, acceptance = average(jax.random.key(1), family, x, noise[0], step_size)

    def gradient(mixing_noise, eps, score):
        one = (mixing_noise[None], eps[None])
        grads = eqx.filter_grad(lambda f: surrogate(f, target, None, one, score[None])[0])(family)
        return jax.tree.map(jnp.negative, oracles.gradient_of(grads))

    result = oracles.monte_carlo(gradient, (*noise, scores), block=5000)
    truth = oracles.elbo_gradient(conditional, target)
    # The average over kept draws of z′ gives that of A z′ = x − b + σ² ∇_x log q(x|z′).
    kept = (x - conditional.b + jnp.exp(2 * conditional.log_sigma) * scores) @ jnp.linalg.pinv(conditional.A).T
    means = jax.vmap(lambda x: oracles.mixing_posterior(conditional, x)[0])(x)
    variance = jnp.diagonal(oracles.mixing_posterior(conditional, x[0])[1])
    share = jnp.mean((kept - means) * (noise[0] - means), axis=0) / variance
    return {
        "num_iterations": objective.num_iterations,
        "burn_in": objective.burn_in,
        "num_leapfrog": objective.num_leapfrog,
        "step_size": float(jnp.exp(step_size)),
        "acceptance": float(acceptance),
        "covariance_of_kept_and_generating_z_over_its_variance": np.asarray(share).tolist(),
        "parameters": {
            name: {
                "exact": np.asarray(truth[name]).tolist(),
                "bias": np.asarray(result.mean[name] - truth[name]).tolist(),
                "standard_error": np.asarray(result.error[name]).tolist(),
                "largest_z": float(jnp.max(jnp.abs(result.mean[name] - truth[name]) / result.error[name])),
                "relative_size": float(
                    jnp.linalg.norm(result.mean[name] - truth[name]) / jnp.linalg.norm(jnp.asarray(truth[name]))
                ),
            }
            for name in truth
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "elbo_methods.json")
    args = parser.parse_args()
    times = uivi_times(*((20, 3) if args.quick else (200, 7)))
    memory = sivi_memory()
    with jax.enable_x64(True):
        num_samples = 50_000 if args.quick else 400_000
        chains = {
            "default": chain_bias(UnbiasedELBO(), num_samples),
            "without jitter": chain_bias(UnbiasedELBO(jitter=0.0), num_samples),
            "four times as long": chain_bias(UnbiasedELBO(num_iterations=40, burn_in=35), num_samples),
        }
    write(
        args.out,
        {
            "script": "benchmarks/elbo_methods.py",
            "quick": args.quick,
            **environment(),
            "uivi_times": times,
            "sivi_temporary_bytes": memory,
            "uivi_chain": chains,
        },
    )
    for m, ms in times["ms_per_update"].items():
        print(f"UIVI m = {m:4d}: {ms:7.3f} ms, per particle {times['per_particle_relative_to_m_1'][m]:.3f} of m = 1")
    print("bars:", times["bars"])
    print("SIVI temporary bytes by L:", memory)
    for name, chain in chains.items():
        sizes = {p: f"{v['relative_size']:.3f} (z {v['largest_z']:.1f})" for p, v in chain["parameters"].items()}
        memory_of_z = np.round(chain["covariance_of_kept_and_generating_z_over_its_variance"], 3)
        print(f"UIVI chain, {name}: bias / gradient {sizes}; remembered share of z {memory_of_z}")


if __name__ == "__main__":
    main()
