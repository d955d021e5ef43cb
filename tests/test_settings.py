"""Settings that cannot work are refused where they are given; those at the edge of what works are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi import DiagonalGaussian, Doubling, ImplicitMixing, NormalMixing, Plateau, SemiImplicit, StudentT
from sivi.critics import MLPCritic, StructuredCritic
from sivi.objectives import (
    Annealed,
    Bridged,
    GaussianKernel,
    IMQKernel,
    KernelStein,
    MixtureKL,
    PathKL,
    ScoreMatching,
    SurrogateELBO,
    UnbiasedELBO,
)
from sivi.optimizers import Adam, RMSProp
from sivi.schedules import Constant, Cosine, Ramp, Schedule, StepDecay
from sivi.targets import IsotropicGaussian

pytestmark = pytest.mark.usefixtures("as_a_user")

NAN, INF = float("nan"), float("inf")
BASE = IsotropicGaussian(2)


def conditional(**settings):
    return DiagonalGaussian(2, 2, **({"key": 0, "hidden": (4,)} | settings))


REFUSED = [
    # Rates.
    (lambda: Adam(-1e-2), r"learning_rate must be positive, .* got -0\.01"),
    (lambda: Adam(0), r"learning_rate must be positive, .* got 0\.0"),
    (lambda: Adam(NAN), "learning_rate must be a finite number; got nan"),
    (lambda: Adam(INF), "learning_rate must be a finite number; got inf"),
    (lambda: Adam("fast"), "learning_rate must be a number or a sivi.schedules.Schedule; got 'fast'"),
    (lambda: Adam(True), "learning_rate must be a number or a sivi.schedules.Schedule; got True"),
    (lambda: Adam(np.array([0.1, 0.2])), "learning_rate must be a number; got an array"),
    (lambda: Adam(Constant(0.0)), "learning_rate must be positive"),
    (lambda: Adam(Cosine(1e-3, -1e-3)), "learning_rate must be positive, and never below zero"),
    (lambda: Adam(Ramp(-0.1, 0.1)), "learning_rate must be positive, and never below zero"),
    (lambda: Adam(StepDecay(-1e-3, 0.5, 10)), "learning_rate must be positive, and never below zero"),
    (lambda: RMSProp(-1e-3), "learning_rate must be positive"),
    (lambda: Adam(1e-3, b1=1.0), r"b1 must be a number in \[0, 1\); got 1\.0"),
    (lambda: Adam(1e-3, b1=-0.1), r"b1 must be a number in \[0, 1\); got -0\.1"),
    (lambda: Adam(1e-3, b2=NAN), r"b2 must be a number in \[0, 1\); got nan"),
    (lambda: Adam(1e-3, b2="x"), r"b2 must be a number in \[0, 1\); got 'x'"),
    (lambda: Adam(1e-3, eps=0.0), "eps must be a positive, finite number; got 0"),
    (lambda: RMSProp(1e-3, decay=1.5), r"decay must be a number in \[0, 1\); got 1\.5"),
    (lambda: RMSProp(1e-3, eps=-1.0), "eps must be a positive, finite number; got -1"),
    # Schedules.
    (lambda: Constant(None), "value must be a number; got None"),
    (lambda: Constant("x"), "value must be a number; got 'x'"),
    (lambda: Constant(np.zeros(2)), "value must be a number; got an array"),
    (lambda: Constant(10**400), "value must be a finite number; got"),
    (lambda: Constant(1j), "value must be a number; got 1j"),
    (lambda: StepDecay(1e-3, 0.5, every=0), "every must be at least 1; got 0"),
    (lambda: StepDecay(1e-3, 0.5, every=2.5), "every must be an integer of at least 1; got 2.5"),
    (lambda: StepDecay(1e-3, 0.5, every=np.array([1, 2])), "every must be an integer of at least 1; got an array"),
    (lambda: StepDecay(1e-3, -0.5, every=5), "factor must be a positive, finite number; got -0.5"),
    (lambda: StepDecay(None, 0.5, every=5), "initial must be a number; got None"),
    (lambda: Cosine([1e-3]), r"initial must be a number; got \[0.001\]"),
    (lambda: Cosine(1e-3, NAN), "final must be a finite number; got nan"),
    (lambda: Cosine(1e-3, hold=NAN), "hold must be a share of the run"),
    (lambda: Ramp("x"), "start must be a number; got 'x'"),
    (lambda: Ramp(end=INF), "end must be a finite number; got inf"),
    (lambda: Ramp(until=NAN), "until must be a finite number; got nan"),
    # Objectives.
    (lambda: Annealed(None), "objective must be a sivi objective; got None"),
    (lambda: Annealed(PathKL(), -1.0), "schedule must give β, the power of the target, between 0 and 1; got -1"),
    (lambda: Annealed(PathKL(), 0.0), "schedule must lead β up"),
    (lambda: Annealed(PathKL(), 1.5), "between 0 and 1; got 1.5"),
    (lambda: Annealed(PathKL(), NAN), "schedule must be a finite number; got nan"),
    (lambda: Annealed(PathKL(), Ramp(0.1, 2.0)), "between 0 and 1; got one from 0.1 to 2.0"),
    (lambda: Annealed(PathKL(), base="x"), "base must be a sivi target; got 'x'"),
    (lambda: Annealed(PathKL(), every_round="no"), "every_round must be True or False; got 'no'"),
    (lambda: Bridged(None, 0.1, base=BASE), "objective must be a sivi objective; got None"),
    (lambda: Bridged(PathKL(), 0.1, base=None), "base must be a sivi target; got None"),
    (lambda: Bridged(PathKL(), Ramp(0.1, 2.0), base=BASE), "the base's share of the mass, between 0 and 1"),
    (lambda: PathKL(critic="x"), "critic must be the settings of a critic, .* got 'x'"),
    (lambda: PathKL(num_particles=np.array([3, 4])), "num_particles must be an integer of at least 1; got an array"),
    (lambda: PathKL(num_particles=np.array(True)), "num_particles must be an integer of at least 1; got"),
    (lambda: PathKL(clip=-1.0), "clip must be a positive, finite number; got -1"),
    (lambda: PathKL(clip=[[1.0], [1.0, 2.0]]), "clip must be a positive number; got"),
    (lambda: ScoreMatching(psi=NAN), "psi must be a finite number; got nan"),
    (lambda: MixtureKL(gradient=["path"]), "gradient must be 'path' or 'full'; got"),
    (lambda: KernelStein(kernel="imq"), "kernel must be a sivi.objectives.Kernel; got 'imq'"),
    (lambda: KernelStein(statistic=None), "statistic must be 'U' or 'V'; got None"),
    (lambda: GaussianKernel(-1.0), "bandwidth must be a positive, finite number; got -1"),
    (lambda: IMQKernel(factor=0.0), "factor must be a positive, finite number; got 0"),
    (lambda: SurrogateELBO(num_aux=-1), "num_aux must be at least 0; got -1"),
    (lambda: SurrogateELBO(num_aux=Ramp(-5, 10)), "num_aux must be a finite number of draws at every step"),
    (lambda: SurrogateELBO(num_aux=StepDecay(10, 2.0, 5)), "num_aux must be a finite number of draws at every step"),
    (lambda: UnbiasedELBO(jitter=1.0), r"jitter must be a number in \[0, 1\); got 1\.0"),
    (lambda: UnbiasedELBO(target_acceptance=NAN), "target_acceptance must be a positive, finite number; got nan"),
    # Stop rules.
    (lambda: Plateau(0.01, after=1.0), r"after must be a share of the run in \[0, 1\); got 1\.0"),
    (lambda: Plateau(0.01, after="x"), r"after must be a share of the run in \[0, 1\); got 'x'"),
    (lambda: Plateau(NAN), "tolerance must be a positive, finite number; got nan"),
    (lambda: Doubling(restart="no"), "restart must be True or False; got 'no'"),
    (lambda: Doubling(tail=2.0), "tail must be a share of a round"),
    # Families and critics.
    (lambda: SemiImplicit(None, conditional()), "mixing must be a sivi.families.Mixing; got None"),
    (lambda: SemiImplicit(NormalMixing(2), "x"), "conditional must be a sivi.families.Conditional; got 'x'"),
    (lambda: conditional(key="x"), "key must be an int or one JAX random key; got 'x'"),
    (lambda: conditional(key=np.zeros(3, np.uint32)), "key must be an int or one JAX random key; got an array"),
    (lambda: conditional(hidden=5), "hidden must be a sequence of widths, such as .64, 64.; got 5"),
    (lambda: conditional(hidden="64"), "hidden must be a sequence of widths"),
    (lambda: conditional(activation=None), "activation must be a function or one of"),
    (lambda: conditional(activation=["relu"]), "activation must be a function or one of"),
    (lambda: conditional(activation=jnp.sum), r"activation must return an array of the shape that it is given, \(2,\)"),
    (lambda: conditional(skip="no"), "skip must be True or False; got 'no'"),
    (lambda: conditional(skip_scale=NAN), "skip_scale must be a finite number; got nan"),
    (lambda: conditional(final_scale="x"), "final_scale must be a number; got 'x'"),
    (lambda: conditional(sigma_init=NAN), "sigma_init must be a positive, finite number; got nan"),
    (lambda: conditional(sigma_floor="x"), "sigma_floor must be a positive number; got 'x'"),
    (lambda: StudentT(2, 2, df=NAN, key=0), "df must be a finite number; got nan"),
    (lambda: StudentT(2, 2, df="x", key=0), "df must be a number; got 'x'"),
    (lambda: ImplicitMixing(2, 2, skip=None, key=0), "skip must be True or False; got None"),
    (lambda: NormalMixing(np.array([2])), "dim must be an integer of at least 1; got an array"),
    (lambda: MLPCritic(final_scale=None), "final_scale must be a number; got None"),
    (lambda: MLPCritic(skip=np.ones(2)), "skip must be True or False; got an array"),
    (lambda: MLPCritic(skip=True, skip_scale="x"), "skip_scale must be a number; got 'x'"),
    (lambda: StructuredCritic(final_scale=INF), "final_scale must be a finite number; got inf"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_settings_that_cannot_work(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


class Sine(Schedule):
    """Whose values no one can tell beforehand."""

    def __call__(self, step):
        return jnp.sin(jnp.asarray(step, float))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Adam(np.float32(1e-3), b1=0, b2=jnp.asarray(0.5)),
        lambda: Adam(Ramp(0.0, 1e-3)),
        lambda: Adam(Cosine(1e-3, 0.0)),
        lambda: Adam(Sine()),
        lambda: RMSProp(1e-3, decay=0.0, eps=1.0),
        lambda: StepDecay(1.0, 2.0, every=np.int64(3)),
        lambda: Annealed(PathKL(), 0.5),
        lambda: Annealed(PathKL(), Ramp(0.0, 1.0)),
        lambda: Annealed(PathKL(), Sine(), every_round=np.bool_(True)),
        lambda: Bridged(PathKL(), Ramp(1.0, 0.0), base=BASE),
        lambda: ScoreMatching(psi=-0.5),
        lambda: SurrogateELBO(num_aux=0),
        lambda: PathKL(num_particles=jnp.asarray(16), clip=None),
        lambda: MLPCritic([8, 8], skip_scale=None),
        lambda: conditional(hidden=[], activation=jnp.sin),
        lambda: conditional(key=jax.random.PRNGKey(0)),
    ],
)
def test_settings_at_the_edge_of_what_works(make):
    make()


def test_an_int_is_a_key_of_a_family():
    as_int, as_key = conditional(key=7), conditional(key=jax.random.key(7))
    assert all(jnp.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (as_int, as_key)), strict=True))


def test_settings_are_checked_where_jax_traces_what_is_around_them():
    @jax.jit
    def built(x):
        family = SemiImplicit(NormalMixing(2), conditional(key=jax.random.fold_in(jax.random.key(0), 1)))
        optimizer = Adam(Cosine(1e-3)).bind(10)
        return x + family.conditional.networks.log_variance.sigma(jnp.zeros(2)) * optimizer.learning_rate(0)

    assert built(jnp.zeros(2)).shape == (2,)
    with pytest.raises(TypeError, match="value must be a number; got"):
        jax.jit(lambda x: Constant(x)(0))(1.0)
