"""Numbers, arrays and lengths as inputs of captured programs on ciphertexts."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren.core.errors import CoefficientTypeError, ParameterError, TracedValueError
from ren.schemes import ckks

rng = np.random.default_rng(4)


@pytest.fixture(scope="module")
def ctx():
    return ckks.context(depth=2, n=2**13)


@pytest.fixture(scope="module")
def x(ctx):
    return ctx.encrypt(rng.uniform(-1, 1, 100)).realize()


def same(a: ckks.Ciphertext, b: ckks.Ciphertext) -> bool:
    """Bit for bit: nothing here is random."""
    alike = (a.level, a.layout) == (b.level, b.layout)
    return alike and all(ren.equal(p, q) for p, q in zip(a.polys, b.polys, strict=True))


OPERATIONS = {
    "product": lambda x, v: x * v,
    "reflected product": lambda x, v: v * x,
    "sum": lambda x, v: x + v,
    "difference": lambda x, v: x - v,
    "reflected difference": lambda x, v: v - x,
    "after a product": lambda x, v: x * x + v,
    "computed with": lambda x, v: x * (v - 0.25) + (2 * v + 1),
}
VALUES = {
    "int": (3, -5),
    "float": (0.5, -1e-3),
    "zero": (0.0, 1.0),
    "complex": (0.5 + 2j, -1j),
    "numpy scalar": (np.float32(0.25), np.float32(3)),
    "numpy integer": (np.int16(3), np.int16(-2)),
    "0-d array": (np.array(0.5), np.array(0.75)),
    "jax scalar": (jnp.float32(0.5), jnp.float32(2)),
    "jax integer": (jnp.int32(3), jnp.int32(-2)),
    "array": tuple(rng.uniform(-1, 1, (2, 100))),
    "array of one": tuple(rng.uniform(-1, 1, (2, 1)).astype(np.float32)),
    "column": tuple(rng.uniform(-1, 1, (2, 3, 1))),
    "integer array": (np.arange(100), np.arange(5, 105)),
    "complex array": tuple(rng.uniform(-1, 1, (2, 100)) + 1j),
    "jax array": (jnp.arange(100.0), jnp.ones(100)),
}


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
@pytest.mark.parametrize("kind", VALUES)
def test_a_replay_is_a_fresh_run(x, kind):
    for name, operation in OPERATIONS.items():
        f = ren.jit(operation)
        for v in VALUES[kind]:
            with jax.numpy_dtype_promotion("standard"):  # of a jax integer minus 0.25
                assert same(f(x, v), operation(x, v)), name
        assert f.cache_info()[:3] == (1, 1, 1)


def test_lists_and_rows(x):
    f = ren.jit(lambda x, rows, bias: [x * row + b for row, b in zip(rows, bias, strict=True)])
    for _ in range(2):
        rows, bias = rng.uniform(-1, 1, (2, 100)), [0.5, 2.0]
        for got, row, b in zip(f(x, rows, bias), rows, bias, strict=True):
            assert same(got, x * row + b)
    g = ren.jit(lambda x, values: x[:2] * values)
    for values in ([1.0, 2.0], [3.0, 0.5]):
        assert same(g(x, values), x[:2] * values)
    assert g.cache_info()[:2] == (1, 1)


def test_a_plaintext_of_an_argument(ctx, x):
    f = ren.jit(lambda x, w: x * ctx.encode(w) + ctx.encode(w, level=1))
    for w in rng.uniform(-1, 1, (2, 100)):
        assert same(f(x, w), x * ctx.encode(w) + ctx.encode(w, level=1))


def test_what_an_argument_is_encrypted_to(ctx, x):
    f = ren.jit(lambda x, w: x + ctx.encrypt(w))
    for w in rng.uniform(-1, 1, (2, 100)):
        np.testing.assert_allclose(f(x, w).decrypt(), (x + w).decrypt(), atol=1e-6)


def test_large_values_run_as_they_would_without_jit(ctx, x):
    f = ren.jit(lambda x, w: x * w)
    f(x, np.ones(100))
    w = np.full(100, 3000.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same(f(x, w), x * w)
    with pytest.raises(ParameterError, match="wrap around"):
        f(x, np.full(100, 1e300))
    with pytest.raises(ParameterError, match="Only finite"):
        f(x, np.full(100, np.nan))
    assert same(f(x, np.full(100, 0.5)), x * np.full(100, 0.5))


@pytest.mark.parametrize(
    ("operation", "beyond", "within"),
    [
        (lambda x, c: x * c, 10**400, 3),
        (lambda x, c: c * x, -(10**60), -2),
        (lambda x, c: x * c, 1e300, 0.5),
        (lambda x, c: x / c, 1e-300, 2.0),
        (lambda x, c: x + c, 1e300, 0.25),
        (lambda x, c: c - x, 10**400, 1),
    ],
)
def test_numbers_that_wrap_around_raise_at_each_call_as_without_jit(x, operation, beyond, within):
    f = ren.jit(operation)
    for _ in range(2):
        with pytest.raises(ckks.MessageBoundError) as eager:
            operation(x, beyond)
        with pytest.raises(ckks.MessageBoundError) as told:
            f(x, beyond)
        assert str(told.value) == str(eager.value)
        assert same(f(x, within), operation(x, within))
    assert f.cache_info().misses == 1


def test_what_is_wrong_is_told_at_the_capture(x):
    with pytest.raises(ParameterError, match=r"shapes \(100,\) and \(5000,\)"):
        ren.jit(lambda x, w: x * w)(x, np.ones(5000))
    with pytest.raises(TracedValueError, match="static_argnames='k'"):
        ren.jit(lambda x, k: x.rotate(k))(x, 3)
    with pytest.raises(TracedValueError, match="static_argnames='k'"):
        ren.jit(lambda x, k: x**k)(x, 3)
    with pytest.raises(CoefficientTypeError, match="'k'"):
        ren.jit(lambda x, k: x.polys[0] * k)(x, 0.5)


def test_lengths_are_no_part_of_the_key(ctx):
    f = ren.jit(lambda x, y: (x * y + y, x - 1))
    for n in (10, 30, 7):
        x, y = (ctx.encrypt(v) for v in rng.uniform(-1, 1, (2, n)))
        for got, want in zip(f(x, y), (x * y + y, x - 1), strict=True):
            assert same(got, want)
        assert len(f(x, y)[0].decrypt()) == n
    assert f.cache_info().plans == 1
    with pytest.raises(ParameterError, match=r"shapes \(7,\) and \(9,\)"):
        f(x, ctx.encrypt(np.ones(9)))
    one = ctx.encrypt([0.5])
    assert same(f(x, one)[0], x * one + one)  # keyed by lengths from here on
    assert same(f(x, y)[0], x * y + y)
    x, y = ctx.encrypt(0.5), ctx.encrypt(rng.uniform(-1, 1, 9))
    assert f(x, y)[1].decrypt().shape == ()
    assert f(x, y)[0].decrypt().shape == (9,)


@pytest.mark.usefixtures("interpreted")
def test_lengths_from_one_to_every_slot_share_a_plan(ctx):
    f = ren.jit(lambda x: x * x.conj() + 0.5 * x - 1)
    for n in (1, 2, 3, 100, ctx.slots - 1, ctx.slots):
        values = rng.uniform(-1, 1, n)
        got = f(ctx.encrypt(values)).decrypt()
        np.testing.assert_allclose(got, values**2 + values / 2 - 1, atol=1e-6)
    assert f.cache_info()[:3] == (5, 1, 1)


def test_a_function_that_needs_lengths_is_captured_for_each(ctx):
    f = ren.jit(lambda x: x.roll(2) + 1)
    for n in (10, 20, 10):
        x = ctx.encrypt(rng.uniform(-1, 1, n))
        assert same(f(x), x.roll(2) + 1)
    assert f.cache_info()[:3] == (1, 2, 2)


def test_plaintexts_as_arguments(ctx, x):
    f = ren.jit(lambda x, p: x * p)
    for _ in range(2):
        p = ctx.encode(rng.uniform(-1, 1, 100))
        assert same(f(x, p), x * p)
    assert f.cache_info()[:2] == (1, 1)


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")  # the first rate is 0
def test_one_plan_serves_a_loop(ctx):
    step = ren.jit(lambda w, x, rate: w - x * rate)
    x = ctx.encrypt(rng.uniform(-1, 1, 10)).drop_to(1).realize()
    w = ctx.encrypt(np.zeros(10)).drop_to(0).realize()
    expected = np.zeros(10)
    plain = x.decrypt()
    for i in range(5):
        w = step(w, x, 0.1 * i)
        expected = expected - plain * (0.1 * i)
    assert step.cache_info()[:3] == (4, 1, 1)
    np.testing.assert_allclose(w.decrypt(), expected, atol=1e-6)


@pytest.mark.parametrize("ask", [bool, lambda x: not ~x.within(-0.25, 1.25), lambda x: x and 1])
def test_no_branch_depends_on_encrypted_numbers(x, ask):
    for run in (ask, ren.jit(lambda x: x + 1 if ask(x) else x)):
        with pytest.raises(TracedValueError, match=r"(?s)test_symbolic.py.*ckks\.where"):
            run(x)


def test_a_sum_of_many_terms_has_one_length():
    """Each of 400 sums compares the lengths of both arguments; no length reads another."""
    small = ckks.context(params=ckks.Parameters.for_depth(1, n=1 << 8, security=None))
    x, y = small.encrypt([1.0, 2.0]), small.encrypt([3.0, 4.0])

    def f(x: ckks.Ciphertext, y: ckks.Ciphertext) -> ckks.Ciphertext:
        total = x
        for _ in range(200):
            total = total + y + x * 1
        return total

    jitted = ren.jit(f)
    assert np.abs(jitted(x, y).decrypt() - [801.0, 1202.0]).max() < 1e-3
    longer = small.encrypt([1.0, 2.0, 3.0]), small.encrypt([1.0, 1.0, 1.0])
    assert np.abs(jitted(*longer).decrypt() - [401.0, 602.0, 803.0]).max() < 1e-3
    assert jitted.cache_info().plans == 1
    with pytest.raises(ParameterError, match="shapes"):
        jitted(longer[0], y)
