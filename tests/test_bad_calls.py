"""Generated bad calls: every one is refused by name, or its value works after all."""

from collections import Counter

import pytest

from bad_calls import GOOD, cases, run

pytestmark = pytest.mark.usefixtures("as_a_user")

#: Rooms whose calls compile nothing that takes long, whether they are refused or not.
QUICK = ("settings", "metrics", "posterior", "data", "files")


def bad_ones(chosen):
    outcomes = [(case, run(case)) for case in chosen]
    return [f"{case}: {outcome.kind}: {outcome.detail}" for case, outcome in outcomes if outcome.kind not in GOOD]


def test_the_cases_are_always_the_same():
    assert cases(50, seed=3) == cases(50, seed=3)
    assert cases(50, seed=3) != cases(50, seed=4)
    assert Counter(case.room for case in cases(2000)).keys() == {
        *("settings", "metrics", "plots", "data", "posterior", "fit", "samplers", "verdict", "files")
    }


def test_three_hundred_that_compile_little():
    found = bad_ones(cases(300, seed=1, rooms=QUICK, compiling=False))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_five_thousand(part):
    found = bad_ones(cases(5000)[part::5])
    assert not found, "\n".join(found)
