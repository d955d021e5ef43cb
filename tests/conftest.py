import jax
import jaxtyping
import pytest


@pytest.fixture(autouse=True, scope="module")
def few_programs_in_memory():
    """Forgets compiled programs after every file: each holds memory maps, and a process may have only so many."""
    yield
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


@pytest.fixture
def as_a_user():
    """Without the run-time type checks of the test suite, which would speak before the library's own errors."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
