import os
import subprocess
import sys
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import sivi
from sivi.cli import _demo, _fit, main
from sivi.cli import _draws as draws_of
from sivi.cli._demo_figures import _calibration

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


@pytest.fixture
def small(monkeypatch):
    """With an objective that is quick to compile in place of the default one."""
    objective = sivi.objectives.ScoreMatching(num_particles=8, critic=sivi.critics.MLPCritic((4,)))
    monkeypatch.setattr(_fit, "fit", partial(sivi.fit, objective=objective))


@pytest.fixture(scope="module")
def made():
    """A posterior of two repeats for tests that are not about the fit."""
    objective = sivi.objectives.ScoreMatching(num_particles=8, critic=sivi.critics.MLPCritic((4,)))
    return sivi.fit(
        lambda x: -jnp.sum(x**2), dim=2, objective=objective, num_steps=4, repeats=2, whiten=None, progress=False
    )


def fit(model, out, *arguments):
    common = ["fit", model, "--out", out, "--steps", 20, "--num-samples", 50, "--quiet", "--no-whiten", "--no-check"]
    return main([str(argument) for argument in [*common, *arguments]])


CONSTRAINED = """
import jax.numpy as jnp, sivi
like = {"L": sivi.correlation_cholesky(2), "file": 0.0, "share": sivi.simplex(2), "tau": sivi.positive()}
def log_density(p):
    return -p["tau"] - p["file"] ** 2 + jnp.log(p["L"][1, 1]) + jnp.sum(jnp.log(p["share"]))
"""


