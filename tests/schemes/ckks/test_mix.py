"""`ckks.mix`: a matrix in the clear times a batch of ciphertexts."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ren
from ren.core.errors import DepthError, OperandError, ParameterError
from ren.schemes import ckks


def drawn(batch: tuple[int, ...], seed: int = 0, length: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (*batch, length))


def product(matrix: np.ndarray, values: np.ndarray, axis: int = 0) -> np.ndarray:
    return np.moveaxis(np.tensordot(matrix, np.moveaxis(values, axis, 0), 1), 0, axis)


def assert_within(y: ckks.Ciphertext, want: np.ndarray) -> None:
    made = y.decrypt()
    assert made.shape == want.shape and y.shape == want.shape
    bound = y.estimate.error_bound
    assert 0 < bound < 2.0**-8
    assert np.abs(made - want).max() <= bound


@pytest.mark.long
@pytest.mark.once
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_mix_is_within_its_estimate(ctx, data):
    batch = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    axis = data.draw(st.integers(0, len(batch) - 1)) - data.draw(
        st.sampled_from((0, len(batch) + 1))
    )
    rows, is_exact = data.draw(st.integers(1, 5)), data.draw(st.booleans())
    matrix = drawn((rows,), data.draw(st.integers(0, 99)), (*batch, 0)[axis]) * 3
    matrix = np.rint(matrix).astype(int) if is_exact else matrix
    matrix[0, 0] = 1
    values = drawn(batch, rows)
    x = ctx.encrypt(values, pack="rows")
    x = x.drop_to(data.draw(st.integers(1, x.level)))
    y = ckks.mix(matrix, x, axis)
    assert y.level == x.level - (not is_exact)
    batch_axis = axis % (len(batch) + 1)
    assert_within(y, product(matrix, values, batch_axis))
    assert_within(ckks.mix(matrix, x, axis) + y, 2 * product(matrix, values, batch_axis))


def test_the_batch_axis_of_a_table_by_its_columns_is_the_last(ctx):
    matrix, values = drawn((3,), 1, 2), drawn((5,), 2, 2)
    x = ctx.encrypt(values, pack="columns")
    for axis in (1, -1):
        assert_within(ckks.mix(matrix, x, axis=axis), values @ matrix.T)
    with pytest.raises(ParameterError, match=r"(?s)axis=0 .*those are 1 here.*matrix @ x"):
        ckks.mix(matrix, x)
    deep = drawn((2, 4), 3, 2)
    y = ctx.encrypt(deep, pack="columns")
    assert_within(ckks.mix(matrix, y), product(matrix, deep))
    assert_within(ckks.mix(matrix, y, axis=2), product(matrix, deep, 2))
    with pytest.raises(ParameterError, match="those are 0, 2 here"):
        ckks.mix(matrix, y, axis=1)


@pytest.mark.long
def test_mix_under_jit_vmap_and_scan(ctx):
    values, matrix = drawn((3, 4), 1), drawn((2,), 2, 4)
    square = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, -1]])
    x = ctx.encrypt(values, pack="rows")

    def f(x):
        return ckks.mix(matrix, x) + 1

    want = product(matrix, values, 1) + 1
    assert_within(jax.vmap(f)(x), want)
    jitted = ren.jit(lambda x: ckks.mix(matrix, x, 1) + 1)
    for _ in range(2):
        assert_within(jitted(x), want)
    first = ckks.unstack(x)[0]

    def step(x, _):
        return ckks.mix(square, x).within(4), None

    made, _ = jax.lax.scan(step, first.within(4), None, length=3)
    np.testing.assert_allclose(
        made.decrypt(), np.linalg.matrix_power(square, 3) @ values[0], atol=1e-4
    )


def test_mix_after_a_product_and_of_many(ctx):
    values, matrix = drawn((40,), 3), drawn((3,), 4, 40)
    x = ctx.encrypt(values, pack="rows")
    assert_within(ckks.mix(matrix, x * x), matrix @ values**2)


def test_integers_stay_integers(ctx):
    x = ctx.encrypt(np.array([[1, 2], [3, 4]]), pack="rows")
    made = ckks.mix([[1, 1], [2, -1]], x).decrypt()
    assert made.dtype == np.int64 and made.tolist() == [[4, 6], [-1, 0]]


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda x: ckks.mix([[1.0, 2.0]], x), ParameterError, "1 x 2"),
        (lambda x: ckks.mix(np.ones((2, 3)), ckks.unstack(x)[0]), ParameterError, "ckks.stack"),
        (lambda x: ckks.mix(np.ones((2, 3)), x, axis=1), ParameterError, "axis=1"),
        (lambda x: ckks.mix(np.ones(3), x), OperandError, "[row]"),
        (lambda x: ckks.mix([[1, np.nan, 2]], x), OperandError, "NaN"),
        (lambda x: ckks.mix([[1j, 0, 2]], x), OperandError, "m.real"),
        (lambda x: ckks.mix(x, x), OperandError, "in the clear"),
        (lambda x: ckks.mix(np.ones((2, 3)), np.ones(3)), OperandError, "ckks.mix()"),
        (lambda x: ckks.mix(np.full((2, 3), 0.5), x.drop_to(0)), DepthError, "1 level"),
        (lambda x: ren.jit(lambda m, x: ckks.mix(m, x))(np.ones((2, 3)), x), OperandError, "close"),
    ],
)
def test_errors_say_what_is_needed(ctx, call, error, told):
    x = ctx.encrypt(drawn((3,)), pack="rows")
    with pytest.raises(error) as raised:
        call(x)
    assert told in str(raised.value)


def test_a_matrix_of_zeros_is_noticed(ctx):
    x = ctx.encrypt(drawn((3,)), pack="rows")
    with pytest.warns(match="zero"):
        ckks.mix(np.zeros((2, 3), int), x)


@pytest.mark.parametrize("entry", [1e60, -1e290, 1.7e308, -(2**63)])
def test_entries_that_wrap_around_are_refused(ctx, entry):
    """A product with the same number is refused likewise."""
    x = ckks.stack([ctx.encrypt([1.0, 2.0])] * 2)
    if isinstance(entry, int):
        x = x.drop_to(0)
    for function in (lambda x: ckks.mix([[entry, 1]], x), lambda x: x * entry):
        with pytest.raises(ckks.MessageBoundError, match="whatever is encrypted"):
            function(x)
        with pytest.raises(ckks.MessageBoundError, match="whatever is encrypted"):
            ren.jit(function)(x)


def test_noise_beyond_floats_is_unknown_and_silent_otherwise():
    deep = ckks.context(depth=8, n=1 << 10, security=None)
    x = ckks.stack([deep.encrypt([1.0, 2.0])] * 2)
    with pytest.warns(ckks.MessageBoundWarning) as told:
        y = ckks.mix([[1e60, 0.0]], x)
    assert len(told) == 1 and y.estimate.error_bound == np.inf
