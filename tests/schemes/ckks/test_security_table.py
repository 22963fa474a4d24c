"""The security table: each set that `for_depth` plans is inside the published bound.

The checks share no code with the planner: primes are tested anew, and products are exact integers.
The bound of log2(Q P) is the literal table of tests/schemes/rlwe/test_security.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import pytest

from ren.core.errors import InsecureParametersError, ParameterError
from ren.schemes import ckks
from ren.schemes.ckks.parameters.parameters import PRESETS
from tests.schemes.rlwe.test_security import PUBLISHED

TARGETS = (128, 192, 256)
DRIFT = 0.2 + 1e-6  # bits between a scale and 2^scale_bits
DEEPEST = 256


@cache
def is_prime(q: int) -> bool:
    """Miller and Rabin's test with bases that decide all numbers below 3.2e9."""
    if q < 2 or any(q % p == 0 for p in (2, 3, 5, 7)):
        return q in (2, 3, 5, 7)
    twos = (q - 1 & 1 - q).bit_length() - 1
    for base in (2, 3, 5, 7):
        x = pow(base, (q - 1) >> twos, q)
        if x in (1, q - 1):
            continue
        if not any((x := x * x % q) == q - 1 for _ in range(twos - 1)):
            return False
    return True


def assert_sound(params: ckks.Parameters, target: int, scale_bits: int) -> None:
    """The rules of a set: bound, primes, digits, headroom and scales."""
    n, special = params.n, math.prod(params.specials)
    union = (*params.terminals, *params.mains)
    bound = PUBLISHED[n.bit_length() - 1][TARGETS.index(target)]
    assert bound is not None and math.prod(union) * special <= 1 << bound
    assert params.security_bits >= target and not params.is_insecure
    assert len({*union, *params.specials}) == len(union) + len(params.specials)
    assert all(is_prime(q) and q % (2 * n) == 1 and q < 1 << 30 for q in (*union, *params.specials))
    assert tuple(q for digit in params.digits for q in digit) == union
    assert all(math.prod(digit) <= special for digit in params.digits)
    assert params.secret == "ternary" and params.sigma == 3.2
    levels = [math.prod(params.ring(i).moduli) for i in range(params.depth + 1)]
    assert levels[0] >= 1 << (scale_bits + params.integer_bits)
    assert all(math.prod(union) % q == 0 for q in levels)
    for level, scale in enumerate(params.scales):
        assert abs(log2(scale) - scale_bits) <= DRIFT
        if level:  # s_i^2 = s_(i-1) Q_i / Q_(i-1), rounded to 64 fractional bits
            exact = params.scales[level - 1] * levels[level] / levels[level - 1]
            assert scale == Fraction(math.isqrt(int(exact * 4**64)), 1 << 64)


def log2(value: Fraction) -> float:
    return math.log2(value.numerator) - math.log2(value.denominator)


def plans(n: int, scale_bits: int, target: int, step: int = 1) -> Iterator[ckks.Parameters]:
    """The sets of every depth, or every few, up to the first that is refused."""
    for depth in range(0, DEEPEST + 1, step):
        try:
            yield ckks.Parameters.for_depth(depth, scale_bits, target, n)
        except InsecureParametersError:
            return
        except ParameterError as error:  # no more primes of that size
            assert "No primes" in str(error)
            return


def checked(n: int, scale_bits: int, target: int, step: int = 1) -> int:
    """Checks these sets; how many there are."""
    found = list(plans(n, scale_bits, target, step))
    for params in found:
        assert_sound(params, target, scale_bits)
    return len(found)


@pytest.mark.long
@pytest.mark.parametrize("log_n", [12, 13, 14, 15])
def test_planned_sets_are_inside_the_published_bound(log_n):
    steps = {14: 2, 15: 9}
    found = sum(
        checked(1 << log_n, bits, 128, steps.get(log_n, 1)) for bits in (20, 30, 40, 50, 60)
    )
    assert found >= {12: 7, 13: 22, 14: 25, 15: 14}[log_n]


@pytest.mark.long
@pytest.mark.parametrize("target", [192, 256])
def test_planned_sets_of_other_targets_are_inside_the_published_bound(target):
    assert checked(1 << 13, 40, target) + checked(1 << 14, 40, target) >= 3


def test_sets_whose_degree_is_chosen_are_inside_the_published_bound():
    for depth in range(0, 19, 3):
        assert_sound(ckks.Parameters.for_depth(depth), 128, 40)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("log_n", PUBLISHED)
def test_all_planned_sets_are_inside_the_published_bound(log_n, target):
    scales = range(20, 61, 5 if log_n < 16 else 10)
    found = sum(checked(1 << log_n, bits, target) for bits in scales)
    assert found > 0 or (PUBLISHED[log_n][TARGETS.index(target)] or 0) < 80


@pytest.mark.slow
@pytest.mark.parametrize("dnum", [1, 2, 3, 4, 8])
def test_all_sets_of_a_number_of_digits_are_inside_the_published_bound(dnum):
    for log_n in (13, 14, 15):
        for depth in range(20):
            try:
                params = ckks.Parameters.for_depth(depth, n=1 << log_n, dnum=dnum)
            except InsecureParametersError:
                break
            except ParameterError as error:  # fewer moduli than digits
                assert f"Keys of {dnum} digits" in str(error)
                continue
            assert_sound(params, 128, 40)
            assert params.dnum == dnum


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_inside_the_published_bound(name):
    params = ckks.Parameters.preset(name)
    assert_sound(params, params.security or 128, params.scale_bits)
