"""Whether factorisations of several matrices wait for each other for ever on this machine's CPU, with this JAX.

    python benchmarks/batched_factorisations.py [--runs 6] [--seconds 30] [--out FILE]

A process makes three independent batches of eight matrices 64 × 64 at each of 200 steps of a loop, and their Cholesky
factors. It is run several times; one that is not done after so many seconds, of which it needs two or three, is taken
to hang. Rows of other versions of JAX stay in FILE.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from _common import environment, write

SEED, STEPS, BATCHES, MATRICES, SIZE = 0, 200, 3, 8, 64


def factorise() -> None:
    def one(key: jax.Array) -> jax.Array:
        half = jax.random.normal(key, (MATRICES, SIZE, SIZE))
        factors = jnp.linalg.cholesky(50.0 * jnp.eye(SIZE) + 0.01 * (half + jnp.swapaxes(half, 1, 2)))
        return jnp.sum(factors)

    @jax.jit
    def loop(key: jax.Array) -> jax.Array:
        def step(total: jax.Array, k: jax.Array) -> tuple[jax.Array, None]:
            return total + sum(one(own) for own in jax.random.split(jax.random.fold_in(key, k), BATCHES)), None

        return jax.lax.scan(step, jnp.zeros(()), jnp.arange(STEPS))[0]

    loop(jax.random.key(SEED)).block_until_ready()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--job", action="store_true", help="one run, in this process")
    args = parser.parse_args()
    if args.job:
        factorise()
        return
    hung = 0
    for _ in range(args.runs):
        try:
            subprocess.run([sys.executable, __file__, "--job"], check=True, timeout=args.seconds)
        except subprocess.TimeoutExpired:
            hung += 1
    row = {"jax": jax.__version__, "runs": args.runs, "hung": hung, "seed": SEED, "environment": environment()}
    print(f"jax {jax.__version__}: {hung} of {args.runs} hung")
    if args.out is not None:
        rows = json.loads(args.out.read_text())["rows"] if args.out.exists() else []
        write(args.out, {"rows": [other for other in rows if other["jax"] != jax.__version__] + [row]})


if __name__ == "__main__":
    main()
