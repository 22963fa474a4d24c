"""Bytes are what docs/byte-layout.md says: read by hand, with nothing of Ren but their writer."""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ren import Poly, RingSpec
from ren.schemes import ckks

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "byte-layout.md").read_text(encoding="utf-8")
HEAD = "<8sH16s32sI"


def frame(data: bytes) -> tuple[str, bytes, dict[str, Any], bytes]:
    """Kind, digest, header and arrays."""
    mark, version, kind, digest, size = struct.unpack_from(HEAD, data)
    start = struct.calcsize(HEAD)
    assert (mark, version, start) == (b"REN.CKKS", 5, 62)
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    text = data[start : start + size]
    header = json.loads(text)
    assert json.dumps(header, sort_keys=True, separators=(",", ":")).encode() == text
    return kind.rstrip(b"\0").decode(), digest, header, data[start + size : -32]


def moduli(params: dict[str, Any], level: int) -> list[int]:
    t, m = params["path"][level]
    terminals = params["terminals"]
    return [*terminals[len(terminals) - t :], *params["mains"][:m]]


def scale(params: dict[str, Any], level: int) -> Fraction:
    found = Fraction(1 << params["scale_bits"])
    for i in range(1, level + 1):
        square = found * math.prod(moduli(params, i)) / math.prod(moduli(params, i - 1))
        found = Fraction(math.isqrt(int(square * 4**64)), 1 << 64)
    return found


