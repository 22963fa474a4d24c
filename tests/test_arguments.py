"""Wrong arguments of `ckks` and `ckks.math`: each raises an error of Ren, none a bare TypeError."""

from __future__ import annotations

import itertools
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
a list with an array among ciphertexts | OperandError | ckks.concat() got an ndarray; ctx.encrypt
    ckks.concat([x, np.ones(3)])
concat of two arguments | OperandError | ckks.concat() got an int; ckks.concat([x, y])
    ckks.concat(3)
an array is stacked | OperandError | ckks.stack() got an ndarray; ctx.encrypt
    ckks.stack([np.ones(3)])
an array is summed in strides | OperandError | strided_sum() got an ndarray; ctx.encrypt
    ckks.strided_sum(np.ones(3), 3)
a count that is no integer | OperandError | strided_sum() got 1.5; integer
    ckks.strided_sum(x, 1.5)
a number in place of a function | OperandError | ckks.approximate() got a float; place of a function
    ckks.approximate(np.exp(1.0))
a slice with a float | OperandError | A slice got 1.0; int(k)
    x[:1.0]
no context is adopted | OperandError | adopt() got an int; ckks.load_server(data)
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
a product with a number beyond all | MessageBoundError | 2^997; from 2^; before they are encrypted
    x * 1e300
a fraction beyond all | ParameterError | 2^1024; Divide
    x * Fraction(10**400, 3)
a number beyond all in manual mode | MessageBoundError | 2^997; wrap around
    with ckks.manual():
        x + 1e300
a product beyond all in manual mode | MessageBoundError | 2^997; wrap around
    with ckks.manual():
        x * 1e300
np.concatenate of one ciphertext | OperandError | iterates; ckks.unstack
    np.concatenate(x)
cumulative sums of columns | ParameterError | axis=0; one vector; np.tril(np.ones((2, 2))) @ ct
    matrix.cumsum(axis=0)
an axis that is not there | ParameterError | axis=1; (3,); from -1 to 0; Leave the axis out
    x.sum(1)
two axes | ParameterError | axis=(0, 1); one integer; one axis after another
    batch.sum(axis=(0, 1))
keepdims by its place | ParameterError | axis=True; one integer; Leave the axis out
    x.sum(True)
the axis of a number | ParameterError | axis=0; (); A number has no axis
    ctx.encrypt(1.0).mean(axis=0)
a batch that is rolled without an axis | ParameterError | (2, 3); no axis; roll(shift, axis=-1)
    batch.roll(1)
