"""Check that numbers in the clear do not wrap around the modulus of a level."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ren.core.errors import (
    MessageBoundError,
)
from ren.poly.symbolic import Symbolic, derived, is_sampling
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.range_checks import bound_of, is_planning, largest_bound
from ren.schemes.ckks.noise.readable import Noise, on_host
from ren.schemes.ckks.parameters.parameters import Parameters


def check_reachable(x: Any, value: Any) -> None:
    """Raise MessageBoundError where x + value surely wraps around, within the bound of x.

    Symbols are checked at each call, by `reached`.
    """
    if not isinstance(value, Symbolic):
        _check_reachable(x.params, x.level, x.scale, value, bound_of(x))


def reached(noise: Noise, x: Any, value: Any) -> Noise:
    """`noise`; a symbol that is added to `x` is checked as by `check_reachable`, at each call."""
    if not isinstance(value, Symbolic) or is_planning():
        return noise
    return derived(partial(_reached, x.params, x.level, x.scale), noise, on_host(x.noise), value)


def _reached(
    params: Parameters, level: int, scale: Fraction, noise: Noise, held: Noise, value: Any
) -> Noise:
    if not is_sampling():
        bound = largest_bound(held) if isinstance(held, np.ndarray) else None
        _check_reachable(params, level, scale, value, bound)
    return noise


def _check_reachable(
    params: Parameters, level: int, scale: Fraction, value: Any, bound: float | None
) -> None:
    size, room = _size(value), _half(params, level, scale)
    if size == math.inf and isinstance(value, int):
        bound = 0.0
    elif not math.isfinite(size) or is_planning():
        return
    if bound is not None and size - bound > room:
        raise MessageBoundError(
            f"A ciphertext at level {level} was to be added to {_shown(value)}.",
            f"There, numbers from {room:.3g} on wrap around.",
            "Add it at a higher level, scale the values down, or give the context integer_bits.",
        )


@lru_cache(1 << 10)
def _half(params: Parameters, level: int, scale: Fraction | int) -> float:
    """The number from which encodings at `scale` wrap around at a level; at most 2^900.

    Decoding computes with them in float64, with scale and degree as factors.
    """
    return float(min(Fraction(params.ring(level).q) / (2 * scale), Fraction(2) ** 900))


def check_factor(
    params: Parameters, level: int, scale: Fraction | int, value: complex | Symbolic
) -> None:
    """Raise MessageBoundError where x * value wraps around at a level, whatever is encrypted.

    Then the encoded factor is at least half the modulus of the level. Symbols are checked at each
    call. An integer has the scale 1: it multiplies the error by itself.
    """
    if isinstance(value, Symbolic) or is_planning():
        return
    size, largest = _size(value), _half(params, level, scale)
    if isinstance(value, int):
        is_beyond = abs(value) >= largest
    else:
        is_beyond = math.isfinite(size) and size >= largest
    if is_beyond:
        raise MessageBoundError(
            f"A ciphertext at level {level} was to be multiplied by {_shown(value)}.",
            f"The modulus there has {params.ring(level).q.bit_length()} bits: factors from 2^"
            f"{math.log2(largest):.0f} on wrap around, whatever is encrypted.",
            "Multiply by less, or scale the numbers before they are encrypted.",
        )


def _size(value: complex) -> float:
    """The modulus of a number; inf of an integer that no float holds."""
    try:
        return float(abs(value))
    except OverflowError:
        return math.inf


def _shown(value: complex) -> str:
    size = _size(value)
    if size == math.inf:
        return f"a number of {int(abs(value)).bit_length()} bits"
    return f"a number up to {noises.power_above(size)}"
