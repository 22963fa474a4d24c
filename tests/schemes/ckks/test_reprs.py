"""repr, str and notebook pages never raise, whatever stands in place of the leaves of a pytree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.rlwe.keychain import Keychain
from ren.schemes.rlwe.keys import SwitchingKey


def texts(value: Any) -> list[str]:
    page = getattr(type(value), "_repr_html_", repr)
    return [repr(value), str(value), f"{value}", page(value)]


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    ctx = ckks.context(depth=1, n=64, security=None, rotations=[1])
    x, server = ctx.encrypt([1.0, 2.0]), ctx.server()
    return {
        "ciphertext": x.realize(), "lazy": x * x + 1, "batch": ctx.encrypt(np.ones((2, 4))),
        "number": ctx.encrypt(0.5), "plaintext": ctx.encode([1.0, 2.0]),
        "map": ckks.linear(np.eye(4), ctx), "server": server, "poly": x.polys[0],
        "key": server.relinearization_key(), "public key": ctx._keys.public,
        "keychain": server._keys, "tree": {"a": [x, (server, None)]},
    }  # fmt: skip


def donated(value: Any) -> Any:
    copied = jax.tree.map(jnp.array, value)
    for leaf in jax.tree.leaves(copied):
        leaf.delete()
    return copied


def is_part(value: Any) -> bool:
    return isinstance(value, ckks.Plaintext | Keychain | SwitchingKey | ren.Poly)


LEAVES: dict[str, Callable[[Any], Any]] = {
    "None": lambda leaf: None,
    "an object": lambda leaf: object(),
    "a shape": np.shape,
    "a word": lambda leaf: "leaf",
    "an axis": lambda leaf: 0,
    "a truth value": lambda leaf: True,
    "a number": lambda leaf: np.float32(1),
    "two arrays": lambda leaf: (leaf, leaf),
    "another type": lambda leaf: np.asarray(leaf).astype(np.int8),
    "another shape": lambda leaf: np.asarray(leaf)[..., None],
    "a sharding": lambda leaf: jax.sharding.SingleDeviceSharding(jax.devices()[0]),
}


@pytest.mark.parametrize("name", LEAVES)
def test_any_leaf_has_a_repr(objects: dict[str, Any], name: str) -> None:
    for value in objects.values():
        assert all(texts(jax.tree.map(LEAVES[name], value)))
        if name in ("None", "an object", "a word", "an axis"):
            assert all(texts(jax.tree.map(LEAVES[name], value, is_leaf=is_part)))


def test_shapes_donated_and_swapped_leaves(objects: dict[str, Any]) -> None:
    for value in objects.values():
        leaves, structure = jax.tree.flatten(value)
        for made in (
            jax.eval_shape(lambda v: v, value),
            donated(value),
            jax.tree.unflatten(structure, leaves[::-1]),
        ):
            assert all(texts(made))


def test_tracers_and_symbols(objects: dict[str, Any]) -> None:
    seen: list[str] = []

    def look(value: Any) -> float:
        seen.extend(texts(value))
        return 0.0

    kept = []
    for value in objects.values():
        jax.jit(look)(value)
        jax.vmap(look)(jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), value))
        ren.jit(lambda v, p: p if look(v) == 0 else -p)(value, objects["poly"])
        jax.jit(lambda v: kept.append(v) or 0)(value)
    assert all(map(texts, kept)) and all(seen) and len(seen) == 12 * len(objects)


def test_what_leaves_hold_is_named(objects: dict[str, Any]) -> None:
    x = objects["ciphertext"]
    assert repr(jax.tree.map(lambda leaf: None, x)) == "<Ciphertext holding NoneType>"
    assert repr(donated(x)) == "<Ciphertext holding a donated array>"
    odd = jax.tree.map(lambda leaf: np.zeros(3, np.int8), x)
    assert repr(odd) == "<Ciphertext holding int8[3]>"
    assert "holding int8[3]" in odd._repr_html_()
    assert repr(odd.polys[0]).endswith("ntt, holding int8[3])")
    assert "holding" not in "".join(texts(x))


def test_other_objects(objects: dict[str, Any]) -> None:
    x = objects["ciphertext"]
    approximation = ckks.approximate(np.exp, (-1, 1), precision=5)
    plan = ren.plan(lambda a: a * a, ckks.spec(4), n=64, security=None)
    for value in (x.estimate, approximation, ckks.spec(4), plan, x.params, x.keeps,
                  ckks.precision(x, [1.0, 2.0])):  # fmt: skip
        assert all(texts(value))


def test_zeros_without_an_error(objects: dict[str, Any]) -> None:
    x = objects["ciphertext"]
    with pytest.warns(ckks.TransparentWarning):
        zero = x * 0
    assert ", exact" in repr(zero) and "exact" in zero._repr_html_()
    assert str(zero.estimate).endswith("exact") and "none" in zero.estimate._repr_html_()
