import os
import subprocess
import sys

import numpy as np
import pytest

import sivi
from sivi.cli import main

MODEL = "import jax.numpy as jnp\ndim = 2\ndef log_density(x):\n    return -0.5 * jnp.sum((x - 1.0) ** 2)\n"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def fails(capsys, *arguments, code=2):
    """The one sentence that a failing command prints."""
    assert main([str(argument) for argument in arguments]) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    assert error.startswith("sivi: ")
    return error


class TestFit:
    def test_a_model_file_with_postponed_annotations(self, tmp_path, capsys):
        path = tmp_path / "model.py"
        path.write_text(
            "from __future__ import annotations\nimport sivi\n"
            "class Mine(sivi.targets.Target):\n    dim: int = 2\n"
            "    def log_prob(self, x, batch=None):\n        return -(x**2).sum()\n"
            "target = Mine()\n"
        )
        assert main(["fit", str(path), "--out", str(tmp_path / "run"), "--steps", "5", "--quiet"]) == 0

    def test_writes_everything(self, model, tmp_path, capsys):
        out = tmp_path / "run"
        assert main(["fit", str(model), "--out", str(out), "--steps", "30", "--num-samples", "50", "--quiet"]) == 0
        text = capsys.readouterr().out
        assert "x[0]" in text
        assert "mean" in text
        files = ["draws.npz", "fit.sivi", "marginals.png", "samples.png", "traces.png"]
        assert sorted(os.listdir(out)) == files
        with np.load(out / "draws.npz") as draws:
            assert draws["x"].shape == (50, 2)
        assert sivi.load(out / "fit.sivi").step == 30

    def test_resume_continues_to_the_total(self, model, tmp_path, capsys):
        out = tmp_path / "run"
        common = ["fit", str(model), "--out", str(out), "--num-samples", "20", "--quiet"]
        assert main([*common, "--steps", "10"]) == 0
        assert main([*common, "--steps", "25", "--resume"]) == 0
        assert sivi.load(out / "fit.sivi").step == 25

    def test_named_unknowns(self, tmp_path, capsys):
        path = tmp_path / "named.py"
        path.write_text(
            "import numpy as np\nlike = {'mu': 0.0, 'w': np.zeros(2)}\n"
            "def log_density(p):\n    return -p['mu'] ** 2 - (p['w'] ** 2).sum()\n"
        )
        assert main(["fit", str(path), "--out", str(tmp_path / "run"), "--steps", "5", "--quiet"]) == 0
        text = capsys.readouterr().out
        assert "mu" in text
        assert "w[1]" in text
        with np.load(tmp_path / "run" / "draws.npz") as draws:
            assert set(draws) == {"mu", "w"}

    def test_a_target(self, tmp_path, capsys):
        path = tmp_path / "target.py"
        path.write_text("import sivi\ntarget = sivi.targets.Banana()\n")
        assert main(["fit", str(path), "--out", str(tmp_path / "run"), "--steps", "5", "--quiet"]) == 0


@pytest.mark.usefixtures("as_a_user")
class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("dim = 2\n", "has no function `log_density`"),
            ("def log_density(x):\n    return -(x ** 2).sum()\n", "has neither `dim` nor `like`"),
            ("target = 3\n", "`target` must be a sivi Target; got a int"),
            ("import no_such_module\n", "line 1: ModuleNotFoundError: No module named 'no_such_module'"),
            ("def log_density(x:\n", "SyntaxError"),
            ("dim = -1\ndef log_density(x):\n    return x.sum()\n", "dim must be at least 1; got -1"),
            ("dim = 2\ndef log_density(x):\n    return -x**2\n", "log density must be a float32 or float64 array"),
            ("dim = 2\ndef log_density(x):\n    return 0 * x.sum() + float('nan')\n", "must be finite where the fit"),
            ("dim = 2\ndef log_density(x):\n    raise RuntimeError('mine')\n", "RuntimeError: mine"),
        ],
    )
    def test_model_files(self, tmp_path, capsys, content, message):
        path = tmp_path / "model.py"
        path.write_text(content)
        assert message in fails(capsys, "fit", path, "--out", tmp_path / "run", "--quiet")
        assert not (tmp_path / "run").exists() or os.listdir(tmp_path / "run") == []

    def test_missing_model_file(self, tmp_path, capsys):
        assert "does not exist" in fails(capsys, "fit", tmp_path / "none.py")

    def test_steps(self, model, tmp_path, capsys):
        out = tmp_path / "run"
        assert "num_steps must be at least 1; got 0" in fails(capsys, "fit", model, "--steps", 0, "--out", out)
        assert "--num-samples must be at least 1" in fails(capsys, "fit", model, "--num-samples", 0, "--out", out)

    def test_unwritable_folder(self, model, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        message = fails(capsys, "fit", model, "--out", tmp_path / "file" / "run")
        assert "--out must be a folder that can be written to" in message
        assert "--out must be a folder" in fails(capsys, "demo", "--out", "/proc/none")

    def test_resume_without_a_fit(self, model, tmp_path, capsys):
        assert "--resume needs a fit to continue" in fails(capsys, "fit", model, "--out", tmp_path, "--resume")

    def test_resume_of_another_model(self, model, tmp_path, capsys):
        out = tmp_path / "run"
        assert main(["fit", str(model), "--out", str(out), "--steps", "3", "--num-samples", "20", "--quiet"]) == 0
        before = (out / "fit.sivi").read_bytes()
        model.write_text(MODEL.replace("1.0", "5.0"))
        capsys.readouterr()
        assert "of another model" in fails(capsys, "fit", model, "--out", out, "--resume")
        assert (out / "fit.sivi").read_bytes() == before

    @pytest.mark.parametrize("arguments", [[], ["nonsense"], ["fit"], ["fit", "m.py", "--steps", "many"]])
    def test_usage(self, arguments, capsys):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


def test_help_has_examples(capsys):
    for arguments in (["--help"], ["demo", "--help"], ["fit", "--help"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert "example" in capsys.readouterr().out


def test_demo_prints_distances_and_draws_figures(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path), "--steps", "40"]) == 0
    text = capsys.readouterr().out
    assert "X-shaped" in text
    assert "KL(exact|fit)" in text
    assert len(list(tmp_path.glob("*.png"))) == 5


def test_runs_as_a_module(tmp_path):
    run = subprocess.run([sys.executable, "-m", "sivi.cli", "--version"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0
    assert run.stdout.startswith("sivi ")
