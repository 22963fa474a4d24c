"""The sine that bootstrapping evaluates: its polynomial, its precision, how often it fails.

A raised ciphertext holds x = I + d in each slot. I is an integer, |I| <= K but for the failures,
and d is the message, |d| <= 2^-r. The message comes back as sin(2 pi x) 2^r / (2 pi). The sine is
made of a cosine of few degrees by D double angles:

    y = (x - 1/4) / L, L = K + 1/4 + 2^-r,        p(y) = cos(2 pi (x - 1/4) / 2^D) nearly,
    w = T_(2^D)(p(y)) = cos(2 pi (x - 1/4)) = sin(2 pi x).

p is even, hence a polynomial in u = T_2(y) of half the degree. It has to be right near integers
alone. It is fitted there, by least squares reweighted towards the least largest error.

The sine is flatter than the line: 2^r sin(2 pi z 2^-r) / (2 pi) = z - c z^3 with c =
(2 pi 2^-r)^2 / 6. Multiplied by alpha = 1 + 3 c / 4, the error is c / 4 at most, for |z| <= 1.

References: Cheon, Han, Kim, Kim and Song, "Bootstrapping for approximate homomorphic encryption",
2018 (the sine); Han and Ki, 2020 (double angles); Bossuat, Troncoso-Pastoriza and Hubaux,
"Bootstrapping for approximate homomorphic encryption with negligible failure-probability by using
sparse-secret encapsulation", 2022 (the count of failures).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import attrs
import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ren.core.errors import ParameterError

DOUBLINGS = 3
DEGREE = 15  # of the polynomial in u
_ROUNDS = 12
# Points of the fit around each integer, in units of the bound of messages: Chebyshev points inside,
# and some outside. So messages somewhat over the bound lose precision, and are not destroyed.
_NODES = np.array([-4, -2, *np.cos(np.pi * (2 * np.arange(4) + 1) / 8), 2, 4])
_MEAN_WEIGHT = 1e3  # of the row for the mean of the error, beside rows of at most 1
_SPARE_BITS = 3.0  # by which the error of the sine stays below the precision
_MOST_OVERFLOW = 16


@attrs.frozen
class Sine:
    """A sine for bootstrapping.

    Args:
        overflow: K, the largest |I| that it is right for.
        ratio_bits: r, the bits by which messages are smaller than 1.

    Raises:
        ParameterError: no polynomial of this degree is right up to K.
    """

    overflow: int
    ratio_bits: int

    @property
    def reach(self) -> Fraction:
        """L: x - 1/4 lies in [-L, L]."""
        return self.overflow + Fraction(1, 4) + Fraction(1, 1 << self.ratio_bits)

    @property
    def cubic(self) -> float:
        """c: z - c z^3 comes out for z, before the factor alpha."""
        return (2 * math.pi * 2.0**-self.ratio_bits) ** 2 / 6

    @property
    def gain(self) -> float:
        """2^r alpha / (2 pi): the message is this times w."""
        return 2.0**self.ratio_bits * (1 + 0.75 * self.cubic) / (2 * math.pi)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Those of p as a Chebyshev series in u, [DEGREE + 1]."""
        return _fitted(self)

    @property
    def error(self) -> float:
        """The largest error of a message in [-1, 1]."""
        return self.error_within(1.0)

    def error_within(self, reach: float) -> float:
        """The largest error of a message in [-reach, reach]."""
        return _error(self, reach)

    @property
    def fixed_error(self) -> float:
        """The largest error of a message in [-1, 1] that is the same each time."""
        return _parted(self)[0]

    def scatter(self, is_typical: bool) -> float:
        """The deviation of the error by the overflow, or the largest: the polynomial's part."""
        return _parted(self)[2 if is_typical else 1]

    @property
    def depth(self) -> int:
        """Levels: T_2, the polynomial in u, the double angles."""
        return 1 + DEGREE.bit_length() + DOUBLINGS

    def value(self, x: NDArray) -> NDArray:
        """The message that comes out for x, without noise."""
        p = chebyshev.chebval(2 * ((x - 0.25) / float(self.reach)) ** 2 - 1, self.coefficients)
        for _ in range(DOUBLINGS):
            p = 2 * p * p - 1
        return p * self.gain


@lru_cache(maxsize=32)
def _error(sine: Sine, reach: float) -> float:
    """The largest error on a fine grid, and what may lie between its points."""
    return 1.001 * float(np.abs(_errors(sine, reach)).max())


