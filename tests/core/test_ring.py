"""RingSpec: its values, the algebra of bases, and every message for a ring that cannot be."""

from __future__ import annotations

import copy
import math
import pickle
from itertools import islice
from typing import Any

import numpy as np
import pytest

from ren.core.errors import RenError, RingError
from ren.core.numtheory import is_prime, ntt_primes_below
from ren.core.ring import (
    Domain,
    RingSpec,
    contiguous_run,
    difference,
    exact_basis,
    intersection,
    is_ntt_prime,
    is_subset,
    limb_positions,
)


def test_a_ring_is_a_value() -> None:
    ring = RingSpec(n=8, moduli=(17, 97))
    assert ring == RingSpec(8, [17, 97]) == RingSpec(8, (np.int64(17), np.uint32(97)))
    assert ring == RingSpec(np.int64(8), np.array([17, 97]))  # pyright: ignore[reportArgumentType]
    assert type(RingSpec(np.int64(8), (17,)).n) is int
    assert hash(ring) == hash(RingSpec(8, (17, 97)))
    assert ring != RingSpec(8, (97, 17))  # the order of the limbs counts
    assert ring != RingSpec(4, (17, 97))
    assert ring != (8, (17, 97))
    assert len({ring, RingSpec(8, (17, 97)), RingSpec(8, (97, 17))}) == 2
    assert all(type(m) is int for m in RingSpec(8, np.array([17, 97])).moduli)


def test_a_ring_is_frozen_and_survives_copies() -> None:
    ring = RingSpec(n=8, moduli=(17, 97))
    with pytest.raises(AttributeError):
        ring.n = 16  # type: ignore[misc]
    assert copy.deepcopy(ring) == pickle.loads(pickle.dumps(ring)) == ring
    assert repr(ring) == "RingSpec(n=8, moduli=(17, 97))"


def test_derived_quantities() -> None:
    ring = RingSpec(n=8, moduli=(17, 97))
    assert (ring.q, ring.limbs, ring.dtype) == (1649, 2, "uint32")
    assert ring.log2_q == pytest.approx(math.log2(1649))
    assert ring.with_moduli([97]) == RingSpec(8, 97)
    big = RingSpec(1024, tuple(islice(ntt_primes_below(1024, 1 << 30), 40)))
    assert big.log2_q == pytest.approx(1200, abs=1)


@pytest.mark.parametrize("n", [1 << k for k in range(2, 18)])
def test_every_degree_has_a_ring(n: int) -> None:
    assert RingSpec(n, (next(ntt_primes_below(n, 1 << 30)),)).n == n


def test_basis_algebra_keeps_the_order_of_its_first_argument() -> None:
    a, b = (97, 17, 113, 193), (193, 97, 257)
    assert intersection(a, b) == (97, 193)
    assert difference(a, b) == (17, 113)
    assert is_subset((193, 97), a)
    assert not is_subset(b, a)
    assert is_subset((), a)
    assert limb_positions((193, 17), a) == (3, 1)


def test_domains_print_as_they_are_typed() -> None:
    assert repr(Domain.COEFF) == "Domain.COEFF"
    assert repr(Domain.NTT) == "Domain.NTT"


@pytest.mark.parametrize(
    ("q", "valid"),
    [(17, True), (97, True), (41, False), (33, False), (1, False), (0, False), (-15, False)],
)
def test_is_ntt_prime_for_degree_8(q: int, valid: bool) -> None:
    assert is_ntt_prime(8, q) == valid


def test_no_modulus_reaches_2_to_the_30() -> None:
    assert is_prime(1073741833)  # = 2^30 + 9 = 1 (mod 8)
    assert not is_ntt_prime(4, 1073741833)
    assert is_ntt_prime(4, next(ntt_primes_below(4, 1 << 30)))


BAD_DEGREES = [
    (12, "The nearest valid degree is 8 or 16."),
    (0, "The nearest valid degree is 2."),
    (-8, "The nearest valid degree is 2."),
    (1, "The nearest valid degree is 2."),
    (3, "The nearest valid degree is 2 or 4."),
    (1 << 18, "The nearest valid degree is 131072."),
    ((1 << 17) - 1, "The nearest valid degree is 65536 or 131072."),
    (8.0, "Write for example RingSpec(n=8, moduli=(17, 97))."),
    (True, "Write for example RingSpec(n=8, moduli=(17, 97))."),
    ("8", "Write for example RingSpec(n=8, moduli=(17, 97))."),
]


