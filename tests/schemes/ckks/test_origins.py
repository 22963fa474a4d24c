"""Products with numbers and maps in a row: one level, rotations of one map, nothing made unread."""

from __future__ import annotations

import gc
import weakref

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ren
from ren.schemes import ckks

BAR = 2.0**-20
ROW, COLUMN = np.linspace(-1, 2, 8), np.linspace(0, 1, 8)[:, None]


@pytest.fixture(scope="module")
def deep():
    return ckks.context(depth=5, n=2**9, security=None)


@pytest.fixture(scope="module")
def table(deep):
    values = np.random.default_rng(5).uniform(-1, 1, (8, 8))
    return values, deep.encrypt(values)


CHAINS = {
    "two factors": (lambda x: x * 0.5 * 0.25, 1),
    "a quotient and a sign": (lambda x: -(x / 3) * 0.75, 1),
    "an integer between them": (lambda x: x * 0.3 * -7 / 5, 1),
    "complex factors": (lambda x: x * 0.5j * (1 - 0.5j), 1),
    "two arrays": (lambda x: x * ROW * COLUMN, 1),
    "an array and numbers": (lambda x: 3 * -(x * ROW) * 0.25 / 7, 1),
    "a mask and a number": (lambda x: x * (ROW > 0) * 0.5, 1),
    "a mean": (lambda x: x.mean() * 0.5, 1),
    "a sum between them": (lambda x: (x * 0.5 + x) * 0.5, 2),
    "below 1": (lambda x: x * 1e-4 * 1e-4 * 1e7, 1),
    "below what the scale holds": (lambda x: x * 1e-6 * 1e-6, 2),
    "means of rows and a number": (lambda x: x.mean(axis=1) * 0.5, 2),
    "distances to means of rows": (lambda x: x - x.mean(axis=1, keepdims=True), 1),
    "variances of columns": (lambda x: x.var(axis=0), 2),
    "variances of rows": (lambda x: x.var(axis=1), 3),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_levels_are_those_of_one_product_eager_jitted_and_planned(deep, table, chain):
    (function, levels), (values, x) = CHAINS[chain], table
    eager, jitted = function(x), ren.jit(function)(x)
    assert x.level - eager.level == x.level - jitted.level == levels
    for result in (eager, jitted):
        error = np.abs(result.decrypt() - function(values)).max()
        assert error < BAR and error <= result.estimate.error_bound
    assert ckks.plan(function, ckks.spec((8, 8))).depth == levels


def test_factors_that_a_call_gives_are_multiplied_at_the_call(table):
    values, x = table
    scaled = ren.jit(lambda x, a, b: x * a * b)
    for a, b in ((0.5, 0.25), (-0.1, 3.5), (2.0, 1e-3)):
        y = scaled(x, a, b)
        assert x.level - y.level == 1 and np.abs(y.decrypt() - values * a * b).max() < BAR


NUMBERS = {
    "a mean along an axis": lambda x, k: x.mean(axis=1) * k,
    "sums of rows": lambda x, k: x - k * x.sum(axis=1, keepdims=True),
    "a number between others": lambda x, k: x * 0.5 * k * 0.25,
    "a number twice": lambda x, k: x * k * k,
}


@pytest.mark.parametrize("k", [0.3, 3, 2000.5, 1e-4])
@pytest.mark.parametrize("name", NUMBERS)
def test_levels_are_those_of_numbers_that_are_known_or_not(table, name, k):
    _, x = table
    f = NUMBERS[name]
    levels = {f(x, k).level, ren.jit(f)(x, k).level, jax.jit(f)(x, k).level}
    assert len(levels) == 1
    assert x.level - levels.pop() == ckks.plan(f, ckks.spec((8, 8)), k).depth


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
def test_zeros_take_the_levels_of_other_factors(table):
    _, x = table
    assert {(x * 0.5 * zero).level for zero in (0.0, np.zeros(8))} == {x.level - 1}
    assert ckks.plan(lambda x: x * 0.5 * 0, ckks.spec((8, 8))).depth == 1


def test_products_of_maps_are_debugged(deep):
    values = np.arange(30.0) / 30
    ckks.debug(lambda x: x.sum(axis=0) * 0.5, deep.encrypt(values.reshape(6, 5)))
    ckks.debug(lambda x: np.roll(x, 2) * 0.5, deep.encrypt(values))


def test_arrays_of_no_numbers_are_refused_after_a_factor_too(table):
    _, x = table
    for values in (np.array(["a"] * 8), np.array([object()] * 8)):
        with pytest.raises(ckks.ParameterError):
            x * 0.5 * values


def test_a_bound_beyond_what_is_tracked_is_unknown(table):
    _, x = table
    with pytest.warns(ckks.MessageBoundWarning):
        assert not np.isfinite((x * 0.5 * 2**64).estimate.message_bound)


def test_factors_that_jax_traces_take_one_level_too(deep):
    vectors = np.random.default_rng(6).uniform(-1, 1, (3, 8))
    x = ckks.stack([deep.encrypt(v) for v in vectors])
    a, want = np.arange(3.0), vectors * np.arange(3.0)[:, None] * 0.5 * ROW
    for function in (
        jax.vmap(lambda x, a: x * a * 0.5 * ROW),
        jax.jit(jax.vmap(lambda x, a: ROW * (x * 0.5 * a))),
    ):
        y = function(x, a)
        assert x.level - y.level == 1 and np.abs(y.decrypt() - want).max() < BAR


def test_an_array_is_that_of_the_product_also_where_it_changes(deep):
    values, weights = np.linspace(-1, 1, 9), np.linspace(1, 2, 9)
    want, y = values * weights / 2, deep.encrypt(values) * weights
    weights[:] = 0
    assert np.abs((y * 0.5).decrypt() - want).max() < BAR
    assert np.abs((y[:4] * 0.5).decrypt() - want[:4]).max() < BAR
    assert np.abs((y[2:6] * np.ones(4)).decrypt() - 2 * want[2:6]).max() < BAR


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int64, np.float16, np.float32, np.bool])
def test_factors_of_few_bits_do_not_wrap_or_round(deep, kind):
    values, weights = np.linspace(-1, 1, 5) / 2**14, np.array([1, 100, 97, 3, -128]).astype(kind)
    x, wide = deep.encrypt(values), weights.astype(float)
    product = ren.jit(lambda x, w: x * w * w)
    for y in (x * weights * weights, -(x * weights) * weights * -1, product(x, weights)):
        assert np.abs(y.decrypt() - values * wide * wide).max() <= y.estimate.error_bound < 2.0**-12
    assert np.abs((x * weights * 0.1).decrypt() - values * wide * 0.1).max() < 2.0**-24


