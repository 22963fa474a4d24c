"""The oracle itself: fast products against the definition, and identities that define the rest."""

from __future__ import annotations

import math
import random

import pytest

from tests import oracle


def coefficients(n: int, q: int, seed: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(q) for _ in range(n)]


@pytest.mark.parametrize("n", [4, 8, 32, 128])
@pytest.mark.parametrize("q", [17, 257 * 7681, (1 << 240) - 1])
def test_products_by_flint_equal_the_definition(n: int, q: int) -> None:
    a, b = coefficients(n, q, 1), coefficients(n, q, 2)
    assert oracle.mul(a, b, q) == oracle.mul_schoolbook(a, b, q)


@pytest.mark.parametrize("a", [[0] * 8, [1] + [0] * 7, [0] * 7 + [1]])
def test_products_with_missing_leading_coefficients(a: list[int]) -> None:
    b = coefficients(8, 97, 3)
    assert oracle.mul(a, b, 97) == oracle.mul_schoolbook(a, b, 97)


def test_automorphisms_are_ring_maps_and_compose() -> None:
    n, q = 16, 97 * 193
    a, b = coefficients(n, q, 4), coefficients(n, q, 5)
    for g in (1, 3, 5, 31, -1, -7):
        left = oracle.automorphism(oracle.mul(a, b, q), g, q)
        right = oracle.mul(oracle.automorphism(a, g, q), oracle.automorphism(b, g, q), q)
        assert left == right
    assert oracle.rotate(oracle.rotate(a, 3, q), -3, q) == a
    assert oracle.rotate(a, n // 2, q) == a


def test_rescale_is_division_rounded_to_nearest() -> None:
    old, new = (17, 97, 113), (97, 193)
    for x in range(0, math.prod(old), 101):
        (got,) = oracle.rescale([x], old, new)
        exact = x * 193 / (17 * 113)
        assert abs(oracle.centred(got - round(exact), 97 * 193)) <= 1
        assert abs(exact - round(exact)) == 0.5 or got == round(exact) % (97 * 193)


def test_the_approximate_lift_is_within_half_a_multiple_a_limb() -> None:
    digit = (17, 97, 113)
    d = math.prod(digit)
    for x in range(0, d, 53):
        lift = oracle.approximate_lift(x, digit)
        assert (lift - x) % d == 0
        assert 2 * abs(lift) <= len(digit) * d