@pytest.mark.parametrize(("n", "remedy"), BAD_DEGREES)
def test_bad_degrees(n: object, remedy: str) -> None:
    with pytest.raises(RingError) as caught:
        RingSpec(n=n, moduli=(17, 97))  # type: ignore[arg-type]
    assert str(caught.value).splitlines() == [
        f"RingSpec got n={n!r}.",
        "The degree n is a power of two from 2 to 131072.",
        remedy,
    ]


_CRT = "The same ring is moduli={}, by the Chinese remainder theorem. "
_NEAREST = "The nearest valid primes q = 1 (mod 16), for which products are fastest, are {}."
_FACTORS = (1073741827, 1073741831)  # the least primes over 2^30
_PRODUCT = math.prod(_FACTORS)
_LARGEST = next(ntt_primes_below(8, 1 << 30))
BAD_MODULI = [
    ((15,), "15 is not prime", _CRT.format((3, 5)) + _NEAREST.format("17")),
    ((33,), "33 is not prime", _CRT.format((3, 11)) + _NEAREST.format("17 and 97")),
    ((17, 21), "21 is not prime", _CRT.format((17, 3, 7)) + _NEAREST.format("17 and 97")),
    ((153,), "153 is not prime", _CRT.format((9, 17)) + _NEAREST.format("113 and 193")),
    ((0,), "0 is too small", _NEAREST.format("17")),
    ((-97,), "-97 is too small", _NEAREST.format("17")),
    ((2,), "2 is too small", _NEAREST.format("17")),
    ((64,), "64 is even", _NEAREST.format("17 and 97")),
    ((1 << 61,), f"{1 << 61} is not below 2^61 = {1 << 61}", _NEAREST.format(_LARGEST)),
    ((_PRODUCT,), f"{_PRODUCT} is not prime", _CRT.format(_FACTORS) + _NEAREST.format(_LARGEST)),
]


@pytest.mark.parametrize(("moduli", "fault", "remedy"), BAD_MODULI)
def test_bad_moduli(moduli: tuple[int, ...], fault: str, remedy: str) -> None:
    with pytest.raises(RingError) as caught:
        RingSpec(n=8, moduli=moduli)
    assert str(caught.value).splitlines() == [
        f"RingSpec got the modulus {moduli[-1]} for n=8.",
        f"Each modulus is an odd prime or prime power below 2^61; {fault}.",
        remedy,
    ]


def test_powers_of_one_prime() -> None:
    with pytest.raises(RingError) as caught:
        RingSpec(n=8, moduli=(17, 27, 9))
    assert str(caught.value).splitlines() == [
        "RingSpec got the moduli 27 and 9, powers of one prime.",
        "The moduli of a ring have no common factor (Chinese remainder theorem).",
        "Keep the one of them that is meant: 27 or 9.",
    ]


@pytest.mark.parametrize(
    ("n", "moduli", "limbs", "products"),
    [
        (8, (17, 97), 2, "products through transforms of the limbs"),
        (256, (3329,), 1, "products through 2 exact primes"),
        (2, (3,), 1, "products through 1 exact prime"),
        (1024, (2**61 - 1,), 2, "products through 5 exact primes"),
        (256, (3329, 12277, 3**20), 4, "products through 2 or 3 exact primes for each modulus"),
        (256, (3329, 7681), 2, "products through 2 exact primes for 1 of the moduli"),
    ],
)
def test_general_rings_say_how_they_multiply(n, moduli, limbs, products) -> None:
    ring = RingSpec(n, moduli)
    assert (ring.limbs, ring.dtype, ring.products) == (limbs, "uint32", products)
    assert (products in repr(ring)) is ring.is_general is (n != 8)
    assert (products[9:] in ring._repr_html_()) is ring.is_general
    again = pickle.loads(pickle.dumps(ring))
    assert again == ring
    assert (again.limbs, again.is_general) == (ring.limbs, ring.is_general)


