"""What the command line replaces, prints and returns: folders with a fit, JSON, numbers out of range, pipes, codes."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi.cli import _codes, _fit, _sample, _streams, main
from sivi.verdict.findings import Finding
from sivi.verdict.result import Cost, Verdict

MODEL = "import jax.numpy as jnp\ndim = 2\ndef log_density(x):\n    return -0.5 * jnp.sum((x - 1.0) ** 2)\n"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def made():
    """A posterior of two repeats for tests that are not about the fit."""
    objective = sivi.objectives.ScoreMatching(num_particles=8, critic=sivi.critics.MLPCritic((4,)))
    return sivi.fit(
        lambda x: -jnp.sum(x**2), dim=2, objective=objective, num_steps=4, repeats=2, whiten=None, progress=False
    )


@pytest.fixture
def fitted(made, monkeypatch):
    """With a fit that is there at once; the list of its calls."""
    calls = []

    def fit(*arguments, **settings):
        calls.append(settings)
        return made

    monkeypatch.setattr(_fit, "fit", fit)
    monkeypatch.setattr(_fit, "use_files_only", lambda: False)
    return calls


def fit(model, out, *arguments):
    common = ["fit", model, "--out", out, "--num-samples", 50, "--quiet"]
    return main([str(argument) for argument in [*common, *arguments]])


def refused(capsys):
    """The one sentence on the standard error, with nothing on the standard output."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    return said.err


class TestReplacing:
    def test_a_folder_with_a_fit_is_left_alone(self, fitted, made, tmp_path, capsys):
        out = tmp_path / "run"
        out.mkdir()
        made.save(out / "fit.sivi")
        before = (out / "fit.sivi").read_bytes()
        # The model file is not even looked at.
        assert fit(tmp_path / "none.py", out) == 2
        assert refused(capsys) == (
            f"sivi: --out '{out}' holds a fit of 4 updates: --resume carries it on, --overwrite replaces it.\n"
        )
        assert (out / "fit.sivi").read_bytes() == before
        assert os.listdir(out) == ["fit.sivi"]
        assert not fitted

    def test_an_unfinished_checkpoint_is_a_fit(self, fitted, made, model, tmp_path, capsys):
        out = tmp_path / "run"
        out.mkdir()
        state = eqx.tree_at(lambda state: state.stop.end, made.run.state, jnp.int32(10))
        run = replace(made.run, settings=replace(made.settings, num_steps=10), state=state)
        replace(made, run=run).save(out / "fit.sivi")
        assert fit(model, out) == 2
        assert "holds an unfinished fit, at update 4 of 10: --resume carries it on" in refused(capsys)
        assert not fitted

    def test_what_cannot_be_read_is_not_replaced_either(self, fitted, model, tmp_path, capsys):
        (tmp_path / "fit.sivi").write_bytes(b"mine")
        assert fit(model, tmp_path) == 2
        assert "holds a file fit.sivi that cannot be read: --overwrite replaces it" in refused(capsys)
        assert (tmp_path / "fit.sivi").read_bytes() == b"mine"

    def test_either_option_goes_on(self, fitted, made, model, tmp_path):
        made.save(tmp_path / "fit.sivi")
        assert fit(model, tmp_path, "--overwrite", "--no-check") == 0
        assert fit(model, tmp_path, "--resume", "--no-check") == 0
        assert [call["resume"] for call in fitted] == [None, tmp_path / "fit.sivi"]
        with pytest.raises(SystemExit) as caught:
            fit(model, tmp_path, "--resume", "--overwrite")
        assert caught.value.code == 2


