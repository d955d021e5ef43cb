"""What benchmarks count and refer to is right: arithmetic, a Gaussian at the mode, and the page of other methods."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import bnn_gap
import many_data
from _beside_page import page
from _flops import flops_of


def test_flops_count_products_in_scans_and_leave_out_what_is_not_used():
    a, b = jnp.ones((3, 4)), jnp.ones((4, 5))

    def function(a, b):
        unused = a @ b  # noqa: F841
        total, _ = jax.lax.scan(lambda carry, _: (carry + a @ b, None), jnp.zeros((3, 5)), length=7)
        return total

    assert flops_of(function, a, b) == 7 * 2 * 3 * 4 * 5
    assert flops_of(jax.jit(lambda a: a @ a.T), a) == 2 * 3 * 4 * 3


def test_the_reference_of_many_data_is_the_mode_and_its_curvature(x64):
    """The score of the library's own target vanishes there, and its Hessian is the inverse covariance."""
    inputs, labels = many_data.data(2000)
    reference = many_data.laplace(inputs, labels)
    target = many_data.sivi.targets.LogisticRegression(inputs, labels, prior_scale=many_data.PRIOR_SCALE)
    mode = jnp.asarray(reference["mean"])
    covariance = np.linalg.inv(-np.asarray(jax.hessian(target.log_prob)(mode)))
    assert np.abs(target.score(mode) * reference["sd"]).max() < 1e-6
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), reference["sd"], rtol=1e-8)


def test_a_run_of_nuts_that_was_stopped_bounds_the_ratio():
    fit = {"method": "sivi", "seconds": 10.0, "mean_error": 0.01, "sd_ratio_min": 0.99, "sd_ratio_max": 1.01}
    stopped = {"method": "nuts", "failed": "stopped after 200 s", "stopped_after": 200.0}
    found = many_data.summary([fit, stopped])
    assert found["seconds_over_nuts"] == 0.05
    assert found["is_an_upper_bound"]
    found = many_data.summary([fit, fit | {"method": "nuts", "seconds": 40.0}])
    assert found["seconds_over_nuts"] == 0.25
    assert not found["is_an_upper_bound"]


def test_the_page_of_other_methods_says_who_is_faster_and_who_is_nearer():
    known = {"posterior": "banana", "key": 0, "met": True, "distance": 0.02, "distance_floor": 0.01}
    numbers = {"sivi": (10.0, 0.02), "maf": (5.0, 0.01), "iaf": (4.0, 0.2), "nuts": (20.0, 0.001)}
    rows = [{**known, "method": name, "cpu_seconds": cpu, "kl": kl} for name, (cpu, kl) in numbers.items()]
    rows.append({"posterior": "banana", "key": 0, "method": "bnaf", "met": False, "failed": "stopped after 900 s"})
    run = {"rows": rows, "keys": [0], "machine": {"cores_each": 2}, "versions": {"jax": "1"}}
    text = " ".join(page(run).split())
    assert "fewer CPU seconds: AutoIAFNormal; FlowJAX, 400 steps." in text
    assert "Smaller KL: NUTS, BlackJAX; FlowJAX, 400 steps. Both: FlowJAX, 400 steps." in text
    assert "| FlowJAX, 400 steps | – | 5.0 |" in text
    assert "* banana, AutoBNAFNormal, key 0: stopped after 900 s" in text


def test_a_fit_of_the_network_with_a_gap_is_beside_the_chains_of_its_key():
    level = {"check": {"level": "no fault found", "seconds": 9.0}}
    grid = np.zeros(len(bnn_gap.GRID))
    chains = {"method": "hmc", "key": 0, "rhat_f": 1.01, "seconds": 5.0, "check_of_run": level["check"], **level}
    chains |= {"halved": level, "band": {"mean": grid, "sd": grid + 0.2}}
    shares = {"share_between_repeats": 0.5, "last_layer_share": 0.3}
    fit = {"method": "fit", "key": 0, "seconds": 7.0, **level, **shares, "band": {"mean": grid + 0.3, "sd": grid + 0.1}}
    found = bnn_gap.summary([chains, fit, fit | {"key": 1}, fit | {"failed": "exit 1"}])
    assert found["hmc"]["is_mixed"]
    expected = {"rmse_of_mean_in_data_over_noise_sd": 2.0, "sd_ratio_in_data": 0.5}
    expected |= {"rmse_of_mean": 0.3, "rmse_of_mean_in_gap": 0.3, "sd_ratio_in_gap": 0.5}
    assert found["fit"]["beside_hmc"] == [expected]


def test_functions_of_the_network_are_halved():
    model = bnn_gap.network()
    draws = np.stack([model.random_start(key) for key in jax.random.split(jax.random.key(0), 20)])
    narrow, ratios, shift = bnn_gap.halved(model, draws)
    np.testing.assert_allclose(ratios, 0.5, atol=0.01)
    assert shift < 0.02
    assert np.abs(narrow - draws).max() < 1.0
