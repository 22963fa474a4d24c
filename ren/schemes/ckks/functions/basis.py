"""Bases of polynomials whose elements take ceil(log2 j) levels: powers, and Chebyshev polynomials.

An element B_j = size(j) C_j is made of two earlier ones, where C_j is x^j or T_j(u):

    x^(h+l) = x^h x^l        T_(h+l) = 2 T_h T_l - T_(h-l)

The sizes take up an interval. With u = (x - middle) / radius the ciphertext x - middle is B_1 =
radius u, at no level. Sizes of later elements follow, kept near 1 by integer factors.
"""

from __future__ import annotations

from functools import lru_cache

import attrs
import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-12  # sizes that differ by less are equal


def element_depth(j: int) -> int:
    """ceil(log2 j): the levels that B_j takes."""
    return (j - 1).bit_length()


@attrs.frozen
class Element:
    """Recurrence for B_j: factor B_high B_low - correction B_(high - low).

    Args:
        high, low: high >= low, their sum is j; where they are equal B_0 = 1 is corrected by.
        factor: an integer.
        correction: 0 for powers.
        size: B_j / C_j.
    """

    high: int
    low: int
    factor: int
    correction: float
    size: float

    @property
    def needs(self) -> tuple[int, ...]:
        """The elements that it is made of."""
        corrected = (self.high - self.low,) if self.correction else ()
        return (self.high, self.low, *corrected)


@attrs.frozen
class Basis:
    """The powers, or the Chebyshev polynomials with sizes.

    Args:
        is_chebyshev: which of the two.
        first: the size of B_1.
    """

    is_chebyshev: bool
    first: float = 1.0

    def size(self, j: int) -> float:
        """B_j / C_j."""
        if j < 2 or not self.is_chebyshev:
            return self.first**j if self.is_chebyshev else 1.0
        return self.element(j).size

    @lru_cache(maxsize=1 << 14)  # noqa: B019 - equal bases share their elements
    def element(self, j: int) -> Element:
        """Recurrence for B_j, j >= 2: from its half, or the largest power of two below j."""
        high = j // 2 if j % 2 == 0 else 1 << (j.bit_length() - 1)
        low = j - high
        if not self.is_chebyshev:
            return Element(high, low, 1, 0.0, 1.0)
        product = self.size(high) * self.size(low)
        factor = max(1, round(2 / product))
        size = factor * product / 2
        correction = size / self.size(high - low)
        if np.isfinite(correction) and abs(correction - round(correction)) < ROUNDING:
            correction = float(round(correction))
        return Element(high, low, factor, correction, size)

    def divided(self, c: NDArray, g: int) -> tuple[NDArray, NDArray]:
        """Quotient and remainder by C_g of a polynomial of degree g to 2g, in this basis."""
        quotient, remainder = c[g:].copy(), c[:g].copy()
        if self.is_chebyshev:
            high = c[g + 1 :]
            quotient[1:] *= 2
            # T_(g+i) = 2 T_g T_i - T_(g-i), where i <= g
            np.subtract.at(remainder, g - 1 - np.arange(len(high)), high)
        return quotient, remainder

    def closure(self, wanted: set[int]) -> set[int]:
        """The elements from 2 on that `wanted` and what they are made of take: one product each."""
        elements: set[int] = set()
        stack = [j for j in wanted if j > 1]
        while stack:
            j = stack.pop()
            if j not in elements:
                elements.add(j)
                stack.extend(i for i in self.element(j).needs if i > 1)
        return elements
