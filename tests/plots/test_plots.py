import matplotlib

matplotlib.use("Agg")

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import sivi
from contracts.plugins import small_family
from sivi.objectives import Annealed, MixtureKL
from sivi.plots import plot_arrows, plot_critic, plot_marginals, plot_pairs, plot_samples, plot_traces
from sivi.plots.canvas import mass_levels
from sivi.plots.samples import _MASS, _density
from sivi.stopping import Doubling
from sivi.targets import GaussianMixture, XShaped

DRAWS = np.random.default_rng(0).normal(size=(500, 2))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_contours_enclose_the_stated_mass():
    """For a standard Gaussian the region of mass p is a disc with density exp(log(1 − p))."""
    target = GaussianMixture([[0.0, 0.0]], [np.eye(2)])
    side = np.linspace(-5.0, 5.0, 400)
    levels = mass_levels(_density(target, side, side), _MASS)
    np.testing.assert_allclose(levels, [0.01, 0.05, 0.2, 0.5, 0.8], rtol=0.02)


def test_samples_show_all_draws_and_the_contours():
    ax = plot_samples(DRAWS, XShaped(), label="fit")
    assert len(ax.collections[0].get_offsets()) == 500
    assert len(ax.collections) == 2
    assert ax.get_legend().get_texts()[0].get_text() == "fit"


def test_critic_arrows_are_the_field():
    ax = plot_critic(lambda x: jnp.array([x[1], 0.0]), DRAWS)
    quiver = ax.collections[-1]
    np.testing.assert_array_equal(quiver.V, 0.0)
    assert np.corrcoef(quiver.U, quiver.XY[:, 1])[0, 1] > 0.9


def test_arrows_are_to_scale_and_long_ones_cut():
    points = np.stack(np.meshgrid([0.0, 0.5, 1.0], [0.0, 2.0]), axis=-1).reshape(-1, 2)
    arrows = np.array([[1.0, 0.0], [0.0, 3.0], [0.0, -6.0], [0.3, 0.4], [0.0, 0.0], [2.0, 0.0]])
    (quiver,) = plot_arrows(points, arrows, scale=3.0).collections
    drawn = np.stack([quiver.U, quiver.V], axis=1)
    np.testing.assert_allclose(drawn, arrows * np.array([1, 1, 0.5, 1, 1, 1])[:, None])
    np.testing.assert_allclose(quiver.scale, 3.0 / 0.5)  # an arrow of length 3 reaches the next point


def test_corners_fix_the_picture():
    ax = plot_samples(DRAWS, XShaped(), corners=((-5.0, -6.0), (7.0, 8.0)))
    assert (ax.get_xlim(), ax.get_ylim()) == ((-5.0, 7.0), (-6.0, 8.0))
    reach = np.concatenate([path.vertices for path in ax.collections[1].get_paths()])
    assert reach[:, 0].max() > 3.5  # the contours of the target, not of the draws' window


def test_traces_have_a_panel_per_metric_and_survive_gaps():
    values = np.random.default_rng(1).normal(size=1000)
    values[100:300] = np.nan
    figure = plot_traces({"critic_norm": values**2, "loss": values})
    assert [ax.get_ylabel() for ax in figure.axes] == ["loss", "critic_norm"]
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["", ""]
    assert figure.axes[0].get_xlim() == (0.0, 1000.0)


def test_a_scale_is_logarithmic_where_a_linear_one_hides_the_small_values():
    ramp = np.linspace(0.0, 1.0, 300)
    histories = (60.0 + ramp, -60.0 - ramp, 10.0 ** (4 * ramp), ramp - 0.5, np.full(300, np.nan), np.zeros(300))
    scales = [plot_traces({"loss": values}).axes[0].get_yscale() for values in histories]
    assert scales == ["linear", "linear", "symlog", "symlog", "linear", "linear"]


def rounds(**settings):
    """A run of rounds of 5, 10 and 45 updates."""
    settings = {"num_steps": 60, "stop": Doubling(first=5, share=1e-6, tail=1.0)} | settings
    objective = Annealed(MixtureKL(num_particles=4), every_round=True)
    common = {"family": small_family(), "objective": objective, "whiten": None, "progress": False}
    return sivi.fit(lambda x: -0.5 * x @ x, dim=2, **common, **settings)


def test_traces_of_a_posterior_say_what_is_good_and_where_rounds_end():
    posterior = rounds()
    figure = plot_traces(posterior)
    assert [ax.get_ylabel() for ax in figure.axes] == ["minus ELBO", "minus ELBO", "weight of the own component", "β"]
    captions = [ax.get_title(loc="left") for ax in figure.axes]
    assert captions[0].startswith("good: falls, then flat: minus a lower bound of")
    assert [caption.endswith("dotted: ends of rounds") for caption in captions] == [True, False, False, False]
    assert all(len(line) <= 46 for caption in captions for line in caption.splitlines())
    assert "0.13" in captions[2]
    ends = [last for _, last in posterior.settings.stop_rule.round_ends(60, posterior.step)]
    assert ends[-1] == posterior.step
    dotted = [line.get_xdata()[0] for line in figure.axes[1].lines if line.get_linestyle() == ":"]
    assert dotted == ends
    history = posterior.history | {"loss": posterior.history["own_weight"]}
    assert len(plot_traces(history).axes) == 3  # of two metrics that are the same, one is shown


