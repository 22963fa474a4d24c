"""Constants of the kernels as host NumPy arrays: pure functions of degree, moduli and values.

They are arguments of compiled kernels, never literals in them. All results are cached and
read-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ren.core.ring import width

WORD_BITS = 32
R = 1 << WORD_BITS  # the Montgomery radix


def column(values: Sequence[int]) -> np.ndarray:
    """uint32[len(values), 1], one per-limb constant a row; read-only."""
    return frozen(np.array(list(values), np.uint32).reshape(-1, 1))


def frozen(array: np.ndarray) -> np.ndarray:
    """`array`, marked read-only because caches share it."""
    array.flags.writeable = False
    return array


def words(value: int) -> tuple[int, int]:
    """The low and the high 32 bits of a number below 2^64."""
    return value % R, value >> WORD_BITS


@lru_cache(maxsize=1024)
def modulus(moduli: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(q, q^-1 mod 2^32) of each limb, both uint32[L, 1].

    Of a wide modulus it is the words of the modulus, and zeros.
    """
    pairs = [((q, pow(q, -1, R)),) if width(q) == 1 else [(w, 0) for w in words(q)] for q in moduli]
    q, inverse = zip(*(pair for pairs_of in pairs for pair in pairs_of), strict=True)
    return column(q), column(inverse)


@lru_cache(maxsize=4096)
def montgomery_constant(value: int, moduli: tuple[int, ...]) -> np.ndarray:
    """value 2^32 mod q for each limb, uint32[L, 1]; `value` is any Python int.

    Of a wide modulus it is the words of value mod q, which has no Montgomery form.
    """
    return column(residue_form(value, moduli))


def residue_form(value: int, moduli: Sequence[int]) -> list[int]:
    """A number in residue form, an entry for each limb: see `montgomery_constant`."""
    found: list[int] = []
    for q in moduli:
        found += [value * R % q] if width(q) == 1 else words(value % q)
    return found


@lru_cache(maxsize=4096)
def plain_constant(value: int, moduli: tuple[int, ...]) -> np.ndarray:
    """value mod q for each limb, uint32[L, 1]; `value` is any Python int."""
    return column([value % q for q in moduli])


def powers(bases: Sequence[int], count: int, moduli: Sequence[int]) -> np.ndarray:
    """uint64[L, count]: base_i^0 .. base_i^(count - 1) mod q_i, `count` a power of two.

    Built by doubling, so that it takes log2(count) vector operations.
    """
    q = np.array(moduli, np.uint64)[:, None]
    step = np.array(bases, np.uint64)[:, None]
    table = np.ones((len(moduli), 1), np.uint64)
    while table.shape[1] < count:
        table = np.concatenate([table, table * step % q], axis=1)  # products < 2^60
        step = step * step % q
    return table


def shoup(values: np.ndarray, moduli: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """(w, floor(w 2^32 / q)) as uint32, for `values` w in [0, q), uint64[L, count]."""
    q = np.array(moduli, np.uint64)[:, None]
    companion = (values << np.uint64(WORD_BITS)) // q  # w < q, so the quotient is below 2^32
    return frozen(values.astype(np.uint32)), frozen(companion.astype(np.uint32))
