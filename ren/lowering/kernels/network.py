"""The passes over memory that a transform is made of, and in which order their twiddles stand.

See `ren.lowering.kernels.ntt`. NumPy only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ren.lowering.kernels.order import bit_reversed, columns


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
    return [_near(rows, k, size, blocks, c) for k, size in sizes]


def _sizes(first: int, stop: int) -> list[tuple[int, int]]:
    """(blocks before, 4 or 2) of the passes that make `stop` blocks of `first`."""
    found = []
    while first < stop:
        size = 4 if 4 * first <= stop else 2
        found.append((first, size))
        first *= size
    return found


def _far(m: int, size: int, n: int) -> Pass:
    t = n // (size * m)
    return Pass(m, size, (m, size, t), -2, (1, t), (m, 1))


def _near(rows: int, k: int, size: int, blocks: int, c: int) -> Pass:
    # k blocks within one column.
    t = c // (size * k)
    return Pass(rows * k, size, (blocks, k, size, t, c), -3, (1, 1, t, 1), (blocks, k, 1, c))


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
