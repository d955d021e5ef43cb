import numpy as np
import pytest

import sivi
from sivi.critics import MLPCritic
from sivi.experiments import _fits
from sivi.experiments._fits import fit_stages
from sivi.objectives import Annealed, ScoreMatching
from sivi.stopping import Plateau

TARGET = sivi.targets.XShaped()
SETTINGS = {
    "num_steps": 100,
    "key": 3,
    "objective": Annealed(ScoreMatching(num_particles=8, critic=MLPCritic((4,)), psi=0.0)),
    "whiten": None,
    "stop": None,
}


class Stop(Exception):
    """What ends a process here."""


def fit_until(step):
    """One fit, stopped after so many of its 100 updates."""
    return sivi.fit(TARGET, progress=False, chunk_size=20, callbacks=[lambda report: report.step >= step], **SETTINGS)


def same(left, right):
    np.testing.assert_array_equal(left.history["loss"], right.history["loss"])
    np.testing.assert_array_equal(left.sample(10, key=1), right.sample(10, key=1))
    return left.step == right.step


def test_stages_are_those_of_one_fit(tmp_path):
    first, second = fit_stages(TARGET, [40, 80], tmp_path, **SETTINGS)
    assert (first.step, second.step, second.num_steps) == (40, 80, 100)
    assert same(first, fit_until(40))
    assert same(second, fit_until(80))


@pytest.mark.parametrize("crash_at", [20, 40, 60])
def test_a_crashed_fit_goes_on(tmp_path, monkeypatch, crash_at):
    """From its last checkpoint: the updates before it are not made again, and the result is the same."""
    real, steps = sivi.fit, []

    def crashing(*arguments, callbacks, **settings):
        def watch(report):
            steps.append(report.step)
            if report.step == crash_at and not resuming:
                raise Stop

        return real(*arguments, callbacks=[watch, *callbacks], **settings)

    monkeypatch.setattr(_fits, "fit", crashing)
    resuming = False
    with pytest.raises(Stop):
        fit_stages(TARGET, [40, 100], tmp_path, **SETTINGS)
    resuming = True
    steps.clear()
    first, second = fit_stages(TARGET, [40, 100], tmp_path, **SETTINGS)
    assert steps == list(range(crash_at + 20, 101, 20))
    assert same(first, fit_until(40))
    assert same(second, fit_until(100))


def test_a_damaged_checkpoint_is_not_used(tmp_path):
    fit_stages(TARGET, [40], tmp_path, **SETTINGS)
    file = tmp_path / "40.sivi"
    file.write_bytes(file.read_bytes()[:-10])
    (posterior,) = fit_stages(TARGET, [40], tmp_path, **SETTINGS)
    assert same(posterior, fit_until(40))


def test_a_fit_that_ends_at_a_plateau_is_a_result(tmp_path):
    """A huge tolerance: after the two blocks that are compared, the rest is the final decay."""
    rule = Plateau(1e6, every=5, blocks=2, after=0.0, decay=0.5)
    (posterior,) = fit_stages(TARGET, [100], tmp_path, **SETTINGS | {"stop": rule})
    assert posterior.step == 30  # 20 updates to see the plateau, and half as many to end
    assert posterior.finished
    (again,) = fit_stages(TARGET, [100], tmp_path, **SETTINGS | {"stop": rule})  # from the checkpoint
    assert same(again, posterior)


def test_what_ctrl_c_leaves_is_not_taken_for_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(_fits, "fit", lambda *arguments, **settings: fit_until(20))
    with pytest.raises(KeyboardInterrupt):
        fit_stages(TARGET, [40], tmp_path, **SETTINGS)