class TestJson:
    def test_fit(self, fitted, made, model, tmp_path, capsys, monkeypatch):
        found = Finding("mean", ("x[0]",), 0.5, float("inf"), "bad", "It is bad.")
        points = np.zeros((4, 2))
        verdict = Verdict((found,), (), Cost(1.0, 100), (), sivi.targets.Layout.vector(2), points, points)
        monkeypatch.setattr(_fit, "check", lambda *arguments, **settings: verdict)
        out = tmp_path / "run"
        assert fit(model, out, "--json", "--seed", 3) == 4
        said = capsys.readouterr()
        (line,) = said.out.splitlines()
        printed = json.loads(line, parse_constant=pytest.fail)
        assert tuple(printed) == _fit.KEYS
        assert (printed["exit_code"], printed["seed"], printed["finished"]) == (4, 3, True)
        assert [printed[name] for name in ("step", "num_steps", "repeats", "dim")] == [4, 4, 2, 2]
        assert printed["verdict"]["level"] == "bad"
        assert printed["verdict"]["memory"] is None  # which is NaN
        assert printed["verdict"]["findings"][0]["unknowns"] == ["x[0]"]
        assert printed["verdict"]["findings"][0]["error"] is None
        assert sorted(printed["files"]) == sorted(str(path) for path in out.iterdir())
        # The numbers are those of the table, which is on the standard error.
        assert "5%" in said.err
        draws = np.asarray(made.unconstrained(25, 3, by_repeat=True)).reshape(-1, 2)
        for i, row in enumerate(printed["variables"]):
            assert list(row) == ["name", "mean", "sd", "5%", "50%", "95%", "rhat"]
            assert row["name"] == f"x[{i}]"
            np.testing.assert_allclose([row["mean"], row["sd"]], [draws[:, i].mean(), draws[:, i].std()], rtol=1e-4)
            np.testing.assert_allclose(row["5%"], np.quantile(draws[:, i], 0.05), rtol=1e-4)

    def test_sample(self, made, tmp_path, capsys):
        made.save(tmp_path / "fit.sivi")
        file = tmp_path / "draws.npz"
        assert main(["sample", str(tmp_path / "fit.sivi"), "--out", str(file), "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert list(printed) == ["exit_code", "seed", "variables", "files"]
        assert printed["files"] == [str(file)]
        assert len(printed["variables"]) == 2

    def test_the_page_lists_the_keys_of_fit(self):
        page = (ROOT / "docs" / "guide" / "command_line.md").read_text().split("## `--json`")[1]
        rows = re.findall(r"^\| (`.*?) \| (all|.*?`fit`.*?) \|", page, re.MULTILINE)
        assert {key for names, _ in rows for key in re.findall(r"`(\w+)`", names)} == set(_fit.KEYS)

    def test_nothing_is_printed_after_an_error(self, tmp_path, capsys):
        assert fit(tmp_path / "none.py", tmp_path / "run", "--json") == 2
        assert "does not exist" in refused(capsys)

    def test_what_is_not_finite_is_null(self):
        value = {"a": [float("nan"), np.float32("inf"), np.int64(3)], "b": (None, True, sivi.cli)}
        assert _streams.plain(value) == {"a": [None, None, 3], "b": [None, True, str(sivi.cli)]}


@pytest.mark.usefixtures("as_a_user")
class TestNumbersOutOfRange:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--seed", "99999999999999999999"], "--seed must be from -2**63 to 2**63 - 1; got 99999999999999999999."),
            (["--seed", str(-(2**63) - 1)], "--seed must be from -2**63 to 2**63 - 1; got -9223372036854775809."),
            (["--steps", "3000000000"], "--steps must be at most 2147483647 (2**31 - 1); got 3000000000."),
            (["--repeats", str(2**31)], "--repeats must be at most 2147483647 (2**31 - 1); got 2147483648."),
            (["--batch-size", "9" * 30], f"--batch-size must be at most 2147483647 (2**31 - 1); got {'9' * 30}."),
            (
                ["--num-samples", "1" + "0" * 100],
                "--num-samples must be at most 2147483647 (2**31 - 1); got an integer",
            ),
            (["--num-samples", "-1"], "--num-samples must be at least 1; got -1."),
            (["--steps", "-1"], "num_steps must be at least 1; got -1."),
            (["--repeats", "-1"], "repeats must be at least 1; got -1."),
        ],
    )
    def test_of_fit(self, model, tmp_path, capsys, arguments, message):
        assert main(["fit", str(model), "--out", str(tmp_path / "run"), "--quiet", *arguments]) == 2
        assert refused(capsys).startswith(f"sivi: {message}")

    def test_of_other_commands(self, model, tmp_path, capsys):
        for command in (["sample", "a.sivi"], ["check", "a.sivi", str(model)], ["demo"]):
            assert main([*command, "--seed", str(2**64)]) == 2
            assert "--seed must be from" in refused(capsys)
        assert main(["paper", "run", "toy-kl", "--seeds", str(2**40)]) == 2
        assert "--seeds must be at most" in refused(capsys)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"key": 2**64}, "key must be an int from -2**63 to 2**63 - 1; got 18446744073709551616."),
            ({"key": -(2**63) - 1}, "key must be an int from"),
            ({"num_steps": 2**31}, "num_steps must be at most 2147483647 (2**31 - 1); got 2147483648."),
            ({"chunk_size": 2**40}, "chunk_size must be at most 2147483647 (2**31 - 1); got 1099511627776."),
            ({"repeats": 2**31}, "repeats must be at most"),
            (
                {"num_steps": 10**5000},
                "num_steps must be at most 2147483647 (2**31 - 1); got an integer of 16,610 bits.",
            ),
            ({"num_steps": -(10**5000)}, "num_steps must be at least 1; got an integer of 16,610 bits."),
            ({"key": 10**5000}, "key must be an int from -2**63 to 2**63 - 1; got an integer of 16,610 bits."),
        ],
    )
    def test_of_fit_in_python(self, settings, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            sivi.fit(lambda x: -jnp.sum(x**2), dim=2, progress=False, **settings)

    def test_of_sample_in_python(self, made):
        with pytest.raises(ValueError, match="must be at most 2147483647"):
            made.sample(10**30, key=0)
        with pytest.raises(ValueError, match="key must be an int from"):
            made.sample(10, key=2**63)

    def test_the_largest_and_smallest_keys_work(self):
        keys = [sivi._arguments.as_key(number) for number in (2**63 - 1, -(2**63), 2**32, -1)]
        assert all(key.shape == () for key in keys)


class TestUnexpected:
    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (OverflowError("int too big\nmore"), "sivi: unexpected OverflowError: int too big (`sivi --debug`"),
            (MemoryError("7 GiB"), "sivi: there is not enough memory for this (7 GiB)"),
            (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), "sivi: there is not enough memory for this"),
            (ZeroDivisionError(), "sivi: unexpected ZeroDivisionError"),
        ],
    )
    def test_is_one_sentence(self, tmp_path, capsys, monkeypatch, error, message):
        def load(path):
            raise error

        monkeypatch.setattr(_sample, "load", load)
        assert main(["sample", "fit.sivi", "--out", str(tmp_path / "draws.npz")]) == 70
        assert refused(capsys).startswith(message)
        with pytest.raises(type(error)):
            main(["--debug", "sample", "fit.sivi", "--out", str(tmp_path / "draws.npz")])


