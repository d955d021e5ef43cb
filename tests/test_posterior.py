import hashlib
import json
import struct
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import sivi
from contracts.plugins import small_family
from oracles import LinearGaussian, linear_gaussian_family
from sivi.critics import MLPCritic
from sivi.objectives import ScoreMatching
from sivi.posterior import Posterior, stack_repeats
from sivi.targets import Banana
from sivi.warmup import IdentityMap

OBJECTIVE = ScoreMatching(num_particles=16, critic=MLPCritic((8,)))


def posterior_of(family) -> Posterior:
    layout = sivi.targets.GaussianMixture([[0.0] * family.dim], [np.eye(family.dim)]).layout
    families, affines = stack_repeats((family, IdentityMap(family.dim)), 1)
    return Posterior(families, affines, layout, {}, 0, 1, jax.random.key(0), None, None, None)


@pytest.fixture(scope="module")
def posterior():
    return sivi.fit(Banana(), family=small_family(), objective=OBJECTIVE, num_steps=6, whiten=None, progress=False)


class TestSample:
    def test_is_a_function_of_the_key(self, posterior):
        np.testing.assert_array_equal(posterior.sample(10, key=3), posterior.sample(10, key=jax.random.key(3)))
        assert (posterior.sample(10, key=3) != posterior.sample(10, key=4)).any()

    def test_in_blocks(self, posterior, monkeypatch):
        monkeypatch.setattr("sivi.posterior._BLOCK", 8)
        draws = np.asarray(posterior.sample(21, key=1))
        assert draws.shape == (21, 2)
        assert len(np.unique(draws, axis=0)) == 21

    def test_moments_of_a_known_family(self):
        family = linear_gaussian_family()
        draws = np.asarray(posterior_of(family).sample(200_000, key=5))
        np.testing.assert_allclose(draws.mean(0), family.conditional.b, atol=0.02)
        np.testing.assert_allclose(np.cov(draws.T), family.conditional.covariance, atol=0.02)

    @pytest.mark.parametrize("num", [0, -1])
    def test_of_none(self, posterior, num):
        with pytest.raises(ValueError, match=f"num_samples must be at least 1; got {num}"):
            posterior.sample(num)


class TestLogProb:
    def test_agrees_with_the_closed_form(self):
        family = linear_gaussian_family()
        points = posterior_of(family).sample(50, key=1)
        exact = stats.multivariate_normal(family.conditional.b, family.conditional.covariance).logpdf(points)
        estimates = [posterior_of(family).log_prob(points, key=k, num_aux=4000) for k in range(60)]
        z = np.array([(np.asarray(value) - exact) / np.asarray(error) for value, error in estimates])
        assert z.shape == (60, 50)
        assert np.abs(z.mean(0)).max() < 5.0 / np.sqrt(60) + 0.1  # the bias is small against the error
        assert 0.85 < z.std() < 1.15  # the standard errors are neither too small nor too large

    def test_is_biased_low_and_less_so_with_more_draws(self):
        family = linear_gaussian_family()
        x = jnp.array([2.5, 1.0, -1.0])
        exact = stats.multivariate_normal(family.conditional.b, family.conditional.covariance).logpdf(x)
        means = [
            np.mean([posterior_of(family).log_prob(x, key=k, num_aux=num)[0] for k in range(300)]) for num in (3, 30)
        ]
        assert means[0] < means[1] < exact + 0.02

    def test_number_of_auxiliary_draws_need_not_fill_a_block(self, monkeypatch):
        monkeypatch.setattr("sivi.families.semi_implicit._AUX_BLOCK", 7)
        x = jnp.zeros(3)
        value, error = posterior_of(linear_gaussian_family()).log_prob(x, num_aux=2000)
        exact = stats.multivariate_normal(
            linear_gaussian_family().conditional.b, linear_gaussian_family().conditional.covariance
        ).logpdf(x)
        assert abs(float(value) - exact) < 5 * float(error)

    def test_takes_the_structure_that_sample_returns(self):
        posterior = sivi.fit(
            lambda p: -(p["a"] ** 2) - jnp.sum(p["b"] ** 2),
            like={"a": 0.0, "b": np.zeros(2)},
            num_steps=2,
            whiten=None,
            progress=False,
        )
        draws = posterior.sample(4, key=1)
        value, _ = posterior.log_prob(draws)
        single, _ = posterior.log_prob(jax.tree.map(lambda leaf: leaf[2], draws))
        assert value.shape == (4,)
        np.testing.assert_allclose(single, value[2], rtol=1e-5)

    def test_of_the_wrong_length(self, posterior):
        with pytest.raises(ValueError, match=r"x must have shape \(2,\) or \(n, 2\); got \(3,\)"):
            posterior.log_prob(jnp.zeros(3))


