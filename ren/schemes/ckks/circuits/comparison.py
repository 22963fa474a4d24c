"""sign by composite minimax polynomials, and what follows from it.

Comparisons give 1 for true and 0 for false. They are right to 2^-precision where the two numbers
differ by at least `gap`; in between they pass from 0 to 1. `interval` is where the numbers lie.
With a `degree` in place of the precision there is one polynomial of that degree.

Reference: Lee, Lee, No and Kim, "Minimax approximation of sign function by composite polynomial for
homomorphic comparison", 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ren.core.errors import ParameterError
from ren.schemes.ckks.argument_checks import check_real
from ren.schemes.ckks.arithmetic import need_level
from ren.schemes.ckks.circuits.approximation import approximate, refuse_both
from ren.schemes.ckks.circuits.elementary import applied
from ren.schemes.ckks.circuits.polynomial import (
    Interval,
    checked_degree,
    checked_interval,
    evaluated,
    mapping,
)
from ren.schemes.ckks.circuits.remez import OddMinimax, odd_minimax, sign_polynomials
from ren.schemes.ckks.watch import unchecked

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext

UNIT = (-1.0, 1.0)
_PRECISION = 8.0  # bits, unless said otherwise
_LARGEST_ODD = 127  # a degree to which Remez's exchange finds what is nearest


def sign(
    ct: Ciphertext,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """-1 or 1 in every slot, to 2^-precision for |x| >= gap.

    Args:
        ct: the encrypted x.
        interval: where x lies.
        gap: the least |x| for which it holds. By default the largest |x| times 2^-precision, or
            2 / (degree + 2).
        precision: in bits; 8 by default.
        degree: instead of a precision: of one odd polynomial, the nearest to the sign from the gap
            on, in log2(degree + 1) levels.

    Levels, with the default gap: 6 for 4 bits, 9 for 6, 12 for 8, 14 for 10, 17 for 12, 21 for 16,
    and one more where the interval is beyond [-2, 2].

    Raises:
        DepthError: too few levels; says how many are needed.
        ParameterError: a gap that is not inside the interval.
    """
    return _step(ct, interval, gap, precision, degree, -1.0, 1.0, "sign")


@unchecked()
def absolute(
    ct: Ciphertext,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """|x|, with an error of at most max(gap, 2^-precision largest |x|).

    Args, raises: as for `sign`. One level more than it. With a degree it is the interpolant of |x|
    of that degree, without a gap.
    """
    if degree is not None:
        return _interpolated(ct, np.abs, interval, gap, precision, degree, "abs")
    return ct * _step(ct, interval, gap, precision, None, -1.0, 1.0, "abs", 1)


@unchecked()
def relu(
    ct: Ciphertext,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """max(x, 0), with an error of at most max(gap, 2^-precision largest |x|) / 2.

    Args, raises: as for `abs`.
    """
    return _relu(ct, interval, gap, precision, degree, "relu")


def _relu(
    ct: Ciphertext,
    interval: Interval,
    gap: float | None,
    precision: float | None,
    degree: int | None,
    what: str,
) -> Ciphertext:
    if degree is not None:
        return _interpolated(ct, _positive_part, interval, gap, precision, degree, what)
    return ct * _step(ct, interval, gap, precision, None, 0.0, 1.0, what, 1)


def _positive_part(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def _interpolated(
    ct: Ciphertext,
    f: Callable[[np.ndarray], np.ndarray],
    interval: Interval,
    gap: float | None,
    precision: float | None,
    degree: int,
    what: str,
) -> Ciphertext:
    """The interpolant of a function with a kink at zero, about 1 / degree from it there."""
    if gap is not None:
        raise ParameterError(
            f"{what} got gap={gap!r} and degree={degree!r}.",
            "A polynomial of a degree is near the function everywhere, and knows no gap.",
            "Leave out the degree, or the gap.",
        )
    return applied(ct, approximate(f, interval, precision, degree), what)


@unchecked()
def maximum(
    a: Any,
    b: Any,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """The larger of a and b in every slot: b + relu(a - b).

    Args:
        a, b: ciphertexts, or one of them an array or a number.
        interval: where both lie.
        gap, precision, degree: as for `abs`, of the difference.
    """
    return b + _relu(a - b, _differences(interval), gap, precision, degree, "max")


@unchecked()
def minimum(
    a: Any,
    b: Any,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """The smaller of a and b in every slot: a - relu(a - b).

    Args: as for `max`.
    """
    return a - _relu(a - b, _differences(interval), gap, precision, degree, "min")


@unchecked()
def greater(
    a: Any,
    b: Any,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """1 where a > b, 0 where a < b, to 2^-precision / 2 where they differ by `gap` or more.

    Args: as for `max`, with the degree of `sign`. As many levels as `sign`.
    """
    return _step(a - b, _differences(interval), gap, precision, degree, 0.0, 1.0, "greater")


@unchecked()
def less(
    a: Any,
    b: Any,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """1 where a < b, 0 where a > b.

    Args: as for `greater`.
    """
    return _step(b - a, _differences(interval), gap, precision, degree, 0.0, 1.0, "less")


@unchecked()
def equal(
    a: Any,
    b: Any,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """1 where a and b are equal but for noise, 0 where they differ by `gap` or more.

    It is 1 - sign(a - b)^2: one level more than `sign`.

    Args: as for `greater`. For integers pass gap=1.
    """
    if degree is None:
        precision = (_PRECISION if precision is None else precision) + 1
    s = _step(a - b, _differences(interval), gap, precision, degree, -1.0, 1.0, "equal", 1)
    return 1 - s * s


@unchecked()
def where(condition: Ciphertext, a: Any, b: Any) -> Ciphertext:
    """a where the condition is 1, b where it is 0: b + condition (a - b). One level."""
    difference = a - b
    is_encrypted = isinstance(difference, type(condition))
    if is_encrypted or isinstance(difference, np.ndarray):
        need_level(condition, 1, "where")
    if is_encrypted:
        need_level(difference, 1, "where")
    return b + condition * difference


@unchecked()
def rounded(
    ct: Ciphertext,
    interval: Interval = (-2.0, 2.0),
    margin: float = 0.1,
    precision: float | None = None,
    degree: int | None = None,
) -> Ciphertext:
    """The nearest integer in every slot, for x at least `margin` from the half-integers.

    With d = x - round(x) it is x - s f(c), s = sin(2 pi d), c = cos(2 pi d), f(cos t) = t / (2 pi
    sin t): sine and cosine share their powers.

    Args:
        ct: the encrypted x.
        interval: where x lies.
        margin: below 1/2; the less, the more levels.
        precision: in bits; 15 by default.
        degree: instead of a precision, of the sine and the cosine.

    Raises:
        DepthError: too few levels.
        ParameterError: a margin not between 0 and 1/2.
    """
    if not 0 < margin < 0.5:
        raise ParameterError(
            f"round got margin={margin}.",
            "It is how far x stays from the half-integers: above 0, below 1/2.",
            "Write for example margin=0.1.",
        )
    bits = 15.0 if precision is None else float(precision)
    # f is at most about 1 / (2 margin) / pi, and steep there: s and c are made finer than asked
    finer = bits + 4 - 2 * float(np.log2(margin)) if degree is None else precision
    sine = approximate(lambda x: np.sin(2 * np.pi * x), interval, finer, degree)
    cosine = approximate(lambda x: np.cos(2 * np.pi * x), interval, finer, degree)
    spread = (-float(np.cos(2 * np.pi * margin)) - 2.0**-10, 1 + 2.0**-10)
    angle = approximate(_angle, spread, bits + 1)
    need_level(ct, 1 + max(sine.depth, cosine.depth + angle.depth), "round")
    s = applied(ct, sine, "round")
    return ct - s * applied(applied(ct, cosine, "round"), angle, "round")


def _angle(c: np.ndarray) -> np.ndarray:
    """arccos(c) / (2 pi sqrt(1 - c^2)), analytic at c = 1 and continued beyond."""
    near = np.abs(1 - c) < 1e-3
    inside = np.where(near, 0.0, np.clip(c, -1, 1))
    h = 1 - c
    series = 1 + h / 3 + 2 * h**2 / 15 + 2 * h**3 / 35 + 8 * h**4 / 315
    return np.where(near, series, np.arccos(inside) / np.sqrt(1 - inside**2)) / (2 * np.pi)


def _step(
    ct: Ciphertext,
    interval: Interval,
    gap: float | None,
    precision: float | None,
    degree: int | None,
    low: float,
    high: float,
    what: str,
    more: int = 0,
) -> Ciphertext:
    """`low` below zero and `high` above; the last polynomial has it in its coefficients.

    Args:
        more: levels that the caller takes afterwards.
    """
    check_real(ct, what)
    largest = max(abs(v) for v in checked_interval(interval))
    if degree is None:
        bits = _PRECISION if precision is None else float(precision)
        usual, wanted = 2.0**-bits, f"{bits:g} bits"
    else:
        refuse_both(precision, degree)
        odd = _odd_degree(degree, what)
        usual, wanted = 2 / (odd + 2), f"degree {degree}"
    least = largest * usual if gap is None else float(gap)
    if not 0 < least < largest:
        raise ParameterError(
            f"{what} got gap={least:g} for numbers of modulus up to {largest:g}.",
            "Below the gap the sign is not decided: it lies above 0, inside the interval.",
            "Pass a gap that your numbers keep from zero, or from each other.",
        )
    if degree is None:
        polynomials = sign_polynomials(least / largest, bits)
    else:
        polynomials = (odd_minimax(odd, least / largest, 1.0),)
    pieces = _pieces(polynomials, largest, low, high)
    depth = sum(mapping(c, within).depth for c, within in pieces) + more
    need_level(ct, depth, f"{what} with a gap of {least / largest:.2g} at {wanted}")
    for c, within in pieces:
        ct = evaluated(ct, c, within, what)
    return ct


def _odd_degree(degree: int, what: str) -> int:
    """The largest odd degree that is no larger."""
    if not 1 <= checked_degree(degree) <= _LARGEST_ODD:
        raise ParameterError(
            f"{what} got degree={degree!r}.",
            f"An odd polynomial for the sign has a degree from 1 to {_LARGEST_ODD}.",
            "Pass degree=15, say, or a precision: several polynomials then take fewer levels.",
        )
    return int(degree) - 1 + int(degree) % 2


def _pieces(
    polynomials: tuple[OddMinimax, ...], largest: float, low: float, high: float
) -> list[tuple[tuple[complex, ...], Interval]]:
    """The coefficients and intervals of the composition (low + high)/2 + sign (high - low)/2."""
    bounds = [largest, *(p.high for p in polynomials[1:])]
    series = [np.array(p.coefficients) for p in polynomials]
    series[-1] = series[-1] * (high - low) / 2
    series[-1][0] += (high + low) / 2
    return [
        (tuple(map(complex, c.tolist())), (-bound, bound))
        for c, bound in zip(series, bounds, strict=True)
    ]


def _differences(interval: Interval) -> Interval:
    a, b = checked_interval(interval)
    return a - b, b - a
