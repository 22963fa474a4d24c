"""Mutants of serialized bytes with a valid checksum: each is refused, or read as a valid object.

A checksum finds damage, not intent: an attacker computes it anew. Reading raises SerializationError
and nothing else, and allocates at most a small multiple of the bytes given.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import attrs
import numpy as np
import pytest

from ren.core.ring import Domain
from ren.poly import Poly
from ren.schemes import ckks
from ren.schemes.ckks.circuits import linear
from tests.schemes.ckks.byte_mutants import Blob, blob, mutant, unframed

POLY_HEAD = 24  # bytes before the moduli
SAMPLE, ALL = 40, 2560  # of each of the ten kinds: 400 and 25,600
ROOM = 1 << 20  # bytes that reading may allocate, beside eight times those that it is given


@attrs.frozen
class Kind:
    """Bytes of one kind with their reader and writer."""

    blob: Blob
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


@pytest.fixture(scope="module")
def contexts() -> tuple[ckks.Context, ckks.Context]:
    """An owner with all kinds of keys and a shared decryption; an owner under other parameters."""
    params = ckks.Parameters.for_depth(2, n=1 << 6, security=None)
    owner, friend = (ckks.context(params=params, rotations=[1]) for _ in range(2))
    owner.switching_key(friend)
    x = owner.encrypt([0.5])
    owner.decrypt_shared(x, x.estimate, queries=9)
    return owner, ckks.context(params=ckks.Parameters.for_depth(1, n=1 << 5, security=None))


@pytest.fixture(scope="module")
def kinds(contexts) -> dict[str, Kind]:
    return kinds_of(contexts[0])


@pytest.fixture(scope="module")
def others(contexts) -> list[Blob]:
    """Bytes of every kind, under these parameters and others."""
    return [kind.blob for ctx in contexts for kind in kinds_of(ctx).values() if kind.blob.kind]


def kinds_of(ctx: ckks.Context) -> dict[str, Kind]:
    """Return the bytes of each kind under a context."""
    x = ctx.encrypt([[1.0, 2.0], [3.0, 4.0]], pack="rows")
    framed = {
        "fresh": ("ciphertext", ctx.encrypt([1.0])),
        "ciphertext": ("ciphertext", x * 0.5 + 1),
        "plaintext": ("plaintext", ctx.encode([1.0, 2.0])),
        "map": ("linear map", mixed_map(ctx)),
        "parameters": ("parameters", ctx.params),
        "public": ("context", ctx.public()),
        "server": ("context", ctx.server()),
    }
    found = {
        name: Kind(blob(kind, made.to_bytes()), type(made).from_bytes, written)
        for name, (kind, made) in framed.items()
    }
    owner = blob("context", ctx.to_bytes(include_secret=True))
    found["owner"] = Kind(owner, partial(ckks.Context.from_bytes, include_secret=True), written)
    for name, p in (("poly", x.polys[0] + 1), ("constant", Poly.const(7, x.polys[0].ring))):
        found[name] = Kind(unframed(p.tobytes(), POLY_HEAD), Poly.frombytes, Poly.tobytes)
    return found


def mixed_map(ctx: ckks.Context) -> ckks.LinearMap:
    """A map with folds, one batch of limbs and one of coefficients."""
    with mock.patch.object(linear, "_LEAST", 2), mock.patch.object(linear, "_PART", 1):
        whole = ckks.linear(np.arange(1.0, 41.0).reshape(4, 10), ctx)
        made = ckks.linear(np.arange(1.0, 41.0).reshape(4, 10), ctx, memory=whole.nbytes - 1)
    assert made.split.folds and {p.wide.domain for p in made.plaintexts} == {*Domain}
    return made


def written(made: Any) -> bytes:
    is_owner = isinstance(made, ckks.Context) and made.rank == 2
    return made.to_bytes(include_secret=True) if is_owner else made.to_bytes()


NAMES = (
    "fresh", "ciphertext", "plaintext", "map", "parameters", "public", "server", "owner", "poly",
    "constant",
)  # fmt: skip


def assert_residues(p: Poly) -> None:
    limbs, moduli = np.asarray(p.limbs), np.array(p.ring.moduli, np.uint32)
    assert limbs.dtype == np.uint32 and limbs.shape[-2:] == (p.ring.limbs, p.ring.n)
    assert np.all(limbs < moduli[:, None])


def assert_whole(x: Any) -> None:
    """Check that residues, levels, lengths and noise are in range."""
    if isinstance(x, Poly):
        return assert_residues(x)
    if isinstance(x, ckks.Context):
        return assert_whole(x.params)
    if isinstance(x, ckks.Parameters):
        assert 0 <= x.depth == len(x.scales) - 1 and 0 < x.slots <= x.n // 2
        assert all(q % (2 * x.n) == 1 for q in (*x.union, *x.specials))
        return None
    if isinstance(x, ckks.LinearMap):
        assert len(x.places) == sum(p.wide.shape[0] for p in x.plaintexts)
        assert {p.wide.domain for p in x.plaintexts} <= {*Domain} and x.rotations is not None
        for p in x.plaintexts:
            if p.wide.domain is Domain.NTT:
                assert_whole(p)
        return None
    polys = x.polys if isinstance(x, ckks.Ciphertext) else (x.wide,)
    assert type(x.level) is int and 0 <= x.level <= x.params.depth
    base = x.params.ring(x.level).moduli
    for p in polys:
        assert p.ring.moduli[: len(base)] == base
        assert_residues(p)
    noise = np.asarray(x.noise)
    assert np.all((noise >= 0) | np.isnan(noise))
    layout = x.layout
    assert layout.length is None or 0 < layout.length <= layout.blocks * x.params.slots
    return None


def run(kind: Kind, others: list[Blob], seed: int, count: int) -> tuple[int, int]:
    """Read mutants; return how many were refused and how many were read."""
    draw, refused, found = random.Random(seed), 0, 0
    for _ in range(count):
        data = mutant(draw, kind.blob, others)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            made = kind.read(data)
        except (ckks.SerializationError, ckks.ContextError):  # damaged, or keys of another owner
            refused += 1
            assert tracemalloc.get_traced_memory()[1] - before < 8 * len(data) + ROOM
            continue
        found += 1
        assert_whole(made)
        again = kind.write(made)
        assert kind.write(kind.read(again)) == again
    return refused, found


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("name", NAMES)
def test_mutants_are_refused_or_whole(name, kinds, others, traced):
    refused, _ = run(kinds[name], others, NAMES.index(name), SAMPLE)
    assert refused > SAMPLE // 4


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_mutants_are_refused_or_whole(name, kinds, others, traced):
    refused, found = run(kinds[name], others, 100 + NAMES.index(name), ALL)
    assert refused > ALL // 4 and found > 0


@pytest.mark.parametrize("name", NAMES)
def test_unmutated_bytes_are_read_and_written_alike(name, kinds):
    kind = kinds[name]
    assert_whole(made := kind.read(kind.blob.data))
    assert kind.write(made) == kind.blob.data
