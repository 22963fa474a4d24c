"""Paterson and Stockmeyer's evaluation, planned: which products, at which levels, before any runs.

A polynomial p becomes sum_i q_i B_(g_i) + sum_j c_j B_j + c_0, where each q_i is such a sum again.
All terms of one sum meet at one level before they are relinearized and rescaled, once for the sum.
So of d/b ciphertext products with giant steps about half relinearize. With b baby steps the
relinearizations are b + d/(2b) + log2(d/b) in number, at best about sqrt(2 d) + log2 d.

A coefficient takes a level as well. Only quotients feel that. They are divided down to one term
where no level is left, so that the depth is ceil(log2(d + 1)).

References: Paterson and Stockmeyer, "On the number of nonscalar multiplications necessary to
evaluate polynomials", 1973; Bossuat et al., "Efficient bootstrapping for approximate HE", 2021, 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.schemes.ckks.functions.basis import ROUNDING, Basis, element_depth

_NODES = 16  # for each coefficient: a bound by their largest value is 0.5 % above it
LARGEST_INTEGER = 1 << 16  # coefficients up to here that are integers take no level
MOST_ROWS = 64  # polynomials beside each other whose sums are sampled, and whose schedule is kept

# One number for all polynomials that are evaluated beside each other, or one for each of them.
Coefficient = complex | tuple[complex, ...]


@attrs.frozen
class Combination:
    """sum q B_g over `products`, and c B_j over `terms`, and `constant`."""

    products: tuple[tuple[int, Combination], ...]
    terms: tuple[tuple[int, Coefficient], ...]
    constant: Coefficient

    def parts(self) -> Iterator[Combination]:
        """Itself and all quotients inside."""
        yield self
        for _, quotient in self.products:
            yield from quotient.parts()

    def unscaled(self, depth: int) -> Iterator[int]:
        """The j of terms, inside quotients too, that take no constant: integer multiples of B_j.

        They are at the level of their sum, `depth` levels down, and so is B_j.
        """
        yield from (j for j, _ in self.terms if element_depth(j) == depth)
        for _, quotient in self.products:
            yield from quotient.unscaled(depth - 1)


def largest(s: Combination, basis: Basis) -> float:
    """At least the largest modulus of a sum of Chebyshev polynomials, for u in [-1, 1].

    A polynomial of degree d is at most 1 / cos(d pi / (2 m)) of its largest value in the m nodes
    of T_m. Of more than 64 polynomials beside each other it is a sum of moduli.

    Reference: Ehlich and Zeller, "Schwankung von Polynomen zwischen Gitterpunkten", 1964.
    """
    if _rows(s) > MOST_ROWS:
        return float(_sum_of_sizes(s, basis).max()) * (1 + ROUNDING)
    return _largest(s, basis)


@lru_cache(maxsize=1 << 12)
def _largest(s: Combination, basis: Basis) -> float:
    degree = _degree(s)
    count = _NODES * (degree + 1)
    angles = (np.arange(count) + 0.5) * np.pi / count
    margin = math.cos(degree * np.pi / (2 * count)) * (1 - ROUNDING)
    return float(np.abs(_values(s, basis, angles)).max()) / margin


def _rows(s: Combination) -> int:
    """The count of polynomials that are evaluated beside each other."""
    own = (*(c for _, c in s.terms), s.constant)
    inner = (_rows(q) for _, q in s.products)
    return max([1, *(len(c) for c in own if isinstance(c, tuple)), *inner])


def _sum_of_sizes(s: Combination, basis: Basis) -> NDArray:
    total = np.abs(s.constant)
    for g, quotient in s.products:
        total = total + _sum_of_sizes(quotient, basis) * abs(basis.size(g))
    for j, c in s.terms:
        total = total + np.abs(c) * abs(basis.size(j))
    return total


def _degree(s: Combination) -> int:
    products = (g + _degree(q) for g, q in s.products)
    return max([0, *products, *(j for j, _ in s.terms)])


def _values(s: Combination, basis: Basis, angles: NDArray) -> NDArray:
    """Values at u = cos(angle), [*rows, angle]: T_j(u) = cos(j angle)."""
    total = np.asarray(s.constant)[..., None] + np.zeros(len(angles))
    for g, quotient in s.products:
        total = total + _values(quotient, basis, angles) * basis.size(g) * np.cos(g * angles)
    for j, c in s.terms:
        total = total + np.asarray(c)[..., None] * basis.size(j) * np.cos(j * angles)
    return total


@attrs.frozen
class Schedule:
    """Schedule of the evaluation of a polynomial.

    Args:
        root: the sum that it is.
        depth: the levels that it takes.
        elements: the B_j from j = 2 on that are made, one product each.
        products: ciphertext products in all.
        relinearizations: sums of products.
    """

    basis: Basis
    root: Combination
    depth: int
    elements: frozenset[int]
    products: int
    relinearizations: int

    @property
    def largest_size(self) -> float:
        """The largest B_j / C_j: what the noise of its cofactor is multiplied by."""
        return max(self.basis.size(j) for j in {1, *self.elements})

    @property
    def has_free_scales(self) -> bool:
        """Whether constants bring all terms to the scales of their sums, from any scales.

        No constant adjusts an integer multiple of B_j at the level of its sum. In the root a B_j
        with j a power of two has the scale in any case: it comes from x by squares.
        """
        inner = (j for _, q in self.root.products for j in q.unscaled(self.depth - 1))
        own = (j for j, _ in self.root.terms if element_depth(j) == self.depth)
        return not any(inner) and not any(j & (j - 1) for j in own)


def is_integer(c: Coefficient) -> bool:
    """Whether a factor costs no level."""
    if isinstance(c, tuple):
        return False
    return c.imag == 0 and abs(c) <= LARGEST_INTEGER and c.real == round(c.real)


def schedule(coefficients: tuple[Coefficient, ...], basis: Basis, tiny: float = 0.0) -> Schedule:
    """The schedule of least depth, then of fewest relinearizations, then of fewest products.

    Args:
        coefficients: of C_0, C_1, ...: a number for all polynomials, or one for each.
        tiny: coefficients of at most this modulus are skipped.
    """
    if max(len(c) if isinstance(c, tuple) else 1 for c in coefficients) > MOST_ROWS:
        return _schedule(coefficients, basis, tiny)
    return _kept_schedule(coefficients, basis, tiny)


def _schedule(coefficients: tuple[Coefficient, ...], basis: Basis, tiny: float) -> Schedule:
    c = _trimmed(np.array(np.broadcast_arrays(*coefficients), np.complex128), tiny)
    degree = len(c) - 1
    most = min(degree, 2 * math.isqrt(2 * degree) + 2)
    for depth in range(max(degree - 1, 0).bit_length(), degree.bit_length() + 1):
        babies = range(1, max(most, 1) + 1)
        schedules = [_Planner(basis, b, tiny).schedule(c, depth) for b in babies]
        feasible = [s for s in schedules if s is not None]
        if feasible:
            return min(feasible, key=lambda s: (s.relinearizations, s.products))
    raise AssertionError("ceil(log2(degree + 1)) levels suffice for every polynomial")


_kept_schedule = lru_cache(maxsize=256)(_schedule)


@attrs.frozen
class _Planner:
    """Plans with `babies` baby steps; giant steps are babies * 2^i, and powers of two."""

    basis: Basis
    babies: int
    tiny: float

    def schedule(self, c: NDArray, depth: int) -> Schedule | None:
        """None where the depth does not suffice."""
        root = self._combination(c, depth)
        if root is None:
            return None
        parts = list(root.parts())
        used = {j for part in parts for j, _ in (*part.products, *part.terms)}
        elements = self.basis.closure(used)
        products = len(elements) + sum(len(part.products) for part in parts)
        sums = len(elements) + sum(bool(part.products) for part in parts)
        return Schedule(self.basis, root, depth, frozenset(elements), products, sums)

    def _combination(self, c: NDArray, depth: int) -> Combination | None:
        products: list[tuple[int, Combination]] = []
        terms: list[tuple[int, Coefficient]] = []
        c = _trimmed(c, self.tiny)
        while not self._is_direct(c, depth):
            g = self._giant(c, depth)
            if g is None:
                return None
            quotient, c = self.basis.divided(c, g)
            quotient, c = _trimmed(quotient, self.tiny), _trimmed(c, self.tiny)
            if len(quotient) == 1:
                terms.append((g, self._factor(quotient[0], g)))
                continue
            inner = self._combination(quotient / self.basis.size(g), depth - 1)
            if inner is None:
                return None
            products.append((g, inner))
        terms += [(j, self._factor(c[j], j)) for j in self._present(c)]
        if not all(self._fits(j, factor, depth) for j, factor in terms):
            return None
        return Combination(tuple(products), tuple(terms), _coefficient(c[0]))

    def _present(self, c: NDArray) -> list[int]:
        return [int(j) for j in np.flatnonzero(_sizes(c) > self.tiny) if j]

    def _factor(self, coefficient: NDArray, j: int) -> Coefficient:
        factor = _coefficient(coefficient / self.basis.size(j))
        if isinstance(factor, tuple):
            return factor
        nearest = round(factor.real)
        return complex(nearest) if nearest and abs(factor - nearest) < ROUNDING else factor

    def _fits(self, j: int, factor: Coefficient, depth: int) -> bool:
        return element_depth(j) + (not is_integer(factor)) <= depth

    def _is_direct(self, c: NDArray, depth: int) -> bool:
        if len(c) - 1 > self.babies:
            return False
        return all(self._fits(j, self._factor(c[j], j), depth) for j in self._present(c))

    def _giant(self, c: NDArray, depth: int) -> int | None:
        """The largest giant step that divides at this depth; else the largest power of two."""
        degree = len(c) - 1
        for first in (self.babies, 1):
            steps = [first << i for i in range(degree.bit_length())]
            fitting = [g for g in steps if g <= degree <= 2 * g and self._divides(c, g, depth)]
            if fitting:
                return fitting[-1]
        return None

    def _divides(self, c: NDArray, g: int, depth: int) -> bool:
        degree = len(c) - 1
        if degree == g:
            return self._fits(g, self._factor(c[g], g), depth)
        return max(element_depth(g), (degree - g).bit_length()) < depth


def _sizes(c: NDArray) -> NDArray:
    """The largest modulus of each coefficient [degree + 1, *rows]."""
    return np.abs(c).reshape(len(c), -1).max(-1)


def _coefficient(c: NDArray) -> Coefficient:
    """A number where all are equal."""
    if not np.ndim(c) or (c == c[0]).all():
        return complex(np.ravel(c)[0])
    return tuple(c.tolist())


def _trimmed(c: NDArray, tiny: float) -> NDArray:
    """Without leading coefficients that are tiny; one is left at least."""
    present = np.nonzero(_sizes(c) > tiny)[0]
    return c[: present[-1] + 1] if len(present) else np.zeros_like(c[:1])
