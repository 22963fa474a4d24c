"""Sums, differences, products and constants equal big-integer arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

from tests import oracle
from tests.properties.cases import Case, assert_equals, assert_same_limbs, over_all, over_large
from tests.rings import SHAPES

BINARY = {
    "add": (operator.add, oracle.add),
    "sub": (operator.sub, oracle.sub),
    "mul": (operator.mul, oracle.mul),
}
CONSTANT: dict[str, Callable] = {
    "p + c": lambda p, c: p + c,
    "c + p": lambda p, c: c + p,
    "p - c": lambda p, c: p - c,
    "c - p": lambda p, c: c - p,
    "p * c": lambda p, c: p * c,
    "c * p": lambda p, c: c * p,
}


def check_binary(name: str, case: Case) -> None:
    apply, expect = BINARY[name]
    result = apply(*case.polys()).realize()
    assert_equals(result, case.ring, expect(*case.reduced(), case.q))
    assert_same_limbs(result, apply(*case.polys("python")).realize())


@pytest.mark.long
@pytest.mark.parametrize("name", BINARY)
@over_all(2)
def test_binary(name: str, case: Case) -> None:
    check_binary(name, case)


@pytest.mark.parametrize("name", BINARY)
@over_large(2)
def test_binary_large(name: str, case: Case) -> None:
    check_binary(name, case)


def check_constants(case: Case) -> None:
    (p,), (a,) = case.polys(), case.reduced()
    c = oracle.constant(case.constant, case.ring.n, case.q)
    expected = {
        "p + c": oracle.add(a, c, case.q),
        "p - c": oracle.sub(a, c, case.q),
        "c - p": oracle.sub(c, a, case.q),
        "p * c": [x * case.constant % case.q for x in a],
    }
    expected |= {"c + p": expected["p + c"], "c * p": expected["p * c"]}
    for name, apply in CONSTANT.items():
        assert_equals(apply(p, case.constant), case.ring, expected[name])
    assert_equals(-p, case.ring, oracle.neg(a, case.q))


@pytest.mark.long
@over_all(1)
def test_constants_and_negation(case: Case) -> None:
    check_constants(case)


@over_large(1)
def test_constants_and_negation_large(case: Case) -> None:
    check_constants(case)


def check_domains(case: Case) -> None:
    """A sum and a product do not depend on the domains of what goes in."""
    (p, r), (a, b) = case.polys(), case.reduced()
    total, product = oracle.add(a, b, case.q), oracle.mul(a, b, case.q)
    assert_equals((p.ntt() + r).realize(), case.ring, total)
    assert_equals((p.ntt() + r.ntt()).intt(), case.ring, total)
    assert_equals((p.ntt() * r).intt(), case.ring, product)
    assert_equals(p.ntt().intt(), case.ring, a)


@pytest.mark.slow
@over_large(2)
def test_domains_large(case: Case) -> None:
    check_domains(case)


def test_the_shapes_cover_what_is_promised() -> None:
    assert {n for n, _ in SHAPES} == {1 << k for k in range(2, 13)}
    assert {limbs for _, limbs in SHAPES} == set(range(1, 9))
