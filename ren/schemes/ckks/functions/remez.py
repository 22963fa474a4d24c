"""Minimax polynomials for the sign function, by Remez's exchange on one side of zero.

An odd polynomial that is near 1 on [a, b] is near -1 on [-b, -a]. Its error meets d + 2 points of
alternation where d + 1 odd terms are free.

Reference: Lee, Lee, No and Kim, "Minimax approximation of sign function by composite polynomial for
homomorphic comparison", 2021.
"""

from __future__ import annotations

from functools import lru_cache

import attrs
import numpy as np
from numpy.typing import NDArray

DEGREES = (3, 7, 15, 31)  # one less than a power of two: a level is used to the full
RELINEARIZATIONS = {3: 2, 7: 4, 15: 7, 31: 10}
MARGIN = 2.0**-16  # of the interval between two polynomials, for noise
_GRID = 1 << 12
_KEPT = 3  # sequences for each depth; more find nothing better down to gaps of 2^-20


@attrs.frozen
class OddMinimax:
    """The odd polynomial nearest to 1 on [low, high].

    Args:
        coefficients: of T_0(x / high), T_1(x / high), ...; even ones are zero.
        low, high: the ends of the interval.
        error: the largest |p - 1| on it.
    """

    coefficients: tuple[float, ...]
    low: float
    high: float
    error: float


Sequence = tuple[OddMinimax, ...]


@lru_cache(maxsize=1 << 10)
def odd_minimax(degree: int, low: float, high: float) -> OddMinimax:
    """By Remez's exchange; the points start as Chebyshev's and are exchanged for the extrema."""
    terms = (degree + 1) // 2
    grid = _grid(low, high)
    basis = _odd_basis(grid / high, terms)
    points = np.round(np.linspace(0, len(grid) - 1, terms + 1)).astype(int)
    coefficients = np.zeros(terms)
    for _ in range(40):
        signs = (-1.0) ** np.arange(terms + 1)
        solved = np.linalg.solve(np.column_stack([basis[points], signs]), np.ones(terms + 1))
        coefficients, level = solved[:-1], abs(solved[-1])
        error = basis @ coefficients - 1
        points = _extrema(error, terms + 1)
        if np.abs(error).max() <= level * (1 + 1e-9) + 1e-15:
            break
    full = np.zeros(degree + 1)
    full[1::2] = coefficients
    worst = float(np.abs(basis @ coefficients - 1).max())
    return OddMinimax(tuple(full.tolist()), low, high, worst)


@lru_cache(maxsize=64)
def sign_polynomials(gap: float, precision: float) -> Sequence:
    """Minimax polynomials whose composition is within 2^-precision of the sign on gap <= |x| <= 1.

    Of degrees 3, 7, 15 and 31, in the order of least depth, and of the fewest relinearizations
    found there. The error that a polynomial leaves shrinks with the one that goes in. So for each
    depth only the sequences are kept that leave less than every cheaper one.
    """
    best: list[list[Sequence]] = [[()]]
    while True:
        depth = len(best)
        sequences = [
            (*head, odd_minimax(degree, *_left(head, gap)))
            for degree in DEGREES
            if degree.bit_length() <= depth
            for head in best[depth - degree.bit_length()]
        ]
        if done := [s for s in sequences if s[-1].error <= 2.0**-precision]:
            return min(done, key=lambda s: (_cost(s), s[-1].error))
        best.append(_undominated(sequences))


def _undominated(sequences: list[Sequence]) -> list[Sequence]:
    kept: list[Sequence] = []
    for s in sorted(sequences, key=lambda s: (s[-1].error, _cost(s))):
        if not kept or _cost(s) < _cost(kept[-1]):
            kept.append(s)
    return kept[:_KEPT]


def _cost(s: Sequence) -> int:
    return sum(RELINEARIZATIONS[len(p.coefficients) - 1] for p in s)


def _left(s: Sequence, gap: float) -> tuple[float, float]:
    """The interval that the next polynomial takes in: with a margin for noise."""
    if not s:
        return gap, 1.0
    error = s[-1].error
    return max(1 - error - MARGIN, MARGIN), 1 + error + MARGIN


@lru_cache(maxsize=1 << 8)
def largest_left(polynomials: Sequence) -> float:
    """The largest u |1 - s(u)| for 0 <= u <= 1, on a grid, with s the composition.

    So far u times the sign is off. Noise may move what each polynomial takes in by the margin.
    """
    u = _grid(polynomials[0].low / 1024, 1.0)
    worst = 0.0
    for noise in (-MARGIN, 0.0, MARGIN):
        s = u
        for i, p in enumerate(polynomials):
            s = np.polynomial.chebyshev.chebval((s + noise * (i > 0)) / p.high, p.coefficients)
        worst = max(worst, float(np.abs(u * (1 - s)).max()))
    return worst


def _grid(low: float, high: float) -> NDArray:
    """Dense at both ends, and at the low end in proportion to it."""
    u = (1 - np.cos(np.pi * np.arange(_GRID) / (_GRID - 1))) / 2
    return low * (high / low) ** u if high > 4 * low else low + (high - low) * u


def _odd_basis(u: NDArray, terms: int) -> NDArray:
    return np.cos(np.arange(1, 2 * terms, 2) * np.arccos(np.clip(u, -1, 1))[:, None])


def _extrema(error: NDArray, count: int) -> NDArray:
    """The largest error of each run of one sign; `count` runs in a row, without the smallest."""
    starts = np.flatnonzero(np.diff(np.sign(error), prepend=np.nan) != 0)
    runs = np.split(np.arange(len(error)), starts[1:])
    points = np.array([run[np.argmax(np.abs(error[run]))] for run in runs])
    while len(points) > count:
        ends = np.abs(error[points[[0, -1]]])
        points = points[1:] if ends[0] < ends[1] else points[:-1]
    if len(points) < count:  # an error at float64's rounding: spread what is missing
        return np.round(np.linspace(0, len(error) - 1, count)).astype(int)
    return points
