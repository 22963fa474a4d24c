"""Thousands of damaged and forged blobs of every kind: one error each, and little memory.

Reading allocates at most a small multiple of the bytes given, whatever they say of sizes.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ren.poly import Poly
from ren.schemes import ckks

HEAD = struct.Struct("<8sH16s32sI")
KINDS = ("fresh", "ciphertext", "plaintext", "parameters", "public", "server", "owner", "poly")
DAMAGED, FORGED = 250, 63  # of each kind: 2,000 and 504 in all
ROOM = 1 << 20  # bytes that reading may allocate, beside eight times those that it is given

Read = Callable[[bytes], object]


@pytest.fixture(scope="module")
def owner():
    """n = 2^6, insecure, with a rotation key; it lives on, so that what is read finds it."""
    made = ckks.context(params=ckks.Parameters.for_depth(2, n=1 << 6, security=None), rotations=[1])
    yield made
    assert made.rank == 2


@pytest.fixture(scope="module")
def blobs(owner) -> dict[str, tuple[bytes, Read]]:
    """Bytes of each kind, and what reads them."""
    return written(owner)


@pytest.fixture(scope="module")
def others() -> dict[str, tuple[bytes, Read]]:
    """The same under other parameters."""
    return written(ckks.context(params=ckks.Parameters.for_depth(1, n=1 << 5, security=None)))


def own(data: bytes) -> ckks.Context:
    """Reads contexts of any kind, as an owner reads a backup."""
    return ckks.Context.from_bytes(data, include_secret=True)


def written(ctx: ckks.Context) -> dict[str, tuple[bytes, Read]]:
    x = ctx.encrypt([[1.0, 2.0], [3.0, 4.0]], pack="rows")
    made = (
        ctx.encrypt([1.0]), x + 1, ctx.encode([1.0, 2.0]), ctx.params, ctx.public(), ctx.server()
    )  # fmt: skip
    found = {k: (m.to_bytes(), type(m).from_bytes) for k, m in zip(KINDS, made, strict=False)}
    found |= {kind: (found[kind][0], own) for kind in ("public", "server")}
    found["owner"] = ctx.to_bytes(include_secret=True), own
    found["poly"] = (x.polys[0] + 1).tobytes(), Poly.frombytes
    return found


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def parts(data: bytes) -> tuple[tuple, dict, bytes]:
    """Fields of the frame, the header, and the arrays."""
    *frame, size = HEAD.unpack_from(data)
    body = data[HEAD.size + size : -32]
    return tuple(frame), json.loads(data[HEAD.size : HEAD.size + size]), body


def joined(frame: tuple, header: object, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return sealed(HEAD.pack(*frame, len(text)) + text + body)


# ------------------------------------------------------------------- damage, checksum as it was


def damaged(draw: np.random.Generator, kind: str, blobs: dict, others: dict) -> bytes:
    """Bytes of one kind: cut, flipped, foreign, of another kind, version or set of parameters."""
    data, other = blobs[kind][0], others[kind][0]
    a, b = sorted(draw.integers(0, len(data), 2).tolist())
    flipped = np.frombuffer(data, np.uint8).copy()
    flipped[draw.integers(0, len(data), draw.integers(1, 9))] ^= np.uint8(1 << draw.integers(8))
    foreign = [draw.bytes(b), data[:8] + draw.bytes(b), pickle.dumps([1.0] * a), b"{}" * a, b""]
    kinds = [k for k in blobs if blobs[k][1] != blobs[kind][1]]
    return [
        lambda: data[:b],
        lambda: data[a + 1 :],
        lambda: data[:a] + data[b + 1 :],
        lambda: data + data[a:],
        flipped.tobytes,
        lambda: foreign[draw.integers(len(foreign))],
        lambda: blobs[str(draw.choice(kinds))][0],
        lambda: data[:8] + struct.pack("<H", draw.integers(3, 1 << 16)) + data[10:],
        lambda: sealed(data[:8] + struct.pack("<H", draw.integers(3, 1 << 16)) + data[10:-32]),
        lambda: other[: min(a, len(other))] + data[min(a, len(other)) :] + data[:1],
    ][draw.integers(10)]()


# ------------------------------------------------------------------- forged, checksum right


def wrong(draw: np.random.Generator) -> object:
    """A value that no field of a header has."""
    values = (
        1 << 40, 10**400, -2, 1.5, float("nan"), float("inf"), -1e308, "x" * 999, [[]], {}, "",
        [[1 << 40] * 9], [5] * 9999, [["00" * 16, "00" * 32]] * 99, {"n": 1}, [None], "zz" * 32,
    )  # fmt: skip
    return values[draw.integers(len(values))]


def forged(draw: np.random.Generator, kind: str, blobs: dict, others: dict) -> bytes:
    """Bytes of one kind with something impossible in them, and a right checksum."""
    if kind == "poly":
        return forged_poly(draw, blobs["poly"][0])
    frame, header, body = parts(blobs[kind][0])
    params = header["params"]
    name, field = str(draw.choice(sorted(header))), str(draw.choice(sorted(params)))
    other = parts(others[kind][0])
    return [
        lambda: joined(frame, header | {name: wrong(draw)}, body),
        lambda: joined(frame, header | {"params": params | {field: wrong(draw)}}, body),
        lambda: joined(frame, {k: v for k, v in header.items() if k != name}, body),
        lambda: joined((*frame[:3], other[0][3]), header, body),
        lambda: joined(frame, header | {"params": other[1]["params"]}, body),
        lambda: joined(frame, header, body[: int(draw.integers(len(body)))] if body else b"\0"),
        lambda: joined(frame, header, body + draw.bytes(4)),
        lambda: joined(frame, [header], body),
        lambda: sealed(HEAD.pack(*frame, (1 << 32) - 1) + json.dumps(header).encode() + body),
        lambda: joined(frame, header | bad_counts(draw, header), body),
        lambda: joined(frame, header, impossible(draw, kind, body)),
        lambda: joined(frame, header, impossible(draw, kind, body)),
    ][draw.integers(12)]()


def bad_counts(draw: np.random.Generator, header: dict) -> dict:
    """Levels, lengths and counts out of range, each a small lie; none fits `parameters`."""
    lies = {
        "level": (3, 1 << 40, -1), "length": (33, 0, 1 << 62), "blocks": (0, 3, 1 << 40),
        "batch": ([1 << 40], [0], [1] * 9, [7]), "bits": (1 << 20, -1), "secret": (2, 1 << 40),
        "galois": ([[5, "00" * 32]] * 3, [[1 << 20, "00" * 32]], [[6, "00" * 32]]),
        "switches": ([["00" * 16, "00" * 32]],), "security": ("256-bit security",),
    }  # fmt: skip
    name = str(draw.choice(sorted(set(lies) & set(header))))
    return {name: lies[name][draw.integers(len(lies[name]))]}


def impossible(draw: np.random.Generator, kind: str, body: bytes) -> bytes:
    """An array with a residue >= q, a noise of NaN, or a secret beyond ternary, somewhere."""
    changed = bytearray(body)
    at = 4 * int(draw.integers(len(body) // 4)) if body else 0
    changed[at : at + 4] = b"\xff" * 4 if kind != "owner" or at >= 64 else b"\x02" * 4
    return bytes(changed) if body else b"\xff" * 4


def forged_poly(draw: np.random.Generator, data: bytes) -> bytes:
    """The bytes of a polynomial with one field of the header, or a residue, out of range."""
    head = struct.Struct("<8sHBBIII")
    magic, version, domain, constant, n, limbs, rank = head.unpack_from(data)
    rest = data[head.size : -32]
    field = int(draw.integers(6))
    if field == 5:
        at = 4 * int(draw.integers(len(rest) // 4))
        return sealed(data[: head.size] + rest[:at] + b"\xff" * 4 + rest[at + 4 :])
    lies = (
        {"domain": 2}, {"constant": 2}, {"constant": 1}, {"n": (1 << 32) - 1}, {"n": 12}, {"n": 4},
        {"limbs": 1 << 20}, {"limbs": 0}, {"rank": 0}, {"rank": 1 << 30}, {"rank": 33},
    )  # fmt: skip
    said = {"domain": domain, "constant": constant, "n": n, "limbs": limbs, "rank": rank}
    said |= lies[draw.integers(len(lies))]
    return sealed(head.pack(magic, version, *said.values()) + rest)


# ------------------------------------------------------------------- the tests


def refused(read: Read, data: bytes) -> int:
    """Reads what has to be refused; returns the bytes allocated meanwhile, at their peak."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    with pytest.raises(ckks.SerializationError):
        read(data)
    return tracemalloc.get_traced_memory()[1] - before


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_every_blob_comes_back_unless_it_is_touched(kind, blobs):
    data, read = blobs[kind]
    made = read(data)
    if kind == "owner":
        assert made.to_bytes(include_secret=True) == data
    else:
        assert (made.tobytes() if kind == "poly" else made.to_bytes()) == data


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_noticed(kind, blobs, others, traced):
    draw, read = np.random.default_rng(KINDS.index(kind)), blobs[kind][1]
    for _ in range(DAMAGED):
        data = damaged(draw, kind, blobs, others)
        assert refused(read, data) < 8 * len(data) + ROOM


@pytest.mark.parametrize("kind", KINDS)
def test_forgeries_are_noticed(kind, blobs, others, traced):
    draw, read = np.random.default_rng(100 + KINDS.index(kind)), blobs[kind][1]
    for _ in range(FORGED):
        data = forged(draw, kind, blobs, others)
        assert refused(read, data) < 8 * len(data) + ROOM
