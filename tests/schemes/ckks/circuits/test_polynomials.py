"""Polynomials in both bases: values, levels, and how many products and relinearizations."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from numpy.polynomial.chebyshev import chebval
from numpy.polynomial.polynomial import polyval

import ren
from ren.core.node import toposort
from ren.core.op import MODDOWN
from ren.schemes import ckks
from ren.schemes.ckks.functions.basis import Basis
from ren.schemes.ckks.functions.paterson_stockmeyer import Combination, largest, schedule

POWER, CHEBYSHEV = Basis(False), Basis(True)


def error(x: ckks.Ciphertext, want) -> float:
    got = x.decrypt()
    assert got.shape == want.shape and got.dtype == want.dtype
    return float(np.abs(got - want).max())


def relinearizations(x: ckks.Ciphertext) -> int:
    """From the graph: each ends in a pair of ModDowns."""
    found = Counter(node.op for node in toposort(*(p.node for p in x.polys)))
    return found[MODDOWN] // 2


@pytest.fixture(scope="module")
def data(ctx6):
    values = np.random.default_rng(3).uniform(-1, 1, ctx6.slots)
    values[:3] = (-1, 0, 1)
    return values, ctx6.encrypt(values).realize()


def drawn(degree: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([degree, seed]).normal(size=degree + 1)


# ------------------------------------------------------------------- values


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7, 8, 15])
@pytest.mark.usefixtures("interpreted")
def test_optimal_depth_in_both_bases(data, degree):
    values, x = data
    c = drawn(degree)
    for z, want in (
        (ckks.poly(x, c), polyval(values, c)),
        (ckks.chebyshev(x, c), chebval(values, c)),
    ):
        assert x.level - z.level == math.ceil(math.log2(degree + 1))
        assert error(z, want) < 2.0**-20


@pytest.mark.slow
@pytest.mark.parametrize("degree", [31, 63])
def test_high_degrees(data, degree):
    values, x = data
    c = drawn(degree)
    for z, want in (
        (ckks.poly(x, c), polyval(values, c)),
        (ckks.chebyshev(x, c), chebval(values, c)),
    ):
        assert x.level - z.level == math.ceil(math.log2(degree + 1))
        assert error(z, want) < 2.0**-22 * np.abs(c).sum()


@pytest.mark.slow
def test_complex_coefficients_and_slots(ctx6):
    rng = np.random.default_rng(1)
    c = drawn(7) + 1j * drawn(7, 1)
    z = np.exp(2j * np.pi * rng.uniform(size=64)) * rng.uniform(size=64)
    assert error(ckks.poly(ctx6.encrypt(z), c), polyval(z, c)) < 2.0**-20
    assert error(ckks.poly(ctx6.encrypt(z.real), c), polyval(z.real, c)) < 2.0**-20


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
def test_integers_and_zeros_are_free(data):
    values, x = data
    assert x.level - ckks.poly(x, [3, -2]).level == 0
    assert x.level - ckks.poly(x, [1, 0, 2]).level == 1
    assert error(ckks.poly(x, [1, 0, 2]), 1 + 2 * values**2) < 2.0**-20
    tiny = ckks.poly(x, [0.5, 0.25, 0, 1e-14, 0, 0, 0, 0, 1e-30])
    assert x.level - tiny.level == 1 and relinearizations(tiny) == 0
    assert error(tiny, 0.5 + values / 4) < 2.0**-20
    constant = ckks.poly(x, [0.75, 0.0])
    assert constant.level == x.level and error(constant, np.full_like(values, 0.75)) < 2.0**-20


@pytest.mark.parametrize(
    ("interval", "degree", "depth"),
    [
        ((-0.3, 0.3), 7, 3),
        ((0, 1), 3, 2),
        ((1, 4), 7, 3),
        pytest.param((-2, 2), 7, 3, marks=pytest.mark.slow),
        ((-8, 8), 3, 2),  # five bits of precision for a level
        pytest.param((-8, 8), 7, 4, marks=pytest.mark.slow),  # too many bits: it takes a level
        ((0.01, 100), 3, 3),
    ],
)
def test_intervals(ctx6, interval, degree, depth):
    values, c = np.linspace(*interval, ctx6.slots), drawn(degree)
    x, (a, b) = ctx6.encrypt(values, bound=max(map(abs, interval))), interval
    z = ckks.chebyshev(x, c, interval)
    assert x.level - z.level == depth
    assert error(z, chebval((2 * values - a - b) / (b - a), c)) < 2.0**-18


def test_a_function_is_interpolated(data):
    values, x = data
    assert error(ckks.chebyshev(x, np.exp, degree=7), np.exp(values)) < 2.0**-20


def test_in_a_captured_function(data):
    values, x = data
    f = ren.jit(lambda x: ckks.poly(x, [0.5, 1, 0, -0.25]) + ckks.chebyshev(x, [0, 0, 0, 0.5]))
    for _ in range(2):
        want = 0.5 + values - values**3 / 4 + chebval(values, [0, 0, 0, 0.5])
        assert error(f(x), want) < 2.0**-20
    assert f.cache_info().hits == 1


# ------------------------------------------------------------------- counts


@pytest.mark.parametrize("degree", [3, 7, 15, 30, 31, 63])
@pytest.mark.parametrize("basis", [POWER, CHEBYSHEV], ids=["power", "chebyshev"])
def test_relinearizations_are_near_the_known_minimum(data, degree, basis):
    _, x = data
    c = drawn(degree)
    z = ckks.chebyshev(x, c) if basis.is_chebyshev else ckks.poly(x, c)
    plan = schedule(tuple(complex(v) for v in c), basis)
    assert relinearizations(z) == plan.relinearizations
    least = math.sqrt(2 * degree) + math.log2(degree)
    assert plan.relinearizations <= least
    assert plan.products <= least + 2


@pytest.mark.parametrize("degree", [100, 127, 255, 511, 1023])
def test_counts_at_high_degrees(degree):
    plan = schedule(tuple(complex(v) for v in drawn(degree)), CHEBYSHEV)
    least = math.sqrt(2 * degree) + math.log2(degree)
    assert plan.depth == degree.bit_length()
    assert plan.relinearizations <= least and plan.products <= 1.35 * least


def test_an_odd_polynomial_makes_odd_elements_and_powers_of_two():
    c = np.where(np.arange(32) % 2, drawn(31), 0)
    odd = schedule(tuple(complex(v) for v in c), CHEBYSHEV)
    assert all(j % 2 or j & (j - 1) == 0 for j in odd.elements)


def value(c: Combination, elements: np.ndarray) -> complex:
    """What a schedule computes, in the clear."""
    products = sum(value(q, elements) * elements[g] for g, q in c.products)
    return products + sum(f * elements[j] for j, f in c.terms) + c.constant


@pytest.mark.parametrize("degree", [*range(0, 40), 127, 200])
@pytest.mark.parametrize("first", [None, 1.0, 1.7, 0.75])
def test_schedules_compute_their_polynomial(degree, first):
    basis = POWER if first is None else Basis(True, first)
    c, x = drawn(degree), 0.37
    plan = schedule(tuple(complex(v) for v in c), basis)
    t = np.cos(np.arange(degree + 2) * np.arccos(x))
    plain = x ** np.arange(degree + 2) if first is None else t
    elements = np.array([basis.size(j) for j in range(degree + 2)]) * plain
    assert abs(value(plan.root, elements) - plain[: degree + 1] @ c) < 1e-11
    assert plan.depth == degree.bit_length()


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 15, 16, 31, 100])
@pytest.mark.parametrize("first", [1.0, 1.7])
def test_bounds_of_partial_sums_hold_and_are_close(degree, first):
    basis = Basis(True, first)
    plan = schedule(tuple(complex(v) for v in drawn(degree)), basis)
    t = np.cos(np.outer(np.arange(degree + 2), np.linspace(0, np.pi, 20001)))
    elements = t * np.array([basis.size(j) for j in range(degree + 2)])[:, None]
    for part in plan.root.parts():
        found = np.abs(value(part, elements)).max()
        assert found <= largest(part, basis) <= 1.01 * found


# ------------------------------------------------------------------- what is refused


def test_too_few_levels_are_told_before_anything_is_made(data):
    _, x = data
    with pytest.raises(ckks.DepthError) as info:
        ckks.poly(x.drop_to(2), drawn(15))
    message = str(info.value)
    assert "degree 15 takes 4 levels" in message and "at level 2 of 6" in message
    with pytest.raises(ckks.DepthError, match="degree 7 takes 4 levels"):
        ckks.chebyshev(x.drop_to(3), drawn(7), (-8, 8))


def test_what_is_no_polynomial_is_refused(data):
    _, x = data
    for bad in ([], [[]], ["a"], [np.nan], [[1, 2], [3]]):
        with pytest.raises(ckks.ParameterError, match="Coefficients"):
            ckks.poly(x, bad)
    for bad in ((1, 1), (2, 1), (0, np.inf), 3, (1, 2, 3)):
        with pytest.raises(ckks.ParameterError, match="interval"):
            ckks.chebyshev(x, [1, 2], bad)
    with pytest.raises(ckks.ParameterError, match="degree=None"):
        ckks.chebyshev(x, np.exp)
    with pytest.raises(ckks.ParameterError, match="coefficients and degree"):
        ckks.chebyshev(x, [1, 2], degree=1)
