import os
from itertools import count
from pathlib import Path

import jax
import jaxtyping
import pytest

_MAPS = Path("/proc/self/maps")
_TESTS = count(1)


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


@pytest.fixture(autouse=True, scope="module")
def forget_programs_of_the_last_file():
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def few_programs_in_memory():
    """Forgets compiled programs once they are many: each holds memory maps, and a process may have 65,530 of them."""
    yield
    if next(_TESTS) % 10 == 0 and _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > 20_000:
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