class TestPipes:
    def test_a_reader_that_has_gone_is_no_error(self, made, tmp_path):
        """All is written, nothing is said, and the exit code is that of the command."""
        made.save(tmp_path / "fit.sivi")
        ends = {}
        for name in ("stdout", "stderr"):
            read, write = os.pipe()
            os.close(read)
            line = [sys.executable, "-m", "sivi.cli", "sample", "fit.sivi", "--out", f"{name}.npz"]
            line += ["--num-samples", "0"] if name == "stderr" else []
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, name: write}
            ends[name] = subprocess.run(line, cwd=tmp_path, text=True, timeout=120, **streams)
            os.close(write)
        assert (ends["stdout"].returncode, ends["stdout"].stderr) == (0, "")
        assert (tmp_path / "stdout.npz").exists()
        assert (ends["stderr"].returncode, ends["stderr"].stdout) == (2, "")

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
    def test_a_full_disk_is_told(self, capsys, monkeypatch):
        with open("/dev/full", "w") as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert main(["paper", "list"]) == 2
        monkeypatch.undo()
        assert "No space left on device" in capsys.readouterr().err

    def test_draws_are_written_before_their_summary(self, made, tmp_path, capsys, monkeypatch):
        made.save(tmp_path / "fit.sivi")

        def write_draws(*arguments):
            assert capsys.readouterr().out == ""

        monkeypatch.setattr(_sample, "write_draws", write_draws)
        assert main(["sample", str(tmp_path / "fit.sivi"), "--out", str(tmp_path / "draws.npz")]) == 0
        assert "mean" in capsys.readouterr().out


