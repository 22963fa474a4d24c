"""Contexts: activation, what servers and public contexts can do, display, lifetime."""

from __future__ import annotations

import copy
import gc
import threading

import jax
import numpy as np
import pytest

from ren.schemes import ckks
from ren.schemes.rlwe import active_context as active
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-20


def error(values, want) -> float:
    return float(np.abs(values - want).max())


def test_five_lines():
    ctx = ckks.context(depth=4)
    x = ctx.encrypt(np.linspace(0, 1, 1000))
    y = ctx.encrypt(np.linspace(1, 2, 1000))
    z = x * y + x.rotate(1) - 0.5
    a, b = np.linspace(0, 1, 1000), np.linspace(1, 2, 1000)
    want = a * b + np.append(a[1:], 0) - 0.5
    assert z.decrypt().shape == (1000,) and error(z.decrypt(), want) < BAR
    assert ctx.params.security_bits >= 128


def test_the_active_context_is_used_and_must_fit(ctx, small_params):
    other = ckks.context(params=small_params)
    x = ctx.encrypt([1.0, 2.0])
    with ctx, ctx:
        assert error((x * x).decrypt(), [1, 4]) < BAR
    with other:
        with pytest.raises(ckks.ContextError, match="is active"):
            x * x
        with pytest.raises(ckks.ContextError, match="is active"):
            x.decrypt()
        with ctx:
            assert error((x * x).decrypt(), [1, 4]) < BAR
        assert error(other.encrypt([3.0]).decrypt(), [3]) < BAR
    with pytest.raises(ckks.ContextError, match="two contexts"):
        other.decrypt(x)


def test_activation_belongs_to_the_thread(ctx, small_params):
    other = ckks.context(params=small_params)
    x = ctx.encrypt([1.0])
    results = []
    with other:
        thread = threading.Thread(target=lambda: results.append(x.decrypt()))
        thread.start()
        thread.join()
    assert error(results[0], [1]) < BAR


@pytest.mark.long
def test_without_a_context_nothing_computes(small_params):
    owner = ckks.context(params=small_params)
    x = ckks.Ciphertext.from_bytes(owner.encrypt([1.0, 2.0]).to_bytes())  # it keeps no context
    server = owner.server()
    assert error((x * x).decrypt(), [1, 4]) < BAR  # the owner is preferred to the server
    key_id = owner.key_id
    del owner
    gc.collect()
    z = x * x  # the server still can
    with pytest.raises(ckks.MissingKeyError, match="secret key"):
        z.decrypt()
    del server
    gc.collect()
    assert active.live_context(key_id) is None
    with pytest.raises(ckks.ContextError, match="none is active or alive"):
        x * x
    x + x - 1  # needs no key


def test_a_context_that_is_not_active_cannot_be_left(ctx):
    server = ctx.server()
    with ctx:
        with pytest.raises(ckks.ContextError, match="was left, and is not active"):
            server.__exit__(None, None, None)
        assert active.active_context(ckks.Parameters) is ctx
    with pytest.raises(ckks.ContextError, match="with ctx:"):
        ctx.__exit__(None, None, None)


def test_a_server_computes_and_cannot_decrypt_or_encrypt(ctx):
    ctx.rotation_keys([1])
    server = ctx.server()
    x = ctx.encrypt([1.0, 2.0])
    with server:
        z = x * x.rotate(1)
        with pytest.raises(ckks.MissingKeyError, match="secret key"):
            z.decrypt()
    with pytest.raises(ckks.MissingKeyError, match="encrypt"):
        server.encrypt([1.0])
    with pytest.raises(ckks.MissingKeyError):
        server.public()
    assert error(ctx.decrypt(z), [2, 0]) < BAR
    secret = keys_of(ctx).secret
    shared = {id(leaf) for leaf in jax.tree.leaves(server)}
    assert shared and id(secret.poly.limbs) not in shared


def test_a_public_context_encrypts_and_does_nothing_else(ctx):
    public = ctx.public()
    x = public.encrypt(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert x.seed is None and error(x.decrypt(), [[1, 2], [3, 4]]) < BAR
    assert error(public.encrypt([1j], level=0).decrypt(), [1j]) < BAR
    with public:
        with pytest.raises(ckks.MissingKeyError, match="relinearization"):
            x * x
        with pytest.raises(ckks.MissingKeyError, match="secret key"):
            x.decrypt()


def test_pytrees_never_hold_the_secret(ctx):
    with pytest.raises(ckks.ContextError, match=r"ctx\.server\(\)"):
        jax.tree.leaves(ctx)
    server = ctx.server()
    moved = jax.tree.map(lambda leaf: leaf, server)
    x = ctx.encrypt([3.0])
    with moved:
        z = x * x
    assert error(ctx.decrypt(z), [9]) < BAR


def test_display_shows_no_secret(ctx):
    ctx.rotation_keys([1])
    ctx.conjugation_key()
    text = str(ctx)
    assert ctx.key_id[:8] in text and "rotation by 1" in text and "conjugation" in text
    assert "INSECURE" in text and "owner" in repr(ctx)
    assert "server" in repr(ctx.server()) and "public" in repr(ctx.public())
    assert repr(keys_of(ctx).secret) == "<Secret>"
    for key in (keys_of(ctx).relinearization, keys_of(ctx).public, keys_of(ctx)):
        assert repr(key).startswith("<") and len(repr(key)) < 100


def test_arguments(small_params):
    with pytest.raises(ckks.ParameterError, match=r"ckks\.context\(depth=4\)"):
        ckks.context()
    with pytest.raises(ckks.ParameterError, match="power of two"):
        ckks.context(params=small_params, slots=3)
    with pytest.raises(ckks.InsecureParametersError):
        ckks.context(depth=10, n=1 << 13)
    with pytest.raises(ckks.ParameterError, match="level"):
        ckks.context(params=small_params).encrypt([1.0], level=4)
    with pytest.raises(ckks.ParameterError, match='"auto"'):
        ckks.context(params=small_params, rotations="all")


def test_key_ids_differ(small_params):
    ids = {ckks.context(params=small_params).key_id for _ in range(3)}
    assert len(ids) == 3 and {len(i) for i in ids} == {32}


def test_copies_of_an_owner_are_refused(ctx):
    with pytest.raises(ckks.SerializationError, match="include_secret=True"):
        copy.deepcopy(ctx)
