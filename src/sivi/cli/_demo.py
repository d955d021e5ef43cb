"""`sivi demo`: logistic regression on generated data, end to end, compared with Markov chains."""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._fitting.fit import fit
from ..datasets import waveform_generator
from ..metrics import moment_errors, predictive_scores
from ..plots import plot_marginals, plot_pairs, plot_traces
from ..samplers import SamplerRun, hmc, nuts
from ..targets import LogisticRegression
from ._demo_figures import plot_predictions
from ._draws import entries, mixed, summary
from ._errors import UsageError
from ._output import save_figure, text_table, use_files_only, writable_folder

_NUM_TRAIN, _NUM_TEST = 400, 2000
_NUM_DRAWS = 20_000  # of the fit
_NUM_CHAINS, _NUM_TRANSITIONS = 4, 1000
_NUM_SHOWN = {"marginals": 8, "pairs": 4}
_QUICK_STEPS, _QUICK_TRANSITIONS = 200, 100


def add_to(commands: Any) -> None:
    """Add the `demo` command."""
    command = commands.add_parser(
        "demo",
        help="logistic regression on generated data, compared with Markov chains",
        description=f"Fit a Bayesian logistic regression to {_NUM_TRAIN} generated waveforms (22 coefficients) with "
        "the defaults of sivi.fit; score it on held-out waveforms; then run Markov chains on the same posterior and "
        "compare. The chains are NUTS with BlackJAX, HMC without.",
        epilog="example:\n  sivi demo --out demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--out", metavar="DIR", default="demo", help="folder for the figures (default: %(default)s)")
    command.add_argument("--steps", type=int, metavar="N", help="updates of the fit, at most")
    command.add_argument("--quick", action="store_true", help="too few updates and transitions, for a first look")
    command.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit, score, compare, draw."""
    if args.steps is not None and args.steps < 1:
        raise UsageError(f"--steps must be at least 1; got {args.steps}.")
    folder = writable_folder(args.out)
    train_key, test_key = jax.random.split(jax.random.key(args.seed))
    model = LogisticRegression(*waveform_generator(train_key, _NUM_TRAIN))
    test = waveform_generator(test_key, _NUM_TEST)

    print(f"fitting {model.dim} coefficients to {_NUM_TRAIN} waveforms")
    steps = _QUICK_STEPS if args.quick and args.steps is None else args.steps
    posterior, fit_seconds = _timed(lambda: fit(model, key=args.seed, num_steps=steps))
    values = entries(posterior, _NUM_DRAWS, args.seed)
    print(f"\n{summary(posterior.layout, values)}\nx[0] is the intercept, the others weigh the 21 points of a wave\n")

    name = "NUTS" if find_spec("blackjax") is not None else "HMC"
    why = "BlackJAX" if name == "NUTS" else "BlackJAX, for NUTS, is not installed: pip install 'sivi[mcmc]'"
    print(f"comparing with {name} ({why})")
    chains, seconds = _timed(lambda: _chains(name, model, args.seed, args.quick))
    draws, reference = mixed(values), chains.flat()
    print(f"\n{_comparison(name, model, test, draws, chains, (fit_seconds, seconds))}")

    if use_files_only():
        _save_figures(folder, model, test, draws, reference, name, posterior.history)
        print(f"figures in {folder}: marginals.png, pairs.png, predictions.png, traces.png")
    else:
        print("no figures: they need matplotlib (pip install 'sivi[plot]')")
    return 0 if posterior.finished else 130


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def _chains(name: str, model: LogisticRegression, seed: int, quick: bool) -> SamplerRun:
    num = _QUICK_TRANSITIONS if quick else _NUM_TRANSITIONS
    sampler = nuts if name == "NUTS" else hmc
    return sampler(model, key=seed, num_chains=_NUM_CHAINS, num_draws=num, num_warmup=num)


def _comparison(
    name: str,
    model: LogisticRegression,
    test: Any,
    draws: np.ndarray,
    chains: SamplerRun,
    seconds: tuple[float, float],
) -> str:
    errors = moment_errors(draws, chains.flat())
    scores = [predictive_scores(model, points, test) for points in (draws, chains.flat())]
    judged = [
        [f"{errors.largest_mean_error:.3f}", f"{errors.sd_ratio.min():.2f}-{errors.sd_ratio.max():.2f}", "-"],
        ["-", "-", f"{chains.rhat.max():.3f}"],
    ]
    rows = [
        [label, f"{score.per_point:.4f}", f"{score.joint:.4f}", *judgement, f"{time:.0f}"]
        for label, score, judgement, time in zip(("sivi", name), scores, judged, seconds, strict=True)
    ]
    header = ["", "log lik. per point", "joint", "mean error / sd", "sd ratio", "R-hat", "seconds"]
    return (
        f"{text_table(header, rows)}\n\n"
        f"log lik.: of {_NUM_TEST} held-out waveforms, per waveform; each on its own, and all jointly.\n"
        f"mean error, sd ratio: against {name}, the largest of all coefficients, and smallest to largest.\n"
        f"R-hat: the largest of {name}'s own, at most 1.01 where its chains agree; they know each mean to "
        f"{1 / np.sqrt(chains.ess.min()):.3f} sd or better."
    )


def _save_figures(
    folder: Path,
    model: LogisticRegression,
    test: Any,
    draws: np.ndarray,
    reference: np.ndarray,
    name: str,
    history: Any,
) -> None:
    names = model.layout.element_names()
    for kind, plot in (("marginals", plot_marginals), ("pairs", plot_pairs)):
        first = slice(_NUM_SHOWN[kind])
        figure = plot(draws[:, first], reference[:, first], names=names[first], labels=("sivi", name))
        save_figure(figure, folder / f"{kind}.png")
    save_figure(plot_predictions(model, test, draws, reference, name), folder / "predictions.png")
    save_figure(plot_traces(history), folder / "traces.png")