class TestFit:
    @pytest.mark.slow
    def test_a_model_file_with_postponed_annotations_and_data(self, small, tmp_path, capsys):
        path = tmp_path / "model.py"
        path.write_text(
            "from __future__ import annotations\nimport sivi\n"
            "class Mine(sivi.targets.BayesianModel):\n    data: tuple\n    dim: int = 22\n"
            "    def log_prior(self, x):\n        return -(x**2).sum()\n"
            "    def log_likelihood(self, x, datum):\n        return -((datum[0] @ x - datum[1]) ** 2)\n"
            "target = Mine(sivi.datasets.waveform_generator(0, 30))\n"
        )
        assert fit(path, tmp_path / "run", "--batch-size", 10) == 0
        assert sivi.load(tmp_path / "run" / "fit.sivi").settings.batch_size == 10

    def test_warnings_are_printed_one_to_a_line(self, small, tmp_path, capsys):
        path = tmp_path / "model.py"
        path.write_text("dim = 2\ndef log_density(x):\n    return -0.5 * x[0] ** 2\n")
        assert fit(path, tmp_path / "run", "--steps", 100) == 0
        lines = capsys.readouterr().err.splitlines()
        assert [line.startswith("sivi: warning: The score of x[1] is zero at all 512 points") for line in lines] == [
            True
        ]
        assert list(map(str, sivi.load(tmp_path / "run" / "fit.sivi").warnings)) == [lines[0].split(": ", 2)[2]]

    def test_writes_everything(self, model, tmp_path, capsys):
        out = tmp_path / "run"
        assert (
            main(
                ["fit", str(model), "--out", str(out), "--steps", "30", "--num-samples", "50", "--quiet", "--no-check"]
            )
            == 0
        )
        text = capsys.readouterr().out
        files = ["draws.nc", "fit.sivi", "marginals.png", "pairs.png", "samples.png", "traces.png"]
        assert sorted(os.listdir(out)) == files
        assert sorted(text.splitlines()[-1].split(": ")[1].split(", ")) == files
        posterior = sivi.load(out / "fit.sivi")
        assert posterior.step == 30
        # The table is of the draws in the file, and those are the posterior's.
        with xarray.open_datatree(out / "draws.nc") as tree:
            draws = tree["posterior/x"].values
            assert tree["sample_stats/lp"].shape == (1, 50)
            assert tree["fit/loss"].shape == (1, 30)
        np.testing.assert_array_equal(draws[0], posterior.sample(50, key=0))
        row = next(line for line in text.splitlines() if line.startswith("x[1]")).split()
        expected = [draws[0, :, 1].mean(), draws[0, :, 1].std(), *np.quantile(draws[0, :, 1], [0.05, 0.5, 0.95])]
        np.testing.assert_allclose([float(cell) for cell in row[1:]], expected, atol=5.1e-4)
        assert "R-hat" not in text

    def test_repeats_resume_and_sample(self, small, model, tmp_path, capsys):
        out = tmp_path / "run"
        assert fit(model, out, "--repeats", 3, "--steps", 10) == 0
        assert fit(model, out, "--steps", 25, "--resume") == 0
        assert (sivi.load(out / "fit.sivi").step, sivi.load(out / "fit.sivi").repeats) == (25, 3)
        text = capsys.readouterr().out
        assert "R-hat compares the 3 independent fits" in text
        with xarray.open_datatree(out / "draws.nc") as tree:
            draws = tree["posterior/x"].values
        assert draws.shape == (3, 17, 2)
        (row,) = [line for line in text.split("written")[1].splitlines() if line.startswith("x[0]")]
        rhat = sivi.samplers.split_rhat(draws.astype(float))
        assert row.split()[-1] == f"{rhat[0]:.3f}"
        # From the file alone, the same draws; as plain arrays, the repeats in turn.
        more = tmp_path / "more.npz"
        assert main(["sample", str(out / "fit.sivi"), "--num-samples", "50", "--out", str(more)]) == 0
        again = capsys.readouterr().out
        assert row in again
        assert again.splitlines()[-1] == f"written: {more}"
        with np.load(more) as arrays:
            in_turn = [np.roll(draws, -i, axis=0).swapaxes(0, 1).reshape(-1, 2)[:50] for i in range(3)]
            assert any(np.array_equal(arrays["x"], each) for each in in_turn)

    @pytest.mark.slow
    def test_constrained_unknowns(self, small, tmp_path, capsys, monkeypatch):
        path = tmp_path / "named.py"
        path.write_text(CONSTRAINED)
        assert fit(path, tmp_path / "run") == 0
        text = capsys.readouterr().out
        first = [line.split()[0] for line in text.splitlines()[2:11] if line]
        assert first == ["L[0,0]", "L[0,1]", "L[1,0]", "L[1,1]", "file", "share[0]", "share[1]", "tau"]
        with xarray.open_datatree(tmp_path / "run" / "draws.nc") as tree:
            assert (tree["posterior/tau"] > 0).all()
            np.testing.assert_allclose(tree["posterior/share"].sum("share_dim_0"), 1.0, rtol=1e-5)
        monkeypatch.chdir(tmp_path)
        assert main(["sample", "run/fit.sivi", "--num-samples", "7", "--seed", "5"]) == 0
        posterior = sivi.load("run/fit.sivi")
        with xarray.open_datatree("draws.nc") as tree:
            assert "sample_stats" not in tree.children
            np.testing.assert_allclose(tree["posterior/tau"][0], posterior.sample(7, key=5)["tau"], rtol=1e-6)
        assert main(["sample", "run/fit.sivi", "--num-samples", "7", "--seed", "5", "--out", "draws.npz"]) == 0
        with np.load("draws.npz") as arrays:
            assert {name: array.shape for name, array in arrays.items()} == {
                "L": (7, 2, 2),
                "file": (7,),
                "share": (7, 2),
                "tau": (7,),
            }
            np.testing.assert_allclose(arrays["tau"], posterior.sample(7, key=5)["tau"], rtol=1e-6)

    def test_exit_code_says_whether_the_fit_came_to_its_end(self, made, model, tmp_path, capsys, monkeypatch):
        def ends(num_steps, end):
            state = eqx.tree_at(lambda state: state.stop.end, made.run.state, jnp.int32(end))
            run = replace(made.run, settings=replace(made.settings, num_steps=num_steps), state=state)
            monkeypatch.setattr(_fit, "fit", lambda *arguments, **settings: replace(made, run=run))
            return fit(model, tmp_path / "run", "--overwrite")

        assert ends(num_steps=10, end=10) == 130
        assert capsys.readouterr().out.splitlines()[-1] == "interrupted at update 4 of 10; continue with --resume"
        assert ends(num_steps=4, end=4) == 0
        # Before its last update, but at the end of its plateau.
        assert ends(num_steps=10, end=4) == 0

    def test_without_arviz(self, made, model, tmp_path, capsys, monkeypatch):
        for name in ("arviz_base", "arviz_stats"):
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setattr(_fit, "fit", lambda *arguments, **settings: made)
        monkeypatch.chdir(tmp_path)
        assert fit(model, "run") == 0
        text = capsys.readouterr().out
        assert text.splitlines()[-1].startswith("the draws are plain arrays: a netCDF file needs ArviZ (pip install")
        assert "R-hat" in text
        assert main(["sample", "run/fit.sivi", "--num-samples", "50"]) == 0
        with np.load("run/draws.npz") as draws, np.load("draws.npz") as again:
            assert draws["x"].shape == (50, 2)
            np.testing.assert_array_equal(draws["x"], again["x"])


