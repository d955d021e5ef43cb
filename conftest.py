"""How the suite runs: one thread of XLA per worker, one cache of compiled programs for all of them, nothing online.

It stands at the root, so that its fixtures serve the examples in the docstrings of `src` as well as `tests`. The
settings are environment variables, so that the tests that start a Python of their own hand them on. A variable that is
already set stays as it is.
"""

import os
import shutil
import tempfile
from importlib.metadata import version
from itertools import count
from pathlib import Path

# Two workers with one thread each do more on two cores than two workers with two. Without most optimisations (below)
# XLA's older way to make loops of fusions compiles sooner, and a program in one piece holds fewer memory maps. These
# flags are known to have their names in these versions, and XLA stops at names that it does not know. All of this is
# read when numpy, scipy and the backend of JAX start.
XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"
if version("jaxlib").startswith("0.9."):
    XLA_FLAGS += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
ONE_THREAD = {"XLA_FLAGS": XLA_FLAGS, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
for variable, value in ONE_THREAD.items():
    os.environ.setdefault(variable, value)

# The first process makes the folder, and the workers find its name. Small programs are kept too: there are thousands,
# and reading one takes less time than compiling it. XLA logs the CPU features of every program that it reads,
# as an error; level 3 is silent.
CACHE = "JAX_COMPILATION_CACHE_DIR"
OWN_CACHE = CACHE not in os.environ
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if OWN_CACHE:
    os.environ[CACHE] = tempfile.mkdtemp(prefix="sivi-tests-jax-")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax  # noqa: E402
import jaxtyping  # noqa: E402
import pytest  # noqa: E402

if OWN_CACHE:  # once more for a JAX that some plugin has imported before
    jax.config.update("jax_compilation_cache_dir", os.environ[CACHE])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

#: Memory maps at which compiled programs are forgotten. A process may have 65,530, and one fit holds 500 to 1,500, so
#: the four tests between two looks, which take tens of milliseconds, would have to hold seventeen fits to pass it.
MANY_MAPS = 40_000
_MAPS = Path("/proc/self/maps")
_TESTS = count(1)


def pytest_unconfigure(config):
    if OWN_CACHE:
        shutil.rmtree(os.environ[CACHE], ignore_errors=True)


def pytest_collection_modifyitems(config, items):
    """Without the folder of data, the tests that need it are deselected; with it, they fail if something is missing."""
    if not os.environ.get("SIVI_DATA_DIR"):
        needing = [item for item in items if item.get_closest_marker("needs_data")]
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if not item.get_closest_marker("needs_data")]


@pytest.fixture(autouse=True, scope="session")
def offline(tmp_path_factory):
    """No test reaches beyond this machine, or sees the user's cache: all else goes to a proxy that is not there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIVI_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "no-cache"))
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            for variable in (name, name.upper()):
                patch.setenv(variable, "http://127.0.0.1:9")
        for variable in ("no_proxy", "NO_PROXY"):
            patch.setenv(variable, "127.0.0.1")
        yield


@pytest.fixture
def data_cache(monkeypatch, tmp_path):
    """An empty cache of datasets, and no folder of data."""
    monkeypatch.delenv("SIVI_DATA_DIR", raising=False)
    monkeypatch.setenv("SIVI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def few_programs_in_memory():
    """Forgets compiled programs once they are many; those that took long come back from the cache of files."""
    yield
    if next(_TESTS) % 4 == 0 and _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def precision(request):
    """Runs a test once in float32 and once in float64."""
    with jax.enable_x64(request.param):
        yield "float64" if request.param else "float32"


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


# Programs of a few updates compile much sooner without most optimisations; the environment variable is for a Python
# that a test starts.
def _optimise(all_of_them: bool) -> None:
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(not all_of_them)
    jax.config.update("jax_disable_most_optimizations", not all_of_them)


_optimise(False)


@pytest.fixture(autouse=True)
def optimisations(request):
    """All optimisations for tests with the marker `optimised`, as a user's programs have them.

    The switch is not part of what JAX finds a compiled program by, so programs are forgotten when it changes.
    """
    if request.node.get_closest_marker("optimised") is None:
        yield
        return
    jax.clear_caches()
    _optimise(True)
    yield
    _optimise(False)
    jax.clear_caches()


def short_fit(fit, default_objective=False):
    """`sivi.fit` with a few updates, in x itself, of an objective that compiles soon: to see that examples run."""
    import sivi  # not before the run-time type checks are set up

    def short(*arguments, **settings):
        settings = {"whiten": None, "progress": False} | settings
        if not default_objective and not settings.keys() & {"objective", "resume", "family"}:
            quick = sivi.objectives.PathKL(num_particles=16, critic_steps=1, critic_warmup=0)
            settings["objective"] = sivi.objectives.Annealed(quick)
        steps = 10 if settings.get("num_steps") is None and "resume" not in settings else settings.get("num_steps")
        return fit(*arguments, **settings | {"num_steps": steps and min(steps, 50)})

    return short


@pytest.fixture(autouse=True)
def short_fits_in_doctests(request, monkeypatch):
    if isinstance(request.node, pytest.DoctestItem):
        import sivi

        monkeypatch.setattr(sivi, "fit", short_fit(sivi.fit))


@pytest.fixture
def as_a_user():
    """Without the run-time type checks of the test suite, which would speak before the library's own errors."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