@pytest.mark.parametrize("n", [2, 1024, 1 << 17])
@pytest.mark.parametrize("m", [3, 3329, (1 << 30) - 35, (1 << 30) + 3, (1 << 61) - 1])
def test_exact_bases_hold_the_largest_product(n: int, m: int) -> None:
    basis = exact_basis(n, m)
    largest = n * (m // 2) ** 2
    assert all(is_ntt_prime(n, p) for p in basis)
    assert 2 * largest < math.prod(basis)
    assert math.prod(basis[:-1]) <= 2 * largest


def test_limbs_of_wide_moduli() -> None:
    whole = (3329, 2**61 - 1, 7681, 2**30 + 3)
    assert limb_positions((2**61 - 1, 7681), whole) == (1, 2, 3)
    assert contiguous_run((7681, 2**30 + 3), whole) == (3, 3)
    assert contiguous_run((3329, 7681), whole) is None


def test_no_moduli() -> None:
    with pytest.raises(RingError) as caught:
        RingSpec(n=8, moduli=())
    assert str(caught.value).splitlines() == [
        "RingSpec got no moduli.",
        "At least one odd prime or prime power below 2^61 is needed.",
        "The smallest prime q = 1 (mod 16), for which products are fastest, is 17.",
    ]


def test_repeated_moduli() -> None:
    with pytest.raises(RingError) as caught:
        RingSpec(n=8, moduli=(17, 97, 17))
    assert str(caught.value).splitlines() == [
        "RingSpec got the modulus 17 more than once.",
        "The moduli of a ring are distinct, so that the Chinese remainder theorem holds.",
        "Replace one by another prime q = 1 (mod 16), for example 113.",
    ]


@pytest.mark.parametrize(
    ("moduli", "rule"),
    [
        ((17.0, 97), "Each modulus is a Python int."),
        (("17",), "Each modulus is a Python int."),
        ((True,), "Each modulus is a Python int."),
        (17.0, "moduli is a tuple of primes, one for each limb."),
        (None, "moduli is a tuple of primes, one for each limb."),
    ],
)
def test_moduli_of_the_wrong_type(moduli: object, rule: str) -> None:
    with pytest.raises(RingError) as caught:
        RingSpec(n=8, moduli=moduli)  # type: ignore[arg-type]
    assert str(caught.value).splitlines() == [
        f"RingSpec got moduli={moduli!r}.",
        rule,
        "Write for example RingSpec(n=8, moduli=(17, 97)).",
    ]


def test_ring_errors_are_ren_errors_and_value_errors() -> None:
    with pytest.raises(ValueError, match="power of two") as caught:
        RingSpec(n=12, moduli=(17,))
    assert isinstance(caught.value, RenError)
    assert caught.value.given == "RingSpec got n=12."
    assert caught.value.needed.startswith("The degree n")
    assert caught.value.do == "The nearest valid degree is 8 or 16."
    assert str(RenError("only this")) == "only this"


@pytest.mark.parametrize("wrong", [17.0, True, "17"])
def test_a_modulus_that_equals_a_cached_one_is_refused_again(wrong: Any) -> None:
    """17.0 has the key of 17 in a cache."""
    ring = RingSpec(n=8, moduli=(17, 97))
    for _ in range(2):
        with pytest.raises(RenError):
            ring.with_moduli((wrong,))
        assert ring.with_moduli((17,)).moduli == (17,)


@pytest.mark.parametrize(("n", "bits", "count"), [(8, 5, 1), (256, 20, 10), (1 << 17, 30, 4)])
def test_primes_are_the_largest_of_their_size(n: int, bits: int, count: int) -> None:
    found = RingSpec.primes(n, bits, count)
    assert list(found) == sorted(set(found), reverse=True) and len(found) == count
    every = range((1 << bits) - 2 * n + 1, found[-1] - 1, -2 * n)
    assert [q for q in every if all(q % d for d in range(3, math.isqrt(q) + 1, 2))] == list(found)
    assert RingSpec(n, found).moduli == found and found[0].bit_length() == bits


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((1 << 17, 20, 2), r"2 primes of 20 bits at n=131072\.\nThere are 1 "),
        ((8, 31), r"bits=31\.\n.*up to 30"),
        ((8, 20, 0), r"count=0\."),
        ((7, 20), r"n=7\."),
        ((8, 2.5), r"bits=2\.5\."),
    ],
)
def test_primes_that_are_not_there(arguments, match) -> None:
    with pytest.raises(RingError, match=match):
        RingSpec.primes(*arguments)