def points(n: int, q: int) -> list[int]:
    """psi^e(j) for each j."""
    bits = n.bit_length() - 1
    c = min(5, bits // 2)
    g = 2
    while pow(psi := pow(g, (q - 1) // (2 * n), q), n, q) != q - 1:
        g += 1
    low, found = (1 << c) - 1, []
    for j in range(n):
        i = (j >> 2 * c << 2 * c) | (j & low) << c | (j >> c & low)
        found.append(pow(psi, 2 * int(f"{i:0{bits}b}"[::-1], 2) + 1, q))
    return found


def values(words: NDArray, q: int) -> list[int]:
    back = pow(1 << 32, -1, q)
    return [int(w) * back % q for w in words]


def stream(seed: bytes, domain: bytes) -> Iterator[int]:
    """The words of four bytes of a seed in a domain."""
    prefix = b"".join(len(p).to_bytes(8, "little") + p for p in (b"ren/xof/2", domain, seed))
    for i in range(1 << 20):
        yield from np.frombuffer(
            hashlib.shake_256(prefix + i.to_bytes(8, "little")).digest(4080), "<u4"
        ).tolist()


def expanded(seed: bytes, domain: bytes, n: int, primes: list[int]) -> list[list[int]]:
    words, limbs = stream(seed, domain), []
    for q in primes:
        largest = (1 << 32) // q * q
        limb = [next(words) for _ in range(n)]
        while late := [j for j, w in enumerate(limb) if w >= largest]:
            for j in late:
                limb[j] = next(words)
        limbs.append([w % q for w in limb])
    return limbs


def interpolated(at: list[int], x: list[int], q: int) -> list[int]:
    """The coefficients in [0, q) of the polynomial with the values x at these odd powers of psi."""
    n, inverses = len(x), np.array([pow(p, -1, q) for p in at], object)
    powers, found = np.array(x, object) * pow(n, -1, q) % q, []
    for _ in range(n):
        found.append(int(powers.sum() % q))
        powers = powers * inverses % q
    return found


def decrypted(data: bytes, secret: NDArray) -> NDArray:
    """All slots, as the page says."""
    kind, digest, header, arrays = frame(data)
    params = header["params"]
    n, primes = params["n"], moduli(params, header["level"])
    assert kind == "ciphertext"
    size = 4 * n * len(primes)
    limbs = np.frombuffer(arrays[:size], "<u4").reshape(len(primes), n)
    if header["seed"] is not None:
        domain = b"ren/ckks/ciphertext/" + digest
        c1 = np.array(expanded(bytes.fromhex(header["seed"]), domain, n, primes))
        noise = arrays[size:]
    else:
        c1 = np.frombuffer(arrays[size : 2 * size], "<u4").reshape(len(primes), n)
        noise = arrays[2 * size :]
    assert len(noise) == 4 * 36 and np.frombuffer(noise, "<f4")[0] >= header["length"] > 0
    whole, q_all = np.zeros(n, object), math.prod(primes)
    for words, more, q in zip(limbs, c1, primes, strict=True):
        at = points(n, q)
        s, powers = np.zeros(n, object), np.ones(n, object)
        for coefficient in secret.tolist():
            s += coefficient * powers
            powers = powers * np.array(at, object) % q
        both = zip(values(words, q), values(more, q), s.tolist(), strict=True)
        message = interpolated(at, [(a + b * k) % q for a, b, k in both], q)
        part = q_all // q
        whole += np.array(message, object) * (part * pow(part, -1, q))
    centred = [int(x) - q_all * (2 * int(x) > q_all) for x in whole % q_all]
    coefficients = np.array(centred, float) / float(scale(params, header["level"]))
    exponents = [pow(5, j, 2 * n) for j in range(n // 2)]
    angles = np.outer(exponents, np.arange(n)) * (np.pi / n)
    return np.exp(1j * angles) @ coefficients


def test_a_ciphertext_is_decrypted_by_hand_as_the_page_says() -> None:
    ctx = ckks.context(depth=1, n=1 << 7, security=None)
    _, _, header, arrays = frame(ctx.to_bytes(include_secret=True))
    n = header["params"]["n"]
    secret = np.frombuffer(arrays[:n], "<i1")
    assert header["secret"] == 1 and set(secret.tolist()) == {-1, 0, 1}
    numbers = np.array([0.5, -0.25, 2.0])
    x = ctx.encrypt(numbers, bound=4.0)
    fresh, product = x.to_bytes(), (x * x).to_bytes()
    assert frame(fresh)[2]["seed"] is not None and frame(product)[2]["seed"] is None
    assert (frame(fresh)[2]["level"], frame(product)[2]["level"]) == (1, 0)
    for data, expected in ((fresh, numbers), (product, numbers**2)):
        slots = decrypted(data, secret)
        assert np.abs(slots[:3] - expected).max() < 1e-5 and np.abs(slots[3:]).max() < 1e-5


@pytest.mark.parametrize("n", [8, 1 << 10, 1 << 12])
def test_the_values_of_a_limb_stand_in_the_order_of_the_page(n: int) -> None:
    q = 1073479681  # 1 modulo 2^14
    x = Poly([0, 1] + [0] * (n - 2), RingSpec(n=n, moduli=(q,))).ntt()
    assert values(np.asarray(x.limbs)[0], q) == points(n, q)


def test_every_field_of_a_header_stands_on_the_page() -> None:
    ctx = ckks.context(depth=1, n=1 << 10, security=None).rotation_keys([1])
    table = ctx.encrypt(np.ones((3, 4), np.int32), pack="columns").within(0, 2)
    flat = ctx.encrypt(np.ones((3, 4)))
    found = [x.to_bytes() for x in (ctx.params, ctx.encode([1.0]), ctx.server(), ctx.public())]
    found += [x.to_bytes() for x in (table, flat, ckks.typed(flat, np.float32))]
    found.append(ctx.to_bytes(include_secret=True))
    kinds = set()
    for data in found:
        kind, _, header, _ = frame(data)
        kinds.add(kind)
        for name in {*header, *header["params"]}:
            assert f"`{name}`" in PAGE, (kind, name)
    assert kinds == {"ciphertext", "plaintext", "parameters", "context"}
    assert all(f"`{kind}`" in PAGE for kind in kinds)


def test_a_polynomial_is_read_by_hand_as_the_page_says() -> None:
    ring = RingSpec(n=8, moduli=(17, 97))
    coefficients = [[1, -2, 3, 0, 0, 0, 0, 8], [5] * 8]
    data = Poly(coefficients, ring).to_bytes()
    mark, version, domain, constant, n, k, rank = struct.unpack_from("<8sHBBIII", data)
    assert (mark, version, domain, constant, n, k, rank) == (b"REN.POLY", 1, 0, 0, 8, 2, 1)
    (batch,) = struct.unpack_from("<Q", data, 24)
    assert struct.unpack_from("<2I", data, 32) == (17, 97)
    words = np.frombuffer(data[40:-32], "<u4").reshape(batch, 2, 8)
    assert words.tolist() == [[[c % q for c in row] for q in (17, 97)] for row in coefficients]
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]


def test_another_version_is_refused_by_its_number() -> None:
    data = ckks.context(depth=1, n=1 << 10, security=None).encrypt([1.0]).to_bytes()
    body = data[:8] + struct.pack("<H", 6) + data[10:-32]
    with pytest.raises(ckks.SerializationError, match="of version 6, this library reads 5"):
        ckks.Ciphertext.from_bytes(body + hashlib.sha256(body).digest())


def test_the_page_has_the_versions_of_the_code() -> None:
    data = ckks.context(depth=0, n=1 << 10, security=None).params.to_bytes()
    version = struct.unpack_from("<8sH", data)[1]
    assert f"writes version {version}, and versions 1 and 2 of polynomials" in PAGE
    assert re.search(rf"\| version of the format, unsigned \| {version} \|", PAGE)
