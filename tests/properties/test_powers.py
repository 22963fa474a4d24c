"""Powers equal repeated big-integer multiplication."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.properties.cases import (
    Case,
    all_examples,
    assert_equals,
    assert_same_limbs,
    cases,
    large_examples,
)

# Each (shape, exponent) is a program of its own to compile, hence fewer shapes here.
_SHAPES = ((4, 1), (4, 8), (16, 3), (64, 2), (256, 2), (1024, 7), (4096, 4))
_LARGE = tuple((n, limbs) for n, limbs in _SHAPES if n >= 256)
_exponents = st.sampled_from([0, 1, 2, 3, 6, 9])


def check_power(case: Case, exponent: int) -> None:
    (p,), (a,) = case.polys(), case.reduced()
    result = (p**exponent).realize()
    assert_equals(result, case.ring, oracle.power(a, exponent, case.q))
    (interpreted,) = case.polys("python")
    assert_same_limbs(result, (interpreted**exponent).realize())


@pytest.mark.long
@all_examples
@given(case=cases(_SHAPES, 1), exponent=_exponents)
def test_power(case: Case, exponent: int) -> None:
    check_power(case, exponent)


@large_examples
@given(case=cases(_LARGE, 1), exponent=_exponents)
def test_power_large(case: Case, exponent: int) -> None:
    check_power(case, exponent)
