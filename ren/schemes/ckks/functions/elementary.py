"""exp, log, sqrt, circular and hyperbolic functions and round, by Chebyshev interpolation.

Each takes the encrypted x, which must lie in `interval`, and either a `precision` in bits or a
`degree`. The precision (20 by default) picks the least degree whose error is at most 2^-precision.
The levels taken are those of `ckks.approximate(f, interval, precision).depth`.

A tracked bound beyond the interval warns, and the error of the result is unknown; with strict
parameters it raises. A default interval on one side of zero warns too. The tracked bound is one of
the modulus: state the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic.argument_checks import check_real
from ren.schemes.ckks.arithmetic.evolve import need_level, with_error, within
from ren.schemes.ckks.arithmetic.number_types import floating, of_operands, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, in_circuit
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextT
from ren.schemes.ckks.functions.approximation import (
    LARGEST_DEGREE,
    Approximation,
    approximate,
    approximated,
)
from ren.schemes.ckks.functions.arguments import argument, checked_distance, checked_precision
from ren.schemes.ckks.functions.polynomial import (
    Interval,
    checked_interval,
    evaluated,
)


def applied(ct: CiphertextT, p: Approximation, name: str, is_stated: bool = True) -> CiphertextT:
    """The polynomial of an approximation in every slot, with its error in the noise."""
    x = argument(ct, p.interval, name, is_stated)
    result = approximated(x, p, f"{name} by a polynomial of degree {p.degree}")
    return with_type(result, None if in_circuit() else of_operands(floating, ct))


class Elementary(Protocol):
    """A function of encrypted numbers on an interval."""

    def __call__(
        self,
        ct: CiphertextT,
        interval: Interval = ...,
        precision: float | None = None,
        degree: int | None = None,
    ) -> CiphertextT: ...


def _function(
    name: str, f: Callable[[NDArray], NDArray], default: Interval, note: str = ""
) -> Elementary:
    a, b = default

    def function(
        ct: CiphertextT,
        interval: Interval = default,
        precision: float | None = None,
        degree: int | None = None,
    ) -> CiphertextT:
        return applied(ct, approximate(f, interval, precision, degree), name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{name}(x) in every slot, for x in the interval.{note}

    Args:
        ct: the encrypted x.
        interval: where x lies; ({a:g}, {b:g}) by default.
        precision: in bits; 20 by default.
        degree: instead of a precision.

    Raises:
        DepthError: too few levels.
        ParameterError: the interval reaches a singularity, or asks for too high a degree.
    """
    return function


def sigmoid_of(x: NDArray) -> NDArray:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 + 0.5 * np.tanh(0.5 * x)


exp = _function("exp", np.exp, (-1.0, 1.0))
sin = _function("sin", np.sin, (-np.pi, np.pi))
cos = _function("cos", np.cos, (-np.pi, np.pi))
tan = _function("tan", np.tan, (-1.0, 1.0), " The interval lies inside (-pi/2, pi/2).")
sinh = _function("sinh", np.sinh, (-1.0, 1.0))
cosh = _function("cosh", np.cosh, (-1.0, 1.0))
tanh = _function("tanh", np.tanh, (-4.0, 4.0))
sigmoid = _function("sigmoid", sigmoid_of, (-8.0, 8.0), " It is 1 / (1 + exp(-x)).")


