"""RingSpec: its values, the algebra of bases, and every message for a ring that cannot be."""

from __future__ import annotations

import copy
import math
import pickle
from itertools import islice

import numpy as np
import pytest

from ren.core.errors import RenError, RingError
from ren.core.numtheory import is_prime, ntt_primes_below
from ren.core.ring import (
    Domain,
    RingSpec,
    difference,
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
    (0, "The nearest valid degree is 4."),
    (-8, "The nearest valid degree is 4."),
    (2, "The nearest valid degree is 4."),
    (3, "The nearest valid degree is 4."),
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
        "The degree n is a power of two from 4 to 131072.",
        remedy,
    ]


BAD_MODULI = [
    ((15,), "15 is not prime", "The nearest valid primes are 17."),
    ((33,), "33 is not prime", "The nearest valid primes are 17 and 97."),
    ((17, 41), "41 = 9 (mod 16)", "The nearest valid primes are 17 and 97."),
    ((0,), "0 is not a prime", "The nearest valid primes are 17."),
    ((-97,), "-97 is not a prime", "The nearest valid primes are 17."),
    ((2,), "2 = 2 (mod 16)", "The nearest valid primes are 17."),
    (
        (1 << 30,),
        "1073741824 is not below 2^30 = 1073741824",
        f"The nearest valid primes are {next(ntt_primes_below(8, 1 << 30))}.",
    ),
]


@pytest.mark.parametrize(("moduli", "fault", "remedy"), BAD_MODULI)
def test_bad_moduli(moduli: tuple[int, ...], fault: str, remedy: str) -> None:
    with pytest.raises(RingError) as caught:
        RingSpec(n=8, moduli=moduli)
    assert str(caught.value).splitlines() == [
        f"RingSpec got the modulus {moduli[-1]} for n=8.",
        f"Each modulus is a prime q = 1 (mod 16) with q < 2^30; {fault}.",
        remedy,
    ]


def test_no_moduli() -> None:
    with pytest.raises(RingError) as caught:
        RingSpec(n=8, moduli=())
    assert str(caught.value).splitlines() == [
        "RingSpec got no moduli.",
        "At least one prime q = 1 (mod 16), q < 2^30, is needed.",
        "The smallest is 17.",
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