def test_a_bound_that_was_stated_between_two_factors_holds(table):
    _, x = table
    assert (x * 0.5).within(0.25).estimate.message_bound == 0.25
    assert ((x * 0.5).within(0.25) * 0.5).estimate.message_bound == 0.125


def test_manual_mode_multiplies_what_was_given(table):
    _, x = table
    half = x * 0.5
    with ckks.manual():
        y = half * 0.5
    assert y.scale > half.scale and y.level == half.level


def test_only_what_is_read_asks_for_keys():
    distances = ckks.plan(lambda t: t - t.mean(axis=1, keepdims=True), ckks.spec((32, 32)))
    both = ckks.plan(
        lambda t: (t.mean(axis=1), t - t.mean(axis=1, keepdims=True)), ckks.spec((32, 32))
    )
    assert len(distances.rotations) == 10 < len(both.rotations)


def test_a_recorded_result_reads_as_any_other(table):
    values, x = table
    sums = x.sum(axis=1)
    assert sums.shape == (8,) and len(sums) == 8 and sums.dtype == float and sums.level == 4
    assert (
        "level 4 of 5" in repr(sums) and sums.estimate.message_bound >= np.abs(values).sum(1).max()
    )
    sums = x.sum(axis=1)
    again = ckks.Ciphertext.from_bytes(sums.to_bytes())
    assert np.abs(again.decrypt() - values.sum(1)).max() < BAR


def test_the_source_is_freed_with_the_last_that_starts_from_it(deep):
    x = deep.encrypt(np.ones(8))
    seen, y = weakref.ref(x.polys[1]), x * 0.5
    y.decrypt()
    z = y + 1
    z.decrypt()
    del x, y
    gc.collect()
    assert seen() is None and z.level == 4


def test_what_was_read_is_there_where_its_source_was_donated(deep):
    x = deep.encrypt(np.ones((8, 8)))
    y = x * 0.5
    want = y.decrypt()
    ren.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert np.abs((y * 0.25).decrypt() - want / 4).max() < BAR


STEPS = {
    "times": lambda x, k: x * (0.25 + 0.125 * k),
    "integer": lambda x, k: x * (2 * k - 5),
    "sign": lambda x, k: -x,
    "rows": lambda x, k: x.sum(axis=1, keepdims=True) / 8 + x,
    "columns": lambda x, k: x.mean(axis=0, keepdims=True) - x,
    "spread": lambda x, k: x.mean(axis=k % 2, keepdims=True) * np.ones((8, 8)),
    "array": lambda x, k: x * ROW * COLUMN * (k + 1),
    "square": lambda x, k: x * x,
    "number": lambda x, k: x + 0.5 * k,
    "half": lambda x, k: 0.5 * x.sum(axis=k % 2, keepdims=True) * 0.25 + x,
}


@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 5)), max_size=5))
@settings(max_examples=15, deadline=None)
def test_programs_are_those_of_numpy_whether_they_are_read_or_not(wide, steps):
    values, x = wide
    want, read, unread = values, x, x
    for name, k in steps:
        want = STEPS[name](want, k)
        if np.abs(want).max() > 100:
            return
        unread, read = (STEPS[name](y, k) for y in (unread, read))
        read.decrypt()
    assert read.level == unread.level
    for y in (read, unread):
        error = np.abs(y.decrypt() - want).max()
        assert error < BAR * max(1, np.abs(want).max()) ** 2
        assert error <= y.estimate.error_bound and np.abs(want).max() <= y.estimate.message_bound


@pytest.fixture(scope="module")
def wide():
    values = np.random.default_rng(5).uniform(-1, 1, (8, 8))
    ctx = ckks.context(depth=12, n=2**9, security=None, integer_bits=12)
    return values, ctx.encrypt(values)
