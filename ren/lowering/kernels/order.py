"""The order of the NTT domain, which depends on the degree alone. NumPy only.

The transform of `ntt.py` is the merged-twiddle Cooley-Tukey network, whose natural output order is
bit-reversed. (Longa and Naehrig, "Speeding up the number theoretic transform", CANS 2016.) It swaps
two groups of index bits half way and never swaps them back. So the innermost loop stays long. The
result stands in the order given here. Everything else asks `evaluation_exponents`.
"""

from __future__ import annotations

from functools import lru_cache

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
