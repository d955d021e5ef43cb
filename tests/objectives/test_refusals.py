"""What an objective cannot handle it refuses before anything compiles, with a sentence; under Annealed too."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import ANNEALED_OBJECTIVES, OBJECTIVES, small_family
from sivi.families.base import Family, Mixing
from sivi.objectives import Annealed, KernelStein, SurrogateELBO, UnbiasedELBO
from sivi.targets import Banana, ScoreFunction

pytestmark = pytest.mark.usefixtures("as_a_user")

#: The objective itself, and the objective within Annealed.
AROUND = {"plain": lambda objective: objective, "annealed": Annealed}


def fit(objective, family=None, target=None):
    family = small_family() if family is None else family
    target = Banana() if target is None else target
    return sivi.fit(target, family=family, objective=objective, num_steps=2, whiten=None, progress=False)


def on_the_host(x):
    """2x, by a function that JAX cannot differentiate."""
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda v: 2.0 * np.asarray(v), shape, x, vmap_method="broadcast_all")


class PointCloud(Family):
    """A family, but not of two layers."""

    points: jax.Array
    dim: int = eqx.field(static=True, default=2)

    def sample(self, key):
        return jax.random.choice(key, self.points)

    def log_prob(self, key, x, num_aux):
        return jnp.zeros(()), jnp.zeros(())


class NoiseWithoutDensity(Mixing):
    dim: int = eqx.field(static=True, default=3)

    def sample_noise(self, key, shape=()):
        return jax.random.normal(key, (*shape, 3))

    def noise_log_prob(self, noise):
        raise NotImplementedError("an implicit noise")

    def transform(self, noise):
        return noise


class TransformWithoutDerivative(NoiseWithoutDensity):
    def noise_log_prob(self, noise):
        return -0.5 * jnp.sum(noise**2)

    def transform(self, noise):
        return on_the_host(noise)


@pytest.mark.parametrize("name", OBJECTIVES | ANNEALED_OBJECTIVES)
def test_every_objective_refuses_a_family_without_two_layers(name):
    objective = (OBJECTIVES | ANNEALED_OBJECTIVES)[name]()
    inner = getattr(objective, "objective", objective)
    sentence = rf"^{type(inner).__name__} needs a SemiImplicit family, .* got PointCloud\.$"
    with pytest.raises(TypeError, match=sentence):
        fit(objective, PointCloud(jnp.ones((5, 2))))


@pytest.fixture
def compilations():
    """The names of the events of XLA's compiler while a test runs."""
    seen = []

    def listen(event, duration, **kwargs):
        seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield lambda: [event for event in seen if "backend_compile" in event]
    jax.monitoring.unregister_event_duration_listener(listen)


def test_shapes_of_a_family_are_enough_and_nothing_compiles(compilations):
    family, target = eqx.filter_eval_shape(small_family), Banana()
    bound = {name: make().bind(10) for name, make in (OBJECTIVES | ANNEALED_OBJECTIVES).items()}
    jax.clear_caches()
    before = compilations()
    for name, objective in bound.items():
        objective.check(family, target)
        assert compilations() == before, name
    jnp.arange(17.0)[3:5].sum()  # the count does see a program that compiles
    assert len(compilations()) > len(before)


@pytest.mark.parametrize("around", AROUND)
def test_surrogate_elbo_refuses_a_target_that_knows_only_its_score(around):
    objective = AROUND[around](SurrogateELBO(num_particles=4, num_aux=2))
    sentence = r"^SurrogateELBO needs the target's log density, and ScoreFunction knows only its score; .*\.$"
    with pytest.raises(sivi.MissingLogProb, match=sentence):
        fit(objective, target=ScoreFunction(lambda x: -x, dim=2))


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("mixing", [NoiseWithoutDensity, TransformWithoutDerivative])
def test_unbiased_elbo_refuses_a_mixing_layer_that_its_inner_chain_cannot_follow(mixing, around):
    family = sivi.SemiImplicit(mixing(), small_family().conditional)
    objective = AROUND[around](UnbiasedELBO(num_particles=4))
    sentence = rf"^UnbiasedELBO needs the density of the mixing .* and its gradient, and {mixing.__name__} .*has none"
    with pytest.raises(TypeError, match=sentence):
        fit(objective, family)


def test_surrogate_elbo_takes_noise_without_a_density():
    family = sivi.SemiImplicit(NoiseWithoutDensity(), small_family().conditional)
    assert fit(SurrogateELBO(num_particles=4, num_aux=2), family).step == 2


@pytest.mark.parametrize("around", AROUND)
def test_kernel_stein_refuses_a_score_without_a_derivative(around):
    objective = AROUND[around](KernelStein(num_particles=4))
    with pytest.raises(TypeError, match=r"^KernelStein differentiates the target's score, and this target's has no"):
        fit(objective, target=ScoreFunction(on_the_host, dim=2))


def test_a_fit_refuses_before_the_warm_up_and_before_anything_compiles(compilations):
    target = sivi.targets.ScoreFunction(lambda x: -x, dim=2)
    jax.clear_caches()
    with pytest.raises(sivi.MissingLogProb, match="SurrogateELBO needs the target's log density"):
        sivi.fit(target, objective=sivi.objectives.SurrogateELBO(), progress=False)
    assert compilations() == []
