"""Host samplers over a SHAKE-256 byte stream: residues, ternary, sparse ternary, Gaussian.

Every sampler is a function of the bytes it reads and of nothing else. There is no generator state
outside the stream object, so a forked child can share none. Fresh seeds come from the operating
system at each call.

Side channels: rejection loops, table searches and Python integers run in time that depends on the
values drawn. The samplers are *not* constant time. They give no protection against an observer of
timing or of caches on the machine that holds the secret.
"""

from __future__ import annotations

import hashlib
import numbers
import os
import threading
from collections.abc import Sequence
from decimal import Context, Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import RandomnessError
from ren.lowering.backends.native import library
from ren.lowering.backends.native.hashing import BLOCK, Functions

SEED_BYTES = 32
MAX_SIGMA = float(1 << 14)
_TAIL = 10  # the Gaussian table ends at 10 sigma: the mass beyond is below 2^-75, under its 2^-64
_MAGIC = b"ren/xof/2"
_BLOCKS = 30  # of a chunk: what SHAKE-256 gives of one counter
_CHUNK = _BLOCKS * BLOCK
_MOST_AT_ONCE = 256  # chunks: 1 MiB, which stays in the cache until it is read
_LEAST_NATIVE = 4  # chunks, for which a native library pays
_UINT64_MAX = (1 << 64) - 1
_REST_BITS = np.uint64(48)  # of a Gaussian's word, behind those that mostly decide it


def fresh_seed() -> bytes:
    """32 bytes of operating-system entropy, new at each call (and so in each forked child)."""
    return os.urandom(SEED_BYTES)


