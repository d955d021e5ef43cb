"""Time and memory of one SIVI-SM update, against eager PyTorch loops of the same algorithm and sizes.

All run the paper's toy settings on the X-shaped target on two cores, in blocks that alternate within one fit: a
chunk of `sivi.fit`, then as many updates of each loop, from a callback. There are two loops: the plain one, as one
writes it, and one tuned by hand. PyTorch is needed here and nowhere else.

    python benchmarks/speed.py [--quick] [--output results/speed.json]
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from _common import RESULTS, environment, write
from sivi.experiments._toy import family as paper_family
from sivi.experiments._toy import sivi_sm

TORCH = "2.13.0"
CORES = 2
LATENT, DIM, HIDDEN, CRITIC_HIDDEN = 3, 2, 50, 128
#: Particles, and how many times faster than the plain loop an update has to be.
BARS = {500: 2.0, 100: 6.0}
#: Above this many cores in use by other processes the times say nothing: an OpenMP region waits for its slowest
#: thread, so that PyTorch suffers from company far more than XLA does, and the ratio flatters sivi.
MAX_OTHERS = 0.1
#: Milliseconds per update at 500 particles on two cores of another machine, for reference.
ELSEWHERE = {"authors' PyTorch": 3.1, "plain JAX": 1.4}
#: Updates of a block: the default `chunk_size` of `sivi.fit`, at whose ends the host sees the fit.
CHUNK = 1_000
MEMORY_STEPS = (5_000, 50_000)
MEMORY_BAR = 1000.0  # MB
MEMORY_SLACK = 32.0  # MB that two processes may differ by besides their histories


def plain_loop(num_particles: int) -> Callable[[int], None]:
    """The same algorithm in eager PyTorch, as one writes it: modules, an optimiser and a scheduler per player.

    It has no reads by the host or copies, one backward pass per player with gradients of that player's
    parameters alone, no graph for the critic's draws, and the closed form of the target's score.
    """
    import torch

    torch.set_num_threads(CORES)
    torch.manual_seed(0)

    def network(*widths: int) -> torch.nn.Sequential:
        layers = [torch.nn.Linear(a, b) for a, b in zip(widths[:-1], widths[1:], strict=True)]
        return torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.ReLU())][:-1])

    mean, critic = network(LATENT, HIDDEN, HIDDEN, DIM), network(DIM, CRITIC_HIDDEN, CRITIC_HIDDEN, DIM)
    log_variance = torch.zeros(DIM, requires_grad=True)
    family = [*mean.parameters(), log_variance]
    covariances = [torch.tensor([[2.0, sign * 1.8], [sign * 1.8, 2.0]]) for sign in (1.0, -1.0)]
    precisions = [torch.linalg.inv(covariance) for covariance in covariances]

    def score(x: torch.Tensor) -> torch.Tensor:
        first, second = (x @ precision for precision in precisions)
        weight = torch.sigmoid(0.5 * ((x * second).sum(1) - (x * first).sum(1)))[:, None]
        return -(weight * first + (1.0 - weight) * second)

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        z, eps = torch.randn(num_particles, LATENT), torch.randn(num_particles, DIM)
        sigma = torch.exp(0.5 * log_variance.clamp(min=-6.0))
        x = mean(z) + sigma * eps
        return x, 2.0 * (score(x) + eps / sigma)

    optimizer = torch.optim.Adam(family, lr=1e-3, betas=(0.9, 0.99))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.9, 0.99))
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 1000, 0.9) for o in (optimizer, critic_optimizer)]

    def run(num_updates: int) -> None:
        for _ in range(num_updates):
            x, difference = draw()
            g = critic(x)
            loss = (g * (difference - g)).sum(1).mean()
            for parameter, grad in zip(family, torch.autograd.grad(loss, family), strict=True):
                parameter.grad = grad
            optimizer.step()
            schedulers[0].step()
            with torch.no_grad():
                x, difference = draw()
            g = critic(x)
            critic_optimizer.zero_grad()
            (g * (g - difference)).sum(1).mean().backward()
            critic_optimizer.step()
            schedulers[1].step()

    return run


def tuned_loop(num_particles: int) -> Callable[[int], None]:
    """The plain loop with everything squeezed out of it by hand that eager PyTorch allows.

    Functional layers, one draw of noise for both players, the target's score in three operations, the fused
    optimiser, and the schedulers called once in a thousand updates.
    """
    import torch
    from torch.nn.functional import linear

    torch.set_num_threads(CORES)
    torch.manual_seed(0)

    def network(*widths: int) -> list[torch.Tensor]:
        layers = [torch.nn.Linear(a, b) for a, b in zip(widths[:-1], widths[1:], strict=True)]
        return [parameter for layer in layers for parameter in (layer.weight, layer.bias)]

    def apply(network: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        hidden = linear(x, network[0], network[1]).relu_()
        hidden = linear(hidden, network[2], network[3]).relu_()
        return linear(hidden, network[4], network[5])

    # The two precisions are [[d, ±o], [±o, d]], so the difference of the log densities is -2 o x₀ x₁.
    determinant = 2.0**2 - 1.8**2
    diagonal, off_diagonal = 2.0 / determinant, -1.8 / determinant

    def score(x: torch.Tensor) -> torch.Tensor:
        weight = torch.tanh(x[:, :1] * x[:, 1:] * off_diagonal)
        return torch.addcmul(x * -diagonal, x.flip(1), weight, value=off_diagonal)

    mean, critic = network(LATENT, HIDDEN, HIDDEN, DIM), network(DIM, CRITIC_HIDDEN, CRITIC_HIDDEN, DIM)
    log_variance = torch.zeros(DIM, requires_grad=True)
    family = [*mean, log_variance]

    def draw(z: torch.Tensor, eps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x, and twice the difference of the scores of the target and of the conditional at it."""
        sigma = torch.exp(0.5 * log_variance.clamp(min=-6.0))
        x = apply(mean, z) + sigma * eps
        return x, 2.0 * (score(x) + eps / sigma)

    # fused=True is the fastest of the three forms of torch.optim.Adam on CPU.
    adam = functools.partial(torch.optim.Adam, betas=(0.9, 0.99), fused=True)
    optimizer, critic_optimizer = adam(family, lr=1e-3), adam(critic, lr=2e-3)
    # Stepped every 1000 updates, which is StepLR(…, 1000) without a call per update.
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 1, 0.9) for o in (optimizer, critic_optimizer)]

    def step(optimizer: Any, loss: torch.Tensor, parameters: list[torch.Tensor]) -> None:
        for parameter, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = grad
        optimizer.step()

    done = 0

    def run(num_updates: int) -> None:
        nonlocal done
        for _ in range(num_updates):
            z, eps = torch.randn(2, num_particles, LATENT), torch.randn(2, num_particles, DIM)
            x, difference = draw(z[0], eps[0])
            g = apply(critic, x)
            step(optimizer, (g * (difference - g)).sum() / num_particles, family)
            with torch.no_grad():
                x, difference = draw(z[1], eps[1])
            g = apply(critic, x)
            step(critic_optimizer, (g * (g - difference)).sum() / num_particles, critic)
            done += 1
            if done % 1000 == 0:
                for scheduler in schedulers:
                    scheduler.step()

    return run


