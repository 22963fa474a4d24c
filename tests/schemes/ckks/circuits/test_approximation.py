"""What `ckks.approximate` tells before anything is encrypted, and the Remez exchange."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ren.schemes import ckks
from ren.schemes.ckks.functions.basis import Basis
from ren.schemes.ckks.functions.division import goldschmidt
from ren.schemes.ckks.functions.paterson_stockmeyer import schedule
from ren.schemes.ckks.functions.remez import (
    RELINEARIZATIONS,
    OddMinimax,
    odd_minimax,
    sign_polynomials,
)


@pytest.mark.parametrize(
    ("f", "interval"),
    [(np.exp, (-1, 1)), (np.sin, (-3, 3)), (np.log, (0.1, 2)), (np.tanh, (-4, 5))],
)
@pytest.mark.parametrize("precision", [8, 20, 30, 38])
def test_the_least_degree_is_found(f, interval, precision):
    p = ckks.approximate(f, interval, precision)
    x = np.linspace(*interval, 5001)
    assert np.abs(p(x) - f(x)).max() <= 1.01 * p.error <= 1.01 * 2.0**-precision
    assert p.bits >= precision
    assert ckks.approximate(f, interval, degree=p.degree - 2).bits < precision
    assert p.depth in (p.degree.bit_length(), p.degree.bit_length() + 1)


def test_it_is_a_readable_value():
    p = ckks.approximate(np.exp, precision=20)
    assert repr(p).startswith("Approximation(degree 7, depth 3, error ")
    assert "bits, on [-1, 1])" in repr(p)
    assert p == ckks.approximate(np.exp, (-1, 1), degree=7) and hash(p)
    assert (p.degree, p.depth, p.relinearizations) == (7, 3, 4)
    assert ckks.approximate(lambda x: 0 * x + 1, degree=0).bits == np.inf


def test_a_degree_before_the_errors_of_float64_is_found():
    p = ckks.approximate(np.exp, (-1, 1), precision=46)
    x = np.linspace(-1, 1, 5001)
    assert p.degree < 20 and p.bits >= 46 and np.abs(p(x) - np.exp(x)).max() < 2.0**-45
    with pytest.raises(ckks.ParameterError, match=r"Degree 1\d leaves .* = 4\d\.\d bits"):
        ckks.approximate(np.exp, (-1, 1), precision=60)


def test_what_is_not_smooth_is_refused_with_its_error():
    with pytest.raises(ckks.ParameterError) as info:
        ckks.approximate(np.abs, (-1, 1), precision=20)
    assert "Degree 1023 leaves an error of 0.000977" in str(info.value)
    assert "20 bits were asked for" in str(info.value)
    with pytest.raises(ckks.ParameterError, match="not finite"), np.errstate(divide="ignore"):
        ckks.approximate(np.log, (0, 1), precision=4)
    with pytest.raises(ckks.ParameterError, match="Both precision"):
        ckks.approximate(np.exp, precision=4, degree=3)


@pytest.mark.parametrize("degree", [3, 7, 15, 31])
@pytest.mark.parametrize("low", [0.001, 0.1, 0.5])
def test_the_minimax_error_alternates(degree, low):
    p = odd_minimax(degree, low, 1.0)
    x = np.concatenate([np.geomspace(low, 1, 20001), np.linspace(low, 1, 20001)])
    x.sort()
    e = np.polynomial.chebyshev.chebval(x, p.coefficients) - 1
    assert np.abs(e).max() <= p.error * 1.001 + 1e-12
    if p.error < 1e-11:
        return
    near = e[np.abs(e) > 0.99 * p.error]
    assert np.count_nonzero(np.diff(np.sign(near))) == (degree + 1) // 2  # terms + 1 points


@pytest.mark.parametrize("bits", [4, 8, 12])
def test_compositions_reach_the_sign(bits):
    polynomials = sign_polynomials(2.0**-bits, bits)
    x = np.geomspace(2.0**-bits, 1, 10001)
    for p in polynomials:
        x = np.polynomial.chebyshev.chebval(x / p.high, p.coefficients)
    assert np.abs(x - 1).max() <= 2.0**-bits
    depth = sum((len(p.coefficients) - 1).bit_length() for p in polynomials)
    assert depth == {4: 6, 8: 12, 12: 17}[bits]
    cost = sum(RELINEARIZATIONS[len(p.coefficients) - 1] for p in polynomials)
    assert cost == {4: 8, 8: 16, 12: 26}[bits]


def extremes(p: OddMinimax) -> tuple[float, float]:
    """The least and the largest value on the interval: at the ends, or where the slope is zero."""
    c = np.array(p.coefficients)
    roots = np.polynomial.chebyshev.chebroots(np.polynomial.chebyshev.chebder(c))
    u = roots[np.abs(roots.imag) < 1e-9].real
    u = np.concatenate([[p.low / p.high, 1.0], u[(u >= p.low / p.high) & (u <= 1)]])
    values = np.polynomial.chebyshev.chebval(u, c)
    return float(values.min()), float(values.max())


@pytest.mark.parametrize("bits", [3, 8, 12, 16, 20])
@pytest.mark.parametrize("gap", [0.5, 0.1, 2.0**-8, 2.0**-12, 2.0**-14, 2.0**-16, 2.0**-20])
def test_no_polynomial_leaves_the_interval_of_the_next(gap, bits):
    """Not in a dip between two points of a grid either: there the sign would be any number."""
    polynomials = sign_polynomials(gap, bits)
    assert polynomials[0].low == gap and polynomials[-1].error <= 2.0**-bits
    for p, following in zip(polynomials, (*polynomials[1:], None), strict=True):
        least, most = extremes(p)
        assert max(most - 1, 1 - least) <= p.error * (1 + 1e-9) + 1e-13
        if following is not None:
            assert 0 < following.low < least and most < following.high


@pytest.mark.parametrize("gap", [2.0**-16, 0.001, 2 / 129, 0.1, 0.4, 0.9, 1 - 1e-9])
def test_a_higher_degree_is_no_further(gap):
    """Also where what is left is what float64 rounds, or where the exchange found none once."""
    before = odd_minimax(15, gap, 1.0).error
    for degree in (31, 63, 95, 127):
        p = odd_minimax(degree, gap, 1.0)
        assert len(p.coefficients) == degree + 1 and p.error <= before + 1e-10
        least, most = extremes(p)
        assert max(most - 1, 1 - least) <= p.error + 1e-10
        before = p.error


def test_a_gap_too_small_for_floats_is_refused():
    with pytest.raises(ckks.ParameterError, match="Pass a larger gap"):
        sign_polynomials(2.0**-60, 8)


# Numbers at which the second polynomial once got less than it is made for.
DIPS = [
    ("sign", 1, 10, 2.0**-16, 0.7594453834), ("sign", 1, 12, 2.0**-14, 0.6129458),
    ("sign", 1000, 12, 1 / 16, 954.2257), ("relu", 1000, 12, 1 / 16, 956.0821),
    ("abs", 1, 8, 2.0**-12, 0.9840498), ("greater_equal", 10000, 8, 1, 9542.0),
    ("equal", 16000, 8, 1, 15267.0), ("relu", 1, 16, None, 0.6720743),
]  # fmt: skip


@pytest.mark.parametrize(("name", "largest", "precision", "gap", "at"), DIPS)
def test_dips_of_steep_polynomials_keep_to_the_estimate(name, largest, precision, gap, at):
    ctx = ckks.context(depth=24, n=256, security=None)
    values = at * np.linspace(1 - 1e-6, 1 + 1e-6, ctx.slots)
    x = ctx.encrypt(values, bound=float(largest))
    over = (0.0,) if name in ("greater_equal", "equal") else ()
    interval = (0, largest) if over else (-largest, largest)
    z = getattr(ckks.math, name)(x, *over, interval=interval, gap=gap, precision=precision)
    want = {"sign": 1, "greater_equal": 1, "equal": 0}.get(name, values)
    error = np.abs(z.decrypt() - want).max()
    assert error <= z.estimate.error_bound <= 2 * 2.0**-precision * max(largest, 2)


@pytest.mark.parametrize("degree", [3, 7, 15, 31])
def test_costs_of_odd_polynomials_are_those_of_their_schedules(degree):
    c = tuple(complex(v) for v in odd_minimax(degree, 0.1, 1.0).coefficients)
    assert schedule(c, Basis(True)).relinearizations == RELINEARIZATIONS[degree]


def test_goldschmidt_leaves_the_least_residual():
    a, b = 0.03, 1.0
    for count in range(1, 7):
        made = goldschmidt((a, b), 0.0, count)
        u0 = (b + a) / (b - a)
        assert made.residual == pytest.approx(1 / np.cosh(2**count * np.arccosh(u0)), rel=1e-9)
        assert (made.depth, made.products) == (count, 2 * (count - 1))


def test_functions_of_numbers_alone_and_constants():
    by_number = ckks.approximate(math.exp, (-1, 1), degree=9)
    assert by_number == ckks.approximate(np.exp, (-1, 1), degree=9)
    stepped = ckks.approximate(lambda v: 1.0 if v > 0 else -1.0, (0.5, 1), degree=2)
    assert stepped.error < 1e-12 and stepped.degree == 0
    assert ckks.approximate(lambda v: 3, (-1, 1), degree=4).degree == 0


def test_functions_that_give_something_else():
    for f in (lambda v: v[:-1], lambda v: v.astype(str), lambda v: np.log(v)):
        with pytest.raises(ckks.ParameterError):
            ckks.approximate(f, (-1, 1), degree=3)


def test_degrees_of_numpy():
    assert ckks.approximate(np.exp, degree=np.int64(3)) == ckks.approximate(np.exp, degree=3)
    for degree in (-1, 2.5, 1 << 12, "3"):
        with pytest.raises(ckks.ParameterError, match="0 to 4095"):
            ckks.approximate(np.exp, degree=degree)
