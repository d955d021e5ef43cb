"""The cache of compiled programs of the command line: where it is, when it is refused, and what it finds."""

import argparse
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sivi.cli import _cache, main
from sivi.cli._cache import default_folder, make_private, trim, use_cache


@pytest.fixture
def options(monkeypatch, tmp_path):
    """What a command sets, with a cache in a folder of the test; neither JAX nor the environment changes."""
    found = {}
    config = SimpleNamespace(jax_compilation_cache_dir=None, update=found.__setitem__)
    monkeypatch.setattr(_cache, "jax", SimpleNamespace(config=config))
    monkeypatch.setattr(_cache.os, "environ", {"XDG_CACHE_HOME": str(tmp_path)})
    return found


def command(**options):
    return argparse.Namespace(**options)


def test_the_folder_is_in_the_cache_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "sivi" / "xla"
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert default_folder() == Path("/home/me/.cache/sivi/xla")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_folder() == Path("/home/me/Library/Caches/sivi/xla")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert default_folder() == Path("/local/sivi/Cache/xla")


def test_a_command_that_compiles_keeps_all_its_programs(options, tmp_path):
    use_cache(command(no_cache=False))
    folder = tmp_path / "sivi" / "xla"
    assert options.pop("jax_logging_level") == "CRITICAL"
    assert options == {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    assert folder.stat().st_mode & 0o777 == 0o700
    # Processes that the command starts read the same.
    assert {name: str(value) for name, value in options.items()}.items() <= {
        name.lower(): value for name, value in _cache.os.environ.items()
    }.items()


def test_no_cache_means_none_at_all(options, tmp_path):
    use_cache(command(no_cache=True))
    assert options == {"jax_enable_compilation_cache": False}
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_compiles_nothing_is_left_alone(options):
    use_cache(command())
    assert options == {}


def test_the_folder_that_the_user_names_is_used_as_it_is(options, tmp_path):
    _cache.jax.config.jax_compilation_cache_dir = "/elsewhere"
    use_cache(command(no_cache=False))
    assert options.keys() == {"jax_logging_level"}
    assert list(tmp_path.iterdir()) == []


def test_the_level_of_the_log_that_the_user_sets_stays(options):
    _cache.os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    use_cache(command(no_cache=False))
    assert "jax_logging_level" not in options
    assert _cache.os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owner and mode here")
class TestPrivate:
    @pytest.mark.parametrize("mode", [0o770, 0o707])
    def test_not_if_others_can_write(self, tmp_path, mode):
        folder = tmp_path / "xla"
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(OSError, match="other users can write to it"):
            make_private(folder)

    def test_not_if_others_can_replace_it(self, tmp_path):
        parent = tmp_path / "open"
        parent.mkdir()
        parent.chmod(0o777)
        with pytest.raises(OSError, match=f"other users can write to {parent}"):
            make_private(parent / "xla")
        parent.chmod(0o1777)  # where everyone removes what is his own
        make_private(parent / "xla")

    def test_not_if_it_is_of_another_user(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
        with pytest.raises(OSError, match="it belongs to another user"):
            make_private(tmp_path / "xla")

    def test_a_refused_folder_costs_one_line_and_nothing_else(self, options, tmp_path, caplog):
        (tmp_path / "sivi").write_text("a file")
        use_cache(command(no_cache=False))
        assert options.keys() == {"jax_logging_level"}
        (record,) = caplog.records
        assert (record.name, record.levelno) == ("sivi", logging.WARNING)
        assert record.getMessage().startswith("sivi: compiled programs are not kept: ")
        assert record.getMessage().endswith("/sivi/xla: Not a directory")


def test_what_was_not_used_for_longest_is_removed(tmp_path):
    for i, name in enumerate("dcba"):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (i, i))
    (tmp_path / "folder").mkdir()
    trim(tmp_path, 25)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "folder"]
    trim(tmp_path, 25)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["demo", "fit", "check", "paper run"])
def test_all_commands_that_compile_have_the_option(capsys, name):
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    assert "--no-cache" in capsys.readouterr().out


DATA = """
import os
import jax.numpy as jnp, numpy as np, sivi
random = np.random.default_rng(int(os.environ["DATA"]))
inputs = random.normal(size=(30, 2))
labels = (random.random(30) < 1 / (1 + np.exp(-inputs @ [1.0, -2.0]))).astype(float)
"""
MODELS = {
    "model": "target = sivi.targets.LogisticRegression(inputs, labels)\n",
    "function": """
dim = 2
x0, y0 = jnp.asarray(inputs), jnp.asarray(labels)
def log_density(b):
    logits = x0 @ b
    return jnp.sum(y0 * logits - jnp.logaddexp(0.0, logits)) - 0.5 * jnp.sum(b**2)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_other_data_of_the_same_shape_compile_nothing(tmp_path, kind):
    """With the check of the fit, whose programs depend on how many modes there are and on nothing else."""
    model = tmp_path / "model.py"
    model.write_text(DATA + MODELS[kind])
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_COMP", "JAX_PERS"))}

    def entries(data):
        environment = ours | {"DATA": data, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TF_CPP_MIN_LOG_LEVEL": "1"}
        arguments = ["fit", str(model), "--out", str(tmp_path / data), "--steps", "40"]
        run = subprocess.run(
            [sys.executable, "-m", "sivi.cli", *arguments],
            capture_output=True, text=True, timeout=600, env=environment, check=False,
        )  # fmt: skip
        assert run.returncode in (0, 4), run.stderr
        lines = [line for line in run.stderr.splitlines() if not line.startswith("sivi: warning: ")]
        assert all(line.startswith("sivi.fit: ") for line in lines), run.stderr
        assert lines[0] == "sivi.fit: compiling"
        return {path.name.rpartition("-")[0] for path in (tmp_path / "cache" / "sivi" / "xla").iterdir()}

    first = entries("1")
    assert any("run_chunk" in name for name in first)  # which a thread compiles
    assert any("steps" in name for name in first)
    assert entries("2") == first