LOOPS = {"plain": plain_loop, "tuned": tuned_loop}


def compare(num_particles: int, block: int, alternations: int) -> dict[str, Any]:
    """Seconds per update of a fit and of the loops, a block of each in turn."""
    loops = {name: make(num_particles) for name, make in LOOPS.items()}
    times: dict[str, list[float]] = {"sivi": []} | {name: [] for name in LOOPS}
    for loop in loops.values():
        loop(block)
    start = time.perf_counter()
    begin, busy_before, own_before = start, busy_seconds(), sum(os.times()[:2])

    def alternate(report: sivi.FitReport) -> None:
        nonlocal start
        times["sivi"].append((time.perf_counter() - start) / block)
        for name, loop in loops.items():
            start = time.perf_counter()
            loop(block)
            times[name].append((time.perf_counter() - start) / block)
        start = time.perf_counter()

    sivi.fit(
        sivi.targets.XShaped(),
        key=0,
        family=paper_family(0),
        objective=sivi_sm(num_particles),
        num_steps=block * (alternations + 1),
        chunk_size=block,
        progress=False,
        callbacks=[alternate],
    )
    others = busy_seconds() - busy_before - (sum(os.times()[:2]) - own_before)
    first = times["sivi"][0]
    medians = {name: 1e3 * statistics.median(values[1:]) for name, values in times.items()}
    return {
        "num_particles": num_particles,
        "updates_per_block": block,
        "ms": {name: [1e3 * value for value in values[1:]] for name, values in times.items()},
        "median_ms": medians,
        "ratio": {name: medians[name] / medians["sivi"] for name in LOOPS},
        "bar": BARS[num_particles],
        "compile_s": (first - 1e-3 * medians["sivi"]) * block,
        "cores_used_by_others": max(others, 0.0) / (time.perf_counter() - begin),
        "mflop_per_update": flop_per_update(num_particles) / 1e6,
    }