def test_ends_of_rounds_are_not_guessed_for_a_run_that_went_on_from_another():
    posterior = sivi.fit(lambda x: -0.5 * x @ x, dim=2, resume=rounds(), num_steps=140, progress=False)
    assert [line for line in plot_traces(posterior).axes[0].lines if line.get_linestyle() == ":"] == []


def test_traces_of_repeats_are_a_line_each():
    means = np.array([1.0, 2.0, 5.0])
    figure = plot_traces({"loss": np.repeat(means[:, None], 600, axis=1), "beta": np.zeros((3, 600))})
    lines = figure.axes[0].lines[:3]
    np.testing.assert_array_equal([line.get_ydata() for line in lines], np.repeat(means[:, None], 150, axis=1))
    assert [line.get_xdata()[-1] for line in lines] == [600.0] * 3
    assert len({line.get_color() for line in lines}) == 3
    assert figure.axes[0].get_xlim() == (0.0, 600.0)


def test_marginals_have_a_panel_per_coordinate():
    draws = np.random.default_rng(2).normal(size=(200, 5))
    figure = plot_marginals(draws, draws, names=list("abcde"), labels=("fit", "NUTS"))
    assert [ax.get_title() for ax in figure.axes[:5]] == list("abcde")
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["fit", "NUTS"]


def test_pairs_are_a_triangle_of_all_coordinates():
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(3000, 3)) * [1.0, 2.0, 0.5] + [0.0, 5.0, -3.0]
    figure = plot_pairs(draws, draws + 1.0, names=["a", "b", "c"], labels=("fit", "truth"))
    assert [ax.get_title() for ax in figure.axes if ax.get_title()] == ["a", "b", "c"]
    assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes[3:]] == [("a", "c"), ("b", ""), ("c", "")]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fit", "truth"]
    # The fit's curve on the diagonal peaks at its mean, the reference's one further on.
    for ax, centre in zip((figure.axes[0], figure.axes[2], figure.axes[5]), (0.0, 5.0, -3.0), strict=True):
        peaks = [line.get_xdata()[np.argmax(line.get_ydata())] for line in ax.lines]
        spread = np.std(draws[:, [0.0, 5.0, -3.0].index(centre)])
        np.testing.assert_allclose(peaks, [centre, centre + 1.0], atol=0.35 * spread)
    # Below it, x is the column's coordinate and y the row's.
    fit, truth = (np.concatenate([p.vertices for p in c.get_paths()]).mean(0) for c in figure.axes[4].collections)
    np.testing.assert_allclose(fit, [5.0, -3.0], atol=0.4)
    np.testing.assert_allclose(truth, [6.0, -2.0], atol=0.4)


def test_pairs_fit_into_part_of_a_figure():
    figure = plt.figure()
    left, right = figure.subfigures(1, 2)
    assert plot_pairs(DRAWS, figure=left) is left
    assert (len(left.axes), len(right.axes)) == (3, 0)


def test_levels_of_a_known_density():
    """Of exp(−r²/2), the disc that holds a share p of the mass ends at the value 1 − p."""
    x, y = np.meshgrid(*[np.linspace(-6.0, 6.0, 401)] * 2)
    np.testing.assert_allclose(mass_levels(np.exp(-0.5 * (x**2 + y**2)), (0.9, 0.5)), [0.1, 0.5], rtol=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_samples(np.zeros((3, 3))), r"draws must have shape \(n, 2\); got \(3, 3\)"),
        (lambda: plot_critic(lambda x: x, np.zeros(3)), r"draws must have shape \(n, 2\)"),
        (lambda: plot_pairs(DRAWS[:, :1]), r"draws must have shape \(n, dim\) with dim at least 2 .* got \(500, 1\)"),
        (lambda: plot_pairs(DRAWS, np.ones((9, 3))), r"draws and reference must have the same dim; got 2 and 3"),
        (lambda: plot_pairs(DRAWS, names=["a"]), r"names must have one entry per coordinate, 2; got 1"),
        (
            lambda: plot_arrows(np.zeros((3, 2)), np.zeros((4, 2))),
            r"got \(3, 2\) and \(4, 2\)",
        ),
        (lambda: plot_traces({"loss": np.zeros(3)}, ["elbo"]), r"names must be among .*\['loss'\]; got \['elbo'\]"),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
