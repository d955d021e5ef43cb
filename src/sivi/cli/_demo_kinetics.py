"""The second part of `sivi demo`: a posterior of two modes, by `sivi.infer`, by Markov chains and by quadrature."""

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .._errors import FitWarning
from .._tables import text_table
from ..samplers import SamplerRun
from ..targets import as_target
from ..verdict.infer import infer
from ..verdict.inference import Inference
from ..verdict.reference import default_sampler, run_reference
from ._kinetics import DOSE, HOURS, log_density, rates, slow_share, unknowns
from ._kinetics_exact import Exact, exact
from ._kinetics_figure import plot_kinetics
from ._output import save_figure

FIGURE = "kinetics.png"
NUM_DRAWS, NUM_CHAINS, NUM_TRANSITIONS = 4000, 4, 1000
_QUICK_STEPS, _QUICK_TRANSITIONS, _QUICK_EFFORT = 200, 100, 0.1


class _Answer(NamedTuple):
    draws: Any
    seconds: float


def show_kinetics(seed: int, folder: Path | None, num_steps: int | None = None, quick: bool = False) -> None:
    """Infer, run Markov chains, print the share of a mode by each and the exact one; draw all if there is a folder.

    Args:
        seed: Random seed.
        folder: Where the figure is written; None for no figure.
        num_steps: Updates of the fit; None for the default.
        quick: Too few updates and transitions, for a first look.
    """
    print(
        f"two explanations of one curve: {DOSE:g} mg of a drug by mouth, {len(HOURS)} concentrations in the blood\n"
        "4 unknowns: rate of absorption ka, clearance CL, volume V, noise sigma; rate of elimination ke = CL / V\n"
        "the two rates can be swapped (V changes with them), and the curve stays: priors alone weigh the two modes\n"
    )
    settings = {"num_steps": _QUICK_STEPS if quick and num_steps is None else num_steps}
    inference, answer = _inferred(seed, settings, _QUICK_EFFORT if quick else 1.0)
    print(f"sivi.infer: {inference}\n")
    name, run, reference = _sampled(seed, _QUICK_TRANSITIONS if quick else NUM_TRANSITIONS)
    truth = exact()
    print(_table(truth, inference, answer, name, run, reference))
    if folder is not None:
        save_figure(plot_kinetics(truth, answer.draws, reference.draws, name), folder / FIGURE)


def _inferred(seed: int, settings: dict[str, Any], effort: float) -> tuple[Inference, _Answer]:
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # printed with the rest
        inference = infer(log_density, like=unknowns(), key=seed, effort=effort, **settings)
    draws = jax.tree.map(np.asarray, inference.sample(NUM_DRAWS, seed))
    return inference, _Answer(draws, time.perf_counter() - begin)


def _sampled(seed: int, num: int) -> tuple[str, SamplerRun, _Answer]:
    """Draws of the chains, chain by chain."""
    name = default_sampler()
    target = as_target(log_density, like=unknowns())
    lengths = {"num_chains": NUM_CHAINS, "num_samples": num, "num_warmup": num}
    run, cost = run_reference(target, name, seed, **lengths)
    return name.upper(), run, _Answer(chain_draws(run), cost.seconds)


def chain_draws(run: SamplerRun) -> dict[str, np.ndarray]:
    """The named draws of Markov chains, each (chains, draws).

    Args:
        run: Of a target whose unknowns are named numbers.
    """
    return {name: np.asarray(value) for name, value in jax.vmap(jax.vmap(run.layout.named))(run.draws).items()}


def _table(truth: Exact, inference: Inference, answer: _Answer, name: str, run: SamplerRun, chains: _Answer) -> str:
    """The probability of a mode by each, what R-hat says of the chains, and how the modes differ."""
    rows = [["exact, by quadrature", f"{truth.slow_share:.3f}", "", ""]]
    rows.append(["sivi.infer", f"{slow_share(answer.draws):.3f}", "", f"{answer.seconds:.1f}"])
    if inference.posterior is not None:
        fitted = inference.posterior.sample(NUM_DRAWS, 0)
        rows.append(["its fit alone", f"{slow_share(fitted):.3f}", "", f"{inference.steps[0].cost.seconds:.1f}"])
    label, rhat = f"{name}, {len(run.draws)} chains of {run.draws.shape[1]:,}", f"{np.max(run.rhat):.2f}"
    rows.append([label, f"{slow_share(chains.draws):.3f}", rhat, f"{chains.seconds:.1f}"])
    by_chain = ", ".join(f"{slow_share({k: v[i] for k, v in chains.draws.items()}):.2f}" for i in range(len(run.draws)))
    return (
        f"{text_table(['probability of slow absorption, ka < ke', '', 'R-hat', 'seconds'], rows)}\n\n"
        f"by chain of {name}: {by_chain} (a chain stays in its mode). Seconds are with compiling.\n"
        f"{_half_lives(answer.draws)}\n"
    )


def _half_lives(draws: Any) -> str:
    """What hangs on the mode."""
    ka, ke = rates(draws)
    slow, fast = (f"{np.log(2.0) / np.median(ke[kept]):.1f} h" if kept.any() else "-" for kept in (ka < ke, ka >= ke))
    return f"The half-life of elimination is {slow} if absorption is slow, and {fast} if not."
