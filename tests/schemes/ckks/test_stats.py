"""`ckks.stats` and `x.var` against NumPy: true errors are below their bounds; levels; errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ren
from ren.schemes import ckks
from ren.schemes.ckks import stats

DEPTH = 20
WITHIN = (0.1, 0.6)  # where the variances of `data` lie


@pytest.fixture(scope="module")
def deep() -> ckks.Context:
    """n = 2^8, insecure: depth for comparisons one after another."""
    return ckks.context(DEPTH, n=1 << 8, security=None, integer_bits=10)


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    draw = np.random.default_rng(3)
    return draw.uniform(-1, 1, (30, 3)) + 0.2 * draw.uniform(-1, 1, (30, 1))


def check(x: ckks.Ciphertext, want, levels: int, tolerance: float = 2.0**-15) -> None:
    got = x.decrypt()
    assert got.shape == x.shape == np.shape(want)
    error = np.abs(got - want).max()
    assert error < tolerance and error <= x.estimate.error_bound
    assert DEPTH - x.level == levels


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("ddof", [0, 1])
def test_variances_of_vectors_and_tables(deep, data, ddof):
    v, long = data[:, 0], np.linspace(-1, 1, 300)
    x = deep.encrypt(v)
    check(x.var(ddof=ddof), v.var(ddof=ddof), 2)
    check(stats.var(x + 3, ddof=ddof, keepdims=True), v.var(ddof=ddof, keepdims=True), 2)
    check(x[4:].var(ddof=ddof), v[4:].var(ddof=ddof), 3)  # leftovers are cleared
    check(deep.encrypt(long).var(ddof=ddof), long.var(ddof=ddof), 2)
    levels = {"columns": (2, 2, 2), "flat": (2, 2, 3)}
    for pack, expected in levels.items():
        table = deep.encrypt(data, pack=pack)
        for axis, taken in zip((None, 0, 1), expected, strict=True):
            for keepdims in (False, True):
                found = table.var(axis, ddof=ddof, keepdims=keepdims)
                check(found, data.var(axis, ddof=ddof, keepdims=keepdims), taken)
    rows = deep.encrypt(data[:4], pack="rows")
    check(rows.var(), data[:4].var(-1), 2)
    check(rows.var(axis=0), data[:4].var(0), 2)


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_covariances_of_vectors_and_tables(deep, data):
    x, y = (deep.encrypt(data[:, i]) for i in (0, 1))
    check(stats.cov(x, y), np.cov(data[:, 0], data[:, 1])[0, 1], 2)
    check(stats.cov(x + 1, y, ddof=0), np.cov(data[:, 0], data[:, 1], ddof=0)[0, 1], 2)
    five = np.c_[data, -data[:, :2]]
    for values in (data, data[:, :1], np.tile(data, (6, 1)), five, np.tile(five, (6, 1))):
        table = deep.encrypt(values, pack="columns")
        want = np.atleast_2d(np.cov(values, rowvar=False))
        check(stats.cov(table), want, 3)
    f = ren.jit(lambda t: stats.cov(t) + t.mean(axis=0))
    for _ in range(2):
        check(f(deep.encrypt(data, pack="columns")), np.cov(data, rowvar=False) + data.mean(0), 3)
    check(f(deep.encrypt(five, pack="columns")), np.cov(five, rowvar=False) + five.mean(0), 3)
    sent = deep.encrypt(data, pack="columns")
    server = deep.rotation_keys(2 ** np.arange(7)).server()
    with ckks.load_server(server.to_bytes()):
        reply = stats.cov(sent)
    check(reply, np.cov(data, rowvar=False), 3)


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
@settings(max_examples=12)
@given(st.integers(2, 128), st.integers(1, 9), st.booleans(), st.integers(0, 99))
@example(128, 1, True, 0)
@example(128, 2, False, 0)
def test_covariances_of_tables_of_any_shape(deep, rows, columns, is_moved, seed):
    draw = np.random.default_rng(seed)
    values = draw.uniform(-1, 1, (rows + is_moved, columns)) + draw.uniform(-1, 1, columns)
    table = deep.encrypt(values, pack="columns", bound=2)
    if is_moved:  # leftovers stand before the first row, or a number beyond the last
        table, values = (table + 1)[1:], values[1:]
    want = np.atleast_2d(np.cov(values, rowvar=False))
    # Leftovers take a level. So does a part of 129 rows, which are in two ciphertexts a column.
    check(stats.cov(table), want, 3 + is_moved)


@pytest.mark.long
def test_pairs_of_columns_take_the_key_for_conjugation():
    few, many = (ckks.plan(stats.cov, ckks.spec((30, c), pack="columns")) for c in (3, 4))
    assert not few.needs_conjugation and many.needs_conjugation


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_deviations_and_correlations(deep, data):
    v, table = deep.encrypt(data[:, 0], bound=2), deep.encrypt(data, pack="columns", bound=2)
    root = ckks.approximate(np.sqrt, WITHIN, 10).depth
    inverse = ckks.approximate(lambda v: v**-0.5, WITHIN, 10).depth
    how = {"interval": WITHIN, "precision": 10}
    near = 2.0**-8
    check(stats.std(v, **how), data[:, 0].std(), 2 + root, near)
    check(stats.std(table, axis=0, ddof=1, **how), data.std(0, ddof=1), 2 + root, near)
    z = (data - data.mean(0)) / data.std(0)
    check(stats.standardize(table, **how), z, 3 + inverse, near)
    check(stats.standardize(v, **how), z[:, 0], 3 + inverse, near)
    want = np.corrcoef(data, rowvar=False)
    check(stats.corr(v, deep.encrypt(data[:, 1]), **how), want[0, 1], 4 + inverse, near)
    check(stats.corr(table, **how), want, 5 + inverse, near)
    table = deep.encrypt(np.c_[data, -data], pack="columns", bound=2)
    check(stats.corr(table, **how), np.block([[want, -want], [-want, want]]), 5 + inverse, near)


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_histograms_and_quantiles_by_comparisons(deep):
    edges = np.array([0.0, 0.3, 0.6, 1.0])
    values = np.array([0.1, 0.15, 0.2, 0.4, 0.45, 0.5, 0.5, 0.75, 0.8, 0.9])
    x = deep.encrypt(values, bound=1)
    counts = stats.histogram(x, edges, gap=0.1, precision=7)
    got = counts.decrypt()
    assert np.abs(got - np.histogram(values, edges)[0]).max() < 10 * 2.0**-6
    assert np.abs(got - np.histogram(values, edges)[0]).max() <= counts.estimate.error_bound
    for q in (0.1, 0.5, 0.95):
        found = stats.quantile(x, q, edges, gap=0.1)
        exact = np.quantile(values, q, method="inverted_cdf")
        want = edges[np.searchsorted(edges, exact)]
        assert abs(found.decrypt() - want) < 0.01 and want - exact < np.diff(edges).max()
        assert abs(found.decrypt() - want) <= found.estimate.error_bound < 0.05


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_comparisons_reach_up_to_a_bound_beyond_the_edges(deep):
    values, edges = np.linspace(-0.9, 0.95, 10), np.array([-0.4, 0.1, 0.3, 0.5])
    x = deep.encrypt(values, bound=1)
    assert abs(stats.quantile(x, 0.5, edges).decrypt() - 0.1) < 0.01
    counts = stats.histogram(x, edges, precision=7).decrypt()  # what is beyond counts at the ends
    assert np.abs(counts - [5, 1, 4]).max() < 0.1


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_many_columns_are_summed_two_at_a_time(deep):
    """Odd and even numbers of columns, one and several blocks, with leftovers, far from zero."""
    draw = np.random.default_rng(5)
    root = ckks.approximate(lambda v: 1 / np.sqrt(v), WITHIN, degree=7)
    for rows, count, shift in ((30, 4, 3.0), (100, 5, 0.0), (300, 5, 1.0)):
        data = draw.uniform(-1, 1, (rows, count)) + shift
        table = deep.encrypt(data, pack="columns", bound=1 + shift)
        for keepdims in (False, True):
            check(
                table.var(0, ddof=1, keepdims=keepdims), data.var(0, ddof=1, keepdims=keepdims), 2
            )
        check(table.mean(), data.mean(), 1)
        check(stats.cov(table), np.cov(data.T), 3)
        found = stats.standardize(table, interval=WITHIN, degree=7)
        check(found, (data - data.mean(0)) * root(data.var(0)), 3 + root.depth, 2.0**-13)
        assert found.layout.tail.is_zero
        # A slice across blocks takes the level that else clears leftovers.
        check(table[4:].var(0), data[4:].var(0), 3)


@pytest.mark.usefixtures("interpreted")
def test_linear_regression_is_gradient_descent(deep, data):
    truth = np.array([0.5, -0.25, 0.125])
    y = data @ truth + 0.01 * np.sin(np.arange(30.0))
    w = np.zeros(3)
    table, told = deep.encrypt(data, pack="columns", bound=2), deep.encrypt(y, bound=2)
    for steps in (1, 2, 3):
        w = w - 2.0 / 30 * data.T @ (data @ w - y)
        found = stats.linear_regression(table, told, steps=steps, rate=2.0, bound=2)
        check(found, w, 2 * steps)
    check(table @ found, data @ w, 7)


def test_the_least_depth_and_the_arguments_are_named(deep, data):
    v, table = deep.encrypt(data[:, 0]), deep.encrypt(data, pack="columns")
    flat, edges = deep.encrypt(data), [0.0, 0.5, 1.0]
    low, lower = v.drop_to(1), table.drop_to(1)
    for call, depth in (
        (lambda: low.var(), 21), (lambda: lower.var(axis=1), 21),
        (lambda: flat.drop_to(1).var(1), 22),
        (lambda: stats.cov(lower), 22), (lambda: stats.cov(low, v), 21),
        (lambda: stats.std(low, interval=WITHIN, degree=7), 24),
        (lambda: stats.standardize(low, interval=WITHIN, degree=7), 25),
        (lambda: stats.corr(lower, interval=WITHIN, degree=7), 27),
        (lambda: stats.linear_regression(lower, v, steps=3, rate=1), 25),
    ):  # fmt: skip
        with pytest.raises(ckks.DepthError, match=rf"depth={depth}\b"):
            call()
    for call in (
        lambda: stats.histogram(low, edges, gap=0.1), lambda: stats.quantile(low, 0.5, edges)
    ):  # fmt: skip
        with pytest.raises(ckks.DepthError, match=r"(histogram|quantile)\(\) takes"):
            call()
    for call, text in (
        (lambda: v.var(ddof=30), "ddof=30 was given with 30 numbers"),
        (lambda: deep.encrypt(1j * data[:, 0]).var(), "complex"),
        (lambda: stats.cov(flat), "pack='columns'"),
        (lambda: stats.cov(v, table), "two vectors of one length"),
        (lambda: stats.std(v, interval=(0, 1)), "above zero"),
        (lambda: stats.histogram(v, [0.0, 1.0]), "three finite numbers"),
        (lambda: stats.histogram(table, edges), "one vector"),
        (lambda: stats.quantile(v, 1.5, edges), "share, from 0 to 1"),
        (lambda: stats.quantile(v, 0.5, edges, precision=5), "from 6.9 bits on"),
        (lambda: stats.linear_regression(table, v[:5], steps=1, rate=1), "one number for each row"),
    ):
        with pytest.raises(ckks.ParameterError, match=text):
            call()
    for function in (stats.mean, stats.var, stats.cov):
        with pytest.raises(ren.errors.OperandError, match="Encrypt it first"):
            function(data)


@pytest.mark.parametrize("pack", ["flat", "rows"])
def test_tables_that_are_not_by_columns_are_not_standardized(ctx, pack):
    table = ctx.encrypt(np.arange(6.0).reshape(3, 2), pack=pack)
    with pytest.raises(ckks.ParameterError, match="pack='columns'"):
        ckks.stats.standardize(table, interval=(0.1, 2.0))


@pytest.mark.parametrize("given", ["x", [1], True, None])
def test_gaps_and_margins_are_numbers(ctx, given):
    x = ctx.encrypt([0.5, 1.0])
    calls = [
        lambda: ckks.math.greater(x, 1, interval=(0, 2), gap=given),
        lambda: ckks.math.round(x, interval=(0, 2), margin=given),
        lambda: ckks.math.abs(x, gap=given),
        lambda: ckks.math.mod(x, 2, interval=(0, 4), gap=given),
        lambda: ckks.stats.histogram(x, [0, 1, 2], gap=given),
    ]
    for call in calls:
        if given is None:
            with pytest.raises(ckks.DepthError):
                call()
        else:
            with pytest.raises(ckks.ParameterError, match=r"gap=|margin="):
                call()


def test_an_interval_beyond_what_is_tracked(ctx):
    with pytest.raises(ckks.ParameterError, match=r"at most 2\^100"):
        ckks.math.sign(ctx.encrypt([0.5, 1.0]), interval=(0, 1e300), precision=4)
