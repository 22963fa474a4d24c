"""Wrong arguments of `ckks` and `ckks.math`: each raises an error of Ren, none a bare TypeError."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest

import ren
from ren import errors
from ren.schemes import ckks
from tests.mistakes import Mistake, check, mistakes

TABLE = """
a sum with nothing | OperandError | A sum; NoneType; return statement
    x + None
a product with a word | OperandError | A product; str; a plaintext, a number or an array
    "abc" * x
a difference with a context | OperandError | A difference; Context
    x - ctx
a list with an array among ciphertexts | OperandError | ckks.concat() got a ndarray; ctx.encrypt
    ckks.concat([x, np.ones(3)])
concat of two arguments | OperandError | ckks.concat() got a int; ckks.concat([x, y])
    ckks.concat(3)
an array is stacked | OperandError | ckks.stack() got a ndarray; ctx.encrypt
    ckks.stack([np.ones(3)])
an array is summed in strides | OperandError | strided_sum() got a ndarray; ctx.encrypt
    ckks.strided_sum(np.ones(3), 3)
a count that is no integer | OperandError | strided_sum() got 1.5; integer
    ckks.strided_sum(x, 1.5)
a number in place of a function | OperandError | ckks.approximate() got a float; place of a function
    ckks.approximate(np.exp(1.0))
a slice with a float | OperandError | A slice got 1.0; int(k)
    x[:1.0]
no context is adopted | OperandError | adopt() got a int; ckks.load_server(data)
    ctx.server().adopt(3)
bytes are adopted | OperandError | adopt() got a bytes; ckks.load_server(data)
    ctx.adopt(b"abc")
an integer beyond all numbers is encrypted | ParameterError | 2^1024; Divide
    ctx.encrypt(10**400)
an array with an integer beyond all | ParameterError | 2^1024; Divide
    x + [1, 2, 10**400]
an integer beyond all numbers is added | MessageBoundError | level 2; 1329 bits; wrap around
    x + 10**400
an integer beyond all numbers is subtracted from | MessageBoundError | level 2; 1329 bits
    10**400 - x
a product with an integer beyond all | MessageBoundError | level 2; 1329 bits; wrap around
    x * 10**400
a product with a number beyond all | MessageBoundError | 1e+300; from 2^; before they are encrypted
    x * 1e300
a fraction beyond all | ParameterError | 2^1024; Divide
    x * Fraction(10**400, 3)
a number beyond all in manual mode | MessageBoundError | 1e+300; wrap around
    with ckks.manual():
        x + 1e300
a product beyond all in manual mode | MessageBoundError | 1e+300; wrap around
    with ckks.manual():
        x * 1e300
np.concatenate of one ciphertext | OperandError | iterates; ckks.unstack
    np.concatenate(x)
unpacking | OperandError | iterates; ct[i : i + 1]
    a, b, c = x
"""


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the lines of the table use; the parameters are insecure, for speed."""
    ctx = ckks.context(depth=2, n=1 << 10, security=None)
    return {
        "np": np, "jax": jax, "ren": ren, "ckks": ckks, "Decimal": Decimal, "Fraction": Fraction,
        "ctx": ctx, "x": ctx.encrypt([1.0, 2.0, 3.0]), "y": ctx.encrypt([4.0, 5.0, 6.0]),
    }  # fmt: skip


@pytest.mark.parametrize("mistake", mistakes(TABLE), ids=lambda mistake: mistake.name)
def test_the_error_names_argument_and_mend(mistake: Mistake, names: dict) -> None:
    check(mistake, dict(names))


