"""Rules of the code base that a change may not break unnoticed."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import sivi
from sivi._storage import codec

SOURCE = Path(sivi.__file__).parent

#: A module may import only from layers listed above its own.
LAYERS = [
    ["_types", "_renamed", "_version"],
    ["_errors", "_arguments"],
    ["constraints", "_backend", "_progress", "_random"],
    ["_repeats", "_batches", "_layout", "_networks", "coordinates", "schedules"],
    ["optimizers", "stopping"],
    ["targets"],
    ["families"],
    ["samplers"],
    ["warmup"],
    ["critics"],
    ["objectives"],
    ["defaults"],
    ["metrics"],
    ["_run"],
    ["posterior"],
    ["_storage"],
    ["_fitting"],
    ["plots"],
    ["interop"],
    ["datasets"],
    ["experiments"],
    ["cli"],
]

#: Methods of the posterior are thin, and import inside them what they stand for.
LATER_LAYERS_OF_POSTERIOR = {"_storage", "interop"}

PUBLIC = {
    "sivi": """CheckpointError Constraint DiagonalGaussian FitDiverged FitFileError FitReport ImplicitMixing
        MissingLogProb NormalMixing Plateau Posterior SemiImplicit SiviError StudentT constraints coordinates correlation_cholesky
        critics datasets defaults families fit interval load metrics objectives optimizers ordered plots positive real samplers
        schedules simplex targets warmup""",
    "sivi.constraints": "Constraint correlation_cholesky interval ordered positive real simplex",
    "sivi.interop": """to_arviz""",
    "sivi.datasets": """Dataset DatasetError Description Location PosteriorReference Scale Split describe fetch find
        load load_reference names waveform_generator with_intercept""",
    "sivi.coordinates": "AffineMap DenseMap DiagonalMap IdentityMap LowRankMap RotatedMap",
    "sivi.warmup": "gaussian_warmup",
    "sivi.targets": """Banana BayesianModel BridgedTarget ControlVariate ExactTarget GaussianMixture IsotropicGaussian
        KnowsCurvature Layout LinearRegression LogDensity LogisticRegression Multimodal MultinomialRegression
        ScoreFunction Target Tempered Whitened XShaped as_target""",
    "sivi.families": """Conditional ConditionalDistribution DiagonalGaussian Family ImplicitMixing Joint
        LocationScale Mixing NormalMixing SemiImplicit StudentT""",
    "sivi.critics": "Critic CriticSettings MLPCritic StructuredCritic",
    "sivi.objectives": """Annealed Bridged CriticObjective CriticState GaussianKernel IMQKernel Kernel KernelStein
        LossObjective Objective PathKL PlugInFisher RieszKernel ScoreMatching SurrogateELBO UnbiasedELBO minimax""",
    "sivi.samplers": "SamplerRun effective_sample_size hmc nuts sgld split_rhat",
    "sivi.metrics": """CalibrationBins ClassificationScores FisherEstimate MomentErrors PredictiveScores
        classification_scores covariance_rmse energy_distance fisher_divergence knn_kl ksd mmd moment_errors noise_floor
        predictive_scores sliced_wasserstein""",
    "sivi.plots": """plot_arrows plot_critic plot_marginals plot_pairs plot_samples plot_traces""",
}

FIT_ARGUMENTS = """target dim like key family objective num_steps batch_size batching whiten precision repeats stop
    chunk_size progress callbacks checkpoint resume"""


def modules():
    return sorted(SOURCE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """The top-level rooms of the package that a module imports, at run time, anywhere in it."""
    rooms = set()
    package = path.relative_to(SOURCE).parts[:-1]
    tree = ast.parse(path.read_text())
    guarded = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - (node.level - 1)]
            parts = (*base, *(node.module.split(".") if node.module else ()))
            rooms |= {parts[0]} if parts else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sivi":
            rooms.add(".".join(node.module.split(".")[1:2]))
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("sivi.")}
    return rooms


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_from_layers_above(path):
    room = layer_of(path)
    if room in ("__init__", "py"):
        return
    rank = {name: i for i, names in enumerate(LAYERS) for name in names}
    assert room in rank, f"{room} has no place in the layers"
    allowed = {name for name, i in rank.items() if i < rank[room]} | {room}
    if room == "cli":
        allowed |= {"__version__"}
    if room == "posterior":
        allowed |= LATER_LAYERS_OF_POSTERIOR
    assert imports_of(path) <= allowed


def test_the_layer_test_sees_a_breach():
    assert imports_of(SOURCE / "_fitting" / "fit.py") >= {"posterior", "defaults", "targets"}
    assert imports_of(SOURCE / "targets" / "banana.py") == {"_arguments", "_types", "targets"}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names(name):
    __import__(name)
    module = sys.modules[name]
    assert sorted(module.__all__) == sorted(PUBLIC[name].split())
    assert all(hasattr(module, public) for public in module.__all__)


def test_arguments_of_fit():
    import inspect

    assert list(inspect.signature(sivi.fit).parameters) == FIT_ARGUMENTS.split()


def test_every_public_name_has_a_docstring():
    for name in PUBLIC:
        module = sys.modules[name]
        for public in module.__all__:
            assert getattr(module, public).__doc__, f"{name}.{public}"


def test_class_names_are_unique_since_files_refer_to_them():
    names = Counter(
        node.name
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
    assert "SemiImplicit" in codec._library_classes()
    assert "Posterior" not in codec._library_classes()


def calls_in(path: Path) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_library_code_never_prints_configures_or_unpickles(path):
    calls = calls_in(path)
    assert not calls & {"jax.config.update", "pickle.load", "pickle.loads", "eval", "exec"}
    assert "print" not in calls or layer_of(path) == "cli"
    assert "allow_pickle=True" not in path.read_text()


def test_import_is_silent_and_leaves_jax_alone():
    code = (
        "import jax; before = dict(jax.config.values); import sivi, sivi.cli; "
        "assert dict(jax.config.values) == before; "
        "import sys; assert 'matplotlib' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