class TestExitCodes:
    def test_the_page_and_the_help_have_the_table_of_the_code(self, capsys):
        page = (ROOT / "docs" / "guide" / "command_line.md").read_text()
        table = page.split("## Exit codes")[1].split("\n## ")[0]
        rows = dict(re.findall(r"^\| (\d+) \| (.*) \|$", table, re.MULTILINE))
        assert {int(code): meaning for code, meaning in rows.items()} == _codes.MEANINGS
        with pytest.raises(SystemExit):
            main(["--help"])
        shown = capsys.readouterr().out
        for code, meaning in _codes.MEANINGS.items():
            assert re.search(rf"^  {code} +{re.escape(meaning.replace('`', ''))}$", shown, re.MULTILINE)

    def test_commands_return_no_other_codes(self):
        named = {value for name, value in vars(_codes).items() if name.isupper() and isinstance(value, int)}
        assert named == set(_codes.MEANINGS)
        for path in (ROOT / "src" / "sivi" / "cli").glob("*.py"):
            assert not re.search(r"return -?\d+$", path.read_text(), re.MULTILINE), path

    def test_interrupted(self, model, tmp_path, capsys, monkeypatch):
        def interrupted(*arguments, **settings):
            raise KeyboardInterrupt

        monkeypatch.setattr(_fit, "fit", interrupted)
        assert fit(model, tmp_path / "run") == _codes.INTERRUPTED == 130
        assert refused(capsys) == "sivi: interrupted\n"


@pytest.mark.skipif(os.name == "nt", reason="signals")
class TestInterrupts:
    @pytest.fixture(autouse=True)
    def default_handler(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a command puts it back
        signal.signal(signal.SIGINT, before)

    def test_at_the_end_of_a_fit_it_is_not_checked(self, fitted, made, model, tmp_path, capsys, monkeypatch):
        def swallowing(*arguments, **settings):
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert [callback(None) for callback in settings["callbacks"]] == [None, True]
            return made

        monkeypatch.setattr(_fit, "fit", swallowing)
        monkeypatch.setattr(_fit, "check", lambda *arguments, **settings: pytest.fail("checked"))
        assert fit(model, tmp_path / "run") == 130
        assert capsys.readouterr().out.splitlines()[-1] == "interrupted; the fit is finished, and not checked"
        assert (tmp_path / "run" / "fit.sivi").exists()

    def test_that_has_become_another_error(self, tmp_path, capsys, monkeypatch):
        def load(path):
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ValueError("Invalid matrix") from None

        monkeypatch.setattr(_sample, "load", load)
        assert main(["sample", "fit.sivi", "--out", str(tmp_path / "draws.npz")]) == 130
        assert refused(capsys) == "sivi: interrupted\n"

    def test_during_a_command(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(_sample, "load", lambda path: signal.raise_signal(signal.SIGINT))
        assert main(["sample", "fit.sivi", "--out", str(tmp_path / "draws.npz")]) == 130
        assert refused(capsys) == "sivi: interrupted\n"
