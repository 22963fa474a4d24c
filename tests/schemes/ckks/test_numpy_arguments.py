"""Sizes, counts and bounds may be numbers of NumPy: results are those of Python's numbers."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ren
from ren.core.errors import OperandError
from ren.schemes import ckks
from ren.schemes.ckks.noise.range_checks import bound_of

V = np.linspace(-1, 1, 12)


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    """n = 2^10, depth 3; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(3, n=1 << 10, security=None))


# Of a context, what makes an integer and what makes a number; the result is compared.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "context": lambda ctx, i, f: (
        ckks.context(
            depth=i(1), n=i(1 << 13), security=i(128), scale_bits=i(30), bound=f(2), slots=i(64)
        ).params.digest
    ),
    "bootstrapping": lambda ctx, i, f: (
        ckks.Parameters.for_bootstrapping(
            i(1), n=i(1 << 11), security=None, precision=f(16), bound=f(2)
        ).digest
    ),
    "encrypt": lambda ctx, i, f: bound_of(ctx.encrypt(V, level=i(2), bound=f(2))),
    "encode": lambda ctx, i, f: ctx.encode(V, i(2)).level,
    "within": lambda ctx, i, f: bound_of(ctx.encrypt(V).within(f(2))),
    "drop_to": lambda ctx, i, f: ctx.encrypt(V).drop_to(i(1)).level,
    "rotate": lambda ctx, i, f: ctx.encrypt(V).rotate(i(2)).decrypt().round(4).tolist(),
    "roll": lambda ctx, i, f: ctx.encrypt(V).roll(i(2)).decrypt().round(4).tolist(),
    "reshape": lambda ctx, i, f: ctx.encrypt(V).reshape(i(3), i(4)).shape,
    "index": lambda ctx, i, f: ctx.encrypt(V)[i(2) : i(5)].decrypt().round(4).tolist(),
    "power": lambda ctx, i, f: (ctx.encrypt(V) ** i(2)).level,
    "sum": lambda ctx, i, f: ctx.encrypt(V.reshape(3, 4)).sum(axis=i(0)).shape,
    "var": lambda ctx, i, f: ctx.encrypt(V).var(ddof=i(1)).decrypt().round(4).tolist(),
    "conv1d": lambda ctx, i, f: ckks.conv1d(ctx.encrypt(V), [1, 2], stride=i(2)).shape,
    "conv2d": lambda ctx, i, f: (
        ckks.conv2d(ctx.encrypt(V), np.ones((2, 2)), image_shape=(i(3), i(4)), padding=i(1)).shape
    ),
    "convolution": lambda ctx, i, f: (
        ckks.convolution(
            np.ones((2, 2)), np.array([i(3), i(4)]), ctx, level=i(1), keys=i(4), memory=i(1 << 24)
        ).shape
    ),
    "conv1d of a shape": lambda ctx, i, f: (
        ckks.conv1d(ctx.encrypt(V), np.ones((1, 2, 2)), shape=(i(2), i(6))).shape
    ),
    "linear": lambda ctx, i, f: repr(ckks.linear(np.eye(3), ctx, level=i(1), keys=i(4))),
    "rotation_keys": lambda ctx, i, f: ctx.rotation_keys([i(3)]),
    "decrypt_shared": lambda ctx, i, f: (
        ctx.decrypt_shared(ctx.encrypt(V), f(2.0**-26), queries=i(8), statistical_bits=i(10)).shape
    ),
    "poly": lambda ctx, i, f: ckks.poly(ctx.encrypt(V), [i(1), f(0.5)]).level,
    "approximate": lambda ctx, i, f: (
        ckks.approximate(np.exp, (f(-1), f(1)), degree=i(5)).coefficients
    ),
    "jit": lambda ctx, i, f: (
        ren.jit(max_plans=i(2), static_argnums=i(1))(lambda x, k: x * k)(ctx.encrypt(V), 2).level
    ),
    "plan": lambda ctx, i, f: ckks.plan(lambda x: x * x, ckks.spec(i(12))).params.digest,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("integer", "real"), [(np.int64, np.float64), (np.uint8, np.float32)])
def test_numbers_of_numpy_are_taken(ctx, name, integer, real):
    call = CALLS[name]

    def small(value: int) -> Any:  # what a byte does not hold is an int32
        return integer(value) if value < 256 else np.int32(value)

    assert call(ctx, small, real) == call(ctx, int, float)


class NAType:
    """A missing value as pandas has it, in columns of type Int64 and boolean."""


@pytest.mark.parametrize(
    "entry",
    [
        "3",
        b"3",
        "1_000",
        "nan",
        np.datetime64("2020"),
        np.timedelta64(3, "D"),
        datetime.date(2020, 1, 1),
    ],
)
def test_text_and_dates_are_no_numbers(ctx, entry):
    """NumPy would make numbers of them: 50 of a year, and 1000 of '1_000'."""
    values, x = np.array([1, entry], object), ctx.encrypt([1.0, 2.0])
    calls = (
        lambda: ctx.encrypt(values), lambda: ctx.encrypt(values, nan=0), lambda: x * values,
        lambda: x + values, lambda: values[None] @ x, lambda: ckks.linear(values[None], ctx),
        lambda: x.dot(values), lambda: ctx.encode(values),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(ckks.ParameterError, match="dtype object"):
            call()
    with pytest.raises(ckks.ParameterError, match=f"entries of type {type(entry).__name__}"):
        ctx.encrypt(values)


def test_missing_values_are_nan(ctx):
    for missing in (None, NAType(), np.nan):
        values = np.array([[1, missing], [True, 2.5]], object)
        got = ctx.encrypt(values, nan=7).decrypt()
        np.testing.assert_allclose(got, [[1, 7], [1, 2.5]], atol=1e-5)
        with pytest.raises(ckks.ParameterError, match="nan=0"):
            ctx.encrypt(values)
        with pytest.raises(ckks.ParameterError, match="NaN or infinity"):
            ctx.encrypt([1.0, 2.0]) * values[0]
    for alone in (None, np.array(None)):
        with pytest.raises(ckks.ParameterError, match="entries of type NoneType"):
            ctx.encrypt(alone, nan=0)


@pytest.mark.parametrize(
    ("given", "write"),
    [
        (lambda x: [x, x], r"ckks\.stack\(\[x, y\]\)"),
        (lambda x: x.to_bytes(), r"ckks\.Ciphertext\.from_bytes"),
        (lambda x: [1.0], r"ctx\.encrypt\(values\)"),
    ],
)
def test_what_is_no_ciphertext_says_how_to_get_one(ctx, given, write):
    with pytest.raises(OperandError, match=write):
        ctx.decrypt(given(ctx.encrypt(V)))
