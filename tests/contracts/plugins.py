"""Every plug-in of the library: a new one adds a line here and is then held to the contracts."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import sivi
from oracles import linear_gaussian_model
from sivi import constraints, critics, families, kernels, objectives, optimizers, samplers, schedules, targets
from sivi.coordinates import DenseMap

TARGETS = {
    "Banana": targets.Banana,
    "Multimodal": targets.Multimodal,
    "XShaped": targets.XShaped,
    "GaussianMixture": lambda: targets.GaussianMixture(
        [[0.0, 1.0, -1.0], [2.0, 0.0, 0.0]], [np.diag([1.0, 0.5, 2.0]), np.eye(3)], [1.0, 3.0]
    ),
    "IsotropicGaussian": lambda: targets.IsotropicGaussian(2, 0.7),
    "LinearRegression": lambda: targets.LinearRegression(
        np.random.default_rng(0).normal(size=(12, 2)), np.random.default_rng(1).normal(size=12)
    ),
    "LogisticRegression": lambda: targets.LogisticRegression(
        np.random.default_rng(2).normal(size=(12, 3)), np.arange(12) % 3 == 0, prior_scale=2.0
    ),
    "MultinomialRegression": lambda: targets.MultinomialRegression(
        np.random.default_rng(3).normal(size=(12, 2)), np.arange(12) % 3, prior_scale=2.0
    ),
    "BayesianModel": linear_gaussian_model,
    "BayesianNeuralNetwork": lambda: targets.BayesianNeuralNetwork(
        np.random.default_rng(4).normal(size=(12, 2)),
        np.random.default_rng(5).normal(size=12),
        hidden=(3,),
        activation="tanh",
        noise_precision=targets.GammaPrior(2.0, 1.0),
        weight_precision=(1.0, 3.0),
    ),
    "LogDensity": lambda: targets.LogDensity(
        lambda p: -jnp.sum(p["a"] ** 4) - p["b"] ** 2 + p["a"][0] * p["b"], like={"a": np.zeros(2), "b": 0.0}
    ),
    "ScoreFunction": lambda: targets.ScoreFunction(lambda x: -x - x**3, dim=2),
    "Whitened": lambda: targets.Whitened(
        targets.Banana(), DenseMap(jnp.array([0.5, -1.0]), jnp.array([[1.0, 0.0], [0.7, 2.0]]))
    ),
    "Tempered": lambda: targets.Tempered(targets.Banana(), jnp.asarray(0.4, float), targets.Multimodal()),
    "ControlVariate": lambda: targets.ControlVariate.at(linear_gaussian_model(), jnp.full(3, 0.3, float)),
    "BridgedTarget": lambda: targets.BridgedTarget(targets.Banana(), targets.Multimodal(), jnp.asarray(-0.7, float)),
}

MIXINGS = {
    "NormalMixing": lambda key: families.NormalMixing(3),
    "ImplicitMixing": lambda key: families.ImplicitMixing(4, 3, hidden=(16,), key=key),
}

CONDITIONALS = {
    "DiagonalGaussian": lambda key: families.DiagonalGaussian(3, 2, hidden=(16, 16), key=key),
    "DiagonalGaussian-network": lambda key: families.DiagonalGaussian(3, 2, hidden=(16,), scale="network", key=key),
    "DiagonalGaussian-clamp": lambda key: families.DiagonalGaussian(
        3, 2, hidden=(16,), activation="relu", skip=False, floor="clamp", key=key
    ),
    "DenseGaussian": lambda key: families.DenseGaussian(3, 2, hidden=(16, 16), key=key),
    "DenseGaussian-network": lambda key: families.DenseGaussian(3, 2, hidden=(16,), scale="network", key=key),
    "StudentT": lambda key: families.StudentT(3, 2, df=4.0, hidden=(16, 16), key=key),
    "StudentT-network": lambda key: families.StudentT(3, 2, hidden=(16,), scale="network", key=key),
}

KERNELS = {
    "GaussianKernel": lambda: kernels.GaussianKernel(),
    "GaussianKernel-fixed": lambda: kernels.GaussianKernel(1.7),
    "IMQKernel": lambda: kernels.IMQKernel(factor=1.2),
    "IMQKernel-fixed": lambda: kernels.IMQKernel(0.6),
    "LinearKernel": lambda: kernels.LinearKernel(),
    "RieszKernel": lambda: kernels.RieszKernel(),
}

_SMALL = {"num_particles": 32, "critic": critics.MLPCritic((16,))}

OBJECTIVES = {
    "ScoreMatching": lambda: objectives.ScoreMatching(**_SMALL),
    "ScoreMatching-residual": lambda: objectives.ScoreMatching(psi=1.0, critic_steps=2, critic_particles=16, **_SMALL),
    "ScoreMatching-scheduled": lambda: objectives.ScoreMatching(psi=schedules.StepDecay(1.0, 0.9, 3), **_SMALL),
    "PlugInFisher": lambda: objectives.PlugInFisher(**_SMALL),
    "PathKL": lambda: objectives.PathKL(critic_warmup=3, **_SMALL),
    "PathKL-structured": lambda: objectives.PathKL(
        num_particles=32, critic_warmup=3, critic=critics.StructuredCritic((16,))
    ),
    "MixtureKL": lambda: objectives.MixtureKL(num_particles=16),
    "MixtureKL-full": lambda: objectives.MixtureKL(num_particles=16, num_aux=4, gradient="full", clip=None),
    "SurrogateELBO": lambda: objectives.SurrogateELBO(num_particles=16, num_aux=5, block_size=3),
    "SurrogateELBO-growing": lambda: objectives.SurrogateELBO(num_particles=16, num_aux=schedules.Ramp(1, 9)),
    "UnbiasedELBO": lambda: objectives.UnbiasedELBO(num_particles=4, num_iterations=3, burn_in=1, num_leapfrog=2),
    "KernelStein": lambda: objectives.KernelStein(num_particles=16),
    "KernelStein-riesz": lambda: objectives.KernelStein(
        num_particles=16, kernel=objectives.RieszKernel(), statistic="V", optimizer=optimizers.RMSProp(1e-3)
    ),
    "KernelStein-imq": lambda: objectives.KernelStein(num_particles=16, kernel=objectives.IMQKernel(2.0)),
    "KernelStein-linear": lambda: objectives.KernelStein(num_particles=16, kernel=kernels.LinearKernel()),
    "Annealed": lambda: objectives.Annealed(objectives.ScoreMatching(**_SMALL)),
    "Annealed-path": lambda: objectives.Annealed(
        objectives.ScoreMatching(**_SMALL), schedules.Ramp(0.0, 1.0, 0.5), targets.Multimodal()
    ),
    "Bridged": lambda: objectives.Bridged(
        objectives.PathKL(critic_warmup=3, **_SMALL), schedules.Ramp(0.4, 0.0, 0.6), base=targets.Multimodal()
    ),
}

#: Annealing around the others, held to one test alone, in tests/objectives/test_annealed.py.
ANNEALED_OBJECTIVES = {
    f"Annealed-{name}": lambda name=name: objectives.Annealed(OBJECTIVES[name]())
    for name in ("PathKL", "PathKL-structured", "SurrogateELBO", "UnbiasedELBO", "KernelStein")
}

#: Objectives that a file cannot hold, since they carry a user's own Optax transform.
CUSTOM_OBJECTIVES = {
    "ScoreMatching-optax": lambda: objectives.ScoreMatching(
        optimizer=optax.sgd(1e-5), critic_optimizer=optax.adamw(1e-3), **_SMALL
    ),
}

#: Rows whose state is of the class of another row's. Only that other row is fitted in chunks, stored and resumed; these
#: make one update. A new row is fitted unless it stands here, and a test checks the classes.
SAME_STATE = {
    "ScoreMatching-residual": "ScoreMatching",
    "ScoreMatching-scheduled": "ScoreMatching",
    "PlugInFisher": "ScoreMatching",
    "PathKL": "PathKL-structured",
    "MixtureKL": "KernelStein-riesz",
    "MixtureKL-full": "KernelStein-riesz",
    "SurrogateELBO": "SurrogateELBO-growing",
    "KernelStein": "KernelStein-riesz",
    "KernelStein-imq": "KernelStein-riesz",
    "KernelStein-linear": "KernelStein-riesz",
    "Annealed": "Annealed-path",
}

SCHEDULES = {
    "Constant": lambda: schedules.Constant(0.3),
    "StepDecay": lambda: schedules.StepDecay(1.0, 0.5, 7),
    "Cosine": lambda: schedules.Cosine(1.0, 0.1),
    "Ramp": lambda: schedules.Ramp(),
}

OPTIMIZERS = {
    "Adam": lambda: optimizers.Adam(schedules.Cosine(1e-2), b2=0.99),
    "RMSProp": lambda: optimizers.RMSProp(schedules.Cosine(1e-2), decay=0.9),
    "AdaGrad": lambda: optimizers.AdaGrad(schedules.Cosine(1e-2)),
}


def small_family(conditional="DiagonalGaussian", mixing="NormalMixing") -> sivi.SemiImplicit:
    key = jax.random.key(5)
    return sivi.SemiImplicit(MIXINGS[mixing](key), CONDITIONALS[conditional](key))


class SamplerCase(NamedTuple):
    """A sampler under its name in `sivi.samplers`.

    `run` takes a target, `num_chains`, `num_samples` and what else the test gives: key, init, chunk_size. `bias` is the
    relative error of a variance that a sampler with a finite step size may have on a Gaussian. A sampler whose
    particles are `interacting` has no Monte Carlo error to hold it to, and takes no `num_samples`.
    """

    run: Callable[..., samplers.SamplerRun]
    bias: float = 0.0
    interacting: bool = False


SAMPLERS = {
    "hmc": SamplerCase(lambda target, **given: samplers.hmc(target, num_warmup=100, progress=False, **given)),
    "nuts": SamplerCase(lambda target, **given: samplers.nuts(target, num_warmup=100, progress=False, **given)),
    "sgld": SamplerCase(
        # The variance is off by a factor 1 / (1 − hλ/4), with λ at most 4 in the target of the contract.
        lambda target, *, num_chains, num_samples, **given: samplers.sgld(
            target,
            num_particles=num_chains,
            num_samples=num_samples,
            num_steps=200 + 10 * num_samples,
            thin=10,
            step_size=0.04,
            progress=False,
            **given,
        ),
        bias=0.04,
    ),
    "svgd": SamplerCase(
        lambda target, *, num_chains, **given: samplers.svgd(
            target, num_particles=num_chains, num_steps=20, progress=False, **given
        ),
        interacting=True,
    ),
}


class ConstraintCase(NamedTuple):
    """A constraint under the name of its function in `sivi.constraints`, with a suffix where there are several.

    `keeps` says again whether an array keeps to it, `draw` makes such an array from a NumPy generator, and
    `free_entries` gives the entries that a density is with respect to. Where these are more than the free numbers, the
    density is with respect to the area of the surface that they lie on.
    """

    constraint: constraints.Constraint
    keeps: Callable[[np.ndarray], bool]
    draw: Callable[[np.random.Generator], np.ndarray]
    free_entries: Callable[[jax.Array], jax.Array] = jnp.ravel


def is_simplex(x):
    return (x > 0.0).all() and (np.abs(x.sum(-1) - 1.0) < 1e-5).all()


def is_increasing(x):
    return (np.diff(x, axis=-1) > 0.0).all()


def is_correlation_cholesky(x):
    correlations = x @ np.swapaxes(x, -1, -2)
    return (
        (np.abs(np.diagonal(correlations, axis1=-2, axis2=-1) - 1.0) < 1e-5).all()
        and (np.diagonal(x, axis1=-2, axis2=-1) > 0.0).all()
        and (np.triu(x, 1) == 0.0).all()
        and (np.abs(np.tril(x, -1)) < 1.0).all()
    )


def is_covariance_cholesky(x):
    return (np.triu(x, 1) == 0.0).all() and (np.diagonal(x, axis1=-2, axis2=-1) > 0.0).all()


def is_unit_vector(x):
    return (np.abs(np.linalg.norm(x, axis=-1) - 1.0) < 1e-5).all()


def direction(rng, *shape):
    x = rng.normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def covariance_factor(rng, batch, n):
    matrix = rng.normal(size=(*batch, n, n + 1))
    return np.linalg.cholesky(matrix @ np.swapaxes(matrix, -1, -2))


def correlation_factor(rng, batch, n):
    matrix = rng.normal(size=(*batch, n, n + 1))
    covariance = matrix @ np.swapaxes(matrix, -1, -2)
    scale = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    return np.linalg.cholesky(covariance / scale[..., :, None] / scale[..., None, :])


def all_but_last(x):
    return x[..., :-1].ravel()


def mixed_draw(rng):
    """Rows between (−1, 0), anywhere, above 2 and below −4."""
    above = rng.lognormal(size=2)
    return np.stack([rng.uniform(-0.999, -0.001, 2), rng.normal(size=2), 2.0 + above, -4.0 - above], axis=1)


def not_above_diagonal(x):
    return x[(..., *np.tril_indices(x.shape[-1]))].ravel()


def below_diagonal(x):
    return x[(..., *np.tril_indices(x.shape[-1], -1))].ravel()


LOWS, HIGHS = np.array([[0.0], [-2.5]]), np.array([1.0, 7.0, 0.5])

CONSTRAINTS = {
    "real": ConstraintCase(constraints.real((2,)), lambda x: True, lambda rng: rng.normal(size=2)),
    "positive": ConstraintCase(
        constraints.positive((2, 3)), lambda x: (x > 0.0).all(), lambda rng: rng.lognormal(size=(2, 3))
    ),
    "interval-above": ConstraintCase(
        constraints.interval(2.0, None, 2), lambda x: (x > 2.0).all(), lambda rng: 2.0 + rng.lognormal(size=2)
    ),
    "interval-below": ConstraintCase(
        constraints.interval(None, -3.0, 2), lambda x: (x < -3.0).all(), lambda rng: -3.0 - rng.lognormal(size=2)
    ),
    "interval-unit": ConstraintCase(
        constraints.interval(0.0, 1.0, (2,)),
        lambda x: ((x > 0.0) & (x < 1.0)).all(),
        lambda rng: rng.uniform(1e-3, 1.0 - 1e-3, size=2),
    ),
    "interval": ConstraintCase(
        constraints.interval(-2.5, 7), lambda x: -2.5 < x < 7.0, lambda rng: rng.uniform(-2.4, 6.9)
    ),
    "interval-by-entry": ConstraintCase(
        constraints.interval(LOWS, HIGHS),
        lambda x: ((x > LOWS) & (x < HIGHS)).all(),
        lambda rng: rng.uniform(LOWS + 1e-3, HIGHS - 1e-3),
    ),
    "interval-mixed": ConstraintCase(
        constraints.interval([-1.0, None, 2.0, None], [0.0, None, None, -4.0], (2, 4)),
        lambda x: ((x > [-1.0, -np.inf, 2.0, -np.inf]) & (x < [0.0, np.inf, np.inf, -4.0])).all(),
        mixed_draw,
    ),
    "lower": ConstraintCase(
        constraints.lower(-1.5, 3), lambda x: (x > -1.5).all(), lambda rng: rng.lognormal(size=3) - 1.5
    ),
    "lower-by-entry": ConstraintCase(
        constraints.lower(np.array([0.0, 3.0])),
        lambda x: (x > [0.0, 3.0]).all(),
        lambda rng: rng.lognormal(size=2) + np.array([0.0, 3.0]),
    ),
    "upper": ConstraintCase(
        constraints.upper([[0.0], [3.0]], (2, 2)),
        lambda x: (x < [[0.0], [3.0]]).all(),
        lambda rng: [[0.0], [3.0]] - rng.lognormal(size=(2, 2)),
    ),
    "ordered": ConstraintCase(
        constraints.ordered(3, (2,)), is_increasing, lambda rng: np.cumsum(rng.lognormal(size=(2, 3)), -1)
    ),
    "positive_ordered": ConstraintCase(
        constraints.positive_ordered(3, (2,)),
        lambda x: is_increasing(x) and (x > 0.0).all(),
        lambda rng: np.cumsum(rng.lognormal(size=(2, 3)), -1),
    ),
    "simplex": ConstraintCase(
        constraints.simplex(5), is_simplex, lambda rng: rng.dirichlet(np.full(5, 0.5)), all_but_last
    ),
    "simplex-batch": ConstraintCase(
        constraints.simplex(3, 2), is_simplex, lambda rng: rng.dirichlet(np.ones(3), 2), all_but_last
    ),
    "correlation_cholesky": ConstraintCase(
        constraints.correlation_cholesky(4),
        is_correlation_cholesky,
        lambda rng: correlation_factor(rng, (), 4),
        below_diagonal,
    ),
    "correlation_cholesky-batch": ConstraintCase(
        constraints.correlation_cholesky(3, (2,)),
        is_correlation_cholesky,
        lambda rng: correlation_factor(rng, (2,), 3),
        below_diagonal,
    ),
    "covariance_cholesky": ConstraintCase(
        constraints.covariance_cholesky(4),
        is_covariance_cholesky,
        lambda rng: covariance_factor(rng, (), 4),
        not_above_diagonal,
    ),
    "covariance_cholesky-batch": ConstraintCase(
        constraints.covariance_cholesky(2, (3,)),
        is_covariance_cholesky,
        lambda rng: covariance_factor(rng, (3,), 2),
        not_above_diagonal,
    ),
    "unit_vector": ConstraintCase(constraints.unit_vector(4), is_unit_vector, lambda rng: direction(rng, 4)),
    "unit_vector-circle": ConstraintCase(
        constraints.unit_vector(2, (3,)), is_unit_vector, lambda rng: direction(rng, 3, 2)
    ),
}
