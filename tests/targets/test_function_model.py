"""`sivi.model` and `StructuredModel`: named, constrained unknowns with data and minibatches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import sivi
from sivi.targets import BayesianModel, ControlVariate, LogDensity, StructuredModel

N = 12
_RNG = np.random.default_rng(3)
INPUTS = _RNG.normal(size=(N, 2))
DATA = {"x": INPUTS, "y": INPUTS @ [1.0, -0.5] + 0.3 * _RNG.normal(size=N)}
LIKE = {"w": np.zeros(2), "sigma": sivi.positive()}


def log_prior(p):
    return jnp.sum(norm.logpdf(p["w"], 0.3, 2.0)) - p["sigma"]


def log_likelihood(p, datum):
    return norm.logpdf(datum["y"], datum["x"] @ p["w"], p["sigma"])


def predict(p, inputs):
    return inputs @ p["w"]


def sample_datum(key, p, datum):
    return datum["x"] @ p["w"] + p["sigma"] * jax.random.normal(key)


def line(**other):
    return sivi.model(log_prior, log_likelihood, data=DATA, like=LIKE, **other)


class Line(StructuredModel):
    data: dict
    like = LIKE

    def log_prior(self, x):
        return log_prior(x)

    def log_likelihood(self, x, datum):
        return log_likelihood(x, datum)


class LineOfItsData(StructuredModel):
    """With an example that JAX traces together with the rest of the model."""

    data: dict

    @property
    def like(self):
        return {"w": jnp.zeros(self.data["x"].shape[-1]), "sigma": sivi.positive()}

    def log_prior(self, x):
        return log_prior(x)

    def log_likelihood(self, x, datum):
        return log_likelihood(x, datum)


class FlatLine(BayesianModel):
    """The same by hand: the logarithm of sigma first, as dicts are sorted, and its Jacobian in the prior."""

    data: dict
    dim: int = 3

    def log_prior(self, x):
        return log_prior({"w": x[1:], "sigma": jnp.exp(x[0])}) + x[0]

    def log_likelihood(self, x, datum):
        return log_likelihood({"w": x[1:], "sigma": jnp.exp(x[0])}, datum)


def arrays():
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), DATA)


POINTS = np.random.default_rng(5).normal(size=(20, 3))


@pytest.fixture(params=["functions", "subclass", "subclass with a property"])
def model(request, precision):
    made = {"functions": line, "subclass": lambda: Line(arrays())}
    return made.get(request.param, lambda: LineOfItsData(arrays()))()


class TestDensity:
    def test_is_that_of_the_flat_model(self, model, precision):
        flat, tolerance = FlatLine(arrays()), 1e-10 if precision == "float64" else 2e-5
        rows = jnp.array([7, 2, 3])
        for batch in (None, rows):
            for target_value, of_flat in ((model.log_prob, flat.log_prob), (model.score, flat.score)):
                found = jax.jit(jax.vmap(lambda x: target_value(x, batch)))(jnp.asarray(POINTS, float))  # noqa: B023
                expected = jax.vmap(lambda x: of_flat(x, batch))(jnp.asarray(POINTS, float))  # noqa: B023
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 30)

    def test_is_that_of_the_written_out_log_density(self, model, precision):
        def written_out(p):
            total = log_prior(p)
            for n in range(N):
                total += log_likelihood(p, {"x": jnp.asarray(INPUTS[n], float), "y": DATA["y"][n]})
            return total

        hand = LogDensity(written_out, like=LIKE)
        x = jnp.asarray(POINTS[0], float)
        np.testing.assert_allclose(model.log_prob(x), hand.log_prob(x), rtol=1e-5)

    @pytest.mark.parametrize("size", [1, 4, 6])
    def test_mean_of_minibatch_scores_is_the_full_score(self, x64, size):
        """All batches of a partition, and with a control variate as well."""
        model = line()
        batches = np.random.default_rng(0).permutation(N).reshape(-1, size)
        for target in (model, ControlVariate.at(model, jnp.full(3, 0.2))):
            for x in jnp.asarray(POINTS[:3]):
                mean = np.mean([target.score(x, jnp.asarray(rows)) for rows in batches], axis=0)
                np.testing.assert_allclose(mean, target.score(x), rtol=1e-10, atol=1e-10)

    def test_a_vector_of_unknowns_is_given_as_it_is(self, x64):
        model = sivi.model(lambda x: -jnp.sum(x**2), lambda x, y: -((y - x[0]) ** 2), data=DATA["y"], dim=2)
        x = jnp.array([0.3, -0.7])
        assert model.layout.is_vector
        np.testing.assert_allclose(model.log_prob(x), -0.58 - np.sum((DATA["y"] - 0.3) ** 2))

    def test_programs_are_those_of_the_trace(self):
        assert jax.tree.structure(line()) == jax.tree.structure(line())
        one = sivi.model(lambda p: -(p["a"] ** 2), lambda p, y: -y * p["a"], data=DATA["y"], like={"a": 0.0})
        other = sivi.model(lambda q: -(q["a"] ** 2), lambda q, d: -d * q["a"], data=DATA["y"] + 1, like={"a": 0.0})
        assert jax.tree.structure(one) == jax.tree.structure(other)


class TestObservations:
    def test_names(self):
        assert list(line().observed) == ["y"]
        assert list(line(observed="x").observed) == ["x"]
        counts = {"count": np.ones(3), "offset": np.zeros(3)}
        unknown = sivi.model(lambda p: -(p["a"] ** 2), lambda p, d: d["count"] * p["a"], data=counts, like={"a": 0.0})
        assert unknown.observed == {}
        assert list(unknown.pointwise_log_likelihood(jnp.zeros(1))) == ["y"]
        pair = sivi.model(
            lambda p: -(p["a"] ** 2), lambda p, d: d[1] * p["a"], data=(np.zeros(3), np.arange(3)), like={"a": 0.0}
        )
        np.testing.assert_array_equal(pair.observed["y"], np.arange(3))

    def test_pointwise_log_likelihood_sums_to_the_likelihood(self, x64):
        model, x = line(), jnp.asarray(POINTS[1])
        found = model.pointwise_log_likelihood(x)["y"]
        p = model.point(x)
        np.testing.assert_allclose(found, norm.logpdf(DATA["y"], INPUTS @ p["w"], p["sigma"]))
        np.testing.assert_allclose(found.sum() + log_prior(p) + x[0], model.log_prob(x))

    def test_replicates_have_the_moments_of_the_likelihood(self):
        model = line(sample_datum=sample_datum)
        x = jnp.asarray(POINTS[2], float)
        p = model.point(x)
        draws = np.asarray(
            jax.vmap(lambda key: model.replicate(key, x)["y"])(jax.random.split(jax.random.key(0), 4000))
        )
        errors = (draws.mean(0) - INPUTS @ p["w"]) / (p["sigma"] / np.sqrt(4000))
        assert np.abs(errors).max() < 4.0  # 12 of them: one false failure in 1,300 keys
        np.testing.assert_allclose(draws.std(0), p["sigma"], rtol=0.06)

    def test_predict(self):
        model = line(predict=predict)
        p = model.point(jnp.asarray(POINTS[0], float))
        np.testing.assert_allclose(model.predict(p, INPUTS[:3]), INPUTS[:3] @ p["w"], rtol=1e-5)


class TestHeldOutScores:
    def test_are_those_of_the_flat_model_for_draws_in_either_form(self, x64):
        model, flat = line(), FlatLine(arrays())
        held_out = {"x": np.random.default_rng(8).normal(size=(5, 2)), "y": np.arange(5.0)}
        expected = sivi.metrics.predictive_scores(flat, POINTS, held_out)
        structured = {"sigma": np.exp(POINTS[:, 0]), "w": POINTS[:, 1:]}
        for draws in (structured, POINTS):
            found = sivi.metrics.predictive_scores(model, draws, held_out)
            np.testing.assert_allclose([found.per_point, found.joint], [expected.per_point, expected.joint])

    def test_of_a_classifier(self, x64):
        labels = (np.arange(N) % 2).astype(float)
        model = sivi.model(
            lambda p: -jnp.sum(p["beta"] ** 2),
            lambda p, d: -jnp.logaddexp(0.0, -(2 * d[1] - 1) * (d[0] @ p["beta"])),
            data=(INPUTS, labels),
            like={"beta": np.zeros(2)},
            predict=lambda p, inputs: jax.nn.sigmoid(inputs @ p["beta"]),
        )
        same = sivi.targets.LogisticRegression(INPUTS, labels)
        found = sivi.metrics.classification_scores(model, {"beta": POINTS[:, :2]}, (INPUTS, labels))
        expected = sivi.metrics.classification_scores(same, POINTS[:, :2], (INPUTS, labels))
        np.testing.assert_allclose(found.brier, expected.brier)
        np.testing.assert_allclose(found.probabilities, expected.probabilities)

    @pytest.mark.usefixtures("as_a_user")
    def test_draws_that_are_refused(self):
        held_out = {"x": np.zeros((1, 2)), "y": np.zeros(1)}
        with pytest.raises(ValueError, match="'sigma'"):
            sivi.metrics.predictive_scores(line(), {"sigma": -np.ones(3), "w": np.zeros((3, 2))}, held_out)
        with pytest.raises(ValueError, match="one leading length"):
            sivi.metrics.predictive_scores(line(), {"sigma": np.ones(2), "w": np.zeros((3, 2))}, held_out)
        with pytest.raises(ValueError, match="draws must be finite; 6 numbers of 'w' are not"):
            sivi.metrics.predictive_scores(line(), {"sigma": np.ones(3), "w": np.full((3, 2), np.nan)}, held_out)


class TestFit:
    @pytest.mark.slow
    def test_of_minibatches_has_names_and_goes_to_a_file_and_back(self, tmp_path):
        objective = sivi.objectives.PathKL(num_particles=16, critic_steps=1, critic_warmup=0)
        settings = {"objective": objective, "whiten": None, "num_steps": 6, "progress": False, "batch_size": 4}
        model = line()
        posterior = sivi.fit(model, key=0, **settings)
        draws = posterior.sample(5, key=1)
        assert {name: leaf.shape for name, leaf in draws.items()} == {"sigma": (5,), "w": (5, 2)}
        assert (draws["sigma"] > 0).all()
        posterior.save(tmp_path / "fit.sivi")
        again = sivi.load(tmp_path / "fit.sivi", target=line())
        np.testing.assert_array_equal(again.sample(5, key=1)["w"], draws["w"])
        part = sivi.fit(model, key=0, chunk_size=2, callbacks=[lambda report: True], **settings)
        assert part.step == 2
        whole = sivi.fit(line(), resume=part, progress=False)
        np.testing.assert_array_equal(whole.sample(5, key=1)["w"], draws["w"])


@pytest.mark.usefixtures("as_a_user")
class TestRefusals:
    def refused(self, message, error=ValueError, **other):
        given = {"log_prior": log_prior, "log_likelihood": log_likelihood, "data": DATA, "like": LIKE} | other
        with pytest.raises(error, match=message):
            sivi.model(given.pop("log_prior"), given.pop("log_likelihood"), **given)

    def test_what_is_no_function(self):
        self.refused(r"log_prior must be a function; got 3\.", TypeError, log_prior=3)
        self.refused(r"log_likelihood must be a function; got None\.", TypeError, log_likelihood=None)
        self.refused(r"predict must be a function; got 'x'\.", TypeError, predict="x")

    def test_data(self):
        self.refused(
            r"data must be arrays of numbers with a leading axis; got 1\.0 at 'y\.0'",
            TypeError,
            data={"x": INPUTS, "y": [1.0, 2.0]},
        )
        self.refused("all arrays must share one leading length", data={"x": INPUTS, "y": np.zeros(3)})
        self.refused(r"data must be arrays of numbers.*at 'y'", TypeError, data={"x": INPUTS, "y": np.array(["a"] * N)})
        self.refused("data must be a pytree of arrays", data={})

    def test_functions_that_do_not_fit(self):
        self.refused(
            r"log_prior must return one floating-point number for the unknowns; got .* shape \(2,\)",
            log_prior=lambda p: p["w"],
        )
        self.refused(
            "log_likelihood must return one floating-point number for the unknowns and one datum",
            log_likelihood=lambda p, d: d["x"],
        )
        with pytest.raises(KeyError) as caught:
            sivi.model(lambda p: p["nothing"], log_likelihood, data=DATA, like=LIKE)
        assert "(raised by log_prior, called with the unknowns)" in caught.value.__notes__

    def test_what_is_observed(self):
        self.refused("observed must be a key of data; got 'z', and its keys are 'x', 'y'", observed="z")
        self.refused(
            r"sample_datum must return an array of shape \(2,\).*got \(\)\. If another entry",
            observed="x",
            sample_datum=sample_datum,
        )

    def test_unknowns(self):
        self.refused("one of dim .* and like .* got neither", like=None)
        self.refused("one of dim .* and like .* got both", dim=2)

    def test_what_the_model_was_not_told(self):
        x = jnp.zeros(3)
        with pytest.raises(TypeError, match="give predict="):
            line().predict(line().point(x), INPUTS)
        with pytest.raises(TypeError, match="give sample_datum="):
            line().replicate(jax.random.key(0), x)
