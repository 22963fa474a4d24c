"""sign by composite minimax polynomials, and what follows from it.

Comparisons give 1 for true and 0 for false. They are right to 2^-precision where the two numbers
differ by at least `gap`; in between they pass from 0 to 1. `interval` is where the numbers lie.
With a `degree` in place of the precision there is one polynomial of that degree.

Nothing tracks how far numbers stay from zero. So the estimate of a sign or a comparison counts on
the gap only where the caller states it. With the default one its error may be the whole step.

Reference: Lee, Lee, No and Kim, "Minimax approximation of sign function by composite polynomial for
homomorphic comparison", 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np

from ren.core.errors import ParameterError
from ren.lowering.devices.devices import is_tracer
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext, check_real
from ren.schemes.ckks.arithmetic.evolve import (
    automatic_floor,
    need_level,
    with_error,
    with_noise,
    with_room,
    with_span,
    within,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import TypeRule, floating, of_operands, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, in_circuit, numbers_of_user
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.encoding.encoder import as_numbers
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.functions.approximation import approximate, approximated, refuse_both
from ren.schemes.ckks.functions.arguments import (
    argument,
    checked_distance,
    checked_precision,
    held_inside,
    with_safe_tail,
)
from ren.schemes.ckks.functions.logic import between, noise_beside
from ren.schemes.ckks.functions.polynomial import (
    Interval,
    checked_degree,
    checked_interval,
    evaluated,
    mapping,
)
from ren.schemes.ckks.functions.remez import OddMinimax, largest_left, odd_minimax, sign_polynomials
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import slope_one
from ren.schemes.ckks.noise.range_checks import TOLERANCE, report
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.noise.spans import Span

UNIT = (-1.0, 1.0)
_PRECISION = 8.0  # bits, unless said otherwise
_SLACKS, _MOST_SLACK = (8, 1, 1 / 8), 0.25  # in errors of the function, the best first
_LARGEST_ODD = 127  # a degree to which Remez's exchange finds what is nearest


@attrs.frozen
class StepAccuracy:
    """Accuracy of a step at zero, as the user asked for it.

    Args:
        what: the function, for errors.
        interval: where the numbers lie.
        gap: the least modulus from which on the step is right; None for the least that is usual.
        precision: in bits; None for 8.
        degree: of one odd polynomial, instead of a precision.
        shift: how far below zero the step is, for a user who compares with equality.
    """

    what: str
    interval: Interval = attrs.field(converter=checked_interval)
    gap: float | None
    precision: float | None
    degree: int | None
    shift: float = 0.0

    @property
    def largest(self) -> float:
        """The largest modulus in the interval."""
        return max(map(abs, self.interval))

    @property
    def slack(self) -> float:
        """A part of the largest modulus by which numbers may pass the interval, at no more levels.

        So the errors of some functions fit into the interval of the next.
        """
        if self.degree is not None:
            return 0.0
        depth = _depth(_pieces(self, 0.0))
        wanted = (min(times * 2.0**-self.bits, _MOST_SLACK) for times in _SLACKS)
        fits = (s for s in wanted if _depth(_pieces(self.wider(s), 0.0)) <= depth)
        return next(fits, 0.0)

    @property
    def of_differences(self) -> StepAccuracy:
        """The same for the difference of two numbers of the interval."""
        low, high = self.interval
        return attrs.evolve(self, interval=(low - high, high - low))

    def wider(self, slack: float) -> StepAccuracy:
        """The same on an interval that is wider by a relative `slack`."""
        low, high = self.interval
        return attrs.evolve(self, interval=(low * (1 + slack), high * (1 + slack)))

    @property
    def bits(self) -> float:
        """The precision."""
        return checked_precision(self.precision, _PRECISION)

    @property
    def odd_degree(self) -> int:
        """The largest odd degree up to the degree; ParameterError where none from 1 to 127 is."""
        degree = checked_degree(self.degree)
        if not 1 <= degree <= _LARGEST_ODD:
            raise ParameterError(
                f"{self.what} got degree={self.degree!r}.",
                f"An odd polynomial for the sign has a degree from 1 to {_LARGEST_ODD}.",
                "Pass degree=15, say, or a precision: several polynomials then take fewer levels.",
            )
        return (degree - 1) | 1

    @property
    def least(self) -> float:
        """The gap; raises ParameterError where it is not inside the interval."""
        usual = 2.0**-self.bits
        if self.degree is not None:
            refuse_both(self.precision, self.degree)
            usual = 2 / (self.odd_degree + 2)
        given = None if self.gap is None else checked_distance("gap", self.gap)
        least = self.largest * usual if given is None else given
        if not 0 < least < self.largest:
            raise ParameterError(
                f"{self.what} got gap={least:g} for numbers of modulus up to {self.largest:g}.",
                "Below the gap the sign is not decided: it lies above 0, inside the interval.",
                "Pass a gap that your numbers keep from zero, or from each other.",
            )
        return least

    @property
    def polynomials(self) -> tuple[OddMinimax, ...]:
        """Polynomials whose composition is the sign of x / largest beyond the gap."""
        gap = self.least / self.largest
        if self.degree is None:
            return sign_polynomials(gap, self.bits)
        return (odd_minimax(self.odd_degree, gap, 1.0),)

    def __str__(self) -> str:
        wanted = f"{self.bits:g} bits" if self.degree is None else f"degree {self.degree}"
        return f"{self.what} with a gap of {self.least + self.shift:.3g} at {wanted}"


def sign(
    ct: CiphertextT,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """-1 or 1 in every slot, to 2^-precision for |x| >= gap.

    Args:
        ct: the encrypted x.
        interval: where x lies.
        gap: the least |x| for which it holds. By default the largest |x| times 2^-precision, or
            2 / (degree + 2).
        precision: in bits; 8 by default.
        degree: instead of a precision. It is that of one odd polynomial, the nearest to the sign
            from the gap on, in log2(degree + 1) levels.

    Levels, with the default gap: 6 for 4 bits, 9 for 6, 12 for 8, 14 for 10, 17 for 12, 21 for 16,
    and one more for wide intervals, such as [-8, 8].

    Raises:
        DepthError: too few levels; says how many are needed.
        ParameterError: a gap that is not inside the interval.
    """
    wish = StepAccuracy("sign", interval, gap, precision, degree)
    result = _step(argument(ct, wish.interval, "sign"), wish, -1.0)
    return with_type(result, None if in_circuit() else of_operands(floating, ct))


@circuit("abs", floating)
def absolute(
    ct: CiphertextT,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """|x|, with an error of at most max(gap, 2^-precision largest |x|).

    Args, raises: as for `sign`. One level more than it. With a degree it is the interpolant of |x|
    of that degree, without a gap.
    """
    wish = StepAccuracy("abs", interval, gap, precision, degree)
    return _times_step(ct, wish, -1.0)


@circuit("relu", floating)
def relu(
    ct: CiphertextT,
    interval: Interval = UNIT,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """max(x, 0), with an error of at most max(gap, 2^-precision largest |x|) / 2.

    Args, raises: as for `abs`.
    """
    wish = StepAccuracy("relu", interval, gap, precision, degree)
    return _times_step(ct, wish, 0.0)


def _times_step(ct: CiphertextT, wish: StepAccuracy, low: float) -> CiphertextT:
    """x times `low` below zero, x above: |x| or max(x, 0), off by at most (1 - low) / 2 of the gap.

    Inside the gap the step lies between `low` and 1, up to 2^-precision. With a degree it is an
    interpolant. The function has a kink at zero: the interpolant is about 1 / degree from it there.
    """
    slack = wish.slack
    x = argument(ct, wish.interval, wish.what, slack=slack)
    if wish.degree is not None:
        return _by_degree(x, wish, low)
    wish = wish.wider(slack)
    x, given = _parted(x, wish.interval, wish.what if slack else "")
    error = wish.polynomials[-1].error
    product = within_that_of(x * _step(x, wish, low, is_factor=True), x.noise, 1 + error)
    left = 1.1 * (1 - low) / 2 * wish.largest * largest_left(wish.polynomials)
    return with_error(with_noise(product, lambda noise: noises.total(noise, given)), left)


def _parted(value: Any, interval: Interval, what: str) -> tuple[Any, Noise]:
    """A value without its error, where it keeps to the interval with it; and the error.

    Others than ciphertexts have none.

    Args:
        what: the function, whose report tells where it does not keep to it; none is made for "".
    """
    if not isinstance(value, CiphertextData):
        return value, noises.ZERO
    (a, b), noise, params = interval, value.noise, value.params
    largest = max(abs(a), abs(b))

    def told(error: float) -> None:
        report(
            f"{what}: the error of the numbers, up to {error:.2g}, may take them out of the "
            f"interval, which Ren has widened to [{a:.4g}, {b:.4g}]; outside of it the result is "
            "far off, and its error is unknown.",
            params,
            "Pass a larger interval, or ask for more precision before.",
        )

    if what:
        noise = slope_one.held(noise, largest * TOLERANCE, told)
    message, error = slope_one.parted(noise, largest * TOLERANCE)
    return with_noise(value, lambda _: message), error


def _by_degree(ct: CiphertextT, wish: StepAccuracy, low: float) -> CiphertextT:
    """The interpolant of x times `low` below zero, x above."""
    if wish.gap is not None:
        raise ParameterError(
            f"{wish.what} got gap={wish.gap!r} and degree={wish.degree!r}.",
            "A polynomial of a degree is near the function everywhere, and knows no gap.",
            "Leave out the degree, or the gap.",
        )
    p = approximate(lambda x: np.maximum(x, low * x), wish.interval, wish.precision, wish.degree)
    return approximated(ct, p, f"{wish.what} by a polynomial of degree {p.degree}")


class OfTwo(Protocol):
    """A function of two operands, of which at least one is encrypted."""

    def __call__(
        self,
        a: CiphertextT | Any,
        b: CiphertextT | Any,
        interval: Interval = ...,
        gap: float | None = None,
        precision: float | None = None,
        degree: int | None = None,
    ) -> CiphertextT: ...


def _of_two(name: str, rule: TypeRule | None = None) -> Callable[[Callable[..., Any]], OfTwo]:
    """Let a function of two operands and an accuracy take the arguments of the accuracy."""

    def decorate(function: Callable[..., Any]) -> OfTwo:
        def run(
            a: CiphertextT | Any,
            b: CiphertextT | Any,
            interval: Interval = UNIT,
            gap: float | None = None,
            precision: float | None = None,
            degree: int | None = None,
        ) -> CiphertextT:
            return function(a, b, StepAccuracy(name, interval, gap, precision, degree))

        run.__name__, run.__qualname__ = function.__name__, function.__qualname__
        run.__doc__ = function.__doc__
        return circuit(name, rule, 2)(run)

    return decorate


@_of_two("max", floating)
def maximum(a: CiphertextT | Any, b: CiphertextT | Any, wish: StepAccuracy) -> Any:
    """The larger of a and b in every slot: b + (a - b) step(a - b).

    The error is that of `relu` of the difference, beside the larger one of those of a and b.

    Args:
        a, b: ciphertexts, or one of them an array or a number.
        interval: where both lie.
        gap, precision, degree: as for `abs`, of the difference.
    """
    return _extreme(a, b, wish, 1)


@_of_two("min", floating)
def minimum(a: CiphertextT | Any, b: CiphertextT | Any, wish: StepAccuracy) -> Any:
    """The smaller of a and b in every slot: a - (a - b) step(a - b).

    Args: as for `max`.
    """
    return _extreme(a, b, wish, -1)


def _extreme(a: Any, b: Any, wish: StepAccuracy, way: int) -> Any:
    """The larger one of a and b for the way 1, the smaller one for -1."""
    check_ciphertext(a, wish.what, b)
    slack = wish.of_differences.slack
    wide = wish.wider(slack)
    a, b = (_inside(v, wish.interval, wish.what, slack) for v in (a, b))
    parts = [_parted(v, wide.interval, wish.what if slack else "") for v in (a, b)]
    a, b = (v for v, _ in parts)
    difference, wish = _minus(a, b, wide.of_differences), wide.of_differences
    base = b if way > 0 else a
    if wish.degree is not None:
        above = _by_degree(difference, wish, 0.0)
    else:
        left = 1.1 / 2 * wish.largest * largest_left(wish.polynomials)
        above = with_error(difference * _step(difference, wish, 0.0, is_factor=True), left)
    with numbers_of_user():
        result = base + way * above
    if wish.degree is None:
        error = wish.polynomials[-1].error
        result = between(result, Span(-error / 2, 1 + error / 2), a, b)
    errors = [
        noise_beside(v, error, result) if isinstance(v, CiphertextData) else error
        for v, error in parts
    ]
    given = slope_one.between(*errors)
    return with_noise(result, lambda noise: noises.total(noise, given))


@_of_two("greater")
def greater(a: CiphertextT | Any, b: CiphertextT | Any, wish: StepAccuracy) -> Any:
    """1 where a > b, 0 where a < b, to 2^-precision / 2 where they differ by `gap` or more.

    Args: as for `max`, with the degree of `sign`. As many levels as `sign`.
    """
    difference, wish = _difference(a, b, wish)
    return _step(difference, wish, 0.0)


@_of_two("less")
def less(a: CiphertextT | Any, b: CiphertextT | Any, wish: StepAccuracy) -> Any:
    """1 where a < b, 0 where a > b.

    Args: as for `greater`.
    """
    difference, wish = _difference(b, a, wish)
    return _step(difference, wish, 0.0)


@_of_two("equal")
def equal(a: CiphertextT | Any, b: CiphertextT | Any, wish: StepAccuracy) -> Any:
    """1 where a and b are equal but for noise, 0 where they differ by `gap` or more.

    It is 1 - sign(a - b)^2: one level more than `sign`.

    Args: as for `greater`. For integers pass gap=1.
    """
    return within(1 - _differs(a, b, wish), 1.5)


@_of_two("not_equal")
def not_equal(a: CiphertextT | Any, b: CiphertextT | Any, wish: StepAccuracy) -> Any:
    """0 where a and b are equal but for noise, 1 where they differ by `gap` or more.

    Args: as for `equal`.
    """
    return _differs(a, b, wish)


def _differs(a: Any, b: Any, wish: StepAccuracy) -> Any:
    """sign(a - b)^2."""
    if wish.degree is None:
        wish = attrs.evolve(wish, precision=wish.bits + 1)
    difference, wish = _difference(a, b, wish)
    s = _step(difference, wish, -1.0, is_factor=True)
    error = wish.polynomials[-1].error
    square = with_span(within(s * s, 1.5), Span(0.0, min((1 + error) ** 2, 1.5)))
    return with_error(square, 3 * error + (1.0 if wish.gap is None else 0.0))


@_of_two("greater_equal")
def greater_equal(a: CiphertextT | Any, b: CiphertextT | Any, wish: StepAccuracy) -> Any:
    """1 where a >= b, 0 where a is less by `gap` or more: at equal numbers it is 1, not 1/2.

    The step is half a gap below zero. It takes the levels of `greater` with half the gap.

    Args: as for `greater`. For integers pass gap=1.
    """
    return _reaches(a, b, wish)


@_of_two("less_equal")
def less_equal(a: CiphertextT | Any, b: CiphertextT | Any, wish: StepAccuracy) -> Any:
    """1 where a <= b, 0 where a is more by `gap` or more: at equal numbers it is 1, not 1/2.

    Args: as for `greater_equal`.
    """
    return _reaches(b, a, wish)


def _reaches(a: Any, b: Any, wish: StepAccuracy) -> Any:
    difference, wish = _difference(a, b, wish)
    is_stated, half = wish.gap is not None, wish.least / 2
    largest = wish.largest + half
    wish = attrs.evolve(wish, interval=(-largest, largest), gap=half, shift=half)
    result = _step(difference + half, wish, 0.0)
    return result if is_stated else with_error(result, 1.0)


def _step(ct: CiphertextT, wish: StepAccuracy, low: float, is_factor: bool = False) -> CiphertextT:
    """`low` below zero and 1 above; the last polynomial has it in its coefficients.

    Args:
        ct: as `argument` gives it.
        is_factor: whether the caller multiplies by it, and adds the error of the approximation.
    """
    pieces, half = _pieces(wish, low), (1.0 - low) / 2
    needed = _depth(pieces) + is_factor
    need_level(ct, needed, str(wish), has_parts=True)
    most = _most_between(ct, needed)
    if most is not None:  # bootstrapped between two polynomials
        pieces = _pieces(wish, low, most)
    left = None
    for (c, span), polynomial in zip(pieces, wish.polynomials, strict=True):
        if most is not None:
            depth = mapping(c, span).depth
            is_last = polynomial is wish.polynomials[-1]
            ct = with_room(ct, depth, f"A part of {wish}", spare=is_factor and is_last)
        if left is not None:  # near -1 or 1, where the next one is right beside it too
            ct, _ = _parted(within(ct, (1 + left) * span[1] / polynomial.high), span, "")
        ct, left = evaluated(ct, c, span, wish.what), polynomial.error
    error = wish.polynomials[-1].error
    ct = within(ct, (1.0 + low) / 2 + half * (1 + error))
    ct = with_span(ct, Span(low - half * error, 1.0 + half * error))
    if is_factor:
        return ct
    return with_error(ct, 1.1 * half * error + (1.0 - low if wish.gap is None else 0.0))


def _most_between(ct: CiphertextData, needed: int) -> float | None:
    """The bound of numbers that are bootstrapped between two polynomials; None for none."""
    above, floor = ct.params.above, automatic_floor(ct.params)
    if above is None or not floor or ct.level >= needed + floor:
        return None
    return above.bound  # `need_level` raises where a bootstrap before gives enough


def _pieces(
    wish: StepAccuracy, low: float, most: float = math.inf
) -> list[tuple[tuple[complex, ...], Interval]]:
    """The polynomials of a step, each with its interval.

    Between two of them numbers are scaled down where they would be larger than `most`.
    """
    polynomials = wish.polynomials
    series = [np.array(p.coefficients, np.complex128) for p in polynomials]
    series[-1] *= (1.0 - low) / 2
    series[-1][0] += (1.0 + low) / 2
    bounds = (wish.largest, *(min(p.high, most) for p in polynomials[1:]))
    for c, p, bound in zip(series, polynomials[1:], bounds[1:], strict=False):
        c *= bound / p.high
    return [(tuple(c.tolist()), (-b, b)) for c, b in zip(series, bounds, strict=True)]


def _depth(pieces: list[tuple[tuple[complex, ...], Interval]]) -> int:
    return sum(mapping(c, span).depth for c, span in pieces)


def depth_of_greater(wish: StepAccuracy) -> int:
    """The levels that `greater` takes."""
    return _depth(_pieces(wish.of_differences, 0.0))


def _difference(a: Any, b: Any, wish: StepAccuracy) -> tuple[Any, StepAccuracy]:
    """a - b for numbers of the interval, at least one encrypted, and the accuracy for it."""
    check_ciphertext(a, wish.what, b)
    a, b = (_inside(v, wish.interval, wish.what) for v in (a, b))
    return _minus(a, b, wish.of_differences), wish.of_differences


def _minus(a: Any, b: Any, wish: StepAccuracy) -> Any:
    """a - b, in the interval of an accuracy."""
    with numbers_of_user():
        difference = with_span(normal(a - b), None)
    return within(with_safe_tail(difference, wish.interval, wish.what), wish.largest)


def _inside(value: Any, interval: Interval, what: str, slack: float = 0.0) -> Any:
    """A ciphertext with its bound held against the interval; anything else as it is."""
    if hasattr(value, "polys"):
        check_real(value, what)
        return held_inside(value, interval, what, slack=slack)
    if isinstance(value, Plaintext | Symbolic) or is_tracer(value):
        return value
    numbers = as_numbers(value)
    if numbers.dtype.kind not in "biuf":
        raise ParameterError(
            f"{what} got numbers in the clear of dtype {numbers.dtype}.",
            "Only real numbers have an order.",
            "Pass their real parts.",
        )
    if numbers.size and not (interval[0] <= numbers.min() and numbers.max() <= interval[1]):
        raise ParameterError(
            f"{what} got numbers from {numbers.min():.4g} to {numbers.max():.4g} in the clear.",
            f"The interval is [{interval[0]:g}, {interval[1]:g}]: outside of it the result is far "
            "off.",
            "Pass an interval that holds the numbers of both sides.",
        )
    return value