@lru_cache(maxsize=32)
def _parted(sine: Sine) -> tuple[float, float, float]:
    """The largest mean over the overflows; the largest and the rms distance from the means."""
    errors, shares = _errors(sine, 1.0), overflow_shares(sine.overflow)
    means = shares @ errors
    apart = errors - means
    typical = math.sqrt(float(np.mean(shares @ apart**2)))
    return 1.001 * float(np.abs(means).max()), 1.001 * float(np.abs(apart).max()), typical


def _errors(sine: Sine, reach: float) -> NDArray:
    """Errors of messages for each overflow, [2 K + 1, 129]."""
    z = np.linspace(-reach, reach, 129)
    x = np.arange(-sine.overflow, sine.overflow + 1)[:, None] + z * 2.0**-sine.ratio_bits
    return sine.value(x) - z


@lru_cache(maxsize=32)
def _fitted(sine: Sine) -> tuple[float, ...]:
    reach, eps = float(sine.reach), 2.0**-sine.ratio_bits
    integers = np.arange(-sine.overflow, sine.overflow + 1)
    inside = np.tile(np.abs(_NODES) <= 1, len(integers))
    x = np.ravel(integers[:, None] + eps * _NODES)
    u = 2 * ((x - 0.25) / reach) ** 2 - 1
    angles = 2 * np.pi * (x - 0.25) / 2**DOUBLINGS
    basis, target = chebyshev.chebvander(u, DEGREE), np.cos(angles)
    # dw / dp = 2^D sin(2 pi x - pi / 2) / sin(angle), of modulus 2^D / |sin(angle)| near integers.
    amplified = 2.0**DOUBLINGS / np.maximum(np.abs(np.sin(angles)), 2.0**-6) * sine.gain
    # One row more: the mean of the error over all overflows is zero, so it does not add up.
    share = np.repeat(overflow_shares(sine.overflow), len(_NODES)) * inside / np.sin(angles)
    share *= _MEAN_WEIGHT / np.abs(share).max()
    weights, best = amplified * np.where(inside, 1.0, 0.1), (math.inf, np.zeros(DEGREE + 1))
    for _ in range(_ROUNDS):
        rows = np.vstack([basis * weights[:, None], share @ basis])
        c = np.linalg.lstsq(rows, np.append(target * weights, share @ target), rcond=None)[0]
        errors = np.abs(basis @ c - target) * amplified
        worst = float(errors[inside].max())
        best = min(best, (worst, c), key=lambda found: found[0])
        weights = weights * np.sqrt((np.where(inside, errors, errors / 8) + 1e-3 * worst) / worst)
        weights /= weights.max()
    return tuple(best[1].tolist())


# ------------------------------------------------------------------- failures


@lru_cache(maxsize=256)
def failure_log2(weight: int, overflow: int, ratio_bits: int, coefficients: int) -> float:
    """log2 of the probability that some |I| passes K, over all coefficients (union bound).

    A coefficient of c_1 s / q_0 is the sum of h independent uniform numbers of [-1/2, 1/2), for a
    secret of h coefficients +-1. I is that sum, rounded, since c_0 is what the message leaves of
    it. The tail is exact (Irwin and Hall).

    Args:
        weight: h.
        overflow: K.
        ratio_bits: r; messages take 2^-r of what K leaves.
        coefficients: how many are raised.
    """
    bound = overflow + Fraction(1, 2) - Fraction(1, 1 << ratio_bits)
    tail = coefficients * _tail(weight, bound)
    return math.log2(tail.numerator) - math.log2(tail.denominator) if tail else -math.inf


def _tail(weight: int, bound: Fraction) -> Fraction:
    """The probability that the modulus of a sum of so many uniform numbers passes a bound."""
    low = Fraction(weight, 2) - bound
    if low <= 0:
        return Fraction(0)
    terms = (
        (-1) ** i * math.comb(weight, i) * (low - i) ** weight for i in range(math.floor(low) + 1)
    )
    return 2 * sum(terms, Fraction(0)) / math.factorial(weight)


