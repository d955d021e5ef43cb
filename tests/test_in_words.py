"""What `print(posterior)` says, and what a posterior remembers beside its fit."""

from dataclasses import replace

import numpy as np

import sivi
from sivi._run import Remark
from sivi.constraints import positive

LIKE = {"tau": positive(), "w": np.zeros((2, 3))}


def log_density(p):
    return -0.5 * (p["w"] ** 2).sum() - 0.5 * (p["tau"] - 2.0) ** 2


def test_five_lines(tmp_path):
    posterior = sivi.fit(log_density, like=LIKE, num_steps=30, repeats=2, whiten=None, progress=False)
    lines = str(posterior).splitlines()
    assert lines[0] == "posterior of tau (positive), w[2, 3]; 7 free numbers"
    assert lines[1] == "  fitted by MixtureKL: 2 repeats, 30 updates"
    assert lines[2] == f"  finished in {posterior.seconds:.1f} s; 0 updates skipped"
    assert lines[3:] == ["  warnings: none", "  verdict: not checked yet, see .check()"]
    assert "\n" not in repr(posterior)

    warned = replace(posterior, run=replace(posterior.run, warnings=(Remark("a", "One thing. More."),) * 2))
    assert str(warned).splitlines()[3] == "  warnings: 2, all in .warnings; the first: One thing."

    # Neither seconds nor a verdict is in the file.
    posterior.save(tmp_path / "one")
    replace(posterior, remembered=sivi._in_words.Remembered(seconds=1e9)).save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    loaded = sivi.load(tmp_path / "one")
    assert loaded.seconds is loaded.verdict is None
    assert str(loaded).splitlines()[1].endswith("30 updates, loaded without its target")
    assert str(loaded).splitlines()[2] == "  finished; 0 updates skipped"


def test_the_last_verdict_is_remembered(monkeypatch):
    posterior = sivi.fit(log_density, like=LIKE, num_steps=5, whiten=None, progress=False)
    assert posterior.verdict is None
    verdict = sivi.Verdict((), (), sivi.verdict.result.Cost(0.0, 0), (), posterior.layout, *[np.zeros((1, 7))] * 2)
    monkeypatch.setattr("sivi.verdict.check.check", lambda *args, **kwargs: verdict)
    assert posterior.check() is posterior.verdict is verdict
    assert str(posterior).splitlines()[4] == f"  verdict: {verdict.level}"
    assert replace(posterior).verdict is verdict