class TestFile:
    @pytest.fixture
    def path(self, posterior, tmp_path):
        path = tmp_path / "fit.sivi"
        posterior.save(path)
        return path

    def test_round_trip(self, posterior, path):
        loaded = sivi.load(path)
        np.testing.assert_array_equal(loaded.sample(20, key=1), posterior.sample(20, key=1))
        np.testing.assert_array_equal(loaded.history["loss"], posterior.history["loss"])
        assert (loaded.step, loaded.num_steps, loaded.skipped) == (6, 6, (0,))
        assert loaded.key == posterior.key
        assert jax.tree.structure(loaded.objective) == jax.tree.structure(posterior.objective)
        assert loaded.target is None

    def test_with_its_target_it_can_be_resumed(self, tmp_path):
        def log_density(x):
            return -jnp.sum((x - 1.0) ** 2)

        fitted = sivi.fit(log_density, dim=2, objective=OBJECTIVE, num_steps=3, whiten=None, progress=False)
        fitted.save(tmp_path / "fit.sivi")
        loaded = sivi.load(tmp_path / "fit.sivi", target=log_density)
        np.testing.assert_array_equal(loaded.state.critic(jnp.ones(2)), fitted.state.critic(jnp.ones(2)))
        with pytest.raises(sivi.FitFileError, match="another model"):
            sivi.load(tmp_path / "fit.sivi", target=lambda x: -jnp.sum(x**2))

    def test_saving_a_loaded_fit_loses_nothing(self, path, tmp_path):
        sivi.load(path).save(tmp_path / "again.sivi")
        resumed = [
            sivi.fit(Banana(), resume=file, num_steps=9, progress=False) for file in (path, tmp_path / "again.sivi")
        ]
        np.testing.assert_array_equal(resumed[0].sample(5), resumed[1].sample(5))

    def test_structure_survives(self, tmp_path):
        like = {"z": [0.0, np.zeros(2)], "a": (0.0,)}
        fitted = sivi.fit(
            lambda p: -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p)),
            like=like,
            num_steps=2,
            whiten=None,
            progress=False,
        )
        fitted.save(tmp_path / "fit.sivi")
        loaded = sivi.load(tmp_path / "fit.sivi").sample(3, key=2)
        assert jax.tree.structure(loaded) == jax.tree.structure(like)
        np.testing.assert_array_equal(loaded["z"][1], fitted.sample(3, key=2)["z"][1])

    def test_half_precision_state_survives(self, tmp_path):
        import optax

        objective = ScoreMatching(
            num_particles=8, critic=MLPCritic((8,)), optimizer=optax.adam(1e-3, mu_dtype=jnp.bfloat16)
        )
        path = tmp_path / "fit.sivi"
        fitted = sivi.fit(Banana(), objective=objective, num_steps=4, checkpoint=path, whiten=None, progress=False)
        loaded = sivi.load(path, Banana(), objective=objective)
        for a, b in zip(jax.tree.leaves(fitted.state), jax.tree.leaves(loaded.state), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)

    def test_an_unknown_container_of_unknowns(self, tmp_path):
        class Unknowns(NamedTuple):
            b: float
            a: float

        like = Unknowns(0.0, 0.0)
        fitted = sivi.fit(lambda p: -(p.a**2) - (p.b - 1.0) ** 2, like=like, num_steps=2, whiten=None, progress=False)
        assert isinstance(fitted.sample(2), Unknowns)
        fitted.save(tmp_path / "fit.sivi")
        loaded = sivi.load(tmp_path / "fit.sivi")
        assert list(loaded.sample(2)) == ["b", "a"]
        np.testing.assert_array_equal(loaded.sample(2)["a"], fitted.sample(2).a)
        with pytest.raises(sivi.FitFileError, match=r"give target=sivi\.targets\.LogDensity"):
            sivi.load(tmp_path / "fit.sivi", target=lambda p: -(p.a**2))

    def test_a_users_own_class_needs_to_be_given_again(self, tmp_path):
        family = linear_gaussian_family()
        target = sivi.targets.GaussianMixture([[0.0, 0.0, 0.0]], [np.eye(3)])
        fitted = sivi.fit(target, family=family, objective=OBJECTIVE, num_steps=2, whiten=None, progress=False)
        fitted.save(tmp_path / "fit.sivi")
        with pytest.raises(sivi.FitFileError, match=r"family is of a class that it cannot hold .*give family="):
            sivi.load(tmp_path / "fit.sivi")
        loaded = sivi.load(tmp_path / "fit.sivi", family=linear_gaussian_family())
        assert isinstance(loaded.family.conditional, LinearGaussian)
        np.testing.assert_array_equal(loaded.sample(5), fitted.sample(5))

    @pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 0.9, 0.999])
    def test_a_changed_byte_is_refused(self, path, where):
        content = bytearray(path.read_bytes())
        content[int(where * len(content))] ^= 1
        path.write_bytes(content)
        with pytest.raises(sivi.FitFileError, match=r"damaged or was changed|not a sivi fit file|truncated"):
            sivi.load(path)

    @pytest.mark.parametrize("length", [0, 4, 12, 30, 1000, -1])
    def test_a_truncated_file_is_refused(self, path, length):
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(sivi.FitFileError, match=r"not a sivi fit file|truncated|damaged"):
            sivi.load(path)

    @pytest.mark.parametrize(
        "change",
        [
            lambda h: h.update(family={"class": "Popen", "fields": {}}),
            lambda h: h.update(family={"class": "Posterior", "fields": {}}),
            lambda h: h.update(family={"function": "os.system"}),
            lambda h: h.update(family={"class": "SemiImplicit", "fields": {"mixing": 1}}),
            lambda h: h.update(family=3),
            lambda h: h.update(format=99),
            lambda h: h["arrays"][0].__setitem__(1, "object"),
            lambda h: h["arrays"][0].__setitem__(2, [10**12]),
            lambda h: h["arrays"].pop(),
            lambda h: h.pop("layout"),
            lambda h: h.update(key="not-a-generator"),
        ],
    )
    def test_a_forged_header_is_refused_even_with_a_right_checksum(self, path, change):
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[8:16])
        header = json.loads(content[16 : 16 + length])
        change(header)
        text = json.dumps(header).encode()
        body = content[:8] + struct.pack("<Q", len(text)) + text + content[16 + length : -32]
        path.write_bytes(body + hashlib.sha256(body).digest())
        with pytest.raises(sivi.FitFileError):
            sivi.load(path)

    def test_a_pickle_is_not_opened(self, tmp_path):
        import pickle

        path = tmp_path / "fit.sivi"
        path.write_bytes(pickle.dumps({"a": 1}))
        with pytest.raises(sivi.FitFileError, match="not a sivi fit file"):
            sivi.load(path)

    def test_into_a_folder_that_does_not_exist(self, posterior, tmp_path):
        with pytest.raises(FileNotFoundError, match="path must be in an existing folder"):
            posterior.save(tmp_path / "no" / "fit.sivi")