def log(
    ct: CiphertextT,
    interval: Interval | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """The natural logarithm in every slot, for x in the interval.

    Args:
        ct: the encrypted x.
        interval: where x lies, above zero; (0.5, 2) by default, with a warning.
        precision: in bits; 20 by default.
        degree: instead of a precision. It grows with sqrt(b / a).

    Raises:
        DepthError: too few levels.
        ParameterError: the interval reaches zero.
    """
    where = _above_zero((0.5, 2.0) if interval is None else interval, "log")
    p = approximate(np.log, where, precision, degree)
    return applied(ct, p, "log", is_stated=interval is not None)


def sqrt(
    ct: CiphertextT,
    interval: Interval | None = None,
    precision: float | None = None,
    degree: int | None = None,
    newton: bool = False,
) -> CiphertextT:
    """The square root in every slot, for x in the interval.

    A polynomial takes the least depth. With `newton` it is one for 1/sqrt(x) at half the bits, and
    a step of Newton's method. That takes two levels more, and fewer products from degree 60 or so
    on.

    Args:
        ct: the encrypted x.
        interval: where x lies, not below zero; (0.25, 1) by default, with a warning.
        precision: in bits; 20 by default.
        degree: instead of a precision: of the polynomial. It grows with sqrt(b / a).
        newton: whether to end with a step of Newton's method; the interval then avoids zero.

    Raises:
        DepthError: too few levels.
        ParameterError: the interval reaches below zero, or to it where more bits are asked for
            than a polynomial gives there.
    """
    is_stated, where = interval is not None, (0.25, 1.0) if interval is None else interval
    if newton:
        where = _above_zero(where, "sqrt by Newton")
        return _sqrt_by_newton(argument(ct, where, "sqrt", is_stated), where, precision, degree)
    where = _above_zero(where, "sqrt", or_at_it=True)
    if where[0] == 0 and degree is None:
        _check_at_zero(where, checked_precision(precision, 20.0))
    return applied(ct, approximate(np.sqrt, where, precision, degree), "sqrt", is_stated)


def _check_at_zero(interval: Interval, precision: float) -> None:
    """Raises ParameterError for more bits than a polynomial of the largest degree gives there."""
    best = approximate(np.sqrt, interval, None, LARGEST_DEGREE)
    if best.error > 2.0**-precision:
        raise ParameterError(
            f"sqrt on ({interval[0]:g}, {interval[1]:g}) was asked for with {precision:g} bits.",
            f"Its slope at zero is infinite: degree {best.degree} gives {best.bits:.1f} bits.",
            "State numbers above zero, x.within(low, high) or interval=(low, high). Or ask for "
            "less: precision=8, or `with ckks.intervals(precision=8):` around np.sqrt(x).",
        )


@circuit("sqrt")
def _sqrt_by_newton(
    ct: CiphertextT, interval: Interval, precision: float | None, degree: int | None
) -> CiphertextT:
    """(x h) (3 - 4 (x h) h) with h near 1 / (2 sqrt(x)): 3/2 of the square of h's error is left."""
    largest = float(np.sqrt(interval[1]))
    if degree is None:
        goal = 2.0 ** -checked_precision(precision, 20.0)
        # h (1 + e) leaves 3/2 e^2 sqrt(x), and |h| >= 1 / (2 sqrt b)
        error = np.sqrt(goal / (1.5 * np.sqrt(interval[1]))) / (2 * np.sqrt(interval[1]))
        precision = float(-np.log2(error))
    p = approximate(lambda x: 0.5 / np.sqrt(x), interval, precision, degree)
    need_level(ct, p.depth + 3, "sqrt by a polynomial and a step of Newton", has_parts=True)
    h = evaluated(ct, p.coefficients, interval, f"sqrt by a polynomial of degree {p.degree}")
    g = ct * h
    left = 1.5 * (2 * largest * p.error) ** 2 * largest  # of sqrt(x), at most sqrt(b)
    return with_error(within(g * (3 - 4 * (g * h)), largest + 2 * left), 1.2 * left)


def _above_zero(interval: Interval, name: str, or_at_it: bool = False) -> Interval:
    a, b = checked_interval(interval)
    if a < 0 or (a == 0 and not or_at_it):
        raise ParameterError(
            f"{name} got the interval [{a:g}, {b:g}].",
            "It is not smooth at zero, and undefined below.",
            "Pass an interval above zero, as tight as you know it: the degree grows with "
            "sqrt(b / a).",
        )
    return a, b


@circuit("round", floating)
def rounded(
    ct: CiphertextT,
    interval: Interval = (-2.0, 2.0),
    margin: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """The nearest integer in every slot, for x at least `margin` from the half-integers.

    With d = x - round(x) it is x - s f(c), s = sin(2 pi d), c = cos(2 pi d), f(cos t) = t / (2 pi
    sin t): sine and cosine share their powers.

    Args:
        ct: the encrypted x.
        interval: where x lies.
        margin: below 1/2; the less, the more levels. 0.1 by default, on which the estimate does not
            count: state it where your numbers keep to it.
        precision: in bits; 15 by default.
        degree: instead of a precision, of the sine and the cosine.

    Raises:
        DepthError: too few levels.
        ParameterError: a margin not between 0 and 1/2.
    """
    check_real(ct, "round")
    is_stated = margin is not None
    margin = 0.1 if margin is None else checked_distance("margin", margin)
    if not 0 < margin < 0.5:
        raise ParameterError(
            f"round got margin={margin}.",
            "It is how far x stays from the half-integers: above 0, below 1/2.",
            "Write for example margin=0.1.",
        )
    bits = checked_precision(precision, 15.0)
    # f is at most about 1 / (2 margin) / pi, and steep there: s and c are made finer than asked
    finer = bits + 4 - 2 * float(np.log2(margin)) if degree is None else precision
    sine = approximate(lambda x: np.sin(2 * np.pi * x), interval, finer, degree)
    cosine = approximate(lambda x: np.cos(2 * np.pi * x), interval, finer, degree)
    lowest = -float(np.cos(2 * np.pi * margin))
    room = min(2.0**-10, (1 + lowest) / 4)  # f is infinite at -1
    spread = (lowest - room, 1 + 2.0**-10)
    try:
        angle = approximate(_angle, spread, bits + 1)
    except ParameterError:
        raise ParameterError(
            f"round was to be right {margin:g} from the half-integers, with precision={bits:g}.",
            "No polynomial that Ren evaluates tells numbers apart so close to them.",
            f"Write a larger margin or gap, such as margin={max(4 * margin, 0.005):.2g}, or less "
            "precision.",
        ) from None
    need_level(ct, 1 + max(sine.depth, cosine.depth + angle.depth), "round")
    x = argument(ct, checked_interval(interval), "round")
    s, c = (approximated(x, p, "round") for p in (sine, cosine))
    inner = approximated(c, angle, "round")
    largest = max(abs(v) for v in sine.interval)
    result = within(x - s * inner, largest + 0.5)
    return result if is_stated else with_error(result, 1.0)


def _angle(c: np.ndarray) -> np.ndarray:
    """arccos(c) / (2 pi sqrt(1 - c^2)), analytic at c = 1 and continued beyond."""
    near = np.abs(1 - c) < 1e-3
    inside = np.where(near, 0.0, np.clip(c, -1, 1))
    h = 1 - c
    series = 1 + h / 3 + 2 * h**2 / 15 + 2 * h**3 / 35 + 8 * h**4 / 315
    return np.where(near, series, np.arccos(inside) / np.sqrt(1 - inside**2)) / (2 * np.pi)
