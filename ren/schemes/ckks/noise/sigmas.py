"""Standard deviations of the sources of noise, of the modulus of a complex slot.

They are in units of the message: of the coefficients, over the scale. Noise may be multiplied by a
polynomial that is fixed for a key: the secret s, or a switching key's noise. Its variance in slot j
is then proportional to |s(zeta_j)|^2, which is exponentially distributed over the slots. TAIL times
the mean bounds it; SQUARE_TAIL times the square of the mean where s^2 is the factor. One slot in
10^8 exceeds 6.5 times the standard deviation that follows.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from ren.core.ring import intersection
from ren.schemes.ckks.parameters.bootstrapping.precision import TAIL
from ren.schemes.ckks.parameters.parameters import Parameters

SQUARE_TAIL = 30.0
_LARGEST_SCALE = 2.0**1000


def as_float(scale: Fraction) -> float:
    """A scale, limited to what a float holds: noise is no smaller for that."""
    try:
        return min(float(scale), _LARGEST_SCALE)
    except OverflowError:
        return _LARGEST_SCALE


def log2_of(scale: Fraction) -> float:
    """log2 of a scale, also where it is beyond floats."""
    return math.log2(scale.numerator) - math.log2(scale.denominator)


def power_above(size: float) -> str:
    """The power of two at or above a size, for errors: they tell no more of the values."""
    return f"2^{math.ceil(math.log2(size))}" if 0 < size < math.inf else f"{size}"


def secret_sigma(params: Parameters, level: int) -> float:
    """Sigma of encryption with the secret: of e."""
    return _slot_sigma(params.sigma**2, params) / float(params.scale(level))


def public_sigma(params: Parameters, level: int) -> float:
    """Sigma of public-key encryption: v e + e1 s + e0 divided by one special prime, rounded."""
    h, p = _weight(params), params.specials[0]
    divided = params.sigma**2 * (1 + 2 * TAIL * h) / p**2
    return _slot_sigma(divided + _rounding(params, 1), params) / float(params.scale(level))


def rescale_sigma(
    params: Parameters, level: int, scale: float | None = None, components: int = 2
) -> float:
    """Sigma of rounding all components in a rescale onto `level`, at `scale` or the level's."""
    variance = _rounding(params, 1)
    if components > 2:
        variance += SQUARE_TAIL * _weight(params) ** 2 / 12
    return _slot_sigma(variance, params) / (scale or float(params.scale(level)))


def plain_rescale_sigma(params: Parameters, level: int) -> float:
    """Sigma of the rounding of a plaintext rescaled onto `level`: no secret multiplies it."""
    return _slot_sigma(1 / 12, params) / float(params.scale(level))


@lru_cache(maxsize=1 << 10)
def switch_sigma(params: Parameters, level: int, scale: float | None = None) -> float:
    """Sigma of a key switch at `level` of a polynomial at `scale`, or at that of the level.

    A digit is lifted to a polynomial whose coefficients are sums of alpha uniform ones. It is
    multiplied by the noise of the key. The sum over the digits is divided by P with rounding.
    """
    moduli, big = params.ring(level).moduli, params.special_product
    variance = _rounding(params, len(params.specials))
    for digit in params.digits:
        part = intersection(digit, moduli)
        lifted = len(part) / 12 * (math.prod(part) / big) ** 2
        variance += TAIL * params.n * lifted * params.sigma**2 if part else 0.0
    return _slot_sigma(variance, params) / (scale or float(params.scale(level)))


@lru_cache(maxsize=1 << 10)
def settle_sigma(
    params: Parameters, level: int, is_switched: bool, scale: Fraction | None = None
) -> float:
    """Sigma of the rescale of a product onto `level`, after its key switch if it needs one.

    It ends at `scale`, or at that of the level.
    """
    scale = scale or params.scale(level)
    above = scale * params.ring(level + 1).q / params.ring(level).q
    switched = switch_sigma(params, level + 1, as_float(above)) if is_switched else 0.0
    return math.hypot(rescale_sigma(params, level, as_float(scale)), switched)


def _weight(params: Parameters) -> float:
    """The expected number of nonzero coefficients of the secret: it is uniform ternary."""
    return 2 * params.n / 3


def _rounding(params: Parameters, terms: int) -> float:
    """The variance in a coefficient of r0 + r1 s, each r a sum of `terms` roundings."""
    return terms / 12 * (1 + TAIL * _weight(params))


def _slot_sigma(variance: float, params: Parameters) -> float:
    """Sigma in a slot, from the variance in each coefficient that decoding reads."""
    return math.sqrt(2 * params.slots * variance)
