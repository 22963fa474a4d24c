"""What leaves the owner never holds the secret: not in any encoding, nor what it is drawn from."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator

import numpy as np
import pytest

from ren import sampling
from ren.poly.integers import plain
from ren.schemes import ckks
from ren.schemes.rlwe import keys
from tests.schemes.ckks.keys import keys_of

ORDERS = ("little", "big")
PIECE = 24  # bytes in a row that no other data has by chance: 2^-192


@pytest.fixture
def drawn(monkeypatch) -> dict[bytes, set[bytes]]:
    """The seeds that the samplers of keys and noise are given, by their domain."""
    seeds: dict[bytes, set[bytes]] = {}

    class Recorded(sampling.Xof):
        def __init__(self, seed: bytes, domain: bytes) -> None:
            super().__init__(seed, domain)
            seeds.setdefault(domain, set()).add(seed)

    monkeypatch.setattr(keys, "Xof", Recorded)
    return seeds


def encodings(secret: keys.Secret) -> Iterator[bytes]:
    """The secret as integers of any width, as bits, as text, and as residues of every kind."""
    s, ring = secret.coefficients, secret.poly.ring
    yield from (s.astype(t).tobytes() for t in ("i1", "<i2", "<i4", "<i8", "<f4", "<f8", ">i4"))
    yield from (
        np.packbits(b, None, order).tobytes() for b in (s < 0, s > 0, s != 0) for order in ORDERS
    )
    digits = (s.astype(np.int64) + 1).reshape(-1, 4)  # two bits a coefficient
    yield from ((digits @ (4 ** np.arange(4)[::k])).astype("u1").tobytes() for k in (1, -1))
    yield json.dumps(s.tolist()).encode()
    yield json.dumps(s.tolist(), separators=(",", ":")).encode()
    for p in (secret.poly, secret.poly.intt()):
        montgomery = np.asarray(p.limbs)
        for residues in (montgomery, plain(montgomery, ring.moduli)):
            yield from (limb.astype("<u4").tobytes() for limb in residues)
            yield from (limb.astype("<u8").tobytes() for limb in residues)


def pieces(secret: keys.Secret) -> set[bytes]:
    """What to search for: pieces of every encoding; in text they may be hexadecimal.

    Each is of 32 coefficients or more: two of them as 64-bit integers are nearly all zeros, and
    such bytes are in any header.
    """
    found = set()
    for code in encodings(secret):
        length = max(PIECE, 32 * len(code) // len(secret.coefficients))
        for start in (0, len(code) // 3, len(code) - length):
            found.add(code[start : start + length])
    return {piece for piece in found if len(set(piece)) > 1}


def holds(data: bytes, searched: set[bytes]) -> bool:
    texts = {t.lower() for t in re.findall(rb"[0-9a-fA-F]{32,}", data)}
    return any(p in data or any(p.hex().encode() in t for t in texts) for p in searched)


def test_no_bytes_hold_the_secret(small_params, drawn):
    owner = ckks.context(params=small_params, rotations=[1, -2]).conjugation_key()
    other = ckks.context(params=small_params)
    owner.switching_key(other)
    x = owner.encrypt([1.0, 2.0])
    made = x, x * x, owner.public().encrypt([1.0]), owner.switch_key(x, other), owner.encode([1.0])
    leaving = [
        *(m.to_bytes() for m in (*made, owner.server(), owner.public())),
        *(pickle.dumps(m) for m in (x, owner.server(rotations=[1]), owner.params)),
        *(f"{m!r}{m!s}".encode() for m in (owner, x, owner.server(), keys_of(owner))),
        x.polys[0].tobytes(),
    ]
    hidden = drawn[b"ren/rlwe/ternary"] | drawn[b"ren/rlwe/noise"]
    assert len(hidden) > 10
    searched = pieces(keys_of(owner).secret) | pieces(keys_of(other).secret)
    for data in leaving:
        assert not holds(data, searched)
        assert not any(seed in data or seed.hex().encode() in data for seed in hidden)


def test_the_search_finds_what_is_there(ctx, drawn):
    secret, searched = keys_of(ctx).secret, pieces(keys_of(ctx).secret)
    assert holds(ctx.to_bytes(include_secret=True), searched)
    assert holds(secret.poly.limbs.tobytes(), searched)
    assert holds(secret.poly.tobytes(), searched)
    assert holds(json.dumps({"key": secret.coefficients.tobytes().hex()}).encode(), searched)
    server = ctx.server(rotations=[91]).to_bytes()
    public = {s for d, seeds in drawn.items() if b"switching" in d for s in seeds}
    assert public and all(seed.hex().encode() in server for seed in public)


@pytest.mark.parametrize("wrong", ["False", "no", 1, None, b""])
def test_only_a_truth_value_includes_the_secret(ctx, tmp_path, wrong):
    data = ctx.to_bytes(include_secret=np.True_)
    for call in (
        lambda: ctx.to_bytes(include_secret=wrong),
        lambda: ctx.server().to_bytes(include_secret=wrong),
        lambda: ctx.save(tmp_path / "keys", include_secret=wrong),
        lambda: ckks.load_context(data, include_secret=wrong),
    ):
        with pytest.raises(ckks.ParameterError, match="include_secret="):
            call()
    assert not list(tmp_path.iterdir())
