"""INSECURE toy: a key encapsulation in the manner of Kyber, on Ren's polynomials alone.

Its ring, Z_q[X]/(X^256 + 1) with q = 3329, has no transform of full length. Products go through
primes that the compiler chooses. It does nothing against chosen ciphertexts or measured times. Its
samples and bytes are not those of the standard (FIPS 203, ML-KEM).
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable
from functools import reduce

import attrs
import numpy as np

import ren
from ren import Poly, RingSpec

RING = RingSpec(n=256, moduli=3329)
RANK = 3  # polynomials in a vector
SIGMA = 1.0  # of secrets and errors
BITS_U, BITS_V = 10, 4  # of a coefficient that is sent


@attrs.frozen
class PublicKey:
    """`a`, a matrix [RANK, RANK] of uniform polynomials, and t = a s + e, a vector."""

    a: Poly
    t: list[Poly]


def small(*batch: int) -> Poly:
    """Secrets and errors: coefficients of a few units."""
    return Poly.gaussian(RING, sigma=SIGMA, batch=batch)


def dot(x: Iterable[Poly], y: Iterable[Poly]) -> Poly:
    """The sum of the products of two vectors: lists, or batches."""
    return reduce(operator.add, map(operator.mul, x, y))


def compressed(p: Poly, bits: int) -> Poly:
    """round(2^bits p / q) mod 2^bits."""
    return p.round_div(1 << bits, RING.q).mod(1 << bits, centered=True)


def decompressed(p: Poly, bits: int) -> Poly:
    """round(q p / 2^bits): p again, with an error of about q / 2^(bits + 1)."""
    return p.round_div(RING.q, 1 << bits)


def generate() -> tuple[PublicKey, Poly]:
    """A public key and its secret vector."""
    a, s = Poly.uniform(RING, batch=(RANK, RANK)), small(RANK)
    return PublicKey(a, [dot(row, s) + small() for row in a]), s


@ren.jit
def _encrypted(
    a: Poly, t: list[Poly], m: Poly, r: Poly, e: Poly, f: Poly
) -> tuple[list[Poly], Poly]:
    u = [compressed(dot(a[:, j], r) + e[j], BITS_U) for j in range(RANK)]
    return u, compressed(dot(t, r) + f + decompressed(m, 1), BITS_V)


@ren.jit
def _decrypted(s: Poly, u: list[Poly], v: Poly) -> Poly:
    noisy = decompressed(v, BITS_V) - dot(s, [decompressed(p, BITS_U) for p in u])
    return compressed(noisy, 1)


def encapsulate(key: PublicKey) -> tuple[tuple[list[Poly], Poly], bytes]:
    """A ciphertext, and the 32 bytes that both sides share."""
    m = Poly.uniform_on_interval(0, 2, RING).realize()
    sent = _encrypted(key.a, key.t, m, small(RANK), small(RANK), small())
    return sent, _hash(m)


def decapsulate(s: Poly, sent: tuple[list[Poly], Poly]) -> bytes:
    """The same 32 bytes, from the ciphertext and the secret."""
    return _hash(_decrypted(s, *sent))


def _hash(m: Poly) -> bytes:
    return hashlib.sha3_256(np.packbits(np.array(m.tolist(), np.uint8)).tobytes()).digest()


def main() -> None:
    """Makes keys, shares a secret, and says whether both sides have it."""
    print(f"INSECURE toy in the manner of Kyber, {RING}")
    key, s = generate()
    sent, theirs = encapsulate(key)
    print(f"both sides have the same 32 bytes: {decapsulate(s, sent) == theirs}")


if __name__ == "__main__":
    main()
