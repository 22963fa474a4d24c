"""Keys on their way: parts of a server, keys added to it, and switching to another owner."""

from __future__ import annotations

import gc
import pickle

import jax
import numpy as np
import pytest

from ren.schemes import ckks
from ren.schemes.rlwe.keyswitch import gadget_of
from ren.schemes.rlwe.security import security_bits
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-20


def error(values, want) -> float:
    return float(np.abs(values - want).max())


@pytest.fixture(scope="module")
def owners(small_params):
    return ckks.context(params=small_params), ckks.context(params=small_params)


def test_a_server_gets_the_keys_that_it_lacks(small_params):
    owner = ckks.context(params=small_params, rotations=[1])
    x, server = owner.encrypt([1.0, 2.0, 3.0]), owner.server()
    with server, pytest.raises(ckks.MissingKeyError, match=r"rotation by 2.*\n.*\n.*\(\[2\]\)"):
        x.rotate(2)
    more = owner.server(rotations=[2, -1], relinearization=False)
    assert len(keys_of(more).galois) == 2 and keys_of(more).relinearization is None
    with more, pytest.raises(ckks.MissingKeyError, match="relinearization key"):
        x * x
    server.adopt(ckks.load_server(more.to_bytes()))
    with server:
        z = x.rotate(2) + x.rotate(-1) + x.rotate(1)
    assert error(owner.decrypt(z), [5, 4, 2]) < BAR
    assert len(keys_of(server).galois) == 3
    assert keys_of(owner.server(rotations=[])).galois == {}
    ring = small_params.ring(1)
    unnamed = owner.galois_key(3, "a test", ring)  # neither a rotation nor the conjugation
    assert unnamed is owner.galois_key(3, "a test", ring) and "galois element 3" in str(owner)
    with pytest.raises(ckks.MissingKeyError, match="secret key"):
        server.server(rotations=5)
    with pytest.raises(ckks.ContextError, match="adopt"):
        server.adopt(ckks.context(params=small_params).server())


def test_ciphertexts_switch_to_another_owner(owners):
    a, b = owners
    x = a.encrypt([1.0, 2.0])
    y = a.switch_key(x * 0.5, b)
    assert y.key_id == b.key_id and y.level == x.level - 1
    assert error((y + b.encrypt([1.0, 0.5])).decrypt(), [1.5, 1.5]) < BAR
    with pytest.raises(ckks.ContextError, match="two contexts") as caught:
        a.decrypt(y)
    assert "Call decrypt() of the context that encrypted it" in caught.value.do
    with pytest.raises(ckks.ContextError, match=r"Call switch_key\(\) of the context"):
        a.switch_key(y, b)
    with pytest.raises(ckks.ContextError, match="Pass a context of the same owner"):
        a.server().adopt(b.server())
    assert a.switch_key(x, a) is x


def test_a_server_switches_with_the_key_it_was_given(owners):
    a, b = owners
    server = ckks.load_server(a.switching_key(b).server().to_bytes())
    assert f"switch to {b.key_id[:8]}" in str(server)
    x = a.encrypt([[1.0], [3.0]], pack="rows")
    public = ckks.Context.from_bytes(b.public().to_bytes())
    assert error(b.decrypt(server.switch_key(x, public)), [[1], [3]]) < BAR
    moved = jax.tree.map(lambda leaf: leaf, server)
    assert list(keys_of(moved).switches) == [b.key_id]


def test_what_cannot_be_switched(owners, small_params):
    a, b = owners
    x = a.encrypt([1.0])
    third = ckks.context(params=small_params)
    for source, target in ((a, third.server()), (a.server(), third)):
        with pytest.raises(ckks.MissingKeyError, match="both secret keys"):
            source.switch_key(x, target)
    with pytest.raises(ckks.ContextError, match="switch_key"):
        b.switch_key(x, a)
    other = ckks.context(depth=1, n=1 << 10, security=None)
    for wrong in (other, other.params, None):
        with pytest.raises(ckks.ParameterError, match=r"ckks\.context\(params=ctx\.params\)"):
            a.switch_key(x, wrong)


def test_insecure_is_said_everywhere(ctx, ctx13):
    key, secure = ctx.relinearization_key(), ctx13.relinearization_key()
    x, server = ctx.encrypt([1.0]), ctx.server()
    for shown in (ctx, server, ctx.public(), ctx.params, x, ctx.encode([1.0]), key):
        assert "INSECURE" in repr(shown)
    for shown in (ctx13, ctx13.server(), ctx13.params, ctx13.encode([1.0]), secure):
        assert "INSECURE" not in repr(shown) and "INSECURE" not in str(shown)
    for data in (ctx.params, x, server, ctx.encode([1.0])):
        assert b'"security":"INSECURE"' in data.to_bytes()
    assert b"INSECURE" not in ctx13.server().to_bytes()[:8192]


