"""Operators of ciphertexts against NumPy; levels, alignment, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import ren
from ren.schemes import ckks

BAR = 2.0**-22


@pytest.fixture(scope="module")
def data(ctx):
    rng = np.random.default_rng(7)
    a, b = rng.uniform(-1, 1, (2, ctx.slots))
    return a, b, ctx.encrypt(a), ctx.encrypt(b)


def check(x, want, level=None, bar=BAR):
    got = x.decrypt()
    assert got.shape == np.shape(want) and got.dtype == np.asarray(want).dtype
    assert np.abs(got - want).max() < bar
    if level is not None:
        assert x.level == level


def test_sums(data):
    a, b, x, y = data
    check(x + y, a + b, 3)
    check(x - y, a - b, 3)
    check(-x, -a, 3)
    check(+x, a, 3)
    check(x + b, a + b, 3)
    check(b + x, a + b, 3)
    check(x - b, a - b, 3)
    check(b - x, b - a, 3)
    check(x - list(b), a - b, 3)
    check(sum([x, y, x]), 2 * a + b, 3)


def test_products(data):
    a, b, x, y = data
    check(x * y, a * b, 2)
    check(x * b, a * b, 2)
    check(b * x, a * b, 2)
    check(x * y * x, a * b * a, 1)
    check((x * y) * (x * y), (a * b) ** 2, 1)


@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
@pytest.mark.parametrize("value", [2, -3, True, np.int64(5), np.uint8(2), np.array(4), 0, 10**6])
def test_integers_keep_the_level(data, value):
    a, _, x, _ = data
    check(x * value, a * int(value), 3, BAR * max(1, abs(int(value))))
    check(value * x, a * int(value), 3, BAR * max(1, abs(int(value))))
    check(x + value, a + int(value), 3)
    check(value - x, int(value) - a, 3)


@pytest.mark.parametrize(
    "value", [0.5, -1.25, 1e-3, np.float32(0.3), np.float64(-2.0), Fraction(1, 3)]
)
def test_real_scalars(data, value):
    a, _, x, _ = data
    check(x * value, a * float(value), 2)
    check(value * x, a * float(value), 2)
    check(x + value, a + float(value), 3)
    check(value - x, float(value) - a, 3)


@pytest.mark.parametrize("value", [1j, 0.5 - 2j, np.complex128(1 + 1j), complex(0.25)])
def test_complex_scalars(data, value):
    a, _, x, _ = data
    check(x * value, a * value, 2)
    check(value + x, a + value, 3)
    check(value - x, value - a, 3)


def test_complex_vectors(ctx):
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (2, ctx.slots)) + 1j * rng.uniform(-1, 1, (2, ctx.slots))
    x, y = ctx.encrypt(a), ctx.encrypt(b)
    check(x * y, a * b, 2)
    check(x + b.real, a + b.real, 3)
    check(x * x.conj(), a * a.conj(), 2)


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
@pytest.mark.parametrize("exponent", range(9))
def test_powers_take_the_least_depth(data, exponent):
    a, _, x, _ = data
    check(x**exponent, a**exponent, 3 - max(0, exponent - 1).bit_length())


@pytest.mark.parametrize("target", [0, 1, 2, 3])
def test_drop_to(ctx, data, target):
    a, _, x, _ = data
    y = x.drop_to(target)
    check(y, a, target)
    assert y.scale == ctx.params.scale(target)
    assert y.nbytes == 2 * 4 * ctx.params.n * ctx.params.ring(target).limbs


def test_levels_are_aligned(data):
    a, b, x, y = data
    check(x + (x * y).rescale(), a + a * b, 2)
    check(x * y - x, a * b - a, 2)
    check((x * y * y) * x, a * b * b * a, 0)
    check(x**4 + x**2 + x + 1, a**4 + a**2 + a + 1, 1)


def test_plaintexts_at_every_level(ctx, data):
    a, b, x, _ = data
    for level in range(4):
        p = ctx.encode(b, level=level)
        check(x + p, a + b, level)
        check(p - x.drop_to(1), b - a, min(1, level))
        if level:
            check(x * p, a * b, level - 1)


def test_lengths_broadcast_and_nothing_pads(ctx):
    x, y = ctx.encrypt([1.0, 2.0, 3.0]), ctx.encrypt([10.0, 20.0])
    for bad in (
        lambda: x + y,
        lambda: y * x,
        lambda: y + [1.0] * 4,
        lambda: x - ctx.encode([1, 2]),
    ):
        with pytest.raises(ckks.ParameterError, match="broadcast as in NumPy"):
            bad()
    check(x + ckks.pad(y, 3), np.array([11.0, 22.0, 3.0]))
    check(ckks.pad(y, 4) + [1.0] * 4, np.array([11.0, 21.0, 1.0, 1.0]))
    check(y + 1, np.array([11.0, 21.0]))
    check(y + np.array([1.0]), np.array([11.0, 21.0]))
    check(y + np.array([[1.0], [2.0]]), np.array([[11.0, 21.0], [12.0, 22.0]]))


def test_a_scalar_beside_an_array_that_fills_the_slots(ctx):
    a = np.linspace(-1, 1, ctx.slots)
    x = ctx.encrypt(0.5)
    for z, want in (
        (x + a, 0.5 + a),
        (a - x, a - 0.5),
        (x * a, 0.5 * a),
        (x - [a, -a], [0.5 - a, 0.5 + a]),
    ):
        assert z.shape == np.shape(want) and np.abs(z.decrypt() - want).max() < 1e-6
    jitted = ren.jit(lambda x, a: x * a)
    for values in (a, -a):
        z = jitted(x, values)
        assert z.shape == a.shape and np.abs(z.decrypt() - 0.5 * values).max() < 1e-6


def test_a_scalar_fills_all_slots(ctx):
    x = ctx.encrypt(0.75)
    check(x, np.float64(0.75))
    check(x * ctx.encrypt([1.0, 2.0]), np.array([0.75, 1.5]))
    check(ctx.encrypt(2j), np.complex128(2j))


def test_normal_form_operations_are_identities(data):
    _, _, x, _ = data
    assert x.rescale() is x and x.relinearize() is x and x.drop_to(3) is x


def test_exhausted_depth_says_what_to_do(data):
    _, b, x, y = data
    low = x.drop_to(0)
    for product in (lambda: low * y, lambda: low * b, lambda: low * 0.5, lambda: low**2):
        with pytest.raises(ckks.DepthError) as info:
            product()
        message = str(info.value)
        assert "takes 1 level" in message and "at level 0 of 3" in message
        assert "ckks.context(depth=4)" in message and "fewer multiplications" in message
    with pytest.raises(ckks.DepthError, match="The power 16 takes 4 levels"):
        x**16
    with pytest.raises(ckks.DepthError, match="levels only go down"):
        low.drop_to(1)


def test_what_has_no_meaning_is_refused(ctx, data):
    _, _, x, _ = data
    with pytest.raises(TypeError, match="power -1"):
        x**-1
    with pytest.raises(TypeError, match=r"power 0\.5"):
        x**0.5
    with pytest.raises(TypeError):
        x + "one"
    with pytest.raises(TypeError):
        x / x
    with pytest.raises(ckks.ParameterError, match=r"and \(513,\)"):
        x + np.ones(513)
    with pytest.raises(ckks.ParameterError, match="finite"):
        x * np.array([np.nan])


def test_two_contexts_do_not_mix(small_params, data):
    _, _, x, _ = data
    other = ckks.context(params=small_params)
    y = other.encrypt([1.0])
    for mixed in (lambda: x + y, lambda: x - y, lambda: x * y):
        with pytest.raises(ckks.ContextError, match="two contexts"):
            mixed()


def test_numbers_that_do_not_fit(ctx):
    with pytest.raises(ckks.ParameterError, match="wrap around"):
        ctx.encrypt([1e20], level=0)
    with pytest.warns(ckks.MessageBoundWarning, match="integer_bits") as told:
        x = ctx.encrypt([1500.0], level=0)
        ctx.encode([1500.0], level=0)
        x.decrypt()
        ctx.encrypt([1000.0], level=0) * 3
    assert {w.filename for w in told} == {__file__}
    assert len(told) == 4
    y = ctx.encrypt([600.0]) * [600.0]  # level 2 holds it
    assert np.abs(y.decrypt() - 360_000) < 2**-10
    with pytest.raises(ckks.MessageBoundError, match="wrap around"):
        ctx.encrypt([1.0], level=0) + 1e6  # surely
    with pytest.raises(ckks.ParameterError, match="real or complex numbers"):
        ctx.encrypt(["a"])
    with pytest.raises(ckks.ParameterError, match="at least one"):
        ctx.encrypt([])


def test_numbers_of_other_kinds(ctx):
    check(ctx.encrypt([Fraction(1, 4), Fraction(1, 2)]), np.array([0.25, 0.5]))


def test_plaintexts_of_other_parameters(small_params, data):
    _, _, x, _ = data
    p = ckks.context(params=small_params, slots=4).encode([1.0])
    with pytest.raises(ckks.ParameterError, match="other parameters: n=1024, 4 slots"):
        x + p
