"""The order of the NTT domain, and the passes over memory of the transforms. NumPy only.

Both depend on the degree alone. The transform of `ntt.py` is the merged-twiddle Cooley-Tukey
network, whose natural output order is bit-reversed. (Longa and Naehrig, "Speeding up the number
theoretic transform", CANS 2016.) It swaps two groups of index bits half way and never swaps them
back. So the innermost loop stays long. All else reads the order from `evaluation_exponents`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

# Length of the innermost loop of the second phase. Measured on XLA:CPU (AVX-512, n = 2^13 .. 2^15):
# 16 and 64 are slower; a [32, 32] block of uint32 is 4 KiB, so transposing it stays in the L1
# cache.
_MAX_COLUMNS = 32


def columns(n: int) -> int:
    """The side C of the square blocks that are transposed half way: C^2 divides n."""
    return min(_MAX_COLUMNS, 1 << ((n.bit_length() - 1) // 2))


def bit_reversed(bits: int) -> np.ndarray:
    """int64[2^bits]: position i holds i with its `bits` bits in reverse."""
    reverse = np.zeros(1, np.int64)
    for _ in range(bits):
        reverse = np.concatenate([2 * reverse, 2 * reverse + 1])
    return reverse


@lru_cache(maxsize=64)
def evaluation_exponents(n: int) -> np.ndarray:
    """The odd exponents e with ntt(p)[j] = p(psi^e[j]) for psi = primitive_root_of_unity(n, q).

    Args:
        n: the degree, a power of two from 4.

    Returns:
        int64[n], a permutation of 1, 3, .., 2n - 1; read-only.
    """
    c = columns(n)
    natural = 2 * bit_reversed(n.bit_length() - 1) + 1
    order = natural.reshape(-1, c, c).swapaxes(1, 2).reshape(n)
    order.flags.writeable = False
    return order


class Pass(NamedTuple):
    """A pass over memory: one stage of a network, or two.

    Attributes:
        m: the blocks before it, of the forward transform; after it, of the inverse.
        size: how many parts of a block one butterfly takes: 2, or 4 where it is two stages.
        axes: what n splits into, the parts on an axis of their own.
        parts: that axis, from the end.
        place: the axes of twiddles that depend on the place in a part.
        block: the axes of those that depend on the block.
    """

    m: int
    size: int
    axes: tuple[int, ...]
    parts: int
    place: tuple[int, ...]
    block: tuple[int, ...]


@lru_cache(maxsize=64)
def forward_passes(n: int) -> tuple[tuple[Pass, ...], tuple[Pass, ...]]:
    """The passes of the forward transform before and after the transposition.

    The first one turns X^n + 1 into cyclic problems, and is one stage.
    """
    rows = n // columns(n)
    far = [_far(1, 2, n), *(_far(m, size, n) for m, size in _sizes(2, rows))]
    return tuple(far), tuple(_near_passes(n, len(far)))


@lru_cache(maxsize=64)
def inverse_passes(n: int) -> tuple[tuple[Pass, ...], tuple[Pass, ...]]:
    """The passes of the inverse before and after the transposition, in order."""
    far = [_far(m, size, n) for m, size in _sizes(1, n // columns(n))]
    return tuple(reversed(_near_passes(n, len(far)))), tuple(reversed(far))


def _near_passes(n: int, far: int) -> list[Pass]:
    # XLA goes to and fro between the result and one buffer. It takes a third where the number of
    # passes is odd, the transposition among them. Then one of two stages is done in two.
    c = columns(n)
    rows, blocks, sizes = n // c, n // (c * c), _sizes(1, c)
    if (far + 1 + len(sizes)) % 2 == 1 and sizes[0][1] == 4:
        sizes[:1] = [(1, 2), (2, 2)]
    passes = []
    for k, size in sizes:  # k blocks within one column
        axes = (blocks, k, size, c // (size * k), c)
        place, block = (1, 1, axes[3], 1), (blocks, k, 1, c)
        passes.append(Pass(rows * k, size, axes, -3, place, block))
    return passes


def _sizes(first: int, stop: int) -> list[tuple[int, int]]:
    """(blocks before, 4 or 2) of the passes that make `stop` blocks of `first`."""
    sizes = []
    while first < stop:
        size = 4 if 4 * first <= stop else 2
        sizes.append((first, size))
        first *= size
    return sizes


def _far(m: int, size: int, n: int) -> Pass:
    t = n // (size * m)
    return Pass(m, size, (m, size, t), -2, (1, t), (m, 1))


def block_exponents(n: int, p: Pass) -> np.ndarray:
    """The exponents of w for each block that a pass of the inverse leaves: see `block_order`."""
    half, bits = p.size // 2, n.bit_length() - 1
    own = bit_reversed(bits)[half * p.m : 2 * half * p.m : half]
    if len(p.block) == 2:
        return own
    _, k, _, c = p.block
    return own.reshape(-1, c, k).swapaxes(1, 2).reshape(p.m)


def block_order(n: int) -> np.ndarray:
    """The exponents of a network of merged twiddles, in the order in which they are read.

    Near stages read theirs as [block of rows, column part, row], so that a slice needs no
    transposition.
    """
    order, c = np.arange(n), columns(n)
    m = n // c
    while m < n:
        k = m * c // n
        order[m : 2 * m] = m + np.arange(m).reshape(-1, c, k).swapaxes(1, 2).reshape(m)
        m *= 2
    return bit_reversed(n.bit_length() - 1)[order]
