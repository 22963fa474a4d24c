"""Rules that CKKS parameters have to satisfy, one a function.

Each raises ParameterError (or its subclass) with what was given, what is needed and what to do.
"""

from __future__ import annotations

import json
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ren.core.errors import ParameterError, shown
from ren.core.ring import MAX_DEGREE, RingSpec, is_ntt_prime
from ren.schemes.rlwe import security as bounds

SCALE_BITS = range(20, 61)
INTEGER_BITS = range(1, 61)
DEPTHS = range(257)  # beyond what any secure n holds at the least scale
DNUMS = range(1, 1001)
_MIN_DEGREE = 4
SCALE_DRIFT = 0.5  # bits that explicit moduli may leave between a scale and 2^scale_bits


def positive(value: Any) -> float | None:
    """A finite number above zero as a float; None for anything else, a truth value included."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        size = float(value) if is_number else 0.0
    except OverflowError:
        return None
    return size if 0 < size < math.inf else None


def as_python_int(value: Any) -> Any:
    """An integer of NumPy as a Python int; anything else as it is."""
    return operator.index(value) if isinstance(value, np.integer) else value


def check_number(name: str, value: object, allowed: range, remedy: str) -> int:
    """`value`, when it is an integer of `allowed`; the error for one beyond says so as its fact."""
    value = as_python_int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        raise ParameterError(
            f"{name} is {shown(value)}.",
            f"It is an integer from {allowed.start} to {allowed.stop - 1}.",
            remedy,
            f"{name} beyond" if type(value) is int and value >= allowed.stop else None,
        )
    return value


def check_real(name: str, value: object, low: float, high: float, remedy: str) -> None:
    """Raise ParameterError unless `value` is a real number from `low` to `high`."""
    value = as_real(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ParameterError(
            f"{name} is {shown(value)}.", f"It is a number from {low:g} to {high:g}.", remedy
        )


def check_bootstrapping(bootstrapping: object) -> None:
    """Raise ParameterError unless it is True, False or "auto"."""
    if not isinstance(bootstrapping, bool) and bootstrapping != "auto":
        raise ParameterError(
            f"bootstrapping is {bootstrapping!r:.40}.",
            'It is True, False, or "auto", which bootstraps where levels run out.',
            "Write ckks.context(bootstrapping=True).",
        )


def check_bits(found: float, precision: float) -> None:
    """Raise ParameterError where bootstraps have fewer bits than were asked for."""
    if found < precision:
        raise ParameterError(
            f"Bootstrapping with precision={precision:g} was asked for.",
            f"At this scale, bound and degree {found:.1f} bits are right.",
            "Ask for fewer bits, a larger bound= or a larger scale_bits=.",
        )


def _check_power(name: str, value: object, low: int, high: int, why: str) -> None:
    remedy = f"Write for example {name}={high}."
    value = as_python_int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        inside = min(max(value, low), high)
        below = 1 << (inside.bit_length() - 1)
        if value == below:
            return
        # Both neighbours of a value between two powers; the nearer end of one beyond the range.
        near = (below,) if inside == below else (below, 2 * below)
        remedy = f"Use {name}={' or '.join(map(str, near))}."
    raise ParameterError(f"{name} is {shown(value)}.", f"It is a power of two {why}.", remedy)


def check_degree(n: object) -> None:
    why = f"from {_MIN_DEGREE} to {MAX_DEGREE}"
    _check_power("n", n, _MIN_DEGREE, MAX_DEGREE, why)


def check_slots(slots: object, n: int) -> None:
    _check_power("slots", slots, 1, n // 2, f"from 1 to n/2 = {n // 2}")


def degrees_for(n: int | None, slots: int | None) -> tuple[int, ...]:
    """The degrees to try, ascending: `n`, or those of the security table that hold `slots`."""
    if n is not None:
        check_degree(n)
    if slots is not None:
        check_slots(slots, n or MAX_DEGREE)
    if n is not None:
        return (n,)
    return tuple(d for d in sorted(bounds.MAX_LOG_QP) if d >= 2 * (slots or 1))


def check_wishes(scale_bits: object, integer_bits: object, security: object) -> None:
    check_number("scale_bits", scale_bits, SCALE_BITS, "40 suits most uses.")
    check_number("integer_bits", integer_bits, INTEGER_BITS, "10 suits most uses.")
    bounds.check_security_target(security)


def check_bound(bound: object, strict: object) -> None:
    """A stated bound is a positive number; strictness is yes or no."""
    if not isinstance(strict, bool):
        raise ParameterError(
            f"strict is {shown(strict)}.", "It is True or False.", "Leave it out for warnings."
        )
    if bound is None:
        return
    if not isinstance(bound, float) or not 0 < bound <= 2.0 ** INTEGER_BITS[-1]:
        raise ParameterError(
            f"bound is {shown(bound)}.",
            f"It bounds the modulus of all messages: a number above 0, up to 2^{INTEGER_BITS[-1]}.",
            "Write for example bound=1.0, or leave it out.",
        )


def check_layout(n: int, terminals: Any, mains: Any, specials: Any, path: Any, digits: Any) -> None:
    """All moduli are distinct NTT primes, and the levels use them all."""
    if not specials:
        raise ParameterError(
            "There are no special primes.",
            "Key switching and public-key encryption divide by at least one.",
            "Give one as large as the largest modulus.",
        )
    if all(isinstance(x, tuple) for x in (terminals, mains, specials, path, digits)):
        check_primes(RingSpec(n, terminals + mains + specials))
        if _largest_pair(path) == (len(terminals), len(mains)):
            return
    raise ParameterError(
        f"The path is {path!r:.200} over terminals {terminals!r:.200}, mains {mains!r:.200}.",
        "It holds a pair (t, m) for each level: t of the terminals and m of the mains, the largest "
        "t and m being all of them (unused moduli only cost security).",
        "Leave out the moduli that no level uses, or use Parameters.for_depth(depth).",
    )


def check_primes(ring: RingSpec) -> None:
    """All moduli are NTT primes; the ring itself has found them to be distinct."""
    for m in ring.moduli:
        if not is_ntt_prime(ring.n, m):
            raise ParameterError(
                f"The modulus {m} is not an NTT prime of n={ring.n}.",
                f"CKKS computes in the NTT domain: primes q = 1 (mod {2 * ring.n}) below 2^30.",
                "Use Parameters.for_depth(depth), which chooses them.",
            )


def _largest_pair(path: tuple) -> tuple[int, int] | None:
    """The largest t and the largest m of `path`; None if it is not a path."""
    for pair in path:
        if not isinstance(pair, tuple) or len(pair) != 2:
            return None
        if any(type(count) is not int or count < 0 for count in pair) or not any(pair):
            return None
    return (max(t for t, _ in path), max(m for _, m in path)) if path else None


def check_digits(digits: tuple[Any, ...], union: tuple[int, ...], special_product: int) -> None:
    """The digits are the union in its order, cut up, and each product is at most P."""
    whole = all(isinstance(d, tuple) and d for d in digits)
    if not whole or tuple(q for digit in digits for q in digit) != union:
        raise ParameterError(
            f"The digits are {digits!r:.200}.",
            "Together they are the moduli of the union, in its order, none of them empty.",
            "Leave digits out to have them made.",
        )
    wide = next((d for d in digits if math.prod(d) > special_product), None)
    if wide:
        raise ParameterError(
            f"A digit of {len(wide)} moduli has {math.log2(math.prod(wide)):.1f} bits.",
            f"Its product is at most P ({math.log2(special_product):.1f} bits), or key switching "
            "would drown the message in noise.",
            "Give more or larger special primes, or shorter digits.",
        )


def check_levels(
    lowest: RingSpec, scales: Sequence[Fraction], scale_bits: int, integer_bits: int
) -> None:
    """Level 0 has room for scale and message, and every scale stays near 2^scale_bits."""
    need = scale_bits + integer_bits
    if lowest.q < 1 << need:
        raise ParameterError(
            f"Level 0 has a modulus of {lowest.log2_q:.1f} bits.",
            f"scale_bits + integer_bits = {need} bits are needed there.",
            "Give level 0 another modulus, or lower scale_bits or integer_bits.",
        )
    for level, scale in enumerate(scales):
        if not abs(math.log2(scale) - scale_bits) <= SCALE_DRIFT:
            raise ParameterError(
                f"Level {level} would have the scale 2^{math.log2(scale):.2f}.",
                f"Scales stay within {SCALE_DRIFT} bits of 2^{scale_bits}.",
                "Choose levels whose moduli differ by about scale_bits bits.",
            )


def check_security(n: int, log_qp: float, security: int | None, secret: str, sigma: object) -> None:
    if secret not in (bounds.SECRET, bounds.KNOWN_SECRET):
        raise ParameterError(
            f"The secret is {shown(secret)}.",
            f"The distribution of the secret is {bounds.SECRET!r}.",
            f"Write secret={bounds.SECRET!r}, or leave it out.",
        )
    if not isinstance(sigma, float) or not 0 < sigma < math.inf:
        raise ParameterError(
            f"sigma is {shown(sigma)}.",
            "The standard deviation of the noise is a positive number.",
            f"Leave it out for {bounds.SIGMA}.",
        )
    bounds.require_security(n, log_qp, security, secret, sigma)


def as_lists(value: Any) -> Any:
    """Tuples, at any depth, as lists."""
    return [as_lists(v) for v in value] if isinstance(value, tuple) else value


def as_real(value: Any) -> Any:
    """A number that a float holds as that float: equal numbers print, and are digested, alike."""
    value = as_python_int(value)
    is_small = type(value) is int and abs(value) < 1 << 53
    return float(value) if is_small or isinstance(value, np.floating) else value


def as_tuple(values: Any) -> Any:
    """Tuple of an iterable; other values as they are, for the checks to name."""
    return tuple(values) if isinstance(values, Iterable) else values


def as_tuples(rows: Any) -> Any:
    """`as_tuple` of rows of rows."""
    return tuple(as_tuple(row) for row in rows) if isinstance(rows, Iterable) else rows


_CONVERTERS: tuple[tuple[Callable[[Any], Any], tuple[str, ...]], ...] = (
    (as_python_int, ("n", "scale_bits", "integer_bits", "slots", "security")),
    (as_tuple, ("terminals", "mains", "specials")),
    (as_tuples, ("path", "digits")),
    (as_real, ("sigma", "bound")),
)


def convert_fields(params: object) -> None:
    """Convert fields of new parameters to Python's types, where NumPy's or lists were given.

    Converters of attrs would hide from the type checker that the fields meet `RlweParameters`.
    """
    for convert, names in _CONVERTERS:
        for name in names:
            object.__setattr__(params, name, convert(getattr(params, name)))


_MOST_ENTRIES = 512  # of any list: there are at most 257 levels
_LARGEST = 1 << 31


def read_fields(text: str, build: Callable[[Any], Any]) -> Any:
    """Parameters from their fields as JSON, others' data: of bounded size, and as written by us."""
    fields = json.loads(text)
    made = build(fields) if _is_bounded(fields) else None
    if made is None or made.to_dict() != fields:
        raise ParameterError(
            "The fields of the parameters are too long, or not as to_dict() writes them.",
            f"Lists have at most {_MOST_ENTRIES} entries, and all is spelled out.",
            "Pass what Parameters.to_dict() gave.",
        )
    return made


def _is_bounded(value: Any) -> bool:
    if isinstance(value, dict):
        return len(value) <= _MOST_ENTRIES and all(map(_is_bounded, value.values()))
    if isinstance(value, list):
        return len(value) <= _MOST_ENTRIES and all(map(_is_bounded, value))
    if isinstance(value, float):
        return abs(value) <= 2.0 ** INTEGER_BITS[-1]
    return isinstance(value, str) or value is None or abs(value) < _LARGEST
