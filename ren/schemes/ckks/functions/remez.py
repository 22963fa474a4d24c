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

from ren.core.errors import ParameterError

DEGREES = (3, 7, 15, 31)  # one less than a power of two: a level is used to the full
RELINEARIZATIONS = {3: 2, 7: 4, 15: 7, 31: 10}
_MARGIN = 2.0**-16  # the largest of the interval between two polynomials, for noise
_LEAST_LEFT = 2.0**-40  # of 1, where float64 tells it from zero
_FLOOR = 1e-12  # of errors: float64 rounds
_GRID, _NEWTON = 1 << 12, 4
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
    """By Remez's exchange; the points start as Chebyshev's in u^2, and become the extrema.

    Where float64 does not tell the points apart, it is one of a lower degree.
    """
    terms = (degree + 1) // 2
    grid = _grid(low, high)
    basis = _odd_basis(grid / high, terms)
    halves = (1 - np.cos(np.pi * np.arange(terms + 1) / terms)) / 2
    points = np.sqrt(low**2 + (high**2 - low**2) * halves)
    coefficients, level, worst = np.zeros(terms), 0.0, np.inf
    for _ in range(40):
        signs = (-1.0) ** np.arange(terms + 1)
        matrix = np.column_stack([_odd_basis(points / high, terms), signs])
        solved = np.linalg.lstsq(matrix, np.ones(terms + 1), rcond=None)[0]
        coefficients, level = solved[:-1], abs(solved[-1])
        error = basis @ coefficients - 1
        extrema = _extrema(error, terms + 1)
        refined = _refined(coefficients, grid / high, extrema) * high
        at_refined = np.abs(_odd_basis(refined / high, terms) @ coefficients - 1)
        worst = float(max(at_refined.max(), np.abs(error).max()))
        if worst <= level * (1 + 1e-9) + 1e-15:
            break
        points = refined if worst <= 2 * level else grid[extrema]
    full = np.zeros(degree + 1)
    full[1::2] = coefficients
    found = OddMinimax(tuple(full.tolist()), low, high, worst)
    if worst <= 2 * level + _FLOOR or degree <= DEGREES[0]:
        return found
    less = odd_minimax(degree - 2 * (degree // 16 + 1), low, high)
    padded = less.coefficients + (0.0,) * (degree + 1 - len(less.coefficients))
    return min(found, attrs.evolve(less, coefficients=padded), key=lambda p: p.error)


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
        sequences = [s for s in sequences if 1 - s[-1].error > _LEAST_LEFT]
        if depth >= 5 and not sequences:  # no later ones would follow
            raise ParameterError(
                f"A sign was asked for with a gap of {gap:.2g} of the interval.",
                "No polynomial that Ren evaluates tells numbers apart that are so close to zero.",
                "Pass a larger gap, or a shorter interval.",
            )
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
    margin = min(_MARGIN, (1 - error) / 8)
    return 1 - error - margin, 1 + error + margin


@lru_cache(maxsize=1 << 8)
def largest_left(polynomials: Sequence) -> float:
    """The largest u |1 - s(u)| for 0 <= u <= 1, with s the composition: how far u s(u) is from |u|.

    Noise may move what each polynomial takes in by the margin. Below the gap, s(u) rises from 0.
    """
    gap, worst = polynomials[0].low, polynomials[-1].error
    u = _grid(gap / 1024, gap)
    for sign in (-1, 0, 1):
        s, before = u, 0.0
        for p in polynomials:
            noise = sign * (p.high - 1 - before) if before else 0.0
            s = np.polynomial.chebyshev.chebval((s + noise) / p.high, p.coefficients)
            before = p.error
        worst = max(worst, float(np.abs(u * (1 - s)).max()))
    return worst


def _grid(low: float, high: float) -> NDArray:
    """Dense at both ends, and at the low end in proportion to it."""
    u = (1 - np.cos(np.pi * np.arange(_GRID) / (_GRID - 1))) / 2
    return low * (high / low) ** u if high > 4 * low else low + (high - low) * u


def _odd_basis(u: NDArray, terms: int) -> NDArray:
    return np.cos(np.arange(1, 2 * terms, 2) * np.arccos(np.clip(u, -1, 1))[:, None])


def _refined(coefficients: NDArray, u: NDArray, extrema: NDArray) -> NDArray:
    """The u of the extrema of an odd series that a grid shows, by Newton's steps in arccos(u).

    What a polynomial leaves of 1 can be so little that it vanishes between two points of the grid.
    """
    n = np.arange(1, 2 * len(coefficients), 2)
    angles = np.arccos(np.clip(u, -1, 1))
    start = angles[extrema]
    ends = ((angles[np.clip(extrema + side, 0, _GRID - 1)] + start) / 2 for side in (1, -1))
    least, most = ends  # half of the way to the neighbours: no two meet
    at = start
    for _ in range(_NEWTON):
        slope = -np.sin(at[:, None] * n) @ (n * coefficients)
        curvature = -np.cos(at[:, None] * n) @ (n * n * coefficients)
        step = np.divide(slope, curvature, out=np.zeros_like(at), where=curvature != 0)
        at = np.clip(at - step, least, most)
    before, after = (np.abs(np.cos(a[:, None] * n) @ coefficients - 1) for a in (start, at))
    return np.where(after > before, np.cos(at), u[extrema])


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
