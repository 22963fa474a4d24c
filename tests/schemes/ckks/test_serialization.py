"""Bytes of ciphertexts, contexts and parameters: round trips, sizes, and every kind of damage."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.rlwe.keyswitch import gadget_of
from tests.schemes.ckks.frames import HEAD, header_of, sealed, with_header
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-20


def error(values, want) -> float:
    return float(np.abs(values - want).max())


@pytest.fixture(scope="module")
def fresh(ctx):
    return ctx.encrypt([1.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def data(fresh):
    return fresh.to_bytes()


def test_ciphertexts_come_back(ctx, fresh):
    for x in (
        fresh,
        fresh * fresh,
        ctx.public().encrypt([[1j], [2]], pack="rows"),
        ctx.encrypt(0.5),
    ):
        y = ckks.Ciphertext.from_bytes(x.to_bytes())
        assert (y.level, y.layout, y.key_id, y.params) == (x.level, x.layout, x.key_id, x.params)
        for p, q in zip(x.polys, y.polys, strict=True):
            assert np.array_equal(p.limbs, q.limbs)
        assert np.array_equal(x.decrypt(), y.decrypt())
        assert y.to_bytes() == x.to_bytes()
        assert np.array_equal(pickle.loads(pickle.dumps(x)).decrypt(), x.decrypt())


def test_a_fresh_ciphertext_takes_half(fresh, data):
    assert len(data) < fresh.nbytes / 2 + 4096
    assert fresh.nbytes < len((fresh + 1).to_bytes()) < fresh.nbytes + 4096
    assert ren.realize(fresh) is fresh and fresh.to_bytes() == data


def test_a_server_computes_from_bytes_alone(small_params):
    owner = ckks.context(params=small_params, rotations=[1])
    x = owner.encrypt([1.0, 2.0, 3.0])
    blob = owner.server().to_bytes()
    digits, ring = len(small_params.digits), gadget_of(small_params).ring
    assert len(blob) < 2 * digits * ring.limbs * ring.n * 4 + 8192  # two keys, b halves alone
    server = ckks.load_server(blob)
    with server:
        reply = (ckks.Ciphertext.from_bytes(x.to_bytes()) * x + x.rotate(1)).to_bytes()
        with pytest.raises(ckks.MissingKeyError):
            ckks.Ciphertext.from_bytes(reply).decrypt()
    z = ckks.Ciphertext.from_bytes(reply)
    assert error(owner.decrypt(z), [3, 7, 9]) < BAR
    assert server.to_bytes() == blob and server.key_id == owner.key_id
    assert repr(pickle.loads(pickle.dumps(server))) == repr(server)


def test_a_public_context_encrypts_from_bytes_alone(ctx):
    public = ckks.Context.from_bytes(ctx.public().to_bytes())
    x = ckks.Ciphertext.from_bytes(public.encrypt([1.0, 2.0]).to_bytes())
    assert error(ctx.decrypt(x), [1, 2]) < BAR


def test_an_owner_needs_to_say_that_the_secret_goes_along(small_params):
    owner = ckks.context(params=small_params, rotations=[1])
    x = owner.encrypt([1.0, 2.0])
    for leak in (owner.to_bytes, lambda: pickle.dumps(owner)):
        with pytest.raises(ckks.SerializationError, match="include_secret=True"):
            leak()
    blob = owner.to_bytes(include_secret=True)
    secret = keys_of(owner).secret.coefficients.tobytes()
    assert secret in blob
    for other in (owner.server().to_bytes(), owner.public().to_bytes(), x.to_bytes()):
        assert secret not in other
    again = ckks.Context.from_bytes(blob, include_secret=True)
    assert error(again.decrypt(x), [1, 2]) < BAR
    assert again.to_bytes(include_secret=True) == blob
    assert error((again.encrypt([3.0]) * x).decrypt(), [3, 6]) < BAR


@pytest.mark.parametrize("rank", [2, 1, 0], ids=["owner", "server", "public"])
def test_load_context_reads_every_kind(ctx, rank):
    blob = (ctx.public, ctx.server, lambda: ctx)[rank]().to_bytes(*[True] * (rank == 2))
    read = ckks.load_context(blob, include_secret=rank == 2)
    assert (read.rank, read.key_id, read.params) == (rank, ctx.key_id, ctx.params)
    assert read.to_bytes(*[True] * (rank == 2)) == blob
    x = ctx.encrypt([1.0, 2.0])
    if rank == 2:
        assert error(read.decrypt(x * x), [1, 4]) < BAR
        with pytest.raises(ckks.SerializationError, match="include_secret=True"):
            ckks.load_context(blob)
    elif rank == 1:
        with read:
            assert error(ctx.decrypt(x * x), [1, 4]) < BAR
    else:
        assert error(ctx.decrypt(read.encrypt([3.0])), [3]) < BAR


def test_load_context_refuses_damage(ctx):
    blob = ctx.server().to_bytes()
    altered = bytearray(blob)
    altered[len(blob) // 2] ^= 1
    for damaged in (blob[:-1], blob + b"x", bytes(altered), b"", b"hello" * 40):
        with pytest.raises(ckks.SerializationError, match="not a context"):
            ckks.load_context(damaged)


@pytest.mark.parametrize("other", ["a path", None, 3, [1]])
def test_load_context_names_a_wrong_type(other):
    with pytest.raises(ckks.SerializationError, match=f"{type(other).__name__} was given"):
        ckks.load_context(other)


def test_load_context_names_other_kinds(ctx, data):
    with pytest.raises(ckks.SerializationError, match="they are a ciphertext"):
        ckks.load_context(data)
    with pytest.raises(ckks.SerializationError, match="Context was given"):
        ckks.load_context(ctx)


def test_ciphertexts_find_no_context_until_one_lives(small_params):
    owner = ckks.context(params=small_params)
    blob, secret = owner.encrypt([5.0]).to_bytes(), owner.to_bytes(include_secret=True)
    del owner
    x = ckks.Ciphertext.from_bytes(blob)
    with pytest.raises(ckks.ContextError, match="none is active or alive"):
        x.decrypt()
    again = ckks.Context.from_bytes(secret, include_secret=True)
    assert again.rank == 2 and error(x.decrypt(), [5]) < BAR


def test_parameters_come_back(ctx, ctx13):
    for params in (ctx.params, ctx13.params):
        again = ckks.Parameters.from_bytes(params.to_bytes())
        assert again == params and again.digest == params.digest
    with pytest.raises(ckks.SerializationError, match="they are a parameter"):
        ckks.Ciphertext.from_bytes(ctx.params.to_bytes())
    with pytest.raises(ckks.SerializationError):
        ckks.Parameters.from_bytes(ctx.params.to_bytes()[:-1])


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 60, 200, -33, -32, -1])
def test_truncated(data, cut):
    with pytest.raises(ckks.SerializationError):
        ckks.Ciphertext.from_bytes(data[:cut])


def test_any_flipped_bit_is_found(data):
    for position in [*range(0, 62, 3), 100, 1000, len(data) // 2, len(data) - 33, len(data) - 1]:
        altered = bytearray(data)
        altered[position] ^= 1 << position % 8
        with pytest.raises(ckks.SerializationError):
            ckks.Ciphertext.from_bytes(bytes(altered))


@pytest.mark.parametrize("foreign", [b"", b"hello" * 40, "text", None, b"REN.CKKS" + bytes(200)])
def test_foreign(foreign):
    for read in (ckks.Ciphertext.from_bytes, ckks.Context.from_bytes, ckks.Parameters.from_bytes):
        with pytest.raises(ckks.SerializationError, match="not a"):
            read(foreign)


def test_other_kinds_and_versions(ctx, data):
    with pytest.raises(ckks.SerializationError, match="they are a ciphertext"):
        ckks.Context.from_bytes(data)
    with pytest.raises(ckks.SerializationError, match="they are a context"):
        ckks.Ciphertext.from_bytes(ctx.server().to_bytes())
    for version in (3, 4, 6):  # a key_id of version 4 is bound to no key
        other = sealed(data[:8] + struct.pack("<H", version) + data[10:-32])
        with pytest.raises(ckks.SerializationError, match=f"version {version}"):
            ckks.Ciphertext.from_bytes(other)
    with pytest.raises(ckks.SerializationError, match="bytes are left over"):
        ckks.Ciphertext.from_bytes(sealed(data[:-32] + b"\0"))


@pytest.mark.parametrize(
    "changes",
    [
        {"level": 4}, {"level": -1}, {"level": 1.0}, {"level": True}, {"level": None}, {"level": 2},
        {"length": 513}, {"length": -2}, {"is_complex": 2}, {"key_id": "00"}, {"key_id": 5},
        {"seed": "zz"}, {"seed": 1}, {"seed": None}, {"batch": 3}, {"batch": [0]}, {"batch": [-1]},
        {"batch": [1 << 40]}, {"batch": [1] * 9}, {"batch": ["1"]}, {"batch": [2]},
        {"params": None}, {"params": {}}, {"params": []}, {"security": "128-bit security"},
        {"security": None}, {"blocks": 0}, {"blocks": 2}, {"blocks": "1"}, {"length": 0},
        {"shape": [3]}, {"shape": [1 << 40, 1]}, {"shape": [2] * 9}, {"shape": ["1", 1]},
        {"shape": [2, 511]}, {"shape": [-1, -512]}, {"shape": 512}, {"shape": [True, 512]},
        {"batch": [2], "blocks": 2}, {"batch": [1], "blocks": 1, "length": 513},
    ],
    ids=str,
)  # fmt: skip
def test_forged_header_fields(data, changes):
    with pytest.raises(ckks.SerializationError):
        ckks.Ciphertext.from_bytes(with_header(data, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"n": 1 << 40}, {"n": 512}, {"n": float("nan")}, {"mains": [15]}, {"mains": []},
        {"scale_bits": 10**6}, {"security": 128}, {"sigma": -1}, {"path": [[9, 9]]}, {"slots": 3},
        {"extra": 1}, {"specials": "x"}, {"scale_bits": 39}, {"digits": [[17]]},
        {"slots": None}, {"digits": []}, {"mains": [5] * 100_000}, {"path": [[0, 1 << 70]]},
    ],
    ids=str,
)  # fmt: skip
def test_forged_parameters(ctx, data, changes):
    params = ctx.params.to_dict() | changes
    with pytest.raises(ckks.SerializationError):
        ckks.Ciphertext.from_bytes(with_header(data, params=params))


@pytest.mark.parametrize("text", [b"[]", b"{", b"\xff", b"[" * 100_000, b" " * (1 << 21)], ids=len)
def test_headers_that_cannot_be_read(data, text):
    magic, version, kind, digest, _ = HEAD.unpack_from(data)
    head = HEAD.pack(magic, version, kind, digest, len(text))
    with pytest.raises(ckks.SerializationError, match="header"):
        ckks.Ciphertext.from_bytes(sealed(head + text))


def test_residues_out_of_range(ctx, fresh, data):
    size = 4 * fresh.params.ring(fresh.level).limbs * fresh.n
    forged = bytearray(data[:-32])
    forged[-size : 4 - size] = struct.pack("<I", fresh.params.ring(fresh.level).moduli[0])
    with pytest.raises(ckks.SerializationError, match="not below its modulus"):
        ckks.Ciphertext.from_bytes(sealed(bytes(forged)))


@pytest.mark.parametrize(
    "galois", [7, [[5]], [[4, "00" * 32]], [[1, "00" * 32]], [[1 << 20, "00" * 32]], [[5, "00"]]]
)
def test_forged_galois_keys(ctx, galois):
    with pytest.raises(ckks.SerializationError):
        ckks.Context.from_bytes(with_header(ctx.server().to_bytes(), galois=galois))


@pytest.mark.parametrize(
    "switches",
    [
        None,
        [["00" * 16, None]],
        [["zz" * 16, "00" * 32]],
        [[5, "00" * 32]],
        [["00" * 16, "00" * 32]],
    ],
    ids=str,
)
def test_forged_switching_keys(small_params, switches):
    server = ckks.context(params=small_params).server()  # it has no such key
    with pytest.raises(ckks.SerializationError):
        ckks.Context.from_bytes(with_header(server.to_bytes(), switches=switches))


@pytest.mark.parametrize("changes", [{"bits": 10**6}, {"bits": -1}, {"bits": None}, {"level": 2}])
def test_forged_plaintexts(ctx, changes):
    data = ctx.encode([1.0, 2.0]).to_bytes()
    assert ckks.Plaintext.from_bytes(data).to_bytes() == data
    with pytest.raises(ckks.SerializationError):
        ckks.Plaintext.from_bytes(with_header(data, **changes))


def test_a_secret_that_is_not_ternary(small_params):
    owner = ckks.context(params=small_params)
    blob = bytearray(owner.to_bytes(include_secret=True)[:-32])
    start = blob.index(keys_of(owner).secret.coefficients.tobytes())
    blob[start] = 2
    with pytest.raises(ckks.SerializationError, match="not ternary"):
        ckks.Context.from_bytes(sealed(bytes(blob)), include_secret=True)


def test_a_context_of_other_parameters_is_noticed(ctx, data):
    other = ckks.context(depth=1, n=1 << 10, security=None)
    with pytest.raises(ckks.SerializationError, match="other parameters"):
        ckks.Ciphertext.from_bytes(with_header(other.encrypt([1.0]).to_bytes(), key_id=ctx.key_id))


def test_other_slots_than_those_of_the_owner_are_noticed(ctx):
    """Slots repeat in such a ciphertext: the digest of the parameters leaves them out."""
    few = ckks.Context.from_bytes(
        with_header(ctx.public().to_bytes(), params={**ctx.params.to_dict(), "slots": 64})
    )
    x = few.encrypt([1.0, 2.0])
    assert few.slots == 64 and np.abs(x.sum().decrypt() - 3).max() < 1e-6
    with pytest.raises(ckks.SerializationError, match="other parameters"):
        ckks.Ciphertext.from_bytes(x.to_bytes())


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e30])
def test_estimates_of_noise_out_of_range(data, value):
    forged = sealed(data[:-36] + struct.pack("<f", value))
    with pytest.raises(ckks.SerializationError, match="noise"):
        ckks.Ciphertext.from_bytes(forged)


@pytest.mark.parametrize("kind", ["ciphertext", "plaintext", "server", "public", "parameters"])
def test_damage_of_any_kind_anywhere(ctx, kind):
    made = {
        "ciphertext": lambda: ctx.encrypt([[1.0], [2.0]], pack="rows") + 1,
        "plaintext": lambda: ctx.encode(1.0),
        "server": ctx.server, "public": ctx.public, "parameters": lambda: ctx.params,
    }[kind]()  # fmt: skip
    data, read = made.to_bytes(), type(made).from_bytes
    assert read(data).to_bytes() == data
    rng = np.random.default_rng(7)
    for place, bit in zip(rng.integers(0, len(data), 60), rng.integers(0, 8, 60), strict=True):
        flipped = bytearray(data)
        flipped[place] ^= 1 << bit
        for damaged in (
            data[:place],
            bytes(flipped),
            data + data[: place + 1],
            rng.bytes(place % 99),
        ):
            with pytest.raises(ckks.SerializationError):
                read(damaged)
    for name in header_of(data):
        for value in (1 << 40, -2, 1.5, float("nan"), "x", [[]], [[1 << 40] * 9], [5] * 9999, {}):
            with pytest.raises(ckks.SerializationError):
                read(with_header(data, **{name: value}))


def test_any_view_of_bytes_is_read(ctx):
    x = ctx.encrypt([0.5, 0.25])
    data = x.to_bytes()
    backwards = memoryview(data[::-1])[::-1]
    assert not backwards.c_contiguous
    for view in (memoryview(data), bytearray(data), backwards):
        assert ckks.Ciphertext.from_bytes(view).to_bytes() == data
    with pytest.raises(ckks.SerializationError):
        ckks.Ciphertext.from_bytes(memoryview(data)[::-1])