def busy_seconds() -> float:
    """Seconds that all cores of the machine together have been busy since it started."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def flop_per_update(num_particles: int) -> int:
    """Two per multiplication and addition in the matrix products of an update; the rest is not counted.

    The family's update evaluates both networks, and goes back through both to the weights of the mean network.
    The critic's evaluates both, and goes back through the critic to its weights. Nobody needs the gradient with
    respect to the input of the network whose weights are updated, so its first layer has one product less.
    """
    mean = (LATENT * HIDDEN, HIDDEN * HIDDEN, HIDDEN * DIM)
    critic = (DIM * CRITIC_HIDDEN, CRITIC_HIDDEN * CRITIC_HIDDEN, CRITIC_HIDDEN * DIM)
    mean_products = 2 * sum(mean) + sum(mean) + sum(mean[1:])  # forward twice, to the weights, to hidden units
    critic_products = 2 * sum(critic) + sum(critic) + sum(critic) + sum(critic[1:])  # and once to x
    return 2 * num_particles * (mean_products + critic_products)


def matmul_rates() -> dict[str, float]:
    """float32 GFLOP/s of a square matrix product: the best of several, by library and size."""
    multiply = jax.jit(jnp.matmul)
    rates = {}
    for size in (1000, 2000):
        matrix = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
        device_matrix = jnp.asarray(matrix)
        products: dict[str, Callable[[], object]] = {
            f"numpy {size}": functools.partial(np.matmul, matrix, matrix),
            f"jax {size}": lambda matrix=device_matrix: multiply(matrix, matrix).block_until_ready(),
        }
        for name, product in products.items():
            product()
            times = []
            for _ in range(8):
                start = time.perf_counter()
                product()
                times.append(time.perf_counter() - start)
            rates[name] = 2 * size**3 / min(times) / 1e9
    return rates


def fit_for_memory(num_steps: int) -> None:
    """Fit at 100 particles and print this process's largest resident set and its history's size, in MB."""
    posterior = sivi.fit(
        sivi.targets.XShaped(),
        key=0,
        family=paper_family(0),
        objective=sivi_sm(100),
        num_steps=num_steps,
        progress=False,
    )
    history = sum(values.nbytes for values in posterior.history.values())
    # Not resource.getrusage: its maximum also covers the parent process, of which this one began as a copy.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = 1024 * int(status["VmHWM"].split()[0])
    print(json.dumps({"num_steps": num_steps, "peak_mb": peak / 1e6, "history_mb": history / 1e6}))


def memory(steps: tuple[int, int]) -> dict[str, Any]:
    """Peak memory of a short and of a long fit, each in a process of its own."""
    runs = []
    for num_steps in steps:
        command = [sys.executable, __file__, "--memory-of", str(num_steps)]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    growth = runs[1]["peak_mb"] - runs[0]["peak_mb"]
    return {
        "runs": runs,
        "growth_mb": growth,
        "under_bar": max(run["peak_mb"] for run in runs) < MEMORY_BAR,
        "grows_with_history_alone": growth < runs[1]["history_mb"] - runs[0]["history_mb"] + MEMORY_SLACK,
    }


def show(content: dict[str, Any]) -> None:
    rates, rate_name = content["matmul_gflops"], content["matmul_used"]
    print("one SIVI-SM update, milliseconds (median over the blocks)")
    for row in content["updates"]:
        print(f"{row['num_particles']} particles: sivi {row['median_ms']['sivi']:.3f}", end="")
        for name in LOOPS:
            print(f", {name} PyTorch {row['median_ms'][name]:.3f} ({row['ratio'][name]:.2f}x)", end="")
        print(
            f"; bar {row['bar']:.0f}x the plain loop; {row['gflops']:.0f} GFLOP/s, {row['share']:.0%} of the "
            f"matrix-multiply rate; compile {row['compile_s']:.1f} s"
        )
        if row["cores_used_by_others"] > MAX_OTHERS:
            print(f"          NOT VALID: other processes used {row['cores_used_by_others']:.1f} cores meanwhile")
    elsewhere = ", ".join(f"{name} {value} ms" for name, value in ELSEWHERE.items())
    print(f"measured elsewhere at 500 particles on two cores: {elsewhere}")
    print("matrix products, GFLOP/s: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items()))
    print(f"shares are of the best, {rate_name}")
    for run in content["memory"]["runs"]:
        print(f"{run['num_steps']} updates: peak {run['peak_mb']:.0f} MB, history {run['history_mb']:.2f} MB")
    print(f"growth {content['memory']['growth_mb']:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short blocks and fits")
    parser.add_argument("--output", type=Path, default=RESULTS / "speed.json")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # Before JAX's first computation, which is when it counts the cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    if arguments.memory_of is not None:
        fit_for_memory(arguments.memory_of)
        return
    try:
        import torch
    except ImportError:
        sys.exit(f"speed.py compares with PyTorch, which is not installed: pip install torch=={TORCH}")
    block, alternations = (100, 3) if arguments.quick else (CHUNK, 7)
    updates = [compare(num_particles, block, alternations) for num_particles in BARS]
    rates = matmul_rates()
    best = max(rates, key=lambda name: rates[name])
    for row in updates:
        row["gflops"] = row["mflop_per_update"] / row["median_ms"]["sivi"]
        row["share"] = row["gflops"] / rates[best]
    about = environment()
    about["versions"]["torch"] = torch.__version__
    content = {
        "environment": about,
        "quick": arguments.quick,
        "updates": updates,
        "elsewhere_ms_at_500_particles": ELSEWHERE,
        "matmul_gflops": rates,
        "matmul_used": best,
        "memory": memory((500, 5_000) if arguments.quick else MEMORY_STEPS),
    }
    write(arguments.output, content)
    show(content)


if __name__ == "__main__":
    main()