KERNEL = np.ones((1, 1))
# Public functions by name: calls with a wrong `v` in the place of each ciphertext.
CALLS: dict[str, list[Callable[[Any, Any], Any]]] = {
    "chebyshev": [lambda v, x: ckks.chebyshev(v, np.exp, (-1, 1), 3)],
    "concat": [lambda v, x: ckks.concat([x, v]), lambda v, x: ckks.concat([v])],
    "conv1d": [lambda v, x: ckks.conv1d(v, [1.0, 2.0])],
    "conv2d": [lambda v, x: ckks.conv2d(v, KERNEL)],
    "matmul": [lambda v, x: ckks.matmul(v, x), lambda v, x: ckks.matmul(x, v)],
    "poly": [lambda v, x: ckks.poly(v, [1, 2])],
    "precision": [lambda v, x: ckks.precision(v, [1.0, 2.0, 3.0])],
    "stack": [lambda v, x: ckks.stack([x, v]), lambda v, x: ckks.stack([v])],
    "strided_sum": [lambda v, x: ckks.strided_sum(v, 3)],
    "unstack": [lambda v, x: ckks.unstack(v)],
}
# Functions and types that take no ciphertext, or numbers in its place.
OTHERS = {
    "PRESETS", "approximate", "context", "convolution", "debug", "linear", "load_server", "manual",
    "math", "pad", "plan", "spec", "testing",
}  # fmt: skip
PAIRS = {"equal", "greater", "less", "max", "min"}
WRONG = {"array": np.ones(3), "number": 3, "nothing": None, "word": "abc", "list": [1.0, 2.0]}


def test_each_public_function_is_called() -> None:
    functions = {n for n in ckks.__all__ if not isinstance(getattr(ckks, n), type)}
    assert functions == CALLS.keys() | OTHERS


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_ciphertexts_refuses_what_is_none(name: str, kind: str, names: dict) -> None:
    for call in CALLS[name]:
        with pytest.raises(errors.OperandError, match="Encrypt it first"):
            call(WRONG[kind], names["x"])


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", ckks.math.__all__)
def test_a_function_of_math_refuses_what_is_no_ciphertext(
    name: str, kind: str, names: dict
) -> None:
    f, wrong = getattr(ckks.math, name), WRONG[kind]
    arguments = {"where": 3}.get(name, 1 + (name in PAIRS))
    with pytest.raises(errors.OperandError, match="ciphertext"):
        f(*(wrong,) * arguments)


@pytest.mark.parametrize("kind", WRONG)
def test_methods_and_maps_refuse_what_is_no_ciphertext(kind: str, names: dict) -> None:
    ctx, wrong = names["ctx"], WRONG[kind]
    turn = ckks.linear(np.eye(3), ctx)
    for call in (
        ctx.decrypt, ctx.slots_of, lambda v: ctx.switch_key(v, ctx), lambda v: turn @ v,
        lambda v: ctx.decrypt_shared(v, 1e-3, queries=1),
    ):  # fmt: skip
        with pytest.raises(errors.OperandError, match="Encrypt it first"):
            call(wrong)


def test_decimals_and_fractions_are_numbers(names: dict) -> None:
    x, a = names["x"], np.array([1.0, 2.0, 3.0])
    for number in (Decimal("1.5"), Fraction(3, 2)):
        for got, want in (
            (x + number, a + 1.5), (number - x, 1.5 - a), (number * x, 1.5 * a),
            (x / number, a / 1.5),
        ):  # fmt: skip
            np.testing.assert_allclose(got.decrypt(), want, atol=1e-5)


def test_large_factors_that_fit_are_exact_enough(names: dict) -> None:
    ctx = names["ctx"]
    tiny = ctx.encrypt([1e-3], bound=2.0**-9)
    with warnings.catch_warnings(action="ignore"):
        np.testing.assert_allclose((tiny * 10**12).decrypt(), [1e9], rtol=1e-3)
        np.testing.assert_allclose((tiny * 1e5).decrypt(), [100.0], rtol=1e-3)


def test_foreign_operands_may_compute_with_ciphertexts(names: dict) -> None:
    class Foreign:
        def __radd__(self, other: Any) -> str:
            return "mine"

    assert names["x"] + Foreign() == "mine"
