"""A ciphertext keeps the context that made it alive: in its own process, as long as it lives."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Iterator

import jax
import numpy as np
import pytest

import ren
from ren.schemes import ckks

VALUES = np.array([0.5, -1.0, 2.0])


@pytest.fixture(autouse=True)
def without_collection() -> Iterator[None]:
    """What is freed here is freed by counting references: no cycle holds it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def owner(small_params: ckks.Parameters) -> tuple[ckks.Context, weakref.ref]:
    """A context and a weak reference to its secret."""
    ctx = ckks.context(params=small_params)
    return ctx, weakref.ref(ctx._keys.require_secret())


def test_one_expression_encrypts_computes_and_decrypts(small_params) -> None:
    got = ckks.context(params=small_params).encrypt(VALUES).sum().decrypt()
    np.testing.assert_allclose(got, VALUES.sum(), atol=1e-6)


OPERATIONS = {
    "a product": lambda x: x * x + 1,
    "a product with an array": lambda x: x * VALUES,
    "a matrix": lambda x: np.eye(3) @ x,
    "a slice": lambda x: x[1:],
    "a reshape": lambda x: x.reshape(3, 1),
    "a stack": lambda x: ckks.stack([x, x]),
    "a function": lambda x: ckks.poly(x, [1.0, 2.0, 3.0]),
    "within": lambda x: x.within(2.0),
    "realize": lambda x: (x + x).realize(),
    "jit": lambda x: ren.jit(lambda v: v * v)(x),
    "jax.jit": lambda x: jax.jit(lambda v: v + v)(x),
    "vmap": lambda x: jax.vmap(lambda v: v + v)(ckks.stack([x, x])),
    "a tree": lambda x: jax.tree.map(lambda v: v, x),
    "device_put": lambda x: jax.device_put(x),
    "a copy": copy.copy,
    "a deep copy": copy.deepcopy,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_keep_it_and_free_it(small_params, name: str) -> None:
    ctx, secret = owner(small_params)
    x = ctx.encrypt(VALUES)
    result = OPERATIONS[name](x)
    want = ctx.decrypt(result)
    del ctx, x
    assert secret() is not None
    np.testing.assert_allclose(result.decrypt(), want)
    del result
    assert secret() is None


def test_plans_keep_none(small_params) -> None:
    f = ren.jit(lambda v, w: v * w + v.rotate(1))
    ctx, secret = owner(small_params)
    x = ctx.encrypt(VALUES)
    for _ in range(2):
        result = f(x, ctx.encrypt(VALUES))
    del ctx, x, result
    assert secret() is None
    assert f.cache_info().plans == 1


def test_transformed_functions_of_jax_keep_none(small_params) -> None:
    f = jax.jit(lambda v: v + v)
    ctx, secret = owner(small_params)
    x = f(ctx.encrypt(VALUES))
    structure = jax.tree.structure(x)
    del ctx, x
    assert secret() is None
    assert structure.num_leaves == 3


def test_bytes_keep_none(small_params) -> None:
    ctx, secret = owner(small_params)
    x = ctx.encrypt(VALUES)
    public = ctx.public()
    again = [pickle.loads(pickle.dumps(x)), ckks.Ciphertext.from_bytes(x.to_bytes())]
    np.testing.assert_allclose(again[0].decrypt(), VALUES, atol=1e-6)
    plain = len(public.encrypt(VALUES).to_bytes()), len(x.realize().to_bytes())
    del ctx, x
    assert secret() is None and min(plain) > 0
    with pytest.raises(ckks.MissingKeyError, match="secret key"):
        again[1].decrypt()
    del public
    with pytest.raises(ckks.ContextError, match="none is active or alive"):
        again[1].decrypt()


def test_a_reference_is_not_copied_into_anything(small_params) -> None:
    ctx, secret = owner(small_params)
    x = ctx.encrypt(VALUES)
    kept = x.keeps
    assert kept is not None and copy.deepcopy(kept) is copy.copy(kept) is kept
    assert pickle.loads(pickle.dumps(kept)).context is None
    assert copy.deepcopy([x])[0].keeps is kept
    assert "keeps" not in dir(x) and str(kept).count("secret") == 0
    leaves, structure = jax.tree.flatten(x)
    assert len(leaves) == 3 and "Kept" not in repr(structure)
    del ctx, x, kept, leaves, structure
    assert secret() is None


def test_a_switched_ciphertext_keeps_the_other_owner(small_params) -> None:
    (one, first), (other, second) = owner(small_params), owner(small_params)
    x = one.switch_key(one.encrypt(VALUES), other)
    del one, other
    assert first() is None and second() is not None
    np.testing.assert_allclose(x.decrypt(), VALUES, atol=1e-6)


def test_errors_and_warnings_keep_none(small_params) -> None:
    ctx, secret = owner(small_params)
    with pytest.warns(ckks.MessageBoundWarning):
        big = ctx.encrypt(VALUES, level=0) * 2**20
    with pytest.raises(ckks.DepthError) as caught:
        big * big
    del ctx, big, caught
    gc.collect()  # tracebacks are cycles
    assert secret() is None
