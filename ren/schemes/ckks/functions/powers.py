"""Powers with any exponent, quotients rounded down, and remainders."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from ren.core.errors import OperandError, ParameterError
from ren.core.user_frame import user_line
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext, check_real
from ren.schemes.ckks.arithmetic.automatic import power
from ren.schemes.ckks.arithmetic.evolve import need_level, within
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import floating, of_total, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, with_levels
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.encoding.refusals import operand_text
from ren.schemes.ckks.functions.approximation import approximate
from ren.schemes.ckks.functions.arguments import (
    checked_distance,
    checked_precision,
    held_inside,
    known_span,
)
from ren.schemes.ckks.functions.division import inverse
from ren.schemes.ckks.functions.elementary import applied, rounded, sqrt
from ren.schemes.ckks.functions.polynomial import Interval, checked_interval


def pow_(
    x: CiphertextData | Any,
    y: CiphertextData | Any,
    interval: Interval | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> Any:
    """x^y in every slot: one of them encrypted, the other a number, or both encrypted.

    Whole exponents from 0 on are products, exact on all numbers. x^-1 is `inverse`, x^0.5 `sqrt`.
    Of two ciphertexts it is exp(y log(x)).

    Args:
        x, y: one of them a ciphertext.
        interval: where the encrypted one lies, x of two. For x by default (0.5, 2), with a warning.
            For y by default (-1, 1). x stays above zero, or away from it where y is a whole number.
            Where an encrypted y lies beside an encrypted x is stated, y.within(low, high), or is
            the tracked bound.
        precision: in bits; 20 by default.
        degree: instead of a precision; for two ciphertexts of both functions.

    Raises:
        OperandError: the other one is not a real number.
        ParameterError: the interval reaches zero.
        DepthError: too few levels.
    """
    check_ciphertext(x, "pow", y)
    if isinstance(x, CiphertextData) and isinstance(y, CiphertextData):
        return _of_two(x, y, interval, precision, degree)
    if not isinstance(x, CiphertextData):
        base = _real(x, "a base")
        if base <= 0:
            raise ParameterError(
                f"pow got the base {base:g} with an encrypted exponent.",
                "It is above zero: other powers are not real numbers.",
                "Pass a base such as 2.0.",
            )
        where = checked_interval((-1.0, 1.0) if interval is None else interval)
        p = approximate(lambda v: base**v, where, precision, degree)
        return applied(y, p, "pow", interval is not None)
    exponent = _real(y, "an exponent")
    if exponent >= 0 and exponent == int(exponent):
        return with_type(power(normal(x), int(exponent)), of_total(x))
    if exponent in (-1, 0.5):
        return (inverse if exponent < 0 else sqrt)(x, interval, precision, degree)
    a, b = checked_interval((0.5, 2.0) if interval is None else interval)
    if a <= 0 and not ((exponent > 0 and a == 0) or (b < 0 and exponent == int(exponent))):
        raise ParameterError(
            f"pow got the exponent {exponent:g} and the interval [{a:g}, {b:g}].",
            "The power is not smooth at zero, and not real below for exponents with a fraction.",
            "Pass an interval above zero, as tight as you know it.",
        )
    p = approximate(lambda v: v**exponent, (a, b), precision, degree)
    return applied(x, p, "pow", interval is not None)


@with_levels
def _of_two(
    x: CiphertextData,
    y: CiphertextData,
    interval: Interval | None,
    precision: float | None,
    degree: int | None,
) -> Any:
    """exp(y log(x)), with as many bits more of the logarithm as the power takes."""
    a, b = checked_interval((0.5, 2.0) if interval is None else interval)
    span = known_span(y)
    if a <= 0 or span is None:
        raise ParameterError(
            f"pow got a base in [{a:g}, {b:g}] and an exponent in "
            f"{'an unknown interval' if span is None else f'[{span.low:g}, {span.high:g}]'}.",
            "Of two ciphertexts it is exp(y log(x)), for x above zero.",
            "State both, x.within(low, high) ** y.within(low, high).",
        )
    ends = [v * math.log(w) for v in (span.low, span.high) for w in (a, b)]
    low, high = min(ends), max(ends)
    width = 2.0**-10 * (1 + high - low)  # for the error of the logarithm
    finer = None
    if degree is None:
        precision = checked_precision(precision, 20.0) + 1
        finer = precision + max(0.0, math.log2(max(span.largest, 1.0)) + high / math.log(2))
    p, where = approximate(np.log, (a, b), finer, degree), (low - width, high + width)
    q = approximate(np.exp, where, precision, degree)
    need_level(x, p.depth + 1 + q.depth, "pow of two ciphertexts", has_parts=True)
    need_level(y, 1 + q.depth, "pow of two ciphertexts", has_parts=True)
    exponent = y * applied(x, p, "pow", interval is not None)
    return applied(within(exponent, max(map(abs, where))), q, "pow")


def check_operands(x: Any, y: Any) -> None:
    """Raises OperandError where the number of a power is not a finite real one."""
    for value, what in ((x, "a base"), (y, "an exponent")):
        if not isinstance(value, CiphertextData):
            _real(value, what)


def _real(value: Any, what: str) -> float:
    if isinstance(value, Symbolic):
        return float(value)  # raises, and says what to do
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise OperandError(
        f"{user_line()} takes a power with {operand_text(value)} as {what}.",
        "Beside encrypted numbers it is a real number, and finite.",
        "Pass a number such as 2.5; for an array of exponents split x by ct[i:j].",
    )


def _divisor(divisor: Any, symbol: str) -> float:
    """The divisor; ParameterError where it is not a number above zero."""
    try:
        m = float(divisor) if isinstance(divisor, numbers.Real | Symbolic) else math.nan
    except OverflowError:
        m = math.inf
    if 0 < m < math.inf:
        return m
    is_quotient = symbol == "//"
    remedy = f"Write for example x {symbol} 2.0."
    if -math.inf < m < 0:
        remedy = f"Write {f'-x // {-m}' if is_quotient else f'-(-x % {-m})'} for x {symbol} {m}."
    elif isinstance(divisor, CiphertextData):
        code = "(x / y) // 1" if is_quotient else "x - y * ((x / y) // 1)"
        remedy = (
            f"Write for example x {symbol} 2.0. By encrypted numbers on one side of zero write "
            f"{code}."
        )
    raise ParameterError(
        f"{user_line()} divides by {m if m == m else type(divisor).__name__} with remainder.",
        "Encrypted numbers are divided with remainder by a number above zero.",
        remedy,
    )


@circuit("floor_divide", floating)
def floor_divide(
    x: CiphertextT,
    divisor: float,
    interval: Interval = (-2.0, 2.0),
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """The largest integer up to x / divisor, in every slot, by `round`.

    It holds for x at a multiple of the divisor, and above it up to `gap` below the next one.

    Args:
        x: the encrypted numbers.
        divisor: a number above zero.
        interval: where x lies.
        gap: below the divisor; the less, the more levels. A fifth of the divisor by default; the
            estimate counts on a gap only where it is stated.
        precision, degree: as for `round`.

    Raises:
        ParameterError: a divisor that is not above zero, or a gap that is not between.
        DepthError: too few levels.
    """
    check_real(x, "floor_divide")
    m = _divisor(divisor, "//")
    gap = None if gap is None else checked_distance("gap", gap)
    if gap is not None and not 0 < gap < m:
        raise ParameterError(
            f"{user_line()} divides by {m:g} with remainder, and with gap={gap:g}.",
            "The gap is how far numbers stay below the next multiple: above 0, below the divisor.",
            f"Pass a smaller one, gap={m / 2:g} for example, to the function or to ckks.intervals.",
        )
    margin = None if gap is None else gap / (2 * m)
    shift = (0.1 if margin is None else margin) - 0.5
    a, b = checked_interval(interval)
    low, high = a / m + shift, b / m + shift
    if not low < high:
        raise ParameterError(
            f"{user_line()} divides by {m:g} with remainder numbers in [{a:g}, {b:g}].",
            "Beside that divisor the interval has no width: all quotients are one number.",
            f"Leave it out: for x in [0, {m:g}) the quotient is 0, and the remainder x.",
        )
    quotient = held_inside(x, (a, b), "floor_divide") * (1 / m if m != 1 else 1) + shift
    near = within(quotient, max(abs(low), abs(high)))
    return rounded(near, (low, high), margin, precision, degree)


@circuit("mod", floating)
def mod(
    x: CiphertextT,
    divisor: float,
    interval: Interval = (-2.0, 2.0),
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """The remainder x - divisor floor(x / divisor), in every slot: numpy.mod.

    Args, raises: as for `floor_divide`. One level more where the divisor is not an integer.
    """
    check_real(x, "mod")
    m = _divisor(divisor, "%")
    quotient = floor_divide(x, divisor, interval, gap, precision, degree)
    return within(x - quotient * (int(m) if m == int(m) else m), 1.5 * m)
