"""The public interface: what is called, with arguments that are right, and what must hold of what comes back."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sivi


class Entry(NamedTuple):
    """One public function or class.

    Attributes:
        room: `settings`, `metrics`, `plots`, `data`, `posterior`, `fit`, `samplers` or `verdict`.
        path: Its name from `sivi` on.
        arguments: Makes the right arguments, by name, in a folder.
        broken: Which of them are made wrong; all when empty.
        works: Whether what came back can be used; None if anything can.
        compiles: Whether a call that is not refused compiles something that takes long.
    """

    room: str
    path: str
    arguments: Callable[[Path], dict[str, Any]]
    broken: tuple[str, ...] = ()
    works: Callable[[Any], bool] | None = None
    compiles: bool = False


def quadratic(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2)


#: A folder for arguments of which only the names are looked at.
NOWHERE = Path("nowhere")
X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.random.default_rng(1).normal(size=(10, 2)) + 0.5
INPUTS, LABELS = X[:6], np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
CHAINS = np.random.default_rng(2).normal(size=(2, 20, 2))
U = jnp.asarray([0.3, -0.4])


def _finite(value: Any) -> bool:
    return all(
        np.isfinite(np.asarray(leaf)).all()
        for leaf in jax.tree.leaves(value)
        if (hasattr(leaf, "dtype") and np.asarray(leaf).dtype.kind == "f") or isinstance(leaf, float)
    )


def _schedule(schedule: Any) -> bool:
    bound = schedule.bind(10)
    return _finite([bound(step) for step in (0, 3, 10)])


def _optimiser(optimiser: Any) -> bool:
    """Whether one update leads downhill and stays finite."""
    transform = optimiser.bind(10).build()
    x = jnp.asarray([1.0, -1.0])
    state, start = transform.init(x), x
    for _ in range(3):
        updates, state = transform.update(x, state, x)
        x = x + updates
    return (_finite(x) and bool(jnp.sum(x**2) <= jnp.sum(start**2) * (1 + 1e-6))) or float(jnp.abs(updates).max()) > 1.0


def _family(family: Any) -> bool:
    return _finite(family.sample(jax.random.key(0)))


def _conditional(conditional: Any) -> bool:
    at = conditional.at(jnp.zeros(conditional.latent_dim))
    return _finite(at.transform(jnp.ones(conditional.dim)))


def _map(affine: Any) -> bool:
    u = jnp.linspace(-1.0, 1.0, affine.dim)
    return _finite((affine.forward(u), affine.log_det)) and bool(
        jnp.allclose(affine.inverse(affine.forward(u)), u, atol=1e-2)
    )


def _target(target: Any) -> bool:
    return bool(jnp.isfinite(target.log_prob(jnp.full(target.dim, 0.1)))) if target.knows_log_prob else True


def _constraint(constraint: Any) -> bool:
    return _finite(constraint.forward(jnp.full(constraint.size, 0.1)))


def _path(objective: Any) -> bool:
    return objective.bind(10) is not None


@functools.cache
def posterior() -> Any:
    """A fit of two unknowns that took a few updates."""
    return sivi.fit(
        quadratic,
        dim=2,
        num_steps=4,
        whiten=None,
        progress=False,
        objective=sivi.objectives.ScoreMatching(num_particles=4, critic=sivi.critics.MLPCritic((4,))),
        family=family(),
    )


def family() -> Any:
    conditional = sivi.DiagonalGaussian(2, 2, hidden=(4,), key=jax.random.key(0))
    return sivi.SemiImplicit(sivi.NormalMixing(2), conditional)


@functools.cache
def logistic() -> Any:
    return sivi.targets.LogisticRegression(INPUTS, LABELS)


@functools.cache
def network() -> Any:
    """With 13 unknowns; None in version 0.1, on which the cases run too, and whose names they do not find."""
    if not hasattr(sivi.targets, "BayesianNeuralNetwork"):
        return None
    return sivi.targets.BayesianNeuralNetwork(X, X[:, 0], (3,), noise_precision=1.0, weight_precision=1.0)


def _objective() -> Any:
    return sivi.objectives.ScoreMatching(num_particles=4, critic=sivi.critics.MLPCritic((4,)))


def _networks(**more: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda folder: {
        "latent_dim": 2,
        "dim": 2,
        "hidden": (4,),
        "activation": "silu",
        "skip": True,
        "skip_scale": 1.0,
        "final_scale": 1.0,
        "scale": "global",
        "sigma_init": 1.0,
        "sigma_floor": 1e-3,
        "floor": "smooth",
        "key": jax.random.key(0),
        **more,
    }


def _is(**arguments: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda folder: dict(arguments)


@functools.cache
def entries() -> list[Entry]:
    """All of them, in an order that does not change."""
    adam, isotropic = sivi.optimizers.Adam(1e-3), sivi.targets.IsotropicGaussian(2)
    particles = {"num_particles": 4, "optimizer": adam}
    with_critic = {
        **particles,
        "critic_steps": 1,
        "critic_particles": 4,
        "critic_warmup": 0,
        "critic_optimizer": adam,
        "critic": sivi.critics.MLPCritic((4,)),
    }
    minimax = {**with_critic, "psi": 1.0, "split": None}
    rotated = _rotated()
    sampled = {"target": quadratic, "dim": 2, "like": None, "key": 0, "init": None, "chunk_size": 5, "progress": False}
    chains = {**sampled, "num_chains": 2, "num_samples": 4, "num_warmup": 20, "target_acceptance": 0.8}
    settings = [
        ("schedules.Constant", _is(value=1.0), _schedule),
        ("schedules.StepDecay", _is(initial=1.0, factor=0.5, every=5), _schedule),
        ("schedules.Cosine", _is(initial=1.0, final=0.1, hold=0.2), _schedule),
        ("schedules.Ramp", _is(start=0.1, end=1.0, until=0.5, after=0.1), _schedule),
        ("optimizers.Adam", _is(learning_rate=1e-3, b1=0.9, b2=0.9, eps=1e-8), _optimiser),
        ("optimizers.RMSProp", _is(learning_rate=1e-3, decay=0.9, eps=1e-8), _optimiser),
        ("optimizers.AdaGrad", _is(learning_rate=1e-3, decay=0.9, eps=1e-8), _optimiser),
        ("Plateau", _is(tolerance=0.1, every=10, blocks=4, after=0.5, z=2.0, decay=0.5), None),
        ("Doubling", _is(first=10, share=0.2, tolerance=0.0, tail=0.2, quiet=None, restart=False), None),
        ("critics.MLPCritic", _is(hidden=(4,), activation="silu", skip=True, final_scale=1.0, skip_scale=0.5), None),
        ("critics.StructuredCritic", _is(hidden=(4,), activation="silu", final_scale=1.0), None),
        ("objectives.PathKL", _is(**with_critic, clip=10.0), _path),
        ("objectives.ScoreMatching", _is(**minimax), _path),
        ("objectives.PlugInFisher", _is(**minimax), _path),
        ("objectives.MixtureKL", _is(**particles, num_aux=0, gradient="path", clip=10.0), _path),
        ("objectives.KernelStein", _is(**particles, kernel=sivi.objectives.IMQKernel(), statistic="U"), _path),
        ("objectives.SurrogateELBO", _is(**particles, num_aux=4, block_size=None), _path),
        (
            "objectives.UnbiasedELBO",
            _is(
                **particles,
                num_iterations=4,
                burn_in=2,
                num_leapfrog=2,
                step_size=0.1,
                target_acceptance=0.8,
                jitter=0.1,
            ),
            _path,
        ),
        ("objectives.Annealed", _is(objective=_objective(), schedule=0.5, base=isotropic, every_round=False), _path),
        ("objectives.Bridged", _is(objective=_objective(), schedule=0.5, base=isotropic, num_samples=4), _path),
        ("objectives.GaussianKernel", _is(bandwidth=1.0, factor=0.5), None),
        ("objectives.IMQKernel", _is(bandwidth=1.0, factor=0.5), None),
        ("families.NormalMixing", _is(dim=2), None),
        ("families.ImplicitMixing", _is(noise_dim=2, dim=2, hidden=(4,), activation="silu", skip=True, key=0), None),
        ("families.DiagonalGaussian", _networks(), _conditional),
        ("families.DenseGaussian", _networks(), _conditional),
        ("families.StudentT", _networks(df=5.0), _conditional),
        ("families.LocationScale", _networks(), None),
        ("families.SemiImplicit", lambda _: {"mixing": family().mixing, "conditional": family().conditional}, _family),
        ("coordinates.IdentityMap", _is(dim=2), _map),
        ("coordinates.DiagonalMap", _is(mean=np.zeros(3), scale=np.ones(3)), _map),
        ("coordinates.DenseMap", _is(mean=np.zeros(2), matrix=np.eye(2)), _map),
        (
            "coordinates.LowRankMap",
            _is(mean=np.zeros(3), scale=np.ones(3), directions=np.array([[0.6], [0.8], [0.0]]), stretch=np.ones(1)),
            _map,
        ),
        ("coordinates.RotatedMap", _is(**rotated), _map),
        ("targets.Banana", _is(correlation=0.5), _target),
        ("targets.IsotropicGaussian", _is(dim=2, sd=1.0), _target),
        ("targets.GaussianMixture", _is(means=np.zeros((1, 2)), covariances=np.eye(2)[None], weights=[1.0]), _target),
        ("targets.LinearRegression", _is(inputs=INPUTS, outputs=LABELS, prior_scale=1.0, shape=2.0, rate=1.0), _target),
        ("targets.LogisticRegression", _is(inputs=INPUTS, labels=LABELS, prior_scale=1.0), _target),
        (
            "targets.MultinomialRegression",
            _is(inputs=INPUTS, labels=LABELS.astype(int), num_classes=2, prior_scale=1.0),
            _target,
        ),
        (
            "targets.BayesianNeuralNetwork",
            _is(
                inputs=X,
                targets=X[:, 0],
                hidden=(3,),
                activation="tanh",
                likelihood="student-t",
                noise_precision=1.0,
                weight_precision=(1.0, 2.0),
                degrees_of_freedom=5.0,
                judged_at=X,
            ),
            _target,
        ),
        ("targets.GammaPrior", _is(shape=1.0, rate=2.0), None),
        ("targets.LogDensity", _is(function=quadratic, dim=2), None),
        ("targets.ScoreFunction", _is(function=lambda x: -x, dim=2), None),
        ("targets.Whitened", _is(target=isotropic, affine=sivi.coordinates.IdentityMap(2)), _target),
        ("targets.Tempered", _is(target=isotropic, beta=jnp.asarray(0.5), base=isotropic), _target),
        ("targets.BridgedTarget", _is(target=isotropic, base=isotropic, log_odds=jnp.asarray(0.0)), _target),
        ("targets.ControlVariate", _is(target=logistic(), point=jnp.zeros(2), score_at_point=jnp.zeros(2)), _target),
        ("targets.as_target", _is(target=quadratic, dim=2, like=None), _target),
        (
            "model",
            _is(
                log_prior=quadratic,
                log_likelihood=lambda x, datum: -0.5 * (datum["y"] - x[0]) ** 2,
                data={"y": X[:, 0]},
                dim=2,
                like=None,
                predict=None,
                sample_datum=None,
                observed=None,
            ),
            _target,
        ),
        ("defaults.recipe", _is(dim=2), None),
        *((f"constraints.{name}", _is(shape=(2,)), _constraint) for name in ("real", "positive")),
        ("constraints.lower", _is(low=0.0, shape=(2,)), _constraint),
        ("constraints.upper", _is(high=0.0, shape=(2,)), _constraint),
        ("constraints.interval", _is(low=0.0, high=1.0, shape=(2,)), _constraint),
        *(
            (f"constraints.{name}", _is(n=3, shape=(2,)), _constraint)
            for name in (
                "simplex",
                "ordered",
                "positive_ordered",
                "correlation_cholesky",
                "covariance_cholesky",
                "unit_vector",
            )
        ),
    ]
    found = [Entry("settings", path, make, (), works) for path, make, works in settings]
    found += [
        Entry("metrics", f"metrics.{path}", make, broken, _finite)
        for path, make, broken in (
            ("covariance_rmse", _is(draws=X, reference=Y), ()),
            ("energy_distance", _is(draws_p=X, draws_q=Y), ()),
            ("mmd", _is(draws_p=X, draws_q=Y, bandwidth=1.0), ()),
            ("knn_kl", _is(draws_p=X, draws_q=Y, k=2), ()),
            ("moment_errors", _is(draws=X, reference=Y, names=None), ()),
            ("sliced_wasserstein", _is(draws_p=X, draws_q=Y, order=1, num_slices=4, key=0, scale=None), ()),
            ("ksd", _is(draws=X, target=isotropic, kernel="imq", bandwidth=1.0), ()),
            ("predictive_scores", lambda _: {"model": logistic(), "draws": X, "data": (INPUTS, LABELS)}, ()),
            (
                "classification_scores",
                lambda _: {"model": logistic(), "draws": X, "data": (INPUTS, LABELS), "num_bins": 5},
                (),
            ),
            (
                "regression_scores",
                lambda _: {"model": network(), "draws": np.zeros((4, 13)), "inputs": X, "targets": X[:, 0]},
                (),
            ),
            (
                "noise_floor",
                _is(
                    distance=sivi.metrics.energy_distance,
                    sample=lambda key, num: np.asarray(jax.random.normal(key, (num, 2))),
                    num_samples=8,
                    repeats=3,
                    key=0,
                ),
                (),
            ),
        )
    ]
    found += [
        Entry(
            "metrics",
            "metrics.fisher_divergence",
            lambda _: {
                "fit": family(),
                "target": isotropic,
                "key": 0,
                "score_q": None,
                "num_samples": 16,
                "num_steps": 2,
                "num_particles": 4,
                "critic": sivi.critics.MLPCritic((4,)),
                "optimizer": adam,
            },
            works=lambda estimate: np.isfinite(estimate.value),
            compiles=True,
        ),
        Entry("metrics", "samplers.split_rhat", _is(draws=CHAINS)),
        Entry("metrics", "samplers.effective_sample_size", _is(draws=CHAINS)),
        Entry("plots", "plots.plot_arrows", _is(points=X, arrows=X, ax=None, scale=1.0)),
        Entry("plots", "plots.plot_critic", _is(field=lambda x: -x, draws=X, ax=None, scale=1.0, corners=None)),
        Entry("plots", "plots.plot_marginals", _is(draws=X, reference=Y, names=["a", "b"], labels=("a", "b"))),
        Entry("plots", "plots.plot_pairs", _is(draws=X, reference=Y, names=["a", "b"], labels=("a", "b"), figure=None)),
        Entry("plots", "plots.plot_samples", _is(draws=X, target=isotropic, ax=None, label="x", corners=None)),
        Entry("plots", "plots.plot_traces", _is(history={"loss": np.ones(9)}, names=["loss"], axes=None)),
        Entry("data", "datasets.describe", _is(name="waveform")),
        Entry("data", "datasets.find", _is(name="waveform")),
        Entry("data", "datasets.load", _is(name="waveform", download=False, progress=False), ("name",)),
        Entry("data", "datasets.load_reference", _is(name="waveform")),
        Entry("data", "datasets.waveform_generator", _is(key=0, num_data=4), (), _finite),
        Entry("data", "datasets.with_intercept", _is(inputs=X), (), _finite),
        Entry("posterior", "POSTERIOR.sample", _is(num_samples=5, key=0, by_repeat=False), (), _finite),
        Entry("posterior", "POSTERIOR.unconstrained", _is(num_samples=5, key=0, by_repeat=False), (), _finite),
        Entry("posterior", "POSTERIOR.log_prob", _is(x=np.zeros((2, 2)), key=0, num_aux=8), ("key", "num_aux")),
        Entry("posterior", "POSTERIOR.log_prob", _is(x=np.zeros((2, 2)), key=0, num_aux=8), ("x",)),
        Entry("posterior", "POSTERIOR.repeat", _is(index=0)),
        Entry("posterior", "POSTERIOR.save", lambda folder: {"path": folder / "fit.sivi"}),
        Entry(
            "posterior",
            "load",
            lambda folder: {"path": saved(folder), "target": None, "family": None, "objective": None},
        ),
        Entry("posterior", "load_verdict", lambda folder: {"path": saved(folder)}),
        Entry(
            "verdict",
            "check",
            lambda _: {"posterior": posterior(), "target": None, "key": 0, "effort": 0.01},
            compiles=True,
        ),
        Entry(
            "verdict",
            "compare",
            lambda _: {"posterior": X, "target": isotropic, "key": 0, "reference": Y},
            ("posterior", "reference", "key"),
            compiles=True,
        ),
        Entry(
            "fit",
            "fit",
            lambda folder: {
                "target": quadratic,
                "dim": 2,
                "like": None,
                "key": 0,
                "family": family(),
                "objective": _objective(),
                "num_steps": 2,
                "batch_size": None,
                "batching": None,
                "whiten": None,
                "precision": None,
                "repeats": 1,
                "stop": None,
                "chunk_size": 2,
                "progress": False,
                "callbacks": (),
                "checkpoint": folder / "checkpoint.sivi",
                "resume": None,
            },
            works=lambda posterior: _finite(posterior.sample(4, key=0)),
            compiles=True,
        ),
        Entry("samplers", "samplers.hmc", _is(**chains, num_leapfrog=2, step_size=None), compiles=True, works=_run),
        Entry("samplers", "samplers.nuts", _is(**chains, max_doublings=3), compiles=True, works=_run),
        Entry(
            "samplers",
            "samplers.sgld",
            _is(**sampled, num_particles=3, num_steps=4, step_size=0.1, batch_size=None, num_samples=1, thin=1),
            compiles=True,
            works=_run,
        ),
        Entry(
            "samplers",
            "samplers.svgd",
            _is(**sampled, num_particles=3, num_steps=4, kernel=None, optimizer=adam, batch_size=None),
            compiles=True,
            works=_run,
        ),
    ]
    return found


def _run(run: Any) -> bool:
    return bool(np.isfinite(run.draws).all())


def _rotated() -> dict[str, Any]:
    rotation = sivi.coordinates.rotation
    view = getattr(rotation, "ArrayAsMatrix", None) or rotation.AxisView
    turn = jnp.asarray([[0.6, -0.8], [0.8, 0.6]])
    return {
        "mean": jnp.zeros(2),
        "scale": jnp.ones(2),
        "rotation": rotation.AxisRotation((view(0, (2,), 0),), ((None, turn),)),
        "inner": sivi.coordinates.DiagonalMap(jnp.zeros(2), jnp.asarray([10.0, 1.0])),
    }


def saved(folder: Path) -> Path:
    """The posterior as a file."""
    path = folder / "saved.sivi"
    if folder != NOWHERE and not path.exists():
        posterior().save(path)
    return path


def resolve(path: str) -> Any:
    """What a name stands for in this version of the library; None if it has no such public thing."""
    *rooms, name = path.split(".")
    found: Any = sivi
    if rooms == ["POSTERIOR"]:
        found, rooms = posterior(), []
    try:
        for room in (*rooms, name):
            found = getattr(found, room)
            if getattr(found, "IS_PRIVATE", False):
                return None
    except AttributeError:
        return None
    return found
