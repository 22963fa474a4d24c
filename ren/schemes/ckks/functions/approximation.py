"""`ckks.approximate`: the degree, depth and error of a polynomial before anything is encrypted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core import html
from ren.core.attributes import closed
from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic.argument_checks import check_function
from ren.schemes.ckks.arithmetic.evolve import with_error
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextT
from ren.schemes.ckks.functions.arguments import checked_precision
from ren.schemes.ckks.functions.polynomial import (
    Interval,
    checked_degree,
    checked_interval,
    error_of,
    evaluated,
    interpolated,
    mapping,
)

LARGEST_DEGREE = 1023


@closed()
@attrs.frozen(repr=False)
class Approximation:
    """A Chebyshev interpolant and how far it is from its function.

    Attributes:
        coefficients: of T_0(u), T_1(u), ..., where u in [-1, 1] for x in the interval.
        interval: (a, b).
        error: the largest |f - p| on a grid of the interval, in float64.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> ckks.approximate(np.exp, (-1, 1), precision=20)
        Approximation(degree 7, depth 3, error 2.22e-07 = 22.1 bits, on [-1, 1])
    """

    coefficients: tuple[complex, ...]
    interval: Interval
    error: float

    @property
    def degree(self) -> int:
        """Degree: the index of the last coefficient that is not zero."""
        return max((j for j, c in enumerate(self.coefficients) if c), default=0)

    @property
    def depth(self) -> int:
        """The levels that its evaluation takes, with the map from the interval."""
        return mapping(self.coefficients, self.interval).depth

    @property
    def relinearizations(self) -> int:
        """The key switches that its evaluation takes."""
        return mapping(self.coefficients, self.interval).schedule.relinearizations

    @property
    def bits(self) -> float:
        """-log2 of the error; inf where it is zero."""
        return -math.log2(self.error) if self.error else math.inf

    def __call__(self, x: ArrayLike) -> NDArray:
        """The polynomial at numbers in the clear."""
        a, b = self.interval
        c = np.array([v if v.imag else v.real for v in self.coefficients])
        return np.polynomial.chebyshev.chebval((2 * np.asarray(x) - a - b) / (b - a), c)

    def __repr__(self) -> str:
        a, b = self.interval
        return (
            f"Approximation(degree {self.degree}, depth {self.depth}, error {self.error:.3g} = "
            f"{self.bits:.1f} bits, on [{a:g}, {b:g}])"
        )

    def _repr_html_(self) -> str:
        a, b = self.interval
        rows = [
            ("interval", f"[{a:g}, {b:g}]"),
            ("degree", str(self.degree)),
            ("depth", f"{self.depth} levels"),
            ("error", f"{self.error:.3g} = {self.bits:.1f} bits, on a grid of the interval"),
            ("key switches", str(self.relinearizations)),
        ]
        return html.card("Approximation", html.facts(rows))


def approximate(
    f: Callable[[NDArray], ArrayLike],
    interval: Interval = (-1.0, 1.0),
    precision: float | None = None,
    degree: int | None = None,
) -> Approximation:
    """The interpolant of f in Chebyshev nodes, and its error on a fine grid.

    Args:
        f: a function of arrays.
        interval: (a, b).
        precision: in bits: the least degree whose error is at most 2^-precision.
        degree: instead of a precision. Without either, precision=20.

    Raises:
        ParameterError: f is not smooth enough for the precision: says which degree was tried and
            what error it left. Also where f is not finite on the interval.
    """
    check_function(f, "ckks.approximate()")
    interval = checked_interval(interval)
    refuse_both(precision, degree)
    if degree is not None:
        return _of_degree(f, interval, checked_degree(degree))
    return _of_precision(f, interval, checked_precision(precision, 20.0))


def approximated(ct: CiphertextT, p: Approximation, what: str) -> CiphertextT:
    """The polynomial in every slot of what `argument` gives, and its error in the noise.

    A tenth is added to the error for what lies between the points of the grid.
    """
    result = evaluated(ct, p.coefficients, p.interval, what)
    return with_error(result, 1.1 * p.error) if p.error else result


def refuse_both(precision: float | None, degree: int | None) -> None:
    """Raises ParameterError where a precision and a degree are given."""
    if degree is not None and precision is not None:
        raise ParameterError(
            f"Both precision={precision} and degree={degree} were given.",
            "The precision decides the degree, or the degree the precision.",
            "Leave one of them out.",
        )


def _of_degree(f: Callable, interval: Interval, degree: int) -> Approximation:
    c = interpolated(f, interval, degree)
    return Approximation(tuple(complex(v) for v in c), interval, error_of(f, c, interval))


def _of_precision(f: Callable, interval: Interval, precision: float) -> Approximation:
    goal = 2.0**-precision
    low, high = -1, 1  # the least degree lies above low; what high reaches is `best`
    best = _of_degree(f, interval, high)
    tried = [best]
    while best.error > goal:
        if high >= LARGEST_DEGREE:
            return _before_rounding(f, interval, precision, tried)
        low, high = high, min(2 * high + 1, LARGEST_DEGREE)
        best = _of_degree(f, interval, high)
        tried.append(best)
    while high - low > 1:
        middle = (low + high) // 2
        tried = _of_degree(f, interval, middle)
        if tried.error <= goal:
            high, best = middle, tried
        else:
            low = middle
    return best


def _before_rounding(
    f: Callable, interval: Interval, precision: float, tried: Sequence[Approximation]
) -> Approximation:
    """The least degree near the best of those that fail: beyond it errors of float64 grow.

    Raises ParameterError where there is none.
    """
    best = min(tried, key=lambda p: p.error)
    if best is not tried[-1]:  # else the function is not smooth: errors fall slowly
        for degree in range(best.degree // 2, 2 * best.degree + 1):
            found = _of_degree(f, interval, degree)
            if found.error <= 2.0**-precision:
                return found
            best = min(best, found, key=lambda p: p.error)
    raise ParameterError(
        f"Degree {len(best.coefficients) - 1} leaves an error of {best.error:.3g} = "
        f"{best.bits:.1f} bits, and {precision:g} bits were asked for.",
        "The function is not smooth enough on the interval, or float64 ends before.",
        "Ask for less precision, or a shorter interval, away from kinks and singularities.",
    )
