"""Time of one update on MNIST, against an eager PyTorch loop of the same algorithm and sizes on the same device.

    SIVI_DATA_DIR=... python benchmarks/mlr_speed.py [--particles 100,200] [--uivi 1,100] [--quick] [--out FILE]

SIVI-SM with the paper's settings at 100 and 200 particles: a chunk of `sivi.fit`, then as many updates of the loop, in
turn. The loop has its data on the device, the closed form of the score, one backward pass per player with gradients of
that player's parameters alone, and never reads a number; the device is waited for at the end of a block only. Both
sides once with TF32 products and once in float32. Then UIVI, its inner chains batched, at 1 and at 100 particles. The
share of the matrix rate is that of a large square product, measured here in the same precision. Methods
that are not run keep their rows in FILE.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from _common import RESULTS, environment, write
from _torch_loop import LoopSettings, MinimaxLoop
from sivi.experiments._method import Call
from sivi.experiments._multinomial import PROBLEMS, load_model, sivi_sm, uivi

PROBLEM = PROBLEMS["mnist"]
LATENT, HIDDEN, CRITIC_HIDDEN = 100, 200, 256
#: How many times faster than the loop an update has to be, at 100 particles with TF32.
BAR = 6.0
#: Milliseconds per update measured for the authors' code on an H200, by number of particles.
AUTHORS = {100: 4.9, 200: 5.6}
PRECISIONS = {"tf32": "tensorfloat32", "float32": "highest"}


class Loop(MinimaxLoop):
    """The loop on MNIST, the same minibatches in rotation."""

    def __init__(self, inputs: np.ndarray, labels: np.ndarray, num_particles: int, batch_size: int, precision: str):
        import torch

        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        self.classes, self.features, self.num_data = PROBLEM.classes, inputs.shape[1], len(inputs)
        count = len(inputs) // batch_size
        settings = LoopSettings(
            self.classes * self.features,
            num_particles,
            LATENT,
            HIDDEN,
            CRITIC_HIDDEN,
            decay_every=3000,
            psi_divisor=PROBLEM.psi_divisor,
            psi_every=count,
        )
        super().__init__(settings, "cuda" if torch.cuda.is_available() else "cpu", 0)
        order = np.random.default_rng(0).permutation(len(inputs))[: count * batch_size].reshape(count, batch_size)
        one_hot = torch.nn.functional.one_hot(torch.tensor(labels).long(), self.classes).float()
        self.batches = [
            (torch.tensor(inputs[rows], device=self.device), one_hot[rows].T.to(self.device)) for rows in order
        ]

    def optimizers(self, family: list[Any], critic: list[Any]) -> tuple[Any, Any]:
        rmsprop = self.torch.optim.RMSprop
        return tuple(rmsprop(own, lr=PROBLEM.rate, alpha=0.9, eps=1.0) for own in (family, critic))

    def score(self, x: Any) -> Any:
        inputs, is_label = self.batches[self.done % len(self.batches)]
        logits = x.view(-1, self.classes, self.features) @ inputs.T
        residuals = is_label - self.torch.softmax(logits, dim=1)
        return (residuals @ inputs).view(-1, self.settings.dim) * (self.num_data / len(inputs)) - x


def compare(
    model: Any,
    call: Call,
    loop: Callable[[int], None] | None,
    precision: str,
    block: int,
    alternations: int,
    num_steps: int,
) -> dict[str, list[float]]:
    """Milliseconds per update of a fit and of the loop, a block of each in turn, without the first.

    The fit is the beginning of one of `num_steps` updates, whose program it has.
    """
    times: dict[str, list[float]] = {"sivi": [], "torch": []}
    start = time.perf_counter()

    def turn(report: sivi.FitReport) -> bool:
        nonlocal start
        times["sivi"].append(1e3 * (time.perf_counter() - start) / block)
        if loop is not None:
            start = time.perf_counter()
            loop(block)
            times["torch"].append(1e3 * (time.perf_counter() - start) / block)
        start = time.perf_counter()
        return len(times["sivi"]) > alternations

    arguments = call.arguments(model.dim, 0)
    if arguments["batch_size"] > model.num_data // 2:
        arguments["batch_size"] = model.num_data // 3
    sivi.fit(
        model,
        num_steps=num_steps,
        chunk_size=block,
        progress=False,
        callbacks=[turn],
        precision=PRECISIONS[precision],
        **arguments,
    )
    return {name: values[1:] for name, values in times.items() if values}


def flop_per_update(num_particles: int, batch_size: int) -> float:
    """Two per multiplication and addition in the products of an update of SIVI-SM; the rest is not counted.

    The score takes two products with the data; the family's update goes back through it, which takes two more. Nobody
    needs the gradient with respect to the input of the network whose weights are updated.
    """
    dim = PROBLEM.dim
    mean = (LATENT * HIDDEN, HIDDEN * HIDDEN, HIDDEN * dim)
    critic = (dim * CRITIC_HIDDEN, CRITIC_HIDDEN * CRITIC_HIDDEN, CRITIC_HIDDEN * dim)
    networks = 3 * sum(mean) + sum(mean[1:]) + 4 * sum(critic) + sum(critic[1:])
    return 2.0 * num_particles * (networks + 6 * batch_size * dim)


def flop_of_uivi(num_particles: int, batch_size: int) -> float:
    """The same for UIVI: ten transitions of five leapfrog steps, each with a gradient through the network."""
    mean = LATENT * HIDDEN + HIDDEN * HIDDEN + HIDDEN * PROBLEM.dim
    chains = 2 * (10 * 5 + 1) * mean + 10 * mean
    return 2.0 * num_particles * (chains + 3 * mean + 4 * batch_size * PROBLEM.dim)


def matrix_rate(precision: str, size: int) -> float:
    """GFLOP/s of a square product in this precision: the best of several."""
    with jax.default_matmul_precision(PRECISIONS[precision]):
        multiply = jax.jit(jnp.matmul)
        matrix = jax.random.normal(jax.random.key(0), (size, size))
        multiply(matrix, matrix).block_until_ready()
        times = []
        for _ in range(8):
            start = time.perf_counter()
            multiply(matrix, matrix).block_until_ready()
            times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some rows of the data, few updates")
    parser.add_argument("--particles", type=_numbers, default=(100, 200), help="numbers of particles of SIVI-SM")
    parser.add_argument("--uivi", type=_numbers, default=(1, 100), help="numbers of particles of UIVI; '' for none")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    block, alternations, size = (2, 2, 512) if args.quick else (200, 7, 8192)
    model, _ = load_model("mnist", "quick" if args.quick else "full")
    inputs, labels = (np.asarray(part) for part in model.data)
    batch_size = min(PROBLEM.batch_size, len(inputs) // 3)
    num_steps = PROBLEM.num_updates
    out = args.out or RESULTS / f"mlr_speed_{jax.default_backend()}.json"
    names = {f"SIVI-SM({n})" for n in args.particles} | {f"UIVI({n})" for n in args.uivi}
    rows = json.loads(out.read_text())["rows"] if out.exists() else []
    rows = [row for row in rows if row["method"] not in names]
    rates = {precision: matrix_rate(precision, size) for precision in PRECISIONS}
    for precision, rate in rates.items():
        for num_particles in args.particles:
            loop = Loop(inputs, labels, num_particles, batch_size, precision)
            loop.run(block)
            call = sivi_sm(PROBLEM, num_particles)
            times = compare(model, call, loop.run, precision, block, alternations, num_steps)
            medians = {name: statistics.median(values) for name, values in times.items()}
            gflop = flop_per_update(num_particles, batch_size) / 1e9
            row = {
                "method": f"SIVI-SM({num_particles})",
                "precision": precision,
                "ms": times,
                "median_ms": medians,
                "ratio": medians["torch"] / medians["sivi"],
                "bar": BAR if (num_particles, precision) == (100, "tf32") else None,
                "authors_ms": AUTHORS[num_particles],
                "gflop_per_update": gflop,
                "share_of_matrix_rate": {name: 1e3 * gflop / ms / rate for name, ms in medians.items()},
                "matrix_gflop_per_second": rate,
                "updates_per_block": block,
                "updates_of_the_run": num_steps,
                "environment": environment(),
            }
            rows.append(row)
            print(f"{row['method']} {precision}: {medians}, ratio {row['ratio']:.2f}", flush=True)
            write(out, {"rows": rows})
    for num_particles in args.uivi:
        few = max(1, block // 10)
        times = compare(model, uivi(PROBLEM, num_particles), None, "tf32", few, alternations, num_steps)
        median = statistics.median(times["sivi"])
        rows.append(
            {
                "method": f"UIVI({num_particles})",
                "precision": "tf32",
                "ms": times,
                "median_ms": {"sivi": median},
                "ms_per_particle": median / num_particles,
                "gflop_per_update": flop_of_uivi(num_particles, batch_size) / 1e9,
                "share_of_matrix_rate": flop_of_uivi(num_particles, batch_size) / 1e6 / median / rates["tf32"],
                "updates_per_block": few,
                "environment": environment(),
            }
        )
        print(f"UIVI({num_particles}): {median:.3f} ms, {median / num_particles:.4f} ms a particle", flush=True)
        write(out, {"rows": rows})


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


if __name__ == "__main__":
    main()
