import jax.numpy as jnp
import numpy as np
import pytest

from sivi.optimizers import Adam
from sivi.schedules import Constant, Cosine, Ramp, Schedule, StepDecay, replace_fields


def test_relative_schedules_ask_for_the_length_of_the_run():
    for schedule in (Cosine(1.0), Ramp()):
        with pytest.raises(ValueError, match=r"relative to the length of the run: call bind\(num_steps\) first"):
            schedule(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cosine(1.0, hold=1.0), r"hold must be a share of the run in \[0, 1\); got 1\.0"),
        (lambda: Ramp(until=0.0), r"until must be a share of the run in \(0, 1\]; got 0\.0"),
        (lambda: Ramp(until=0.5, after=0.5), r"after must be a share of the run below until, 0\.5; got 0\.5"),
    ],
)
def test_shares_of_the_run(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_value_at_the_start_is_a_setting_or_unknown():
    class Sine(Schedule):
        def __call__(self, step):
            return jnp.sin(jnp.asarray(step, float))

    assert [s.start_value for s in (Constant(0.3), StepDecay(0.2, 0.5, 10), Cosine(0.1), Ramp(0.4))] == [
        0.3,
        0.2,
        0.1,
        0.4,
    ]
    assert Sine().start_value is None
    np.testing.assert_allclose(Sine()(2), np.sin(2.0), rtol=1e-6)


def test_fields_are_replaced_by_name():
    assert replace_fields(Adam(1e-3), b1=0.5).b1 == 0.5
    with pytest.raises(TypeError, match="Adam has no field 'momentum'"):
        replace_fields(Adam(1e-3), momentum=0.5)
