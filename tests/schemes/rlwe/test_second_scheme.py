"""A scheme of integers mod t (BFV without products of ciphertexts) from `ren.schemes.rlwe` alone.

Slot j of row 0 is m(zeta^(5^j)) mod t, that of row 1 is m(zeta^(-5^j)). Expected values are Python
integers.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np
import pytest

from ren import Poly
from ren.capture.programs import Integers
from ren.core.errors import MissingKeyError, SerializationError
from ren.core.numtheory import ntt_primes_below
from ren.ring import RingSpec
from ren.schemes.rlwe import encryption
from ren.schemes.rlwe.frame import Frame
from ren.schemes.rlwe.keychain import Keychain, new_keychain
from ren.schemes.rlwe.keychain_serialization import (
    keychain_arrays,
    keychain_header,
    read_identity,
    read_keychain,
)
from ren.schemes.rlwe.keyswitch import conjugation_element, gadget_of, galois_element, key_switch
from ren.schemes.rlwe.parameters import RlweParameters

N, T, ZETA = 64, 257, 9  # 9 has order 128 = 2 N mod 257
P, Q0, Q1 = (p for p, _ in zip(ntt_primes_below(N, 1 << 30), range(3), strict=False))
RING = RingSpec(N, (Q0, Q1))
POINTS = [pow(ZETA, s * galois_element(j, N) % (2 * N), T) for s in (1, -1) for j in range(N // 2)]
FRAME = Frame(b"TOY.INTS", 1)
Polys = tuple[Poly, Poly]


@dataclasses.dataclass(frozen=True)
class Parameters:
    n: int = N
    digits: tuple[tuple[int, ...], ...] = ((Q0,), (Q1,))
    specials: tuple[int, ...] = (P,)
    sigma: float = 3.2
    t: int = T

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(f"toy {dataclasses.astuple(self)}".encode()).digest()


PARAMS: RlweParameters = Parameters()


def coefficients(rows: np.ndarray) -> list[int]:
    """The m with m(x) = rows.flat[i] mod t at x = POINTS[i], by inverting the transform."""
    values = rows.ravel().tolist()
    sums = (sum(v * pow(x, -j, T) for v, x in zip(values, POINTS, strict=True)) for j in range(N))
    return [s * pow(N, -1, T) % T for s in sums]


def encrypt(rows: np.ndarray, keys: Keychain) -> Polys:
    (c0, c1), _ = encryption.encrypt(Integers(np.zeros(N, np.int64), RING), keys, PARAMS)
    return c0 + Poly([RING.q // T * m for m in coefficients(rows)], RING).ntt(), c1


def decrypt(c: Polys, keys: Keychain) -> np.ndarray:
    noisy = encryption.decrypt(c, keys.require_secret()).tolist(centered=True)
    m = [(2 * T * v + RING.q) // (2 * RING.q) % T for v in noisy]  # round(t v / q)
    slots = [sum(a * pow(x, j, T) for j, a in enumerate(m)) % T for x in POINTS]
    return np.reshape(slots, (2, N // 2))


def automorphism(c: Polys, g: int, keys: Keychain) -> Polys:
    k0, k1 = key_switch(c[1], keys.galois[g], gadget_of(PARAMS))
    return (c[0] + k0).automorphism(g), k1.automorphism(g)


@pytest.fixture(scope="module")
def keys() -> Keychain:
    elements = [galois_element(3, N), conjugation_element(N)]
    return new_keychain(PARAMS).with_galois(elements, PARAMS)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(7).integers(0, T, (2, N // 2))


def test_sums_and_products_with_plaintexts_are_those_of_integers(keys, rows):
    x, y = encrypt(rows, keys), encrypt(rows[::-1], keys)
    plain = Poly(coefficients(rows + 1), RING).ntt()
    got = x[0] * plain + y[0], x[1] * plain + y[1]
    assert np.array_equal(decrypt(got, keys), (rows * (rows + 1) + rows[::-1]) % T)


def test_rotations_with_keys_from_bytes_and_the_public_key(keys, rows):
    held: Any = keys.evaluation_only()
    data = FRAME.pack("keys", PARAMS.digest, keychain_header(held, PARAMS), keychain_arrays(held))
    reader = FRAME.unpack("keys", data)
    server = read_keychain(reader, PARAMS, read_identity(reader), None)
    x = encrypt(rows, keys.public_only())
    turned = automorphism(x, galois_element(3, N), server)
    assert np.array_equal(decrypt(turned, keys), np.roll(rows, -3, 1))
    swapped = automorphism(x, conjugation_element(N), server)
    assert np.array_equal(decrypt(swapped, keys), rows[::-1])
    with pytest.raises(MissingKeyError, match="the secret key"):
        decrypt(x, server)
    with pytest.raises(SerializationError, match="do not begin"):
        Frame(b"REN.TOYS", 1).unpack("keys", data)