def test_numbers_of_a_small_scale_are_shown():
    values = np.array([[[1.00012], [1.00034], [1.00056]]])
    assert draws_of.summary(sivi.targets.Layout.vector(1), values).splitlines()[-1].split()[:3] == [
        "x[0]",
        "1.000340",
        "0.000180",
    ]


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

    def test_resume_of_another_model(self, small, model, tmp_path, capsys):
        out = tmp_path / "run"
        assert fit(model, out) == 0
        before = (out / "fit.sivi").read_bytes()
        model.write_text(MODEL.replace("1.0", "5.0"))
        capsys.readouterr()
        assert "of another model" in fails(capsys, "fit", model, "--out", out, "--resume")
        assert (out / "fit.sivi").read_bytes() == before

    def test_settings_that_fit_refuses(self, model, tmp_path, capsys):
        out = tmp_path / "run"
        assert "repeats must be at least 1; got 0" in fails(capsys, "fit", model, "--repeats", 0, "--out", out)
        assert "batch_size" in fails(capsys, "fit", model, "--batch-size", 3, "--out", out)

    def test_sample(self, tmp_path, capsys, monkeypatch):
        bad = tmp_path / "bad.sivi"
        bad.write_bytes(b"not a fit")
        assert "there is no file" in fails(capsys, "sample", tmp_path / "none.sivi")
        assert "is not a sivi fit file" in fails(capsys, "sample", bad)
        assert "--num is now --num-samples" in fails(capsys, "sample", bad, "--num", 9)
        assert "--num-samples must be at least 1; got 0" in fails(capsys, "sample", bad, "--num-samples", 0)
        assert "--out must end in .nc or .npz; got 'draws.csv'" in fails(capsys, "sample", bad, "--out", "draws.csv")
        message = fails(capsys, "sample", bad, "--out", tmp_path / "none" / "draws.nc")
        assert "--out must be in an existing folder" in message
        monkeypatch.setitem(sys.modules, "h5netcdf", None)
        assert "a netCDF file needs ArviZ (pip install" in fails(capsys, "sample", bad, "--out", "draws.nc")

    @pytest.mark.parametrize("arguments", [[], ["nonsense"], ["fit"], ["fit", "m.py", "--steps", "many"]])
    def test_usage(self, arguments, capsys):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


def test_help_has_examples(capsys):
    for arguments in (["--help"], ["demo", "--help"], ["fit", "--help"], ["check", "--help"], ["sample", "--help"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert "example" in capsys.readouterr().out


@pytest.mark.parametrize("chains", [pytest.param("NUTS", marks=pytest.mark.slow), "HMC"])
def test_demo(tmp_path, capsys, monkeypatch, chains):
    shown = []
    monkeypatch.setattr(_demo, "show_kinetics", lambda *arguments: shown.append(arguments))
    if chains == "HMC":
        monkeypatch.setitem(sys.modules, "blackjax", None)
        monkeypatch.setattr(_demo, "check", lambda *arguments, **settings: "doubtful")
    assert main(["demo", "--out", str(tmp_path), "--quick", "--steps", "40"]) == 0
    text = capsys.readouterr().out
    assert f"comparing with {chains} (BlackJAX" in text
    assert ("pip install 'sivi[mcmc]'" in text) == (chains == "HMC")
    assert [line.split()[0] for line in text.splitlines()[4:26]] == [f"x[{i}]" for i in range(22)]
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith(("sivi ", chains + " "))}
    # Warm-up and chains are near the posterior: its held-out log likelihood is -0.28, that of a coin -0.69.
    assert all(-0.45 < float(row[0]) < -0.2 for row in rows.values())
    # So few transitions are not believed.
    assert f"The reference, {chains}, is not believed, so nothing is judged: the chains" in text
    assert any(f"its verdict: {level}" in text for level in ("no fault found", "doubtful", "bad"))
    assert shown == [(0, tmp_path, 40, True)]
    assert sorted(os.listdir(tmp_path)) == ["marginals.png", "pairs.png", "predictions.png", "traces.png"]


def test_calibration():
    probabilities = np.array([0.01, 0.03, 0.55, 1.0])
    mean, frequency, error = _calibration(probabilities, np.array([0, 1, 1, 1]))
    np.testing.assert_allclose(mean, [0.02, 0.55, 1.0])
    np.testing.assert_allclose(frequency, [0.5, 1.0, 1.0])
    np.testing.assert_allclose(error, np.sqrt([0.02 * 0.98 / 2, 0.55 * 0.45, 0.0]))


def test_runs_as_a_module(tmp_path):
    run = subprocess.run([sys.executable, "-m", "sivi.cli", "--version"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0
    assert run.stdout.startswith("sivi ")
