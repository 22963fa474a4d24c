"""Arguments of approximations: their tracked bound and their tail are held against the interval.

Outside of its interval a polynomial grows fast. One slot beyond it, also one beyond the length, can
make all of them wrap around.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from ren.core.errors import ParameterError, RenError, shown
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.argument_checks import check_real
from ren.schemes.ckks.arithmetic.evolve import (
    fills_slots,
    settle,
    with_noise,
    with_span,
    within,
)
from ren.schemes.ckks.arithmetic.manual import check_automatic, normal
from ren.schemes.ckks.arithmetic.number_types import with_type
from ren.schemes.ckks.arithmetic.rotation import cleared, with_value
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.range_checks import (
    TOLERANCE,
    bound_of,
    inside,
    report,
    will_report,
)
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.noise.spans import Span

Interval = tuple[float, float]
_FARTHEST = 2.0**100  # bounds are tracked in float32
_MOST_BITS = 1000  # a float64 holds 2^-1000


def argument(
    ct: CiphertextT, interval: Interval, what: str, is_stated: bool = True, slack: float = 0.0
) -> CiphertextT:
    """A ciphertext of real numbers as the argument of a function on an interval.

    Where the tracked bound is beyond the interval, its noise becomes unknown, with a warning.
    Strict parameters raise an error instead. Slots beyond the length hold a point of the interval.

    Args:
        interval: (a, b). The tracked bound is one of the modulus, and held against the larger one
            of |a| and |b|. That the numbers lie between a and b is the user's statement. Where an
            interval of theirs is known, as by `x.within(low, high)`, it is held against both ends.
        what: the function, for errors.
        is_stated: whether the user gave the interval; a default one has to be verified whole.
        slack: how far the bound may pass the largest modulus of the interval, relative to it.

    Raises:
        OperandError, ParameterError: not a ciphertext of real numbers.
        MessageBoundError: beyond the interval, with strict parameters.
        DepthError: no level is left to clear leftovers.
    """
    check_automatic(what)
    check_real(ct, what)
    ct = held_inside(ct, interval, what, is_stated, slack)
    return with_safe_tail(with_type(with_span(ct, None), None), interval, what)


def held_inside(
    ct: CiphertextT, interval: Interval, what: str, is_stated: bool = True, slack: float = 0.0
) -> CiphertextT:
    """`ct`, rescaled; a tracked bound beyond the interval is reported, its noise unknown then."""
    ct = settle(normal(ct))  # one noise, and one report
    (a, b), span, params = interval, ct.span, ct.params
    room = slack * max(abs(a), abs(b))
    limit = _limit(interval, span, room, is_stated)
    if is_stated:
        remedy = "Pass a larger interval, or state what you know: ct.within(bound)."
    else:
        remedy = f"State where the numbers lie: interval=({a:g}, {b:g}), or another."

    def told(bound: float) -> None:
        held = None if span is None else span.meet(-bound, bound)
        where = f"may reach modulus {bound:.4g}"
        if held is not None:  # a number in the clear is not told
            ends = f"[{held.low:.4g}, {held.high:.4g}]" if held.is_public else "what is known"
            where = f"may lie anywhere in {ends}"
        report(
            f"{what}: the numbers {where}, and the interval is "
            f"[{a:g}, {b:g}]; outside of it the result is far off, and its error is unknown.",
            params,
            remedy,
        )

    def checked(noise: Noise) -> Noise:
        noise = noise if span is None else noises.within(noise, span.largest)
        return inside(noise, limit, told)

    if isinstance(ct.noise, Symbolic):
        will_report()
    return with_noise(ct, checked)


def _limit(interval: Interval, span: Span | None, room: float, is_stated: bool) -> float:
    """The bound up to which numbers of a span keep to an interval, or to `room` beyond its ends.

    Without a span, what is inside the interval by its modulus is the statement of a user. A default
    interval states nothing.
    """
    a, b = interval
    largest = max(abs(a), abs(b)) + room
    if span is None:
        return largest if is_stated else min(-a, b) if a < 0 < b else 0.0
    room += largest * (TOLERANCE - 1)
    ends = [room - a] * (span.low < a - room) + [b + room] * (span.high > b + room)
    return min(ends, default=max(largest, span.largest))


def with_safe_tail(ct: CiphertextT, interval: Interval, what: str) -> CiphertextT:
    """`ct` with a point of the interval beyond its length."""
    tail, (a, b) = ct.layout.tail, interval
    if ct.layout.length is None or (tail.is_zero and a <= 0 <= b):
        return ct
    is_known = not (tail.has_leftovers or isinstance(tail.value, Symbolic))
    if is_known and np.imag(tail.value) == 0 and a <= np.real(tail.value) <= b:
        return ct
    is_covered = tail.is_bounded and a == -b
    if fills_slots(ct) or (is_covered and not tail.has_value):
        return ct
    if tail.has_leftovers and not is_covered:
        ct = cleared(ct, what)
    return with_value(ct, 0 if a <= 0 <= b else (a + b) / 2)


def known_span(x: CiphertextData) -> Span | None:
    """The interval of real numbers, as stated and by the tracked bound; None if unknown.

    While a function is captured the bound is that of the call that is captured. The function checks
    the bounds of later calls.
    """
    bound = bound_of(x)
    if x.layout.is_complex or bound is None or np.isnan(bound):
        return x.span
    if x.span is None:
        return Span(-bound, bound)
    return x.span.meet(-bound, bound) or x.span


def stated(x: CiphertextT, low: float, high: float) -> CiphertextT:
    """`x`, whose real numbers are stated to lie in [low, high]: see `Ciphertext.within`."""
    check_real(x, "within()")
    a, b = checked_interval((low, high))
    before = known_span(x)
    if before is not None and before.meet(a, b) is None:
        raise ParameterError(
            f"within({a:g}, {b:g}) was stated of numbers that are known to lie in "
            f"[{before.low:g}, {before.high:g}].",
            "Both hold, and no number lies in both.",
            "Check the interval, and the one that was stated before.",
        )
    span = Span(a, b) if x.span is None else x.span.meet(a, b)
    return with_span(within(x, max(abs(a), abs(b))), span)


def checked_interval(interval: Sequence[Any]) -> Interval:
    """(a, b) as floats; raises ParameterError where they are not two numbers a < b in range."""
    try:
        a, b = (float(v) for v in interval)
    except RenError:  # a symbol says more
        raise
    except (TypeError, ValueError, OverflowError):
        a = b = np.nan
    if not -_FARTHEST <= a < b <= _FARTHEST:
        raise ParameterError(
            f"interval={shown(interval)} was given.",
            "An interval is two finite numbers a < b, of at most 2^100.",
            "Write for example interval=(-1, 1).",
        )
    return a, b


def checked_distance(name: str, value: Any) -> float:
    """A gap or a margin as a float; raises ParameterError where it is no number."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    raise ParameterError(
        f"{name}={shown(value)} was given.",
        "It is a number: how far numbers keep from where a function jumps.",
        f"Write for example {name}=0.1, or leave it out.",
    )


def checked_precision(precision: Any, default: float) -> float:
    """A precision in bits as a float; raises ParameterError where it is not such a number."""
    if precision is None:
        return default
    is_number = isinstance(precision, numbers.Real) and not isinstance(precision, bool)
    given: Any = precision
    if is_number and 0 <= given <= _MOST_BITS:  # before float(), which is not of huge integers
        return float(given)
    raise ParameterError(
        f"precision={shown(precision)} was given.",
        f"It is a number of bits, from 0 to {_MOST_BITS}.",
        "Write for example precision=20.",
    )
