"""ckks.precision and ckks.debug."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import (
    ContextError,
    MissingKeyError,
    OperandError,
    ParameterError,
    PrecisionError,
    TracedValueError,
)
from ren.schemes import ckks


def test_precision(ctx):
    a = np.random.default_rng(0).uniform(-1, 1, (2, 40))
    z = ctx.encrypt(a) * a
    shifted = a * a
    shifted[1, 7] += 2.0**-6
    report = ckks.precision(z, shifted)
    assert report.worst_slot == (1, 7) and report.worst_bits == pytest.approx(6, abs=1e-3)
    assert report.median_bits > report.estimated_bits > 15
    assert report.rms_error == pytest.approx(2.0**-6 / np.sqrt(80), rel=1e-3)
    assert "slot 1, 7" in str(report) and ">worst</th>" in report._repr_html_()
    assert ckks.precision(z, a * a).worst_bits > report.estimated_bits
    with pytest.raises(ParameterError, match=r"\(3,\)"):
        ckks.precision(z, np.zeros(3))
    with ctx.server(), pytest.raises(MissingKeyError):
        ckks.precision(z, a * a)


def score(x, y):
    z = x * y + x.rotate(2) * 0.5 - ckks.pad(y.conj()[:2] * [0.25, 0.5], len(x))
    return (z - 1).roll(1) + 2 * (-x) ** 2


@pytest.mark.slow
def test_debug_gives_the_result(ctx):
    a, b = np.random.default_rng(1).uniform(-1, 1, (2, ctx.slots))
    made = ckks.debug(score, a, b, tolerance=2.0**-15, context=ctx)
    z = a * b + np.roll(a, -2) * 0.5
    z[:2] -= b[:2] * [0.25, 0.5]
    assert np.abs(made.decrypt() - (np.roll(z - 1, 1) + 2 * a**2)).max() < 2.0**-15
    with ctx:
        assert ckks.debug(lambda x, k: x.rotate(k), a, 3).level == 3
    assert ckks.debug(lambda x: x + 1, ctx.encrypt(a)).level == 3


def test_debug_runs_into_jitted_functions_and_closures(ctx):
    a = np.random.default_rng(2).uniform(-1, 1, 9)
    held, inner = ctx.encrypt(a), ren.jit(lambda x: x * x)
    f = ren.jit(lambda x: (inner(x) + held).realize().rescale().drop_to(1))
    assert ckks.debug(f, a, context=ctx).level == 1
    assert f.cache_info().misses == inner.cache_info().misses == 0


def test_errors_add_up_over_what_changes_no_value(ctx):
    ctx.rotation_keys([1, 2, 3])

    def f(x):
        for _ in range(12):
            x = (x + x.rotate(1)).within(1).realize() * 2
        return x

    x = ctx.encrypt(np.zeros(4))
    noise = np.abs(f(x).decrypt()).max()
    with pytest.raises(PrecisionError):  # no step alone adds half of it
        ckks.debug(f, np.zeros(4), tolerance=noise / 2, context=ctx)


def test_debug_stops_at_the_operation(ctx):
    a = np.ones(3)

    def f(x):
        y = (x * x).drop_to(0)
        y = y * 3_000_000  # beyond 2^integer_bits: it wraps around
        return y + 1

    with (
        pytest.warns(ckks.MessageBoundWarning),
        pytest.raises(PrecisionError, match="a product with an integer is off") as caught,
    ):
        ckks.debug(f, a, context=ctx)
    line = f.__code__.co_firstlineno + 2
    assert f"test_debugging.py:{line}: " in str(caught.value)
    assert "instead of 3e+06" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


def line_of(f, offset: int) -> str:
    return f"test_debugging.py:{f.__code__.co_firstlineno + offset}: "


@pytest.mark.slow
def test_debug_looks_into_circuits(ctx):
    draw = np.random.default_rng(3)
    a, m = draw.uniform(-1, 1, 8), draw.uniform(-1, 1, (4, 8))

    def f(x, factor):
        y = ckks.math.sigmoid(x, interval=(-1, 1), degree=3)
        y = (factor * m) @ y
        return y + 1

    made = ckks.debug(f, a, 1, tolerance=2.0**-15, context=ctx)
    assert np.abs(made.decrypt() - (m @ (1 / (1 + np.exp(-a))) + 1)).max() < 2.0**-6
    for offset, tolerance in ((1, 1e-11), (2, 1e-8)):
        with pytest.raises(PrecisionError) as caught:
            ckks.debug(f, a, 500, tolerance=tolerance, context=ctx)
        assert line_of(f, offset) in str(caught.value)


@pytest.mark.slow
def test_debug_by_hand(ctx):
    a, b = np.random.default_rng(5).uniform(-1, 1, (2, 40))
    factors = np.r_[0.5, 0.25, np.zeros(38)]
    halves = np.full(40, 0.5)  # a number would stand beyond the length too, where rotate() shows it

    def f(x, y, factor):
        with ckks.manual():
            z = (x * y + x * factors - halves).relinearize()
            z = -(z + b).rescale().rotate(1).drop_to(0)
            z = z * factor
        return z - 1

    u = a * b + a * factors - halves + b
    full = np.pad(u, (0, ctx.slots - 40))
    made = ckks.debug(f, a, b, 1, tolerance=2.0**-15, context=ctx)
    assert np.abs(made.decrypt() - (-np.roll(full, -1)[:40] - 1)).max() < 2.0**-15
    with (
        pytest.warns(ckks.MessageBoundWarning),
        pytest.raises(PrecisionError, match="a product with an integer is off") as caught,
    ):
        ckks.debug(f, a, b, 10**6, context=ctx)
    assert line_of(f, 4) in str(caught.value)


def test_debug_follows_stacks_and_other_keys(ctx):
    other = ckks.context(params=ctx.params)
    ctx.switching_key(other)

    def f(x, y):
        both = ckks.stack([x * y, x + y])
        low, high = ckks.unstack(both * 2)
        return ctx.switch_key(low - high, other) + 1

    a, b = np.random.default_rng(6).uniform(-1, 1, (2, 40))
    made = ckks.debug(f, a, b, tolerance=2.0**-15, context=ctx)
    assert np.abs(made.decrypt() - (2 * (a * b - a - b) + 1)).max() < 2.0**-15
    with pytest.raises(PrecisionError, match="a product is off"):
        ckks.debug(f, a, b, tolerance=1e-10, context=ctx)


def test_debug_with_a_tolerance_that_noise_passes(ctx):
    with pytest.raises(PrecisionError, match=r"a product .*in slot \d+ at level 2"):
        ckks.debug(lambda x: x * x, np.ones(500) * 0.7, tolerance=1e-10, context=ctx)


def test_what_debug_needs(ctx):
    with pytest.raises(ContextError, match="context=ctx"):
        ckks.debug(lambda x: x, [1.0])
    with ctx.server(), pytest.raises(MissingKeyError):
        ckks.debug(lambda x: x, [1.0])
    x = ctx.encrypt([1.0])
    with pytest.raises(TracedValueError, match="JAX transformation"):
        ckks.debug(lambda x: jax.jit(lambda x: x * x)(x), x)
    assert (x * x).level == 2  # nothing is left behind


class Frame:
    """A table of pandas, as far as Ren asks for it."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


