"""Other libraries' approximations of a log density in free coordinates, as `beside.py` runs them.

Each is used as its own documentation does; where that says nothing of a number, the number is the library's default.

* NumPyro's guides: the example "Neural Transport" (https://num.pyro.ai/en/stable/examples/neutra.html) trains
  `AutoBNAFNormal` by Adam at 0.003 for 10,000 steps of `Trace_ELBO()`. The other two guides have the same numbers: the
  2,000 steps at 0.0005 of the page of `SVI` would leave them near their start.
* FlowJAX: the example "Variational inference" (https://danielward27.github.io/flowjax/examples/) fits
  `masked_autoregressive_flow` with `transformer=Affine()` and `invert=False`, 100 samples, learning rate 1e-3 and 400
  steps. Its posterior is a Gaussian in two dimensions; there is a run of ten times as many steps too.
* BlackJAX: `blackjax.pathfinder` and `blackjax.multipathfinder` with the defaults of their pages
  (https://blackjax-devs.github.io/blackjax/autoapi/blackjax/vi/pathfinder/), and for several paths the numbers of
  Stan's guide (https://mc-stan.org/docs/cmdstan-guide/pathfinder_config.html): 4 paths, 1,000 draws each.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from _clock import Clock
from battery.child import QUICK, QUICK_STEPS, TIMED, Work, numbers_of, numbers_of_more
from battery.entry import Entry
from sivi.targets import as_target

GUIDE_STEPS, GUIDE_RATE = 10_000, 0.003
FLOW_STEPS, FLOW_RATE, FLOW_SAMPLES = 400, 1e-3, 100
PATHS, DRAWS_OF_PATH = 4, 1000
#: A key and a number → draws.
Draw = Callable[[jax.Array, int], Any]
LogDensity = Callable[[jax.Array], jax.Array]


def approximated(
    entry: Entry, job: dict[str, Any], fit: Callable[[LogDensity, int, jax.Array], Draw]
) -> dict[str, Any]:
    """Seconds from the log density to 4,000 draws on the host, and the errors of more draws."""
    problem, what = entry.problem()
    clock = Clock()
    target = as_target(problem, **what)
    fit_key, draw_key, more_key = jax.random.split(jax.random.key(job["key"]), 3)
    draw = fit(target.log_prob, target.dim, fit_key)
    timed = np.asarray(draw(draw_key, TIMED))
    facts = clock.read()
    return facts | numbers_of_more(entry, job, timed, lambda num: draw(more_key, num))


def by_guide(name: str) -> Work:
    """An autoguide of NumPyro."""

    def work(entry: Entry, job: dict[str, Any]) -> dict[str, Any]:
        import numpyro
        from numpyro.distributions import ImproperUniform, constraints
        from numpyro.infer import SVI, Trace_ELBO, autoguide

        def fit(log_density: LogDensity, dim: int, key: jax.Array) -> Draw:
            def model() -> None:
                x = numpyro.sample("x", ImproperUniform(constraints.real_vector, (), (dim,)))
                numpyro.factor("log_density", log_density(x))

            guide = getattr(autoguide, name)(model)
            svi = SVI(model, guide, numpyro.optim.Adam(GUIDE_RATE), Trace_ELBO())
            steps = QUICK_STEPS if job.get("quick") else GUIDE_STEPS
            params = svi.run(key, steps, progress_bar=False).params
            return lambda key, num: guide.sample_posterior(key, params, sample_shape=(num,))["x"]

        return approximated(entry, job, fit)

    return work


def by_flow(times: int = 1) -> Work:
    """FlowJAX's masked autoregressive flow."""

    def work(entry: Entry, job: dict[str, Any]) -> dict[str, Any]:
        from flowjax.bijections import Affine
        from flowjax.distributions import StandardNormal
        from flowjax.flows import masked_autoregressive_flow
        from flowjax.train import fit_to_key_based_loss
        from flowjax.train.losses import ElboLoss

        def fit(log_density: LogDensity, dim: int, key: jax.Array) -> Draw:
            flow_key, train_key = jax.random.split(key)
            base = StandardNormal((dim,))
            flow = masked_autoregressive_flow(flow_key, base_dist=base, transformer=Affine(), invert=False)
            flow, _ = fit_to_key_based_loss(
                train_key,
                flow,
                loss_fn=ElboLoss(log_density, num_samples=FLOW_SAMPLES),
                steps=QUICK_STEPS if job.get("quick") else times * FLOW_STEPS,
                learning_rate=FLOW_RATE,
                show_progress=False,
            )
            return lambda key, num: flow.sample(key, (num,))

        return approximated(entry, job, fit)

    return work


def pathfinder(entry: Entry, job: dict[str, Any]) -> dict[str, Any]:
    """BlackJAX's, of one path, from a start as of NUTS in Stan and NumPyro."""
    import blackjax

    def fit(log_density: LogDensity, dim: int, key: jax.Array) -> Draw:
        start_key, key = jax.random.split(key)
        start = jax.random.uniform(start_key, (dim,), minval=-2.0, maxval=2.0)
        state, _ = jax.jit(lambda key, x: blackjax.pathfinder.approximate(key, log_density, x))(key, start)
        return lambda key, num: blackjax.pathfinder.sample(key, state, num)[0]

    return approximated(entry, job, fit)


def multipathfinder(entry: Entry, job: dict[str, Any]) -> dict[str, Any]:
    """BlackJAX's, of four paths; 4,000 draws by importance resampling, which are all there are to measure."""
    import blackjax

    problem, what = entry.problem()
    clock = Clock()
    target = as_target(problem, **what)
    start_key, key, draw_key = jax.random.split(jax.random.key(job["key"]), 3)
    starts = jax.random.uniform(start_key, (PATHS, target.dim), minval=-2.0, maxval=2.0)
    algorithm = blackjax.multipathfinder(target.log_prob)
    state, _ = jax.jit(lambda key, x: algorithm.init(key, x, DRAWS_OF_PATH))(key, starts)
    draws = np.asarray(algorithm.sample(draw_key, state, TIMED))
    facts = clock.read()
    return facts | numbers_of(entry, draws, QUICK if job.get("quick") else None)


#: By name.
OTHERS: Mapping[str, Work] = {
    "mvn": by_guide("AutoMultivariateNormal"),
    "iaf": by_guide("AutoIAFNormal"),
    "bnaf": by_guide("AutoBNAFNormal"),
    "maf": by_flow(),
    "maf-long": by_flow(10),
    "pathfinder": pathfinder,
    "multipathfinder": multipathfinder,
}
