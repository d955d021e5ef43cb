"""Arguments of the wrong type, shape or value are refused by name before anything computes with them."""

import jax.numpy as jnp
import numpy as np
import pytest

from sivi import plots
from sivi.metrics import energy_distance, ksd, mmd, predictive_scores, sliced_wasserstein
from sivi.samplers import effective_sample_size, split_rhat
from sivi.targets import Banana, GaussianMixture, LinearRegression, LogisticRegression, MultinomialRegression

pytestmark = pytest.mark.usefixtures("as_a_user")

NAN = float("nan")
X = np.random.default_rng(0).normal(size=(6, 2))
WITH_NAN = np.where(np.arange(12).reshape(6, 2) == 5, NAN, X)
EYE = np.eye(2)


@pytest.mark.parametrize("label", [-1, 7, 0.5, NAN])
def test_held_out_labels_that_are_none_of_the_classes(label):
    binary = LogisticRegression([[1.0, 2.0], [0.5, 1.0]], [0, 1])
    with pytest.raises(ValueError, match="labels in data must be whole numbers from 0 to 1; got"):
        predictive_scores(binary, np.zeros((3, 2)), ([[1.0, 1.0], [0.0, 1.0]], [1.0, label]))
    with pytest.raises(ValueError, match=r"labels (in data )?must be (0 or 1|whole numbers)"):
        LogisticRegression([[1.0, 2.0], [0.5, 1.0]], [0, label])
    three = MultinomialRegression([[1.0], [0.5], [0.2]], [0, 1, 2])
    with pytest.raises(ValueError, match=r"labels in data must be whole numbers from 0 to 2|data must fit the type"):
        predictive_scores(three, np.zeros((3, 3)), ([[1.0], [0.0]], [1, label]))
    with pytest.raises(ValueError, match="labels must be whole numbers"):
        MultinomialRegression([[1.0], [0.5], [0.2]], [0, 1, label], num_classes=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianMixture([[0.0, 0.0]], [[[1.0, 0.9], [0.0, 1.0]]]), "covariances must be symmetric; number 0"),
        (lambda: GaussianMixture(X[:2], [EYE, [[1, 2], [2, 1]]]), "covariances must be positive definite; number 1"),
        (lambda: GaussianMixture([[NAN, 0.0]], [EYE]), "means must be finite; 1 of 2 numbers are not"),
        (lambda: GaussianMixture("x", [EYE]), "means must be an array of numbers; got 'x'"),
        (lambda: GaussianMixture([[0.0], [0.0, 1.0]], [EYE]), "means must be an array of numbers; got"),
        (lambda: GaussianMixture(np.zeros((0, 2)), np.zeros((0, 2, 2))), "means must have shape"),
        (lambda: GaussianMixture([[0.0, 0.0]], [EYE], ["a"]), "weights must be an array of numbers; got"),
        (lambda: GaussianMixture([[0.0, 0.0]], [EYE], [NAN]), "weights must be 1 positive numbers; got"),
        (lambda: Banana(1.0), "correlation must be above -1 and below 1; got 1"),
        (lambda: Banana("x"), "correlation must be a number; got 'x'"),
        (lambda: LinearRegression(WITH_NAN, np.zeros(6)), "inputs must be finite; 1 of 12 numbers are not"),
        (lambda: LinearRegression(X, ["a"] * 6), "outputs must be an array of numbers; got"),
        (
            lambda: LinearRegression(X, X[:, 0], prior_scale=-1.0),
            "prior_scale must be a positive, finite number; got -1",
        ),
        (lambda: LinearRegression(X, X[:, 0], rate="x"), "rate must be a positive number; got 'x'"),
        (lambda: LogisticRegression(None, [0, 1]), "inputs must be an array of numbers; got None"),
        (lambda: LogisticRegression(X, [0, 1, 0, 1, 0, 1j]), "labels must be an array of numbers; got"),
        (lambda: MultinomialRegression([[1.0], [1.0, 2.0]], [0, 1]), "inputs must be an array of numbers; got"),
        (lambda: split_rhat([1.0, 2.0]), "draws must have shape .chains, num_samples, dim., .* got .2,."),
        (lambda: split_rhat("x"), "draws must be an array of numbers of shape .chains, num_samples, dim.; got 'x'"),
        (lambda: effective_sample_size(None), "draws must be an array of numbers"),
        (lambda: energy_distance(X + 1j, X), "draws_p must be an array of numbers of shape .n, dim.; got"),
        (lambda: mmd(X, [["a", "b"], ["c", "d"]]), "draws_q must be an array of numbers of shape .n, dim.; got"),
        (lambda: mmd(X, X, bandwidth=np.ones(2)), "bandwidth must be a positive number; got an array"),
        (lambda: ksd(X, lambda x: -(x @ x), kernel=["imq"]), "kernel must be 'imq' or 'gaussian'; got"),
        (lambda: sliced_wasserstein(X, X, scale=object()), "scale must be None"),
        (lambda: plots.plot_marginals(X[:, 0]), "draws must have shape .n, dim.; got .6,."),
        (lambda: plots.plot_marginals(WITH_NAN), "draws must be finite; 1 of 12 numbers are not"),
        (lambda: plots.plot_marginals(X, X[:, :1]), "draws and reference must have the same dim; got 2 and 1"),
        (lambda: plots.plot_marginals(X, names=["a"]), "names must have one entry per coordinate, 2; got 1"),
        (lambda: plots.plot_marginals(X, names=5), "names must be a sequence of str; got 5"),
        (lambda: plots.plot_marginals(X, labels="ab"), "labels must be two str; got 'ab'"),
        (lambda: plots.plot_pairs(WITH_NAN), "draws must be finite"),
        (lambda: plots.plot_pairs(np.ones((6, 2))), "draws must vary in every coordinate"),
        (lambda: plots.plot_pairs(X, figure="x"), "figure must be of Matplotlib, or None; got 'x'"),
        (lambda: plots.plot_samples(WITH_NAN), "draws must be finite"),
        (lambda: plots.plot_samples("x"), "draws must be an array of numbers; got 'x'"),
        (lambda: plots.plot_samples(X, target="x"), "target must be a sivi target, or None; got 'x'"),
        (lambda: plots.plot_samples(X, ax="x"), "ax must be of Matplotlib, or None; got 'x'"),
        (lambda: plots.plot_samples(X, corners=((1, 1), (0, 0))), "corners must be the lower left and the upper right"),
        (lambda: plots.plot_critic("x", X), "field must be a function from a point of the plane to a vector; got 'x'"),
        (lambda: plots.plot_critic(lambda x: x[0], X), r"field must return a vector of shape \(2,\); got"),
        (lambda: plots.plot_critic(lambda x: x, X, scale=-1.0), "scale must be a positive, finite number; got -1"),
        (lambda: plots.plot_arrows(X, WITH_NAN), "arrows must be finite"),
        (lambda: plots.plot_traces({"loss": "x"}), r"history\['loss'\] must be an array of numbers; got 'x'"),
        (lambda: plots.plot_traces({}), "history must be a posterior, or its recorded metrics by name"),
        (lambda: plots.plot_traces({"loss": np.ones(5)}, names="loss"), "names must be a sequence of str; got 'loss'"),
        (lambda: plots.plot_traces({"loss": np.ones(5)}, axes=[1]), "axes must be of Matplotlib, or None; got 1"),
    ],
)
def test_refused_by_name(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_a_covariance_computed_in_float32_is_symmetric():
    root = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
    made = GaussianMixture(np.zeros((1, 8)), np.asarray(jnp.asarray(root) @ jnp.asarray(root).T)[None])
    assert made.dim == 8


def test_lists_are_draws_of_chains():
    chains = np.random.default_rng(0).normal(size=(4, 50, 1))
    assert split_rhat(chains.tolist()) == split_rhat(chains)
    assert effective_sample_size(chains.tolist()) == effective_sample_size(chains)


def test_marginals_of_draws_that_are_all_the_same():
    plots.plot_marginals(np.ones((6, 2)))