a batch that is rolled along it | ParameterError | roll() got axis=0; batch axis; ckks.stack(parts
    batch.roll(1, axis=0)
columns that are rolled | ParameterError | axis=1; ct @ np.roll(np.eye(3), shift, axis=1)
    matrix.roll(1, axis=1)
np.mean with a type | OperandError | np.mean; Write ckks.typed(ct.mean(), dtype)
    np.mean(x, dtype=np.float32)
a public context in place of a server | SerializationError | public context; ctx.server().to_bytes()
    ckks.load_server(ctx.public().to_bytes())
a plan and a depth | ParameterError | a plan and depth=3; fixes; depth=1; Leave depth out
    ckks.context(plan, depth=3)
a plan and a degree | ParameterError | n=32768; n=8192; Leave n out, or pass it to ren.plan
    ckks.context(plan, n=2**15)
a plan and two wishes | ParameterError | scale_bits=30, security=None; pass them to ren.plan
    ckks.context(plan, scale_bits=30, security=None)
a plan and parameters | ParameterError | a plan and params=Parameters(; Leave params out
    ckks.context(plan, params=ctx.params)
a plan and rotations | ParameterError | rotations=[1, 2]; rotations=plan.rotations
    ckks.context(plan, rotations=[1, 2])
parameters and a degree | ParameterError | params and n=32768; fix; Leave n out
    ckks.context(params=ctx.params, n=2**15)
parameters and a depth | ParameterError | params and depth=5; Leave depth out
    ckks.context(5, params=ctx.params)
two depths | ParameterError | two depths, 2 and depth=3; Leave one
    ckks.context(2, depth=3)
a sum of a batch and a matrix | ParameterError | (2, 3), a batch of vectors, and (2, 3), one matrix
    batch + matrix
a batch and a matrix are joined | ParameterError | (2, 3), a batch of vectors; (2, 3), one matrix
    ckks.concat([batch, matrix])
a batch and a matrix are stacked | ParameterError | (2, 3), a batch of vectors; (2, 3), one matrix
    ckks.stack([batch, matrix])
a product of equal shapes | ParameterError | (2, 3) and (2, 3); 3 columns meet 2 rows
    ROWS @ matrix
a negative rotation without a key | MissingKeyError | rotate(-1) needs; ctx.rotation_keys([-1])
    with ctx.server(rotations=[]):
        x.rotate(-1)
a rotation almost around without a key | MissingKeyError | rotate(511) needs; rotation by -1
    with ctx.server(rotations=[]):
        x.rotate(511)
a roll without keys | MissingKeyError | roll(1) needs the keys for rotation by -1 and 2
    with ctx.server(rotations=[]):
        x.roll(1).realize()
a slice without a key | MissingKeyError | ct[1:] needs the key; rotation by 1
    with ctx.server(rotations=[]):
        x[1:]
a slice of a batch without a key | MissingKeyError | ct[..., 1:3] needs the key
    with ctx.server(rotations=[]):
        batch[..., 1:3]
rows without a key | MissingKeyError | ct[1:] needs the key for rotation by 3
    with ctx.server(rotations=[]):
        matrix[1:]
a slice across blocks at level 0 | DepthError | across the blocks; takes 1 level
    ctx.encrypt(np.ones(700), level=0)[100:]
a packing that is not there | ParameterError | pack='dense'; 'rows', 'columns' or 'flat'
    ctx.encrypt(ROWS, pack="dense")
columns of a table packed flat | ParameterError | (2, 3); gives rows; pack='columns'
    matrix[:, 1]
a row that is not there | ParameterError | indexed by 2; There are 2; from -2 to 1
    matrix[2]
a table by its columns and one packed flat | ParameterError | table by its columns; pack='columns'
    columns + matrix
a table by its columns and a row of numbers | ParameterError | table by its columns; w[None]
    columns * ctx.encrypt([1.0, 2.0, 3.0])
columns are reshaped | ParameterError | table by its columns; pack='flat'
    columns.reshape(6)
columns are rolled without an axis | ParameterError | roll(); along the columns; Pass axis=0
    columns.roll(1)
a product of other columns | ParameterError | (2, 3); (2, 4); as many rows of the array
    columns @ np.ones((2, 4))
other factors along an axis | ParameterError | axis 0; (3,); one number for each of the 2
    columns.dot(np.ones(3), axis=0)
an encrypted factor of a table packed flat | ParameterError | encrypted vector; pack='columns'
    matrix.dot(ctx.encrypt([1.0, 2.0]), axis=0)
a sum without keys | MissingKeyError | sum() needs; 1, 2, 4, 16, 32, 64, 128 and 256
    with ctx.server(rotations=[8]):
        x.sum()
a sum under vmap without keys | MissingKeyError | sum() needs the keys; Call ctx.rotation_keys([1,
    fresh = ckks.context(params=ctx.params)
    jax.vmap(lambda v: v.sum())(fresh.encrypt(ROWS, pack="rows"))
unpacking | OperandError | iterates; ct[i : i + 1]
    a, b, c = x
"""

ROWS = np.arange(6.0).reshape(2, 3)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Names in the lines of the table; the parameters are insecure, for speed."""
    ctx = ckks.context(depth=2, n=1 << 10, security=None)
    plan = ren.plan(lambda v: v * v, ckks.spec(3))
    return {
        "np": np, "jax": jax, "ren": ren, "ckks": ckks, "Decimal": Decimal, "Fraction": Fraction,
        "plan": plan, "ctx": ctx,
        "x": ctx.encrypt([1.0, 2.0, 3.0]), "y": ctx.encrypt([4.0, 5.0, 6.0]),
        "ROWS": ROWS, "batch": ctx.encrypt(ROWS, pack="rows"), "matrix": ctx.encrypt(ROWS),
        "columns": ctx.encrypt(ROWS, pack="columns"),
    }  # fmt: skip


@pytest.mark.parametrize("mistake", mistakes(TABLE), ids=lambda mistake: mistake.name)
def test_the_error_names_argument_and_mend(mistake: Mistake, names: dict) -> None:
    check(mistake, dict(names))


KERNEL = np.ones((1, 1))
# Public functions by name: calls with a wrong `v` in the place of each ciphertext.
CALLS: dict[str, list[Callable[[Any, Any], Any]]] = {
    "bootstrap": [lambda v, x: ckks.bootstrap([v])],
    "chebyshev": [lambda v, x: ckks.chebyshev(v, np.exp, (-1, 1), 3)],
    "concat": [lambda v, x: ckks.concat([x, v]), lambda v, x: ckks.concat([v])],
    "conv1d": [lambda v, x: ckks.conv1d(v, [1.0, 2.0])],
    "conv2d": [lambda v, x: ckks.conv2d(v, KERNEL)],
    "mix": [lambda v, x: ckks.mix([[1, 2]], v)],
    "matmul": [lambda v, x: ckks.matmul(v, x), lambda v, x: ckks.matmul(x, v)],
    "poly": [lambda v, x: ckks.poly(v, [1, 2])],
    "precision": [lambda v, x: ckks.precision(v, [1.0, 2.0, 3.0])],
    "stack": [lambda v, x: ckks.stack([x, v]), lambda v, x: ckks.stack([v])],
    "strided_sum": [lambda v, x: ckks.strided_sum(v, 3)],
    "typed": [lambda v, x: ckks.typed(v, np.int64)],
    "unstack": [lambda v, x: ckks.unstack(v)],
    "where": [lambda v, x: ckks.where(v, v, v)],
    "while_loop": [lambda v, x: ckks.while_loop(lambda u: u > 0, lambda u: u + 1, v, 1)],
}
# Functions and types that take no ciphertext, or numbers in its place.
OTHERS = {
    "PRESETS", "approximate", "context", "convolution", "debug", "from_polys", "intervals",
    "linear", "load_context", "load_server", "manual", "math", "pad", "plan", "spec", "stats",
    "testing",
}  # fmt: skip
PAIRS = {
    "equal", "floor_divide", "greater", "greater_equal", "less", "less_equal", "logical_and",
    "logical_or", "logical_xor", "max", "min", "mod", "not_equal", "pow",
}  # fmt: skip
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


@pytest.mark.long
def test_the_axis_of_a_vector_is_its_last(names: dict) -> None:
    x, batch = names["x"], names["batch"]
    a = x.decrypt()
    for method in ("sum", "mean", "cumsum"):
        for axis in (None, -1, 0, np.int64(0)):
            got = getattr(x, method)(axis=axis).decrypt()
            np.testing.assert_allclose(got, getattr(a, method)(axis=0), atol=1e-4)
        for axis in (-1, 1):
            got = getattr(batch, method)(axis).decrypt()
            np.testing.assert_allclose(got, getattr(ROWS, method)(axis), atol=1e-4)
    for axis in (-1, 0):
        np.testing.assert_allclose(x.roll(1, axis).decrypt(), np.roll(a, 1, axis), atol=1e-4)
    for axis in (-1, 1):
        got = batch.roll(1, axis=axis).decrypt()
        np.testing.assert_allclose(got, np.roll(ROWS, 1, axis), atol=1e-4)
    kept = batch.sum(-1, keepdims=True)
    assert kept.shape == batch.mean(keepdims=True).shape == (2, 1)
    matrix = names["matrix"]
    np.testing.assert_allclose(matrix.sum().decrypt(), 15, atol=1e-4)
    np.testing.assert_allclose(matrix.roll(1).decrypt(), np.roll(ROWS, 1), atol=1e-4)
    jitted = ren.jit(lambda v: v.sum(-1, keepdims=True) + v.cumsum(-1).roll(1, axis=-1))
    want = ROWS.sum(-1, keepdims=True) + np.roll(ROWS.cumsum(-1), 1, -1)
    np.testing.assert_allclose(jitted(batch).decrypt(), want, atol=1e-3)


def test_the_remedies_for_an_axis_compute_what_numpy_does(names: dict) -> None:
    ctx, shift = names["ctx"], 1
    for ct, axes in ((names["batch"], (0,)), (names["matrix"], (0, 1))):
        for axis in axes:
            for method, arguments in (("cumsum", ()), ("roll", (shift,))):
                with pytest.raises(ckks.ParameterError) as caught:
                    getattr(ct, method)(*arguments, axis=axis)
                told = caught.value.do.removeprefix("Write ").removesuffix(".")
                code = told.removesuffix(", a product with a matrix").partition(" of parts")[0]
                known = {"ct": ct, "ckks": ckks, "np": np, "itertools": itertools, "shift": shift}
                made = eval(
                    code, {**known, "parts": ckks.unstack(ct) if ct is names["batch"] else 0}
                )
                got = ckks.stack(made) if isinstance(made, list) else made
                want = np.roll(ROWS, 1, axis) if method == "roll" else getattr(ROWS, method)(axis)
                np.testing.assert_allclose(ctx.decrypt(got), want, atol=1e-3)


def test_wishes_that_agree_with_a_plan_or_parameters_are_no_clash(names: dict) -> None:
    plan, params = names["plan"], names["ctx"].params
    made = ckks.context(plan, n=plan.params.n, scale_bits=40, slots=4, params=plan.params)
    assert made.params.slots == 4
    assert ckks.context(2, params=params, n=1 << 10, security=None).params == params
    assert ckks.context(depth=plan).params == plan.params


def test_a_server_without_keys_is_loaded_and_adopts(names: dict) -> None:
    ctx = names["ctx"]
    server = ckks.load_server(ctx.server(rotations=[], relinearization=False).to_bytes())
    server.adopt(ckks.load_server(ctx.server(rotations=[1]).to_bytes()))
    with server:
        assert server.rank == 1 and names["x"].rotate(1).shape == (3,)
