"""`sivi check`, and the check of `sivi fit`: exit codes, files, and one sentence for bad input."""

from functools import partial

import numpy as np
import pytest

import sivi
from sivi.cli import _check, _fit, main
from sivi.verdict.findings import Finding
from sivi.verdict.result import Cost, Verdict

MODEL = "import jax.numpy as jnp\ndim = 2\ndef log_density(x):\n    return -0.5 * jnp.sum((x - 1.0) ** 2)\n"
LEVELS = ["no fault found", "doubtful", "bad"]


def verdict(level):
    found = () if level == LEVELS[0] else (Finding("mean", ("x[0]",), 0.5, 0.01, level, f"It is {level}."),)
    points = np.random.default_rng(0).normal(size=(64, 2))
    return Verdict(found, (), Cost(1.0, 100), (), sivi.targets.Layout.vector(2), points, points, 0.1)


@pytest.fixture
def small(monkeypatch):
    """With an objective that is quick to compile in place of the default one."""
    objective = sivi.objectives.ScoreMatching(num_particles=8, critic=sivi.critics.MLPCritic((4,)))
    monkeypatch.setattr(_fit, "fit", partial(sivi.fit, objective=objective))


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def fit(model, out, *arguments):
    common = ["fit", model, "--out", out, "--steps", 10, "--num-samples", 50, "--quiet", "--no-whiten"]
    return main([str(argument) for argument in [*common, *arguments]])


@pytest.fixture
def made(small, model, tmp_path, capsys):
    """A fit file."""
    assert fit(model, tmp_path / "run", "--no-check") == 0
    assert not (tmp_path / "run" / "verdict.txt").exists()
    capsys.readouterr()
    return tmp_path / "run" / "fit.sivi"


def fails(capsys, *arguments):
    """The one sentence that a failing command prints."""
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


@pytest.mark.parametrize(("level", "of_check", "of_fit"), list(zip(LEVELS, (0, 3, 4), (0, 0, 4), strict=True)))
def test_exit_codes_and_files(small, model, tmp_path, capsys, monkeypatch, level, of_check, of_fit):
    given = []

    def check(posterior, **settings):
        given.append(settings)
        return verdict(level)

    monkeypatch.setattr(_fit, "check", check)
    monkeypatch.setattr(_check, "check", check)
    out = tmp_path / "run"
    assert fit(model, out, "--seed", 3) == of_fit
    assert f"{level} (1.0 s" in capsys.readouterr().out
    assert (out / "verdict.txt").read_text() == f"{verdict(level)}\n"
    (out / "verdict.txt").unlink()
    assert main(["check", str(out / "fit.sivi"), str(model), "--seed", "5", "--effort", "2", "--no-modes"]) == of_check
    text = capsys.readouterr().out
    assert text.startswith(f"{level} (1.0 s")
    assert text.splitlines()[-1] == f"written to {out}: verdict.sivi, verdict.txt"
    assert sivi.load_verdict(out / "verdict.sivi").level == level
    assert (out / "verdict.txt").exists()
    assert given == [{"key": 3}, {"key": 5, "effort": 2.0, "modes": False}]
    # The verdict of an earlier fit does not stay beside another.
    assert fit(model, out, "--no-check", "--overwrite") == 0
    assert not (out / "verdict.txt").exists()
    assert not (out / "verdict.sivi").exists()


def test_a_fit_that_could_not_be_checked_says_so(small, model, tmp_path, capsys, monkeypatch):
    def check(posterior, **settings):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(_fit, "check", check)
    assert fit(model, tmp_path / "run") == 0
    assert "it was not checked: out of memory" in capsys.readouterr().err
    assert (tmp_path / "run" / "verdict.txt").read_text() == "not checked: out of memory\n"
    again = ["--steps", "10", "--quiet", "--no-whiten", "--overwrite"]
    with pytest.raises(RuntimeError, match="out of memory"):
        main(["--debug", "fit", str(model), "--out", str(tmp_path / "run"), *again])


def test_a_density_that_raises_while_it_is_fitted(small, model, tmp_path, capsys):
    model.write_text(
        "import equinox as eqx, jax.numpy as jnp\ndim = 2\n"
        "def log_density(x):\n"
        "    return -0.5 * jnp.sum(eqx.error_if(x, jnp.abs(x[0]) > 0.5, 'x[0] must be below 0.5') ** 2)\n"
    )
    assert fit(model, tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "x[0] must be below 0.5" in error


def test_a_real_check(made, model, capsys):
    """Ten updates without coordinates leave the family at 0, where the target's mean is at 1."""
    code = main(["check", str(made), str(model), "--effort", "0.1", "--no-modes"])
    text = capsys.readouterr().out
    assert code == 4
    assert text.startswith("bad (")
    assert "x[0]" in text
    assert "modes=False" in text


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "sivi: the fit is written; its check was interrupted"),
        (ValueError("draws must vary."), 0, "sivi: the fit is written; it was not checked: draws must vary."),
    ],
)
def test_a_check_that_fails_loses_nothing(small, model, tmp_path, capsys, monkeypatch, raised, code, message):
    def check(*arguments, **settings):
        raise raised

    monkeypatch.setattr(_fit, "check", check)
    assert fit(model, tmp_path / "run") == code
    assert capsys.readouterr().err.splitlines() == [message]
    assert sivi.load(tmp_path / "run" / "fit.sivi").step == 10


@pytest.mark.usefixtures("as_a_user")
class TestBadInput:
    def test_files(self, made, model, tmp_path, capsys):
        bad = tmp_path / "bad.sivi"
        bad.write_bytes(b"not a fit")
        assert "FIT must be a fit file; there is no file" in fails(capsys, "check", tmp_path / "none.sivi", model)
        assert "is not a sivi fit file" in fails(capsys, "check", bad, model)
        assert "model file" in fails(capsys, "check", made, tmp_path / "none.py")
        assert "--effort must be a positive number; got 0.0" in fails(capsys, "check", made, model, "--effort", 0)
        assert "--effort must be a positive number; got nan" in fails(capsys, "check", made, model, "--effort", "nan")

    def test_another_model(self, made, model, capsys):
        model.write_text(MODEL.replace("1.0", "5.0"))
        assert "of another model" in fails(capsys, "check", made, model)
        model.write_text(MODEL.replace("dim = 2", "dim = 3"))
        assert "sivi: " in fails(capsys, "check", made, model)
        model.write_text("dim = 2\ndef log_density(x):\n    raise RuntimeError('mine')\n")
        assert "RuntimeError: mine" in fails(capsys, "check", made, model)


def test_help_names_the_exit_codes(capsys):
    for command, codes in (
        ("check", "0 no fault found, 3 doubtful, 4 bad"),
        ("fit", "4 it did but the check found it bad"),
    ):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert codes in capsys.readouterr().out