@lru_cache(maxsize=32)
def overflow_shares(overflow: int, weight: int = 32) -> NDArray:
    """The probability of each I from -K to K, [2 K + 1]."""
    tails = [float(_tail(weight, Fraction(2 * k + 1, 2))) for k in range(overflow + 1)]
    each = [2 - 2 * tails[0], *(a - b for a, b in pairwise(tails))]  # twice each probability
    found = np.array(each)[np.abs(np.arange(-overflow, overflow + 1))]
    return found / found.sum()


def sine_for(
    precision: float, failure: float, weight: int, coefficients: int, more: int = 0
) -> Sine:
    """The smallest sine with this precision in bits, which fails at most with this probability.

    With `more`, its messages are smaller by so many bits than they have to be.

    Raises:
        ParameterError: there is none; says what can be had.
    """
    ratio = 4
    while Sine(1, ratio).cubic / 4 > 2.0 ** -(precision + _SPARE_BITS):
        ratio += 1
    ratio += more
    limit = math.log2(failure)
    for overflow in range(1, _MOST_OVERFLOW + 1):
        if failure_log2(weight, overflow, ratio, coefficients) <= limit:
            break
    else:
        least = failure_log2(weight, _MOST_OVERFLOW, ratio, coefficients)
        raise ParameterError(
            f"bootstrapping got failure=2^{limit:.1f}.",
            f"It fails with 2^{least:.1f} at the least.",
            "Ask for a larger failure=.",
        )
    sine = Sine(overflow, ratio)
    if sine.error > 2.0 ** -(precision + _SPARE_BITS / 2):
        raise ParameterError(
            f"bootstrapping got failure=2^{limit:.1f} and precision={precision:g}.",
            f"Sums up to {overflow} are then to be taken away, and the polynomial for these is "
            f"right to {-math.log2(sine.error):.1f} bits.",
            "Ask for a larger failure=, for example 2**-64, or for fewer bits.",
        )
    return sine


# ------------------------------------------------------------------- noise


@lru_cache(maxsize=32)
def amplifications(sine: Sine, weight: int, is_worst: bool = False) -> tuple[float, ...]:
    """By how much the noise of each level of the sine counts in the message, [depth].

    It is the rms over x, or of the integer where it is largest: near x = 1/4, where y is small.

    Entry 0 is for noise in y. The next is for T_2, then come the levels of the polynomial. The last
    ones are for the double angles but the last.
    """
    integers = np.arange(-sine.overflow, sine.overflow + 1)
    x = integers[:, None] + np.linspace(-1, 1, 9) * 2.0**-sine.ratio_bits
    y = (x - 0.25) / float(sine.reach)
    clean, stages = _evaluated(sine, y, None)
    squares = np.zeros((sine.depth, len(integers)))
    for source, stage in enumerate(stages):
        slopes = (_evaluated(sine, y, source)[0] - clean) / _STEP
        squares[stage] += np.mean(slopes**2, axis=1)
    mean = overflow_shares(sine.overflow, weight) @ squares.T
    return tuple(np.sqrt(squares.max(1) if is_worst else mean).tolist())


_STEP = 1e-7


def _evaluated(sine: Sine, y: NDArray, moved: int | None) -> tuple[NDArray, list[int]]:
    """The messages, one of the values in between moved by a step; and the stage of each value."""
    stages: list[int] = []

    def made(stage: int, value: NDArray) -> NDArray:
        stages.append(stage)
        return value + _STEP if len(stages) - 1 == moved else value

    u = made(1, 2 * made(0, y) ** 2 - 1)
    elements = {0: np.ones_like(u), 1: u}
    for j in (2, 3, 4, 8):
        high = (j + 1) // 2
        t = 2 * elements[high] * elements[j - high] - elements[2 * high - j]
        elements[j] = made(1 + (j - 1).bit_length(), t)

    def summed(c: NDArray, depth: int) -> NDArray:
        if len(c) <= 4:
            return made(1 + depth, sum((c[k] * elements[k] for k in range(len(c))), 0 * u))
        half = len(c) // 2
        quotient, rest = c[half:].copy(), c[:half].copy()
        quotient[1:] *= 2
        rest[1:] -= c[half + 1 :][::-1]
        high = summed(quotient, depth - 1) * elements[half]
        return made(1 + depth, high + summed(rest, depth))

    w = summed(np.array(sine.coefficients), DEGREE.bit_length())
    for i in range(DOUBLINGS):
        w = 2 * w * w - 1
        if i < DOUBLINGS - 1:
            w = made(2 + DEGREE.bit_length() + i, w)
    return w * sine.gain, stages
