"""Primes, roots of unity and CRT against python-flint and definitions."""

from __future__ import annotations

import math
from itertools import islice

import flint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ren.core.numtheory import (
    centered,
    crt,
    is_prime,
    ntt_primes_below,
    ntt_primes_from,
    primitive_root_of_unity,
)

# Strong pseudoprimes to the first 1, 2, .., 8 prime bases (OEIS A014233) and to 2, 7, 61,
# Carmichael numbers, squares of primes.
COMPOSITES = [2047, 1373653, 25326001, 3215031751, 2152302898747, 3474749660383]
COMPOSITES += [4759123141, 341550071728321, 561, 41041, 825265, 101101, 97**2, 1073741789**2]


def test_is_prime_agrees_with_flint_on_small_numbers() -> None:
    assert [x for x in range(-5, 5000) if is_prime(x)] == [
        x for x in range(2, 5000) if flint.fmpz(x).is_prime()
    ]


@given(st.integers(2, 1 << 33) | st.integers(2, 1 << 64))
def test_is_prime_agrees_with_flint(candidate: int) -> None:
    assert is_prime(candidate) == flint.fmpz(candidate).is_prime()


@pytest.mark.parametrize("candidate", COMPOSITES)
def test_is_prime_refuses_pseudoprimes(candidate: int) -> None:
    assert not is_prime(candidate)


@pytest.mark.parametrize("n", [4, 8, 64, 1024])
def test_prime_walks_miss_nothing(n: int) -> None:
    bound = 200 * n
    expected = [q for q in range(2 * n + 1, bound, 2 * n) if flint.fmpz(q).is_prime()]
    assert list(ntt_primes_from(n, 2, bound)) == expected
    assert list(ntt_primes_below(n, bound)) == expected[::-1]


def test_prime_walks_respect_their_bounds() -> None:
    assert list(ntt_primes_from(8, 17, 98)) == [17, 97]  # the start is included
    assert list(ntt_primes_from(8, 18, 97)) == []  # the stop is not
    assert next(ntt_primes_below(8, 97)) == 17
    assert list(ntt_primes_below(8, 17)) == []


@pytest.mark.parametrize("log_n", range(2, 18))
def test_roots_of_unity_have_order_2n(log_n: int) -> None:
    n = 1 << log_n
    for q in (next(ntt_primes_from(n, 2, 1 << 30)), next(ntt_primes_below(n, 1 << 30))):
        psi = primitive_root_of_unity(n, q)
        assert 0 < psi < q
        assert pow(psi, n, q) == q - 1


def test_root_of_unity_is_that_of_the_least_base() -> None:
    # n = 4, q = 17: 2^2 = 4 has order 4; 3^2 = 9 has order 8 = 2n.
    assert primitive_root_of_unity(4, 17) == 9


PRIMES = [*islice(ntt_primes_below(4, 1 << 30), 6), 17, 41]


@given(st.lists(st.sampled_from(PRIMES), min_size=1, unique=True), st.integers())
def test_crt_inverts_reduction(moduli: list[int], value: int) -> None:
    product = math.prod(moduli)
    assert crt([value % m for m in moduli], moduli) == value % product


def test_crt_wants_one_residue_for_each_modulus() -> None:
    with pytest.raises(ValueError, match="zip"):
        crt([1], [17, 97])


@given(st.integers(), st.integers(1, 1 << 70))
def test_centered_is_the_smallest_representative(value: int, modulus: int) -> None:
    result = centered(value, modulus)
    assert (result - value) % modulus == 0
    assert -modulus < 2 * result <= modulus
