"""`sivi demo`: logistic regression, compared with Markov chains and judged; then two modes, where these are wrong."""

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._fitting.fit import fit
from .._tables import text_table
from ..datasets import waveform_generator
from ..metrics import predictive_scores
from ..plots import plot_marginals, plot_pairs, plot_traces
from ..posterior import Posterior
from ..targets import LogisticRegression
from ..verdict.check import check
from ..verdict.compare import compare
from ..verdict.comparison import Comparison
from ..verdict.reference import default_sampler
from . import _codes
from ._cache import add_cache_option
from ._demo_figures import plot_predictions
from ._demo_kinetics import FIGURE, show_kinetics
from ._draws import entries, mixed, summary
from ._errors import UsageError
from ._output import save_figure, use_files_only, writable_folder

_NUM_TRAIN, _NUM_TEST = 400, 2000
_NUM_DRAWS, _NUM_TIMED = 20_000, 4000  # of the fit; as many of these as of the chains
_NUM_CHAINS, _NUM_TRANSITIONS = 4, 1000
_NUM_SHOWN = {"marginals": 8, "pairs": 4}
_QUICK_STEPS, _QUICK_TRANSITIONS, _QUICK_EFFORT = 200, 100, 0.1


def add_to(commands: Any) -> None:
    """Add the `demo` command."""
    command = commands.add_parser(
        "demo",
        help="logistic regression beside Markov chains, and two modes on which those are wrong",
        description=f"Fit a Bayesian logistic regression to {_NUM_TRAIN} generated waveforms (22 coefficients) with "
        "the defaults of sivi.fit; score it on held-out waveforms; run Markov chains on the same posterior and compare "
        "(NUTS with BlackJAX, HMC without); and check the fit without them. Then a model of a drug taken by mouth, "
        "whose two modes have unequal probabilities: sivi.infer, which finds that its fit is wrong and mends it, and "
        "four chains, beside the exact answer.",
        epilog="example:\n  sivi demo --out demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--out", metavar="DIR", default="demo", help="folder for the figures (default: %(default)s)")
    command.add_argument("--steps", type=int, metavar="N", help="updates of each fit, at most")
    command.add_argument("--quick", action="store_true", help="too few updates and transitions, for a first look")
    command.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    add_cache_option(command)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit, score, compare, check, draw; then the two modes."""
    if args.steps is not None and args.steps < 1:
        raise UsageError(f"--steps must be at least 1; got {args.steps}.")
    folder = writable_folder(args.out)
    train_key, test_key = jax.random.split(jax.random.key(args.seed))
    model = LogisticRegression(*waveform_generator(train_key, _NUM_TRAIN))
    test = waveform_generator(test_key, _NUM_TEST)

    print(f"fitting {model.dim} coefficients to {_NUM_TRAIN} waveforms")
    steps = _QUICK_STEPS if args.quick and args.steps is None else args.steps
    posterior, fit_seconds = _timed_fit(model, args.seed, steps)
    values = entries(posterior, _NUM_DRAWS, args.seed)
    print(f"\n{summary(posterior.layout, values)}\nx[0] is the intercept, the others weigh the 21 points of a wave\n")

    name = "NUTS" if default_sampler() == "nuts" else "HMC"
    why = "BlackJAX" if name == "NUTS" else "BlackJAX, for NUTS, is not installed: pip install 'sivi[mcmc]'"
    print(f"comparing with {name} ({why})")
    if name == "NUTS":
        import blackjax  # noqa: F401  # outside the seconds, as all other imports
    num = _QUICK_TRANSITIONS if args.quick else _NUM_TRANSITIONS
    lengths = {"num_chains": _NUM_CHAINS, "num_samples": num, "num_warmup": num}
    comparison = compare(posterior, key=args.seed, **lengths)
    assert comparison.run is not None
    draws, reference = mixed(values), comparison.run.flat()
    print(f"\n{comparison}\n\n{_scores(model, test, draws, comparison, fit_seconds)}\n")

    print("checking whether the fit can be believed, without those chains")
    verdict = check(posterior, key=args.seed, effort=_QUICK_EFFORT if args.quick else 1.0, modes=not args.quick)
    print(f"\nits verdict: {verdict}\n")

    can_draw = use_files_only()
    show_kinetics(args.seed, folder if can_draw else None, args.steps, args.quick)
    if can_draw:
        _save_figures(folder, model, test, draws, reference, name, posterior)
        print(f"figures in {folder}: {FIGURE}, marginals.png, pairs.png, predictions.png, traces.png")
    else:
        print("no figures: they need matplotlib (pip install 'sivi[plot]')")
    return _codes.DONE if posterior.finished else _codes.INTERRUPTED


def _timed_fit(model: LogisticRegression, seed: int, num_steps: int | None) -> tuple[Posterior, float]:
    """The fit, and the seconds from the call to as many draws as the chains make."""
    start = time.perf_counter()
    posterior = fit(model, key=seed, num_steps=num_steps)
    np.asarray(posterior.sample(_NUM_TIMED, seed))
    return posterior, time.perf_counter() - start


def _scores(model: LogisticRegression, test: Any, draws: np.ndarray, comparison: Comparison, fit_seconds: float) -> str:
    """A table of predictions of held-out data, and of seconds."""
    assert comparison.run is not None
    scores = [predictive_scores(model, points, test) for points in (draws, comparison.run.flat())]
    labels, seconds = ("sivi", comparison.reference), (fit_seconds, comparison.cost.seconds)
    rows = [
        [label, f"{score.per_point:.4f}", f"{score.joint:.4f}", f"{time:.1f}"]
        for label, score, time in zip(labels, scores, seconds, strict=True)
    ]
    return (
        f"{text_table(['', 'log lik. per point', 'joint', 'seconds'], rows)}\n\n"
        f"log lik.: of {_NUM_TEST} held-out waveforms, per waveform; each on its own, and all jointly.\n"
        f"seconds: from the call to {_NUM_TIMED:,} draws of sivi and to the draws of all chains, with compiling."
    )


def _save_figures(
    folder: Path,
    model: LogisticRegression,
    test: Any,
    draws: np.ndarray,
    reference: np.ndarray,
    name: str,
    posterior: Any,
) -> None:
    names = model.layout.element_names()
    for kind, plot in (("marginals", plot_marginals), ("pairs", plot_pairs)):
        first = slice(_NUM_SHOWN[kind])
        figure = plot(draws[:, first], reference[:, first], names=names[first], labels=("sivi", name))
        save_figure(figure, folder / f"{kind}.png")
    save_figure(plot_predictions(model, test, draws, reference, name), folder / "predictions.png")
    save_figure(plot_traces(posterior), folder / "traces.png")