def test_a_saved_rotation_key_takes_half_at_a_large_degree():
    owner = ckks.context(params=ckks.Parameters.preset("n15-depth12"), rotations=[1])
    key, public = owner.galois_key(5, "a test", owner.params.ring(0)), owner.public()
    assert key.ring == gadget_of(owner.params).ring and key.ring.n == 1 << 15  # for all levels
    unseeded = sum(half.limbs.nbytes for half in (*key.b, *key.a))
    saved = len(owner.server(rotations=[1], relinearization=False).to_bytes())
    assert unseeded == key.nbytes == owner.params.key_nbytes()
    assert key.saved_nbytes <= saved <= 0.51 * unseeded
    assert len(public.to_bytes()) <= 0.51 * keys_of(public).nbytes
    for held in (key, keys_of(public).public, public, owner, owner.server()):
        text = repr(held)
        memory, rest = text.split(" MiB in memory, ")
        memory, saved = float(memory.split()[-1]), float(rest.split(" MiB saved")[0])
        assert abs(saved - memory / 2) <= 0.01 and f"{saved:.2f} MiB saved" in str(held)


def test_security_covers_every_key(ctx13):
    """Each key, by its own modulus: none beyond the bound that the parameters tell."""
    owner = ckks.context(params=ctx13.params, rotations=[1]).conjugation_key()
    owner.switching_key(ctx13)
    public, params, keys = keys_of(owner.public()).public, owner.params, keys_of(owner)
    switching = [keys.relinearization, *keys.galois.values(), *keys.switches.values()]
    assert len(switching) == 4 and public is not None
    rings = [p.ring for key in switching for p in (*key.a, *key.b)] + [public.a.ring, public.b.ring]
    assert max(ring.log2_q for ring in rings) == pytest.approx(params.log_qp)
    assert all(params.security_bits <= security_bits(r.n, r.log2_q) for r in rings)
    assert params.security_bits == 128 and params.log_qp <= 214  # eprint 2024/463, Table 5.2


def test_sizes_of_keys(ctx, ctx13):
    for context in (ctx, ctx13):
        key, params = context.relinearization_key(), context.params
        assert key.nbytes == params.key_nbytes() == sum(p.limbs.nbytes for p in (*key.b, *key.a))
        assert f"{key.nbytes / 2**20:.2f} MiB" in repr(key)
        public = context.public()
        held = keys_of(public).public
        assert held.nbytes == held.a.limbs.nbytes + held.b.limbs.nbytes == keys_of(public).nbytes
        table = str(params)
        for name in ("relinearization", "rotation", "public", "secret", "saved", "margin"):
            assert name in table
        alone = context.server(rotations=[])
        assert len(alone.to_bytes()) < 0.51 * key.nbytes + 8192
        assert f"{key.nbytes / 2**20:.2f} MiB" in repr(alone)


@pytest.mark.long
def test_copies_of_a_server_share_their_keys(small_params):
    server = ckks.context(params=small_params, rotations=[1, 2]).server()
    data, pickled = server.server(rotations=[1]).to_bytes(), pickle.dumps(server)
    del server
    gc.collect()
    first, second, third = ckks.load_server(data), pickle.loads(pickled), pickle.loads(pickled)
    chains = [keys_of(c) for c in (first, second, third)]
    (g,) = chains[0].galois
    for held in (lambda k: k.relinearization, lambda k: k.galois[g]):
        assert held(chains[0]) is held(chains[1]) is held(chains[2])
    (h,) = chains[1].galois.keys() - {g}
    assert chains[1].galois[h] is chains[2].galois[h] and h not in chains[0].galois
    del first, chains
    gc.collect()
    fourth = ckks.load_server(data)
    assert keys_of(fourth).galois[g] is keys_of(second).galois[g]
    assert fourth.to_bytes() == data and third.to_bytes() == second.to_bytes()


@pytest.mark.long
def test_keys_on_other_devices_are_not_shared(small_params):
    owner = ckks.context(params=small_params)
    data = owner.server().to_bytes()
    moved = ckks.Context(owner.params, keys_of(jax.device_put(owner.server(), jax.devices()[0])))
    alone = ckks.load_server(data)
    assert keys_of(alone).relinearization is keys_of(owner).relinearization
    del owner
    gc.collect()
    again = pickle.loads(pickle.dumps(moved))
    assert keys_of(moved).relinearization.b[0].limbs.committed
    assert not keys_of(again).relinearization.b[0].limbs.committed


def test_load_server_refuses_an_owner(small_params):
    owner = ckks.context(params=small_params)
    with pytest.raises(
        ckks.SerializationError, match=r"secret key[\s\S]*ctx\.server\(\)\.to_bytes"
    ):
        ckks.load_server(owner.to_bytes(include_secret=True))
    with pytest.raises(ckks.SerializationError, match="public"):
        ckks.load_server(owner.public().to_bytes())
