import numpy as np
import pytest

from sivi.metrics import moment_errors

DRAWS = np.array([[0.0, 0.0], [4.0, -2.0]])  # means 2 and −1, standard deviations √8 and √2 (with n − 1)


def test_by_hand():
    reference = (np.array([1.0, 1.0]), np.array([4.0, 0.5]))
    errors = moment_errors(DRAWS, reference)
    np.testing.assert_allclose(errors.mean_error, [0.25, -4.0])
    np.testing.assert_allclose(errors.sd_ratio, [np.sqrt(8.0) / 4.0, np.sqrt(2.0) / 0.5])
    np.testing.assert_allclose(errors.largest_mean_error, 4.0)
    np.testing.assert_allclose(errors.largest_sd_error, np.sqrt(8.0) - 1.0)


def test_reference_as_covariance_or_draws():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(30, 2)) @ [[1.0, 0.3], [0.0, 2.0]]
    expected = moment_errors(DRAWS, (reference.mean(0), reference.std(0, ddof=1)))
    for other in (reference, (reference.mean(0), np.cov(reference, rowvar=False))):
        errors = moment_errors(DRAWS, other)
        np.testing.assert_allclose(errors.mean_error, expected.mean_error)
        np.testing.assert_allclose(errors.sd_ratio, expected.sd_ratio)


def test_documented_noise():
    """1/√n and 1/√(2n) for an exact Gaussian reference; √2 times that against draws. 1,600 values: within 10 %."""
    rng, n = np.random.default_rng(1), 100
    for factor, exact in ((1.0, True), (np.sqrt(2), False)):
        results = [
            moment_errors(rng.normal(size=(n, 4)), (np.zeros(4), np.ones(4)) if exact else rng.normal(size=(n, 4)))
            for _ in range(400)
        ]
        np.testing.assert_allclose(np.std([r.mean_error for r in results]), factor / np.sqrt(n), rtol=0.1)
        np.testing.assert_allclose(np.std([r.sd_ratio for r in results]), factor / np.sqrt(2 * n), rtol=0.1)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ((np.zeros(2),), "reference must be draws, or a tuple of a mean and deviations"),
        ((np.zeros(2), np.ones(3)), r"standard deviations \(dim,\) or .* got shapes \(2,\) and \(3,\)\.$"),
        ((0.0, 1.0), r"must hold a mean \(dim,\) .* got shapes \(\) and \(\)\.$"),
        ((np.zeros(3), np.ones(3)), r"^draws and reference must have the same dim; got 2 and 3\.$"),
        ((np.zeros(2), np.array([1.0, 0.0])), r"^reference must have positive standard deviations; got 0.0 at 1\.$"),
        (np.array([[1.0, 2.0], [1.0, 3.0]]), r"^reference must have positive standard deviations; got 0.0 at 0\.$"),
        ((np.array([np.nan, 0.0]), np.ones(2)), r"^reference must be finite"),
    ],
)
def test_wrong_reference(reference, message, as_a_user):
    with pytest.raises(ValueError, match=message):
        moment_errors(DRAWS, reference)


def test_printed_it_names_the_worst_coordinates():
    draws = np.array([[0.0, 4.0, 1.0], [2.0, 6.0, 5.0]])
    reference = ([0.0, 5.0, 3.0], [1.0, 1.0, 4.0])
    assert str(moment_errors(draws, reference, names=["mu", "tau", "w[0]"])).splitlines() == [
        "moment errors of 3 coordinates",
        "  means: at most 1.000 standard deviations off, at mu",
        "  standard deviations: 0.707 (at w[0]) to 1.414 (at mu) times the reference's",
    ]
    assert "at 0\n" in repr(moment_errors(draws, reference))
    with pytest.raises(ValueError, match=r"names must have one entry per coordinate, 3; got 2\."):
        moment_errors(draws, reference, names=["a", "b"])
