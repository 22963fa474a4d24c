"""A polynomial for each number: one evaluation, against numpy.polynomial."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from numpy.polynomial.chebyshev import chebval
from numpy.polynomial.polynomial import polyval

import ren
from ren.schemes import ckks
from ren.schemes.ckks.functions import paterson_stockmeyer
from ren.schemes.ckks.functions.basis import Basis
from ren.schemes.ckks.functions.paterson_stockmeyer import largest, schedule

CLEAR = {ckks.poly: polyval, ckks.chebyshev: chebval}
BOTH = pytest.mark.parametrize("f", CLEAR, ids=["power", "chebyshev"])


@pytest.fixture(scope="module")
def ctx6() -> ckks.Context:
    """n = 2^8, depth 6; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(6, n=1 << 8, security=None))


def want(f, values: np.ndarray, c: np.ndarray) -> np.ndarray:
    for_each = np.broadcast_to(c, (*values.shape, c.shape[-1]))
    return CLEAR[f](values, np.moveaxis(for_each, -1, 0), tensor=False)


def check(z: ckks.Ciphertext, clear: np.ndarray, bar: float = 2.0**-18) -> None:
    got = z.decrypt()
    assert got.shape == clear.shape and got.dtype == clear.dtype and z.own_scale is None
    assert np.abs(got - clear).max() <= z.estimate.error_bound < bar


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([*shape, seed]).uniform(-1, 1, shape)


@BOTH
@pytest.mark.parametrize("degree", [1, 2, 5, 11])
def test_each_number_has_a_polynomial(ctx6, f, degree):
    values, c = drawn(20), drawn(20, degree + 1)
    z = f(ctx6.encrypt(values, bound=1.0), c)
    assert z.level == 6 - degree.bit_length()
    check(z, want(f, values, c))


@BOTH
@pytest.mark.parametrize("pack", ["flat", "rows", "columns"])
@pytest.mark.parametrize("shape", [(3, 8), (8,), (3, 1), (1, 8), (1, 1)])
def test_the_shape_of_coefficients_broadcasts_to_that_of_the_numbers(ctx6, f, pack, shape):
    values, c = drawn(3, 8), drawn(*shape, 4)
    check(f(ctx6.encrypt(values, pack=pack, bound=1.0), c), want(f, values, c))


def test_blocks_numbers_and_batches_of_numbers(ctx6):
    count = ctx6.slots + 100
    values, c = drawn(count), drawn(count, 4)
    check(ckks.poly(ctx6.encrypt(values, bound=1.0), c), want(ckks.poly, values, c))
    check(ckks.poly(ctx6.encrypt(0.5), c[:7]), want(ckks.poly, np.full(7, 0.5), c[:7]))
    numbers = ckks.stack([ctx6.encrypt(0.25), ctx6.encrypt(-0.5)])
    check(ckks.poly(numbers, c[:2]), want(ckks.poly, np.array([0.25, -0.5]), c[:2]))


def test_complex_and_whole_coefficients(ctx6):
    values, x = drawn(8), ctx6.encrypt(drawn(8), bound=1.0)
    mixed = drawn(8, 4) + 1j * drawn(8, 4, seed=1)
    check(ckks.poly(x, mixed), want(ckks.poly, values, mixed))
    whole = np.random.default_rng(2).integers(-3, 4, (8, 4)).astype(float)
    check(ckks.poly(x, whole), want(ckks.poly, values, whole))
    one = np.repeat([[0.5, 0.0, 2.0]], 8, axis=0)
    same, plain = ckks.poly(x, one), ckks.poly(x, one[0])
    assert same.level == plain.level == 5
    assert np.array_equal(same.noise, plain.noise)
    check(same, want(ckks.poly, values, one))


def test_slots_beyond_the_length_are_known(ctx6):
    """Where all polynomials agree in c_0, the value there is that number, and sums leave it out."""
    values, c = drawn(12), drawn(12, 4)
    c[:, 0] = 0.75
    x = ctx6.encrypt(np.r_[1.0, values, 1.0], bound=1.0)[1:13]
    for f in CLEAR:
        z = f(x, c)
        assert abs(z.sum().decrypt() - want(f, values, c).sum()) < 2.0**-18


@pytest.mark.long
def test_in_captured_mapped_and_traced_functions(ctx6):
    values, c = drawn(8), drawn(8, 4)
    x, clear = ctx6.encrypt(values, bound=1.0), want(ckks.chebyshev, values, c)

    def f(x: ckks.Ciphertext) -> ckks.Ciphertext:
        return ckks.chebyshev(x, c)

    jitted = ren.jit(f)
    for _ in range(2):
        check(jitted(x), clear)
    assert jitted.cache_info().hits == 1
    check(jax.vmap(f)(ckks.stack([x, x])), np.stack([clear, clear]))
    check(ckks.debug(f, x, tolerance=2.0**-20), clear)


@pytest.mark.long
def test_one_evaluation_takes_the_key_switches_of_one_polynomial(ctx6):
    x, c = ctx6.encrypt(drawn(8), bound=1.0), drawn(8, 8)

    def switches(coefficients: np.ndarray) -> int:
        jitted = ren.jit(lambda x: ckks.chebyshev(x, coefficients), tier="eager", prune=True)
        with ren.config.update(native=False):
            jitted(x)
        return jitted.plans[0].cost.limb_ntts

    assert switches(c) == switches(c[0])  # pruned: the arrays are encoded once


def test_a_plan_has_the_depth_of_the_degree():
    planned = ren.plan(lambda x: ckks.poly(x, drawn(8, 6)), ckks.spec(8, bound=1.0))
    assert planned.depth == 3


def test_bounds_hold_for_few_and_for_many_polynomials():
    rows = drawn(100, 12)
    few, many = (tuple(map(tuple, c.T.tolist())) for c in (rows[:50], rows))
    assert len(rows) > paterson_stockmeyer.MOST_ROWS >= 50
    t = np.cos(np.outer(np.arange(12), np.linspace(0, np.pi, 2001)))
    for c, most in ((few, 1.01), (many, 12.0)):
        plan = schedule(tuple(tuple(map(complex, v)) for v in c), Basis(True))
        found = np.abs(np.array(c).T @ t).max()
        assert found <= largest(plan.root, plan.basis) <= most * found


def test_other_shapes_are_refused(ctx6):
    x, c = ctx6.encrypt(drawn(8)), drawn(8, 4)
    with pytest.raises(ckks.ParameterError, match=r"np\.moveaxis\(c, 0, -1\)") as info:
        ckks.poly(x, c.T)
    assert "(4, 8)" in str(info.value) and "(8,), one vector" in str(info.value)
    with pytest.raises(ckks.ParameterError, match=r"array of shape \(8, 4\), or one"):
        ckks.chebyshev(x, c[:7])
    with pytest.raises(ckks.ParameterError, match=r"shape \(8, 0\)"):
        ckks.poly(x, c[:, :0])
    with pytest.raises(ckks.DepthError, match="degree 63 takes 6 levels"):
        ckks.poly(x.drop_to(5), drawn(8, 64))
