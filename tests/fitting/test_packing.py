"""Packed trees: nothing is lost, and choices are made by repeat."""

import jax
import jax.numpy as jnp
import numpy as np

from sivi._fitting.packing import Packing, all_finite, chosen


def tree():
    return {
        "a": jnp.arange(12.0).reshape(2, 3, 2),
        "b": (jnp.arange(2, dtype=jnp.int32), jnp.ones((2, 1)), jax.nn.silu),
        "c": jnp.array([[True], [False]]),
        "d": None,
    }


def equal(one, other):
    leaves = jax.tree.leaves(jax.tree.map(lambda a, b: a is b or bool(jnp.all(a == b)), one, other))
    return all(leaves) and jax.tree.structure(one) == jax.tree.structure(other)


def test_a_tree_comes_back_as_it_was():
    packing = Packing.of(tree())
    assert equal(packing.unpack(packing.pack(tree())), tree())
    assert equal(packing.unpack_on_host(packing.pack_on_host(tree())), tree())
    packed, on_host = packing.pack(tree()), packing.pack_on_host(tree())
    assert packed["float32"].shape == (2, 7)
    assert all(np.array_equal(packed[name], on_host[name]) for name in packed)
    assert set(packed) == set(on_host) == {"float32", "int32", "bool"}


def test_packings_of_like_trees_are_equal():
    assert Packing.of(tree()) == Packing.of(tree())
    assert hash(Packing.of(tree())) == hash(Packing.of(tree()))


def test_repeats_are_chosen_and_judged_one_by_one():
    packing = Packing.of(tree())
    one = packing.pack(tree())
    other = packing.pack(jax.tree.map(lambda leaf: leaf + 1 if hasattr(leaf, "dtype") else leaf, tree()))
    both = chosen(jnp.array([True, False]), one, other)
    assert jnp.all(both["float32"] == jnp.stack([one["float32"][0], other["float32"][1]]))
    assert all(jnp.all(chosen(jnp.asarray(False), one, other)[name] == other[name]) for name in one)
    broken = {"float32": one["float32"].at[1, 3].set(jnp.inf), "int32": one["int32"]}
    assert all_finite(one, broken).tolist() == [True, False]


def test_aligned_arrays_start_at_multiples_and_come_back(monkeypatch):
    from sivi._fitting import packing as module

    monkeypatch.setattr(module, "alignment_of_arrays", lambda: 8)
    packing = Packing.of(tree())
    packed = packing.pack(tree())
    assert packed["float32"].shape == (2, 16)
    assert (np.asarray(packed["float32"])[:, 6:8] == 0.0).all()
    assert np.asarray(packed["float32"])[:, 8].tolist() == [1.0, 1.0]
    assert equal(packing.unpack(packed), tree())
    assert equal(packing.unpack_on_host(packing.pack_on_host(tree())), tree())