A = np.random.default_rng(2).uniform(-1, 1, (5, 3))
TABLES = {
    "products and rows": lambda x: x * A[0] + A,
    "a list and a tuple": lambda x: x * [1.0, 2.0, 3.0] + (4.0, 5.0, 6.0),
    "a sum along an axis": lambda x: (x * x).sum(axis=0),
    "a mean along the other": lambda x: (x - 1).mean(axis=1),
    "a matrix": lambda x: x @ A.T,
    "a weight for each column": lambda x: x @ A[0],
}


@pytest.mark.parametrize("pack", ["flat", "rows", "columns"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_are_debugged(ctx, name, pack):
    function = TABLES[name]
    made = ckks.debug(function, ctx.encrypt(A, pack=pack), context=ctx)
    np.testing.assert_allclose(made.decrypt(), function(A), atol=2e-5)
    if pack == "flat":
        for given in (A, Frame(A), A.tolist()):
            np.testing.assert_allclose(
                ckks.debug(function, given, context=ctx).decrypt(), function(A), atol=2e-5
            )


def test_shapes_are_no_numbers_to_debug(ctx):
    for shape in ((5, 3), (3, 5), (15, 1)):
        made = ckks.debug(lambda x, s=shape: x.reshape(*s) * 2, A.ravel(), context=ctx)
        np.testing.assert_allclose(made.decrypt(), A.reshape(shape) * 2, atol=2e-5)
    long = np.linspace(-1, 1, ctx.slots + 9)
    made = ckks.debug(lambda x: x.roll(2) * long, long, context=ctx)
    np.testing.assert_allclose(made.decrypt(), np.roll(long, 2) * long, atol=2e-5)


EVERYWHERE = {
    "a mix of a batch": lambda x: ckks.mix([[0.5, -1.0]], ckks.stack([x, x * 0.5])),
    "a mix with integers": lambda x: ckks.mix([[1, -1], [2, 3]], ckks.stack([x, x * 0.5])),
    "a matrix": lambda x: np.ones((2, 40)) @ x,
    "slices": lambda x: ckks.concat([x[3:9] * 2.0, x[:2]]),
    "a table": lambda x: x.reshape(5, 8).mean(axis=0),
    "a function": lambda x: ckks.math.sigmoid(x, interval=(-1, 1), degree=3),
    "a statistic": lambda x: x.var(),
}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_no_result_goes_unseen(ctx, name):
    """The numbers are those without `debug`, and an error that is always there is seen."""
    a, function = np.random.default_rng(7).uniform(-1, 1, 40), EVERYWHERE[name]
    expected = function(ctx.encrypt(a)).decrypt()
    made = ckks.debug(function, a, context=ctx)
    np.testing.assert_allclose(made.decrypt(), expected, atol=2e-4)
    with pytest.raises(PrecisionError):
        ckks.debug(function, a, tolerance=1e-30, context=ctx)


@pytest.mark.parametrize("given", [-1, float("nan"), "a", None, True])
def test_a_tolerance_is_a_number_from_zero_on(ctx, given):
    with pytest.raises(ParameterError, match="tolerance=1e-3"):
        ckks.debug(lambda x: x, [1.0], tolerance=given, context=ctx)


def test_a_context_that_is_none_is_told(ctx):
    with pytest.raises(OperandError, match="context=ctx"):
        ckks.debug(lambda x: x, [1.0], context=5)
