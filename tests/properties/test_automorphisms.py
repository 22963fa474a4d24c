"""Rotations and automorphisms, in both domains, equal the substitution of X."""

from __future__ import annotations

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
from tests.rings import LARGE_SHAPES, SHAPES

_steps = st.one_of(st.integers(-5, 5), st.integers(-(2**20), 2**20))
_odd = st.one_of(st.integers(-6, 6), st.integers(-(2**20), 2**20)).map(lambda i: 2 * i + 1)


def check_rotation(case: Case, k: int) -> None:
    (p,), (a,) = case.polys(), case.reduced()
    result = p.rotate(k).realize()
    assert_equals(result, case.ring, oracle.rotate(a, k, case.q))
    (interpreted,) = case.polys("python")
    assert_same_limbs(result, interpreted.rotate(k).realize())


@all_examples
@given(case=cases(SHAPES, 1), k=_steps)
def test_rotation(case: Case, k: int) -> None:
    check_rotation(case, k)


@large_examples
@given(case=cases(LARGE_SHAPES, 1), k=_steps)
def test_rotation_large(case: Case, k: int) -> None:
    check_rotation(case, k)


def check_automorphism(case: Case, g: int, *, in_ntt: bool) -> None:
    (p,), (a,) = case.polys(), case.reduced()
    (interpreted,) = case.polys("python")
    if in_ntt:
        p, interpreted = p.ntt(), interpreted.ntt()
    result = p.automorphism(g).realize()
    assert result.domain == p.domain
    assert_equals(result, case.ring, oracle.automorphism(a, g, case.q))
    assert_same_limbs(result, interpreted.automorphism(g).realize())


@all_examples
@given(case=cases(SHAPES, 1), g=_odd, in_ntt=st.booleans())
def test_automorphism(case: Case, g: int, in_ntt: bool) -> None:
    check_automorphism(case, g, in_ntt=in_ntt)


@large_examples
@given(case=cases(LARGE_SHAPES, 1), g=_odd, in_ntt=st.booleans())
def test_automorphism_large(case: Case, g: int, in_ntt: bool) -> None:
    check_automorphism(case, g, in_ntt=in_ntt)
