"""Fit files: what comes back, what is refused, and what files of earlier versions still give."""

import dataclasses
import hashlib
import json
import os
import struct
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import small_family
from oracles import LinearGaussian, linear_gaussian_family
from sivi._run import Remark
from sivi._storage import atomic, codec, old_names
from sivi.critics import MLPCritic
from sivi.objectives import ScoreMatching
from sivi.targets import Banana

OBJECTIVE = ScoreMatching(num_particles=16, critic=MLPCritic((8,)))
FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def posterior():
    return sivi.fit(Banana(), family=small_family(), objective=OBJECTIVE, num_steps=6, whiten=None, progress=False)


@pytest.fixture
def path(posterior, tmp_path):
    path = tmp_path / "fit.sivi"
    posterior.save(path)
    return path


def forge(path, change):
    """Change the header of a file, and make its checksum right."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[8:16])
    header = json.loads(content[16 : 16 + length])
    change(header)
    text = json.dumps(header).encode()
    body = content[:8] + struct.pack("<Q", len(text)) + text + content[16 + length : -32]
    path.write_bytes(body + hashlib.sha256(body).digest())


class TestFile:
    def test_round_trip(self, posterior, path):
        loaded = sivi.load(path)
        np.testing.assert_array_equal(loaded.sample(20, key=1), posterior.sample(20, key=1))
        np.testing.assert_array_equal(loaded.history["loss"], posterior.history["loss"])
        assert (loaded.step, loaded.num_steps, loaded.skipped) == (6, 6, (0,))
        assert loaded.key == posterior.key
        assert jax.tree.structure(loaded.objective) == jax.tree.structure(posterior.objective)
        assert loaded.target is None

    def test_warnings_survive_and_are_checked(self, posterior, tmp_path):
        path, said = tmp_path / "fit.sivi", Remark("unused-unknown", "The score of x[1] is zero.", ("x[1]",), (0,))
        dataclasses.replace(posterior, run=dataclasses.replace(posterior.run, warnings=(said,))).save(path)
        (found,) = sivi.load(path).warnings
        assert (found, found.kind, found.unknowns, found.repeats) == (said, said.kind, said.unknowns, said.repeats)
        forge(path, lambda header: header["run"].pop("warnings"))  # a file of a version that had none
        assert sivi.load(path).warnings == ()
        for wrong in (3, [["kind"]], [["kind", 3, [], [0]]], [["kind", "It.", [], [1]]], [["kind", "It.", [], [-1]]]):
            forge(path, lambda header, wrong=wrong: header["run"].update(warnings=wrong))
            with pytest.raises(sivi.FitFileError):
                sivi.load(path)

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
        np.testing.assert_array_equal(resumed[0].sample(5, key=0), resumed[1].sample(5, key=0))

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
        assert isinstance(fitted.sample(2, key=0), Unknowns)
        fitted.save(tmp_path / "fit.sivi")
        loaded = sivi.load(tmp_path / "fit.sivi")
        assert list(loaded.sample(2, key=0)) == ["b", "a"]
        np.testing.assert_array_equal(loaded.sample(2, key=0)["a"], fitted.sample(2, key=0).a)
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
        np.testing.assert_array_equal(loaded.sample(5, key=0), fitted.sample(5, key=0))

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
            lambda h: h["layout"]["variables"][0].__setitem__(1, [5]),  # another length than the family's
            lambda h: h["layout"]["variables"][0].__setitem__(1, [1]),
            lambda h: h["run"].update(step=-1),
            lambda h: h["run"].update(step=7),
            lambda h: h["run"].update(step=float("inf")),
            lambda h: h["run"].update(step=2**40),
            lambda h: h["run"].update(skipped=[0] * 3, streak=[0] * 3),
            lambda h: h["run"].update(skipped=[]),
            lambda h: h["settings"].update(batch_size=float("nan")),
            lambda h: h["settings"].update(batch_size=0),
            lambda h: h["settings"].update(num_steps="6"),
            lambda h: h["arrays"].extend([["x", "float32", [0]]] * 200_000),
            lambda h: h["layout"]["variables"][0].__setitem__(1, [-1, -2]),
            lambda h: h["layout"]["variables"][0].__setitem__(2, "complex7"),
            lambda h: h["layout"].update(structure={"dict": {"a": 0, "b": 1}}),
            lambda h: h["settings"].update(batching="sorted"),
            lambda h: h["run"].update(step=5),  # the history has six
            lambda h: h.update(family={"class": "SemiImplicit", "fields": {}, "more": 1}),
            lambda h: h.update(affine=None),
            lambda h: h.update(stop_rule=h["objective"]),
            lambda h: h["settings"].update(precision="float7"),
            lambda h: h["settings"].update(precision=5),
        ],
    )
    def test_a_forged_header_is_refused_even_with_a_right_checksum(self, path, change):
        forge(path, change)
        with pytest.raises(sivi.FitFileError):
            sivi.load(path)

    @pytest.mark.parametrize(
        "change",
        [
            lambda fields: fields.update(optimizer=3),
            lambda fields: fields.update(critic=None),
            lambda fields: fields.update(num_particles="many"),
            lambda fields: fields.update(split="yes"),
        ],
    )
    def test_an_objective_that_no_longer_works_is_refused_and_draws_are_not(self, posterior, path, change):
        forge(path, lambda header: change(header["objective"]["fields"]))
        np.testing.assert_array_equal(sivi.load(path).sample(5, key=1), posterior.sample(5, key=1))
        with pytest.raises(sivi.FitFileError, match=r"objective"):
            sivi.fit(Banana(), resume=path, num_steps=9, progress=False)

    def test_an_objective_that_makes_no_state_any_more(self, path, monkeypatch):
        def init(*arguments):
            raise ZeroDivisionError("no such state.")

        monkeypatch.setattr(ScoreMatching, "init", init)
        assert sivi.load(path).sample(2, key=0).shape == (2, 2)
        with pytest.raises(sivi.FitFileError, match=r"does not work .*\(ZeroDivisionError: no such state\)\."):
            sivi.load(path, Banana())

    def test_a_family_with_other_arrays(self, path):
        bigger = sivi.SemiImplicit(sivi.NormalMixing(3), sivi.DiagonalGaussian(3, 2, hidden=(), key=jax.random.key(0)))
        with pytest.raises(sivi.FitFileError, match=r"family does not fit the file: it has \d arrays, the file 8"):
            sivi.load(path, family=bigger)

    def test_a_pickle_is_not_opened(self, tmp_path):
        import pickle

        path = tmp_path / "fit.sivi"
        path.write_bytes(pickle.dumps({"a": 1}))
        with pytest.raises(sivi.FitFileError, match="not a sivi fit file"):
            sivi.load(path)

    def test_into_a_folder_that_does_not_exist(self, posterior, tmp_path):
        with pytest.raises(FileNotFoundError, match="path must be in an existing folder"):
            posterior.save(tmp_path / "no" / "fit.sivi")


def forge_arrays(path, change):
    """Change the arrays of a file, and make its checksum right."""
    header, arrays = sivi._storage.container.read(path)
    change(arrays)
    header.pop("arrays")
    sivi._storage.container.write(path, header, arrays)


@pytest.mark.parametrize("end", [7, 10**6, -1])
def test_a_run_that_would_never_end_is_refused(path, end):
    header, _ = sivi._storage.container.read(path)
    index = header["stop_state"]["fields"]["end"]["array"]
    forge_arrays(path, lambda arrays: arrays.update({f"stop_state/{index}": np.int32(end)}))
    with pytest.raises(sivi.FitFileError, match=f"run ends at update {end} of 6"):
        sivi.load(path)


def test_stop_state_of_another_shape(path):
    header, _ = sivi._storage.container.read(path)
    index = header["stop_state"]["fields"]["end"]["array"]
    forge_arrays(path, lambda arrays: arrays.update({f"stop_state/{index}": np.zeros(2, np.int32)}))
    with pytest.raises(sivi.FitFileError, match="stop state has a end of the wrong shape"):
        sivi.load(path)


class TestSizes:
    def test_only_the_first_bytes_of_another_file_are_read(self, tmp_path):
        path = tmp_path / "zeros"
        with open(path, "wb") as file:
            file.truncate(2**36)  # 64 GB, none of them on the disk
        with pytest.raises(sivi.FitFileError, match="not a sivi fit file"):
            sivi.load(path)

    def test_a_header_longer_than_any_is_not_read(self, tmp_path):
        path = tmp_path / "long"
        path.write_bytes(b"sivifit\x01" + struct.pack("<Q", 2**62) + bytes(100))
        with pytest.raises(sivi.FitFileError, match="damaged or was changed"):
            sivi.load(path)


class TestWriting:
    def test_permissions_are_kept(self, posterior, path):
        os.chmod(path, 0o600)
        posterior.save(path)
        assert path.stat().st_mode & 0o777 == 0o600

    def test_a_new_file_has_the_permissions_of_any_new_file(self, path, tmp_path):
        (tmp_path / "other").write_text("")
        assert path.stat().st_mode == (tmp_path / "other").stat().st_mode

    def test_a_private_file_is_private_while_it_is_written(self, path, tmp_path):
        os.chmod(path, 0o600)
        modes = []
        atomic.write_whole(path, lambda temporary: modes.append(temporary.stat().st_mode & 0o777))
        assert modes == [0o600]

    def test_a_link_stays_one(self, posterior, path, tmp_path):
        folder = tmp_path / "large disk"
        folder.mkdir()
        (tmp_path / "link.sivi").symlink_to(folder / "fit.sivi")
        for _ in range(2):
            posterior.save(tmp_path / "link.sivi")
        assert (tmp_path / "link.sivi").is_symlink()
        assert [file.name for file in folder.iterdir()] == ["fit.sivi"]
        assert sivi.load(tmp_path / "link.sivi").step == 6

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_not_replaced(self, posterior, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="must be a regular file"):
            posterior.save(tmp_path / "pipe")
        assert (tmp_path / "pipe").is_fifo()

    def test_two_threads_and_one_file(self, posterior, path):
        """Every save succeeds, and whatever is read in between is whole."""
        import threading

        failures, done = [], threading.Event()

        def save():
            try:
                for _ in range(20):
                    posterior.save(path)
            except Exception as error:
                failures.append(error)

        def read():
            while not done.is_set():
                try:
                    codec_free = sivi._storage.container.read(path)
                    assert codec_free[0]["run"]["step"] == 6
                except Exception as error:
                    failures.append(error)

        writers, reader = [threading.Thread(target=save) for _ in range(2)], threading.Thread(target=read)
        for thread in (*writers, reader):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        reader.join()
        assert failures == []
        assert [file.name for file in path.parent.iterdir()] == ["fit.sivi"]


class TestCheckpoint:
    def fit(self, path, **settings):
        settings = {"num_steps": 12, "chunk_size": 4, "checkpoint": path, "progress": False, "whiten": None} | settings
        return sivi.fit(Banana(), family=small_family(), objective=OBJECTIVE, **settings)

    def test_what_a_killed_run_left_is_removed_and_what_a_living_one_writes_is_not(self, tmp_path):
        path, dead = tmp_path / "fit.sivi", 2**22 + 1  # above the largest process number of Linux
        host = atomic._host()
        leftovers = [f".fit.{dead}.tmp.sivi", *(f".fit.{host}-{pid}-0123abcd.tmp.sivi" for pid in (dead, os.getpid()))]
        others = [
            f".fit.{host}-{os.getppid()}-0123abcd.tmp.sivi",
            f".other.{dead}.tmp.sivi",
            f".fit.elsewhere-{dead}-a.tmp.sivi",  # of another machine, and young
        ]
        for name in (*leftovers, *others):
            (tmp_path / name).write_text("half")
        fitted = self.fit(path)
        assert {file.name for file in tmp_path.iterdir()} == {"fit.sivi", *others}
        (tmp_path / leftovers[0]).write_text("half")
        sivi.fit(Banana(), resume=path, num_steps=fitted.step, progress=False)
        assert {file.name for file in tmp_path.iterdir()} == {"fit.sivi", *others}

    def test_another_run_with_the_same_checkpoint_is_noticed(self, tmp_path):
        path = tmp_path / "fit.sivi"

        def write_between(report):
            if report.step == 8:
                sivi.load(path).save(path)

        with pytest.raises(sivi.CheckpointError, match=r"update 12 \(another run has written it since\)") as caught:
            self.fit(path, callbacks=[write_between])
        assert caught.value.posterior.step == 12
        assert sivi.load(path).step == 8

    def test_an_interrupt_right_after_a_write_is_not_taken_for_another_run(self, tmp_path, monkeypatch):
        replace = os.replace

        def interrupted(source, path):
            replace(source, path)
            monkeypatch.setattr(os, "replace", replace)
            raise KeyboardInterrupt

        def interrupt_the_next(report):
            if report.step == 4:
                monkeypatch.setattr(os, "replace", interrupted)

        with pytest.warns(UserWarning, match="update 8 of 12"):
            posterior = self.fit(tmp_path / "fit.sivi", callbacks=[interrupt_the_next])
        assert posterior.step == sivi.load(tmp_path / "fit.sivi").step == 8

    def test_through_a_link_in_a_folder_that_cannot_be_written(self, tmp_path):
        for name in ("links", "disk"):
            (tmp_path / name).mkdir()
        link = tmp_path / "links" / "fit.sivi"
        link.symlink_to(tmp_path / "disk" / "fit.sivi")
        self.fit(link, num_steps=4)
        assert link.is_symlink()
        assert (tmp_path / "disk" / "fit.sivi").is_file()

    def test_a_checkpoint_that_was_removed_is_written_again(self, tmp_path):
        path = tmp_path / "fit.sivi"
        self.fit(path, callbacks=[lambda report: path.unlink() if report.step == 4 else None])
        assert sivi.load(path).step == 12

    def test_an_earlier_fit_is_replaced(self, tmp_path):
        for num_steps in (8, 4):
            self.fit(tmp_path / "fit.sivi", num_steps=num_steps)
        assert sivi.load(tmp_path / "fit.sivi").step == 4


class TestOtherVersions:
    """Files whose classes and fields this version calls otherwise, has lost or has gained."""

    def test_a_fit_whose_objective_is_gone_can_be_sampled(self, posterior, path):
        forge(path, lambda h: h["objective"].update({"class": "NoSuchObjective"}))
        loaded = sivi.load(path)
        np.testing.assert_array_equal(loaded.sample(5, key=1), posterior.sample(5, key=1))
        assert loaded.objective is None
        with pytest.raises(sivi.FitFileError, match=r"does not have: 'NoSuchObjective'.*give objective= again"):
            sivi.fit(Banana(), resume=path, num_steps=9, progress=False)
        resumed = sivi.fit(Banana(), resume=path, objective=OBJECTIVE, num_steps=9, progress=False)
        whole = sivi.fit(Banana(), resume=posterior, num_steps=9, progress=False)
        np.testing.assert_array_equal(resumed.sample(5, key=1), whole.sample(5, key=1))

    def test_saving_it_again_keeps_its_state(self, path, tmp_path):
        forge(path, lambda h: h["objective"].update({"class": "NoSuchObjective"}))
        sivi.load(path).save(tmp_path / "again.sivi")
        assert sivi.load(tmp_path / "again.sivi", Banana(), objective=OBJECTIVE).state is not None

    def test_saving_it_again_keeps_the_objective_that_could_not_be_read(self, path, tmp_path):
        forge(path, lambda h: h["objective"].update({"class": "NoSuchObjective"}))
        sivi.load(path).save(tmp_path / "again.sivi")
        forge(tmp_path / "again.sivi", lambda h: h["objective"].update({"class": "ScoreMatching"}))
        assert sivi.fit(Banana(), resume=tmp_path / "again.sivi", num_steps=9, progress=False).step == 9

    def test_an_objective_that_is_none(self, path, as_a_user):
        forge(path, lambda h: h.update(objective=codec.encode(sivi.Plateau(0.1), [])))
        assert sivi.load(path).objective is None
        with pytest.raises(sivi.FitFileError, match="has no objective; give objective= again"):
            sivi.fit(Banana(), resume=path, progress=False)
        with pytest.raises(TypeError, match="objective must be a sivi objective; got <class"):
            sivi.load(path, Banana(), objective=ScoreMatching)

    def test_old_names_of_classes_and_fields(self, posterior, path, monkeypatch):
        monkeypatch.setitem(old_names.CLASSES, "OldFamily", "SemiImplicit")
        monkeypatch.setitem(old_names.FIELDS, "SemiImplicit", {"latent": "mixing", "dropped": None})

        def age(header):
            fields = header["family"]["fields"]
            header["family"] = {
                "class": "OldFamily",
                "fields": {"latent": fields["mixing"], "conditional": fields["conditional"], "dropped": 3},
            }

        forge(path, age)
        np.testing.assert_array_equal(sivi.load(path).sample(5, key=1), posterior.sample(5, key=1))

    def test_a_field_that_a_class_has_gained_has_its_default(self):
        arrays = []
        node = codec.encode(sivi.schedules.Cosine(0.3), arrays)
        del node["fields"]["hold"]
        assert codec.decode(node, arrays) == sivi.schedules.Cosine(0.3)
        del node["fields"]["initial"]
        with pytest.raises(sivi.FitFileError, match="Cosine has fields"):
            codec.decode(node, arrays)

    def test_old_names_are_not_those_of_todays_classes(self):
        assert not old_names.CLASSES.keys() & codec._library_classes().keys()
        assert set(old_names.CLASSES.values()) <= codec._library_classes().keys()
        for name, fields in old_names.FIELDS.items():
            today = {field.name for field in dataclasses.fields(codec._library_classes()[name])}
            assert {new for new in fields.values() if new is not None} <= today
            assert not fields.keys() & today


class TestVersion01:
    """Files that version 0.1 wrote, see fixtures/make_v0_1.py; they must be read for ever."""

    @pytest.fixture(autouse=True)
    def models(self, monkeypatch):
        monkeypatch.syspath_prepend(FIXTURES)

    @pytest.fixture
    def draws(self):
        return dict(np.load(FIXTURES / "v0_1" / "draws.npz"))

    @pytest.mark.parametrize("name", ["vector", "named_repeats", "checkpoint", "checkpoint_minibatches"])
    def test_draws(self, name, draws):
        loaded = sivi.load(FIXTURES / "v0_1" / f"{name}.sivi")
        assert loaded.warmup_status == ("unknown",) * loaded.repeats
        np.testing.assert_allclose(loaded.unconstrained(20, key=3), draws[name], rtol=1e-5, atol=1e-5)
        assert loaded.objective is not None
        assert len(loaded.history["loss"].T) == loaded.step

    def test_one_of_the_repeats(self):
        """Of a fit without its target, with the state that would be resumed."""
        whole = sivi.load(FIXTURES / "v0_1" / "named_repeats.sivi")
        part = whole.repeat(1)
        assert (whole.repeats, part.repeats) == (2, 1)
        assert [leaf.shape[0] for leaf in part.unattached.state_leaves] == [1] * len(whole.unattached.state_leaves)
        assert repr(whole).startswith("Posterior(")
        assert "2 repeats, " in repr(whole)
        assert "repeats" not in repr(part)

    def test_names_constraints_and_repeats(self):
        loaded = sivi.load(FIXTURES / "v0_1" / "named_repeats.sivi")
        sample = loaded.sample(50, key=1)
        assert loaded.repeats == 2
        assert (sample["scale"] > 0).all()
        assert (np.diff(sample["cuts"], axis=1) > 0).all()
        assert ((sample["share"] > 0) & (sample["share"] < 1)).all()

    @pytest.mark.parametrize("name", ["checkpoint", "checkpoint_minibatches"])
    def test_a_checkpoint_resumes_and_reaches_its_end(self, name, draws, tmp_path):
        from v0_1_models import correlated, logistic

        target, dim = (correlated, 2) if name == "checkpoint" else (logistic(), None)
        file = FIXTURES / "v0_1" / f"{name}.sivi"
        assert (sivi.load(file).step, sivi.load(file).finished) == (30, False)
        resumed = sivi.fit(target, dim, resume=file, progress=False)
        assert (resumed.step, resumed.finished) == (60, True)
        np.testing.assert_allclose(resumed.unconstrained(20, key=3), draws[f"{name}_end"], rtol=1e-4, atol=1e-4)

    def test_settings(self):
        minibatches = sivi.load(FIXTURES / "v0_1" / "checkpoint_minibatches.sivi").settings
        assert (minibatches.batch_size, minibatches.batching, minibatches.control_variate) == (20, "rotate", True)
        assert (
            sivi.load(FIXTURES / "v0_1" / "checkpoint.sivi").settings.stop_rule
            == sivi.defaults.recipe(2).with_critic().stop_rule()
        )


def test_a_random_key_is_stored_as_its_bits():
    key = jax.random.key(7)
    bits = codec.to_numpy(key)
    np.testing.assert_array_equal(bits, jax.random.key_data(key))
    filled = codec.fill({"key": jax.random.key(0), "x": jnp.zeros(2)}, [bits, np.ones(2, np.float32)], "state")
    assert filled["key"] == key
    np.testing.assert_array_equal(filled["x"], np.ones(2))


def test_an_array_of_another_kind_is_not_written(tmp_path):
    with pytest.raises(TypeError, match=r"a fit file holds arrays of dtype .*; got complex64"):
        sivi._storage.container.write(tmp_path / "fit.sivi", {}, {"z": np.zeros(2, np.complex64)})
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_file_stays_unless_its_process_is_known_to_be_dead(tmp_path, monkeypatch):
    def of_another_user(pid, signal):
        raise PermissionError

    file = tmp_path / "file"
    file.write_text("")
    assert not atomic._is_dead("host-name-token", file)  # no number
    monkeypatch.setattr(os, "kill", of_another_user)
    assert not atomic._is_dead(str(2**22 + 1), file)