class Xof:
    """A byte stream: SHAKE-256(domain, seed, counter), 4080 bytes of each counter from 0 on.

    So chunks are independent: where a native library is there, many are hashed at a time.

    Args:
        seed: the entropy, at least one byte; 32 fresh bytes for anything secret.
        domain: what the stream is for; streams of different domains are independent.

    Raises:
        RandomnessError: when the seed is not a non-empty `bytes`.

    Reference: FIPS 202 (SHAKE-256); each part of the input is preceded by its length.

    Example:
        >>> Xof(b"seed", b"domain").read(4) == Xof(b"seed", b"domain").read(4)
        True
    """

    def __init__(self, seed: bytes, domain: bytes) -> None:
        if not isinstance(seed, bytes) or not seed:
            raise RandomnessError(
                "An empty seed was given."
                if seed == b""
                else f"A seed of type {type(seed).__name__} was given.",
                "A seed is a non-empty bytes object; 32 fresh bytes where it must stay secret.",
                "Pass os.urandom(32), or seed=None for fresh randomness.",
            )
        self._prefix = b"".join(
            len(part).to_bytes(8, "little") + part for part in (_MAGIC, domain, seed)
        )
        self._counter = 0
        self._rest = memoryview(b"")  # what was hashed and not read
        self._expected = 0

    def read(self, count: int) -> bytes:
        """The next `count` bytes of the stream."""
        return bytes(self._next(count))

    def words(self, count: int, dtype: str) -> NDArray[np.unsignedinteger]:
        """The next `count` little-endian words of a dtype such as "<u4"."""
        return np.frombuffer(self._next(count * np.dtype(dtype).itemsize), dtype)

    def expect(self, count: int) -> None:
        """Says that about `count` bytes will be read from here on; changes none of them."""
        self._expected = count

    def _next(self, count: int) -> bytes | memoryview:
        parts: list[memoryview] = []
        while count > 0:
            if not self._rest:
                self._rest = self._squeezed(-(-max(count, self._expected) // _CHUNK))
            part, self._rest = self._rest[:count], self._rest[count:]
            parts.append(part)
            self._expected -= len(part)
            count -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _squeezed(self, chunks: int) -> memoryview:
        """The next chunks, as many as that or `_MOST_AT_ONCE`."""
        count, first = min(chunks, _MOST_AT_ONCE), self._counter
        self._counter += count
        native = library.functions() if count >= _LEAST_NATIVE else None
        if native is not None:
            return native.squeezed(self._prefix, first, count, _BLOCKS).data
        counters = (i.to_bytes(8, "little") for i in range(first, first + count))
        return memoryview(
            b"".join(hashlib.shake_256(self._prefix + i).digest(_CHUNK) for i in counters)
        )


class SeedStream:
    """Seeds of 32 bytes, one after another, from one seed: each call reads the next of a `Xof`.

    Args:
        seed, domain: as for `Xof`.
    """

    def __init__(self, seed: bytes, domain: bytes) -> None:
        self._xof = Xof(seed, domain)
        self._lock = threading.Lock()

    def __call__(self) -> bytes:
        with self._lock:
            return self._xof.read(SEED_BYTES)


def _accepted_words(
    xof: Xof, dtype: str, count: int, largest: NDArray[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """Words uniform on [0, largest], or on [0, largest[i]], by rejection of those above."""
    words = xof.words(count, dtype)
    rejected = np.flatnonzero(words > largest)
    if not len(rejected):
        return words
    words, largest = words.copy(), np.broadcast_to(largest, count)
    while len(rejected):
        words[rejected] = xof.words(len(rejected), dtype)
        rejected = rejected[words[rejected] > largest[rejected]]
    return words


def _below(xof: Xof, bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Integers uniform on [0, bounds[i]): a word under the last multiple of the bound, reduced."""
    largest = np.uint64(_UINT64_MAX) - (-bounds) % bounds  # (-b) mod b = 2^64 mod b
    return _accepted_words(xof, "<u8", len(bounds), largest) % bounds


def uniform_residues(
    xof: Xof, n: int, moduli: Sequence[int], out: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Residues uniform on [0, q_i), plain form, uint32 [limb, n], without modulo bias.

    A 32-bit word is taken when it lies under the last multiple of q_i, then reduced mod q_i. That
    holds for 4/5 of words or more, since q_i < 2^30. Limbs are drawn in the order of `moduli`.
    """
    limbs = np.empty((len(moduli), n), np.uint32) if out is None else out
    accepted = [(1 << 32) // q * q for q in moduli]
    xof.expect(int(sum(4 * n * 2.0**32 / count for count in accepted)))
    is_worth = limbs.nbytes >= _LEAST_NATIVE * _CHUNK and limbs.flags.c_contiguous
    native = library.functions() if is_worth else None
    for limb, q, count in zip(limbs, moduli, accepted, strict=True):
        if native is None:
            _reduce(_accepted_words(xof, "<u4", n, np.array(count - 1, np.uint32)), q, limb)
        else:
            _draw_residues(xof, native, q, count - 1, limb)
    return limbs


def uniform_wide_residues(xof: Xof, n: int, moduli: Sequence[int]) -> NDArray[np.uint64]:
    """Residues uniform on [0, q_i) for moduli up to 2^61: uint64 [modulus, n], without bias.

    A 64-bit word is taken when it lies under the last multiple of q_i, then reduced mod q_i.
    """
    return np.stack([_below(xof, np.full(n, q, np.uint64)) for q in moduli])


def _reduce(words: NDArray[np.unsignedinteger], q: int, out: NDArray[np.uint32]) -> None:
    """Writes words mod q to `out`: division by a scalar is vectorised in NumPy, remainder not."""
    np.floor_divide(words, np.uint32(q), out=out)
    np.multiply(out, np.uint32(q), out=out)
    np.subtract(words, out, out=out)


def _draw_residues(
    xof: Xof, native: Functions, q: int, largest: int, out: NDArray[np.uint32]
) -> None:
    """Residues mod q of `_accepted_words`, by a native library."""
    rejected = native.uniform(xof.words(len(out), "<u4"), q, largest, out)
    while len(rejected):
        words = xof.words(len(rejected), "<u4")
        out[rejected] = words % np.uint32(q)
        rejected = rejected[words > largest]


def uniform_integers(xof: Xof, low: int, high: int, count: int) -> NDArray:
    """Integers uniform on [low, high), any size: int64 [count], or Python ints [count] (object).

    It is int64 where both bounds fit and high - low < 2^64.

    Raises:
        RandomnessError: when the interval is empty.
    """
    if high <= low:
        raise RandomnessError(
            f"Uniform integers were asked for on the empty interval [{low}, {high}).",
            "The interval is half-open: low < high is needed.",
            f"Write for example uniform_on_interval({low}, {low + 1}, ring).",
        )
    width = high - low
    if width > _UINT64_MAX:
        return _wide_integers(xof, low, width, count)
    offsets = _below(xof, np.full(count, width, np.uint64))
    if low >= -(1 << 63) and high <= 1 << 63:
        # Two's complement wraps: low + offset < high <= 2^63 whatever the sum passes through.
        return (offsets + np.uint64(low % (1 << 64))).astype(np.int64)
    return offsets.astype(object) + low


def _wide_integers(xof: Xof, low: int, width: int, count: int) -> NDArray:
    bits = (width - 1).bit_length()
    size, excess = -(-bits // 8), -bits % 8
    values = np.empty(count, object)
    for i in range(count):
        while (offset := int.from_bytes(xof.read(size), "little") >> excess) >= width:
            pass
        values[i] = low + offset
    return values


def ternary(xof: Xof, count: int) -> NDArray[np.int8]:
    """Uniform on {-1, 0, 1}: int8 [count]. A byte under 255 = 3 * 85 is taken, mod 3."""
    words = _accepted_words(xof, "<u1", count, np.array(254, np.uint8))
    return (words % 3).astype(np.int8) - np.int8(1)


def sparse_ternary(xof: Xof, count: int, hamming_weight: int) -> NDArray[np.int8]:
    """Uniform among vectors of {-1, 0, 1} with exactly `hamming_weight` nonzeros: int8 [count].

    The positions are the first ones of a Fisher-Yates shuffle.

    Raises:
        RandomnessError: when the weight is not in [0, count].
    """
    if not 0 <= hamming_weight <= count:
        raise RandomnessError(
            f"sparse_ternary got hamming_weight={hamming_weight} for {count} coefficients.",
            f"The weight lies between 0 and {count}.",
            f"Pass hamming_weight={min(max(hamming_weight, 0), count)}.",
        )
    positions = list(range(count))
    left = np.arange(count, count - hamming_weight, -1, dtype=np.uint64)
    for i, step in enumerate(_below(xof, left).tolist()):
        positions[i], positions[i + step] = positions[i + step], positions[i]
    signs = xof.words(hamming_weight, "<u1") & 1
    values = np.zeros(count, np.int8)
    values[positions[:hamming_weight]] = 1 - 2 * signs.astype(np.int8)
    return values


def gaussian(xof: Xof, count: int, sigma: float = 3.2) -> NDArray[np.int64]:
    """The discrete Gaussian, P(x) proportional to exp(-x^2 / (2 sigma^2)): int64 [count].

    Inverse of the cumulative distribution by one 64-bit word a sample. The table is exact to 2^-64,
    so the statistical distance is below (20 sigma + 1) 2^-64. Support |x| <= 10 sigma. The first 16
    bits of a word mostly decide. The other 48 are read for the samples that they do not decide,
    after the first bits of all.

    Raises:
        RandomnessError: when sigma is not in (0, 2^14] (the table has 20 sigma entries).

    Reference: Peikert, "An efficient and parallel Gaussian sampler for lattices", 2010, 4.1.
    """
    if not isinstance(sigma, numbers.Real) or not 0 < sigma <= MAX_SIGMA:
        raise RandomnessError(
            f"A Gaussian of sigma={sigma!r} was asked for.",
            f"sigma lies in (0, {MAX_SIGMA:g}].",
            "The usual error of RLWE has sigma=3.2.",
        )
    table, guesses = gaussian_table(float(sigma)), gaussian_guesses(float(sigma))
    first = xof.words(count, "<u2")
    guessed = guesses[first]
    unsure = np.flatnonzero(guessed < -(len(table) // 2))
    values = guessed.astype(np.int64)
    words = (first[unsure].astype(np.uint64) << _REST_BITS) | (xof.words(len(unsure), "<u8") >> 16)
    values[unsure] = np.searchsorted(table, words, side="right") - len(table) // 2
    return values


def gaussian_bound(sigma: float) -> int:
    """The largest absolute value that `gaussian` gives: about 10 sigma."""
    return len(gaussian_table(float(sigma))) // 2


@lru_cache(maxsize=32)
def gaussian_guesses(sigma: float) -> NDArray[np.signedinteger]:
    """Draws that the first 16 bits of a word decide; below the support where they do not."""
    table = gaussian_table(sigma)
    edges, half = table >> _REST_BITS, len(table) // 2
    guesses = np.searchsorted(edges, np.arange(1 << 16, dtype=np.uint64)) - half
    guesses[edges] = -half - 1
    return guesses.astype(np.min_scalar_type(-half - 1))


@lru_cache(maxsize=32)
def gaussian_table(sigma: float) -> NDArray[np.uint64]:
    """floor(2^64 P(X <= x)) for x from -t to t-1: searching a word from the right gives x + t."""
    masses = _gaussian_masses(sigma)
    both = masses[:0:-1] + masses
    total, running, table = sum(both), 0, []
    for mass in both[:-1]:
        running += mass
        table.append(min((running << 64) // total, (1 << 64) - 1))  # of all but less than 2^-64
    return np.array(table, np.uint64)


def _gaussian_masses(sigma: float) -> list[int]:
    """exp(-x^2 / (2 sigma^2)) for x = 0..t in fixed point with 256 fractional bits.

    The ratio of neighbours is r^(2x+1) with r = exp(-1/(2 sigma^2)), so two products a step do. 10
    sigma <= 2^18 truncations of 2^-256 stay far below the 2^-64 of the table.
    """
    bits, exact = 256, Context(prec=90)
    exponent = exact.divide(Decimal(-1), exact.multiply(2, exact.power(Decimal(sigma), 2)))
    ratio = int(exact.multiply(exact.exp(exponent), 1 << bits))
    square = ratio * ratio >> bits
    masses = [1 << bits]
    for _ in range(max(1, int(_TAIL * sigma) + 1)):
        masses.append(masses[-1] * ratio >> bits)
        ratio = ratio * square >> bits
    return masses
