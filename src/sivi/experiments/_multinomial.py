"""Multinomial regression on MNIST and HAPT (section 4.3): data, and every number of a method in one place.

Networks, numbers of particles, of updates and of data per update, and L are those of section 4.3; so is RMSProp. What
the paper's text leaves out is, for SIVI-SM, as in its authors' runs: rates and decay, eps = 1, the clamp, the same
minibatches in rotation, their scores squared as they are, and a critic f + ψ_t S whose ψ_t is divided by 1.004 (MNIST)
or 1.005 (HAPT) after every pass over the data. SIVI and UIVI have the rate of UIVI's authors, one for network and σ.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import datasets, defaults
from ..objectives import ScoreMatching, SurrogateELBO
from ..optimizers import RMSProp
from ..schedules import StepDecay
from ..targets import MultinomialRegression
from ._method import Call, Method, paper_family, unbiased, with_critic
from .base import Job

#: z ~ N(0, I₁₀₀), and μ of widths [100, 200, 200, dim].
FAMILY = paper_family(100, (200, 200))

#: In a quick run, rows of data for fitting and for testing, and rows per update.
QUICK_ROWS, QUICK_TEST_ROWS, QUICK_BATCH = 600, 200, 200


@dataclass(frozen=True)
class DataProblem:
    """A dataset and what the paper says of it.

    Attributes:
        label: Its heading.
        num_data: Rows for fitting.
        features: Columns, with the one of ones.
        classes: Number of classes.
        batch_size: Rows per update.
        num_updates: Of every fit.
        rate: Of SIVI-SM's two networks at the start.
        psi_divisor: Of ψ, once per pass over the data.
    """

    label: str
    num_data: int
    features: int
    classes: int
    batch_size: int
    num_updates: int
    rate: float
    psi_divisor: float

    @property
    def dim(self) -> int:
        return self.features * self.classes


PROBLEMS = {
    "mnist": DataProblem("MNIST", 60_000, 785, 10, 2000, 90_000, 1e-3, 1.004),
    "hapt": DataProblem("HAPT", 7767, 562, 12, 863, 40_000, 2e-3, 1.005),
}


def _rmsprop(rate: float) -> RMSProp:
    return RMSProp(StepDecay(rate, factor=0.9, every=3000), decay=0.9, eps=1.0)


def sivi_sm(problem: DataProblem, num_particles: int, split: bool = False) -> Call:
    """SIVI-SM: critic of widths [dim, 256, 256, dim]; its authors do not `split` a minibatch."""
    epoch = problem.num_data // problem.batch_size
    objective = with_critic(
        ScoreMatching,
        256,
        num_particles=num_particles,
        psi=StepDecay(1.0, factor=1 / problem.psi_divisor, every=epoch),
        split=split,
        optimizer=_rmsprop(problem.rate),
        critic_optimizer=_rmsprop(problem.rate),
    )
    return Call(objective, FAMILY, (problem.batch_size, "rotate"))


def sivi(problem: DataProblem, num_particles: int) -> Call:
    """SIVI: L = 200."""
    objective = SurrogateELBO(num_particles=num_particles, num_aux=200, block_size=256, optimizer=_rmsprop(0.01))
    return Call(objective, FAMILY, (problem.batch_size, "rotate"))


def uivi(problem: DataProblem, num_particles: int) -> Call:
    """UIVI: 10 iterations of inner HMC of which 5 are dropped."""
    objective = unbiased(StepDecay(0.01, factor=0.9, every=3000), num_particles)
    return Call(objective, {**FAMILY, "sigma_init": 0.5}, (problem.batch_size, "rotate"))


def halves(problem: DataProblem, num_particles: int) -> Call:
    """SIVI-SM with every minibatch split, as is done by default where they are drawn afresh."""
    return sivi_sm(problem, num_particles, split=True)


#: Method and number of particles, as in the paper's figure, the colour there, and how the line is drawn.
_LINES = {
    "sivi-sm-100": (sivi_sm, 100, "SIVI-SM(100)", "#f2b07f", "-"),
    "sivi-sm-200": (sivi_sm, 200, "SIVI-SM(200)", "#e07b28", "-"),
    "sivi-sm-100-halves": (halves, 100, "SIVI-SM(100), halves", "#f2b07f", "--"),
    "sivi-sm-200-halves": (halves, 200, "SIVI-SM(200), halves", "#e07b28", "--"),
    "sivi-1": (sivi, 1, "SIVI(1)", "#9cc3e6", "-"),
    "sivi-10": (sivi, 10, "SIVI(10)", "#5b96cc", "-"),
    "sivi-20": (sivi, 20, "SIVI(20)", "#2f6fb3", "-"),
    "uivi-1": (uivi, 1, "UIVI(1)", "#3a923a", "-"),
}
NAMES = (*_LINES, "default")


def methods(problem: DataProblem) -> dict[str, Method]:
    """All methods on one dataset."""
    of_paper = {
        name: Method(label, functools.partial(call, problem, particles), problem.num_updates, colour, line)
        for name, (call, particles, label, colour, line) in _LINES.items()
    }
    num_steps = defaults.recipe(problem.dim, problem.num_data).num_steps
    return {**of_paper, "default": Method("default call", Call, num_steps, "#a03c78")}


@functools.cache
def load_model(name: str, mode: str) -> tuple[MultinomialRegression, tuple[np.ndarray, np.ndarray]]:
    """The posterior, with prior N(0, I), and the data held out; of a quick run, on some rows."""
    data, problem = datasets.load(name), PROBLEMS[name]
    (x, y), (x_test, y_test) = data.train, data.test
    if mode != "full":
        x, y, x_test, y_test = x[:QUICK_ROWS], y[:QUICK_ROWS], x_test[:QUICK_TEST_ROWS], y_test[:QUICK_TEST_ROWS]
    model = MultinomialRegression(datasets.with_intercept(x), y, num_classes=problem.classes, prior_scale=1.0)
    return model, (datasets.with_intercept(x_test), y_test)


def fit_arguments(problem: DataProblem, name: str, seed: int, mode: str) -> dict[str, Any]:
    """Arguments of `sivi.fit` besides the target and `num_steps`."""
    arguments = methods(problem)[name].call().arguments(problem.dim, seed)
    if mode != "full" and "batch_size" in arguments:
        arguments["batch_size"] = QUICK_BATCH
    return arguments


def job_settings(name: str, method: str, seed: int, mode: str, quick_updates: int) -> Mapping[str, Any]:
    """Everything a fit depends on."""
    problem = PROBLEMS[name]
    chosen = methods(problem)[method]
    return {
        "problem": name,
        "method": method,
        "seed": seed,
        "mode": mode,
        "num_steps": chosen.num_updates if mode == "full" else quick_updates,
        "prior_scale": 1.0,
        **chosen.call().described(problem.dim, problem.num_data),
    }


def all_jobs(mode: str, seeds: int, quick_updates: int, more: Mapping[str, Any]) -> list[Job]:
    """A job for every dataset, method and seed; `more` is added to the settings of each."""
    return [
        Job(f"{problem}-{name}-{seed}", {**job_settings(problem, name, seed, mode, quick_updates), **more})
        for seed in range(seeds)
        for problem in PROBLEMS
        for name in NAMES
    ]


SETTINGS_TEXT = """\
The model has the prior N(0, I) and a column of ones. All but the default call have the paper's family and its number of
updates, with 2,000 (MNIST) or 863 (HAPT) rows each, the same minibatches in rotation; in parentheses, the number of
particles. The default call is `sivi.fit(model, key=seed)`, with nothing else. What the paper leaves open: SIVI and UIVI
have the rate of UIVI's authors, 0.01 · 0.9^(t/3000), and one rate for network and σ; the critic of SIVI-SM is f + ψ_t S
with ψ_t falling from 1, and the score of a minibatch is squared as it is, as in its authors' runs. That is biased: the
family is drawn to where minibatches agree. "Halves" takes products of scores between the halves of a minibatch, which
has no bias where minibatches are drawn afresh; here the same halves come back, and the family first goes to where they
oppose each other.\
"""
