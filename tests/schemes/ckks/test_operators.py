"""Operators and NumPy's functions on encrypted numbers: by functions of `ckks.math`, as NumPy.

`x` and `y` are real vectors, `p` one stated to lie in [0.25, 2], `k` integers in [0, 3], `g` truth,
`w` an array in the clear. `x` lies in [-1, 1], and its numbers are apart from those compared.
"""

from __future__ import annotations

import operator
import pickle
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren import errors
from ren.schemes import ckks
from ren.schemes.ckks.noise.spans import Span
from tests.mistakes import Mistake
from tests.schemes.ckks.test_idioms import lines, value

# `idiom | levels`: NumPy gives the numbers. Steps are to 8 bits, and others to 20.
SAME = """
x > y | 12
x >= y | 14
w < x | 12
x <= w | 13
x == [0.5] * w | 14
x == [0.5, 0.25, 0.5, 0.5] | 14
(0.5, 0.5, 0.5, 0.5) != x | 14
x != 0.5 | 14
np.greater(y, x) | 12
(x > 0) & (y > 0.75) | 13
~(x > 0) | (y > 0.75) | 13
(x > 0) ^ g | 13
np.logical_or(g, x > 0) | 13
np.logical_not(x > 0) | 12
np.where(x > 0, x, y) | 13
ckks.where(x > 0, y, 0.5) | 13
abs(x) | 13
abs(p) | 0
abs(-k) | 0
np.maximum(p, 0) | 0
np.maximum(p, k + 2) | 0
np.minimum(2.5, p) | 0
np.maximum(x, y) | 13
np.fmin(x, 0.3) | 13
np.sign(x) | 12
np.round(k + 0.1) | 10
np.rint(k) | 10
k % 2 | 11
k // 2 | 11
(k * 0.5) % 1 | 11
np.mod(k, 2) | 11
np.floor(k) | 10
np.ceil(k * 0.5) | 11
divmod(k, 2)[0] | 11
np.divmod(k, 2)[1] | 11
np.exp(x) | 3
np.log(p) | 5
np.log(p * 0.5 + 1) | 4
np.log(p[1:]) | 6
np.sqrt(p) | 4
p ** 0.5 | 4
p ** -1 | 5
p ** -2 | 5
p ** Fraction(3, 2) | 4
2 ** x | 3
np.float_power(2.0, x) | 3
p ** x | 10
np.power(p, p) | 10
(p * 0.5) ** (k + 0) | 11
x / p | 6
w / p | 6
1 / p | 5
np.divide(x, -p) | 6
np.reciprocal(p) | 5
jnp.asarray(w) / p | 6
np.sin(x) | 3
np.cos(x) | 3
np.tan(x) | 4
np.sinh(x) | 3
np.cosh(x) | 3
np.tanh(x) | 4
1 / (1 + np.exp(-x)) | 7
"""

# Errors, with words of the remedy, in the form of tests.mistakes: the name is the code.
REFUSED = """
x if x > 0 else y | TracedValueError | ckks.where(condition, a, b)
0 < x < 1 | TracedValueError | x & y for `x and y`
x > 0 and y > 0 | TracedValueError | x & y for `x and y`
not x > 0 | TracedValueError | ~x for `not x`
max(x, y) | TracedValueError | ckks.where
y in [x] | TracedValueError | ckks.where
x & y | OperandError | may be others than 0 and 1; (x > 0) & (y < 1); x.within(0, 1)
(x > 0) & w | OperandError | may be others than 0 and 1
(x > 0) & 2 | OperandError | may be others than 0 and 1
np.log(x) | OperandError | lie in [-1, 1]; above zero; x.within(low, high); ckks.intervals
np.sqrt(x + 0.5) | OperandError | lie in [-1.5, 1.5]; from zero on
np.sqrt(k) | ParameterError | slope at zero is infinite; ckks.intervals(precision=8)
np.tan(k) | OperandError | lie in [0, 3]; inside (-pi/2, pi/2)
np.where(x, x, y) | OperandError | may be others than 0 and 1; ckks.where(x, a, b); np.where(x > 0
x / y | OperandError | divides by; on one side of zero
x ** y | OperandError | lie in [-1, 1]; above zero; x.within(low, high)
ckks.math.pow(x, y, (-1, 1)) | ParameterError | base in [-1, 1]; x.within(low, high) ** y.within
p ** [1, 2, 3, 4] | OperandError | takes a power with a list
ckks.math.exp(x, (-1, 1), precision="8") | ParameterError | precision='8'; number of bits
ckks.math.inverse(p, (0.25, 2), precision=np.nan) | ParameterError | precision=nan
ckks.intervals(precision="8").__enter__() | ParameterError | precision='8'
x ** "2" | OperandError | with a str as an exponent
(-2) ** x | ParameterError | base -2; above zero
x % -1 | ParameterError | number above zero
x % y | ParameterError | divides by Ciphertext
x > z | ParameterError | greater got a ciphertext of complex numbers
z.within(-1, 1) | ParameterError | within() got a ciphertext of complex numbers
p.within(3, 4) | ParameterError | within(3, 4); known to lie in [0.25, 2]
p.within(2, 1) | ParameterError | (2, 1); a < b
ckks.math.logical_not(x) | OperandError | x.within(0, 1)
jax.jit(lambda v: v > 0)(x) | OperandError | no interval is known here; x.within(low, high)
"""


@pytest.fixture(scope="module")
def deep() -> ckks.Context:
    """n = 2^8, depth 16, 16 slots, repeated; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(16, n=1 << 8, security=None), slots=16)


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    """The same of depth 3."""
    return ckks.context(params=ckks.Parameters.for_depth(3, n=1 << 8, security=None), slots=16)


@pytest.fixture(scope="module")
def clear() -> dict[str, Any]:
    return {
        "np": np, "jax": jax, "jnp": jnp, "ckks": ckks, "Fraction": Fraction,
        "x": np.array([0.5, 1.0, -0.75, 0.25]), "y": np.array([1.5, 0.5, 0.25, 1.0]),
        "p": np.array([1.5, 0.5, 0.25, 1.0]), "k": np.array([0.0, 1.0, 2.0, 3.0]),
        "g": np.array([True, True, False, False]), "w": np.array([0.75, 0.5, 0.5, 0.5]),
        "z": np.array([1j, 0.0, 1.0, 0.5]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def encrypted(deep: ckks.Context, clear: dict[str, Any]) -> dict[str, Any]:
    made = {name: deep.encrypt(clear[name]).realize() for name in "xypkgz"}
    return {**clear, **made, "p": made["p"].within(0.25, 2), "k": made["k"].within(0, 3)}


QUICK = ("x > y", "x != 0.5", "(x > 0) & (y > 0.75)", "np.where(x > 0, x, y)", "np.mod(k, 2)")


def each() -> list[Any]:
    """The rows; most of those that take many levels are slow."""
    return [
        row if int(levels) < 10 or code in QUICK else pytest.param(row, marks=pytest.mark.slow)
        for row in lines(SAME)
        for code, levels in [row.rsplit(" | ", 1)]
    ]


@pytest.mark.parametrize("row", each())
def test_it_computes_as_numpy_does(row: str, encrypted: dict, clear: dict, monkeypatch) -> None:
    code, levels = row.rsplit(" | ", 1)
    got = value(code, encrypted)
    monkeypatch.setattr(ckks, "where", np.where)
    want, error = value(code, clear), got.estimate.error_bound
    assert got.level == 16 - int(levels)
    off = np.abs(got.decrypt() - want)[off_ties(code, clear)].max()
    assert off < min(error, 2.0**-7)
    if got.span is not None:
        assert (got.span.low - error <= want).all() and (want <= got.span.high + error).all()


def off_ties(code: str, clear: dict[str, Any]) -> Any:
    """Where two numbers that are compared differ: `>` and `<` are 1/2 where they are equal."""
    return clear["x"] != clear["w"] if code == "w < x" else slice(None)


def refused() -> list[Mistake]:
    rows = (line.rsplit(" | ", 2) for line in lines(REFUSED))
    return [Mistake(code, error, words, code) for code, error, words in rows]


@pytest.mark.parametrize("row", refused(), ids=lambda row: row.name)
def test_it_raises_an_error_that_teaches(row: Mistake, encrypted: dict) -> None:
    with pytest.raises(getattr(errors, row.error)) as caught:
        value(row.code, encrypted)
    for word in row.words.split("; "):
        assert word in str(caught.value), f"{word!r} is not in:\n{caught.value}"


def test_an_object_equals_itself_and_no_other_kind(encrypted: dict) -> None:
    x = encrypted["x"]
    assert (x == x) is True and (x != x) is False and x in [x] and {x: 1}[x] == 1
    for other in (None, "x", object(), (), [None], ["x"], {}):
        assert (x == other) is False and (x != other) is True


@pytest.mark.long
def test_a_tie_is_a_half_of_the_strict_comparisons(encrypted: dict) -> None:
    x, same = encrypted["x"], np.array([0.5, 1.0, -0.75, 0.25])
    for compared, want in ((operator.gt, 0.5), (operator.lt, 0.5), (operator.ge, 1.0)):
        np.testing.assert_allclose(compared(x, same).decrypt(), want, atol=2.0**-7)


@pytest.mark.long
def test_a_stated_gap_makes_the_estimate_that_of_the_comparison(encrypted: dict):
    k, wanted = encrypted["k"], {
        "greater": [0, 0, 0, 1], "greater_equal": [0, 0, 1, 1], "less_equal": [1, 1, 1, 0],
        "not_equal": [1, 1, 0, 1],
    }  # fmt: skip
    for name, want in wanted.items():
        got = getattr(ckks.math, name)(k, 2, interval=(0, 3), gap=1)
        ties = np.array([True, True, name != "greater", True])
        assert got.estimate.error_bound < 2.0**-6
        off = np.abs(got.decrypt() - want)
        assert off[ties].max() < got.estimate.error_bound
    with ckks.intervals(gap=1.0):
        assert (k >= 2).estimate.error_bound < 2.0**-6 < (k > 2).level
        rest = k % 2
    assert rest.estimate.error_bound < 2.0**-10
    assert np.abs(rest.decrypt() - [0, 1, 0, 1]).max() < rest.estimate.error_bound


def test_intervals_nest_and_name_functions(encrypted: dict, clear: dict) -> None:
    x, y = encrypted["x"], encrypted["y"]
    with ckks.intervals((-2, 2), inverse=(0.25, 2), precision=12):
        with ckks.intervals(log=(0.25, 2)):
            made = (x / y, np.log(y), np.exp(y))
        with pytest.raises(errors.ParameterError, match="above zero"):
            np.log(y)
    for got, want in zip(made, (clear["x"] / clear["y"], np.log(clear["y"]), np.exp(clear["y"])),
                         strict=True):  # fmt: skip
        off = np.abs(got.decrypt() - want).max()
        assert off < got.estimate.error_bound < 2.0**-9
    with pytest.raises(errors.OperandError, match="on one side of zero"):
        x / y  # outside of the block
    with (
        pytest.warns(errors.MessageBoundWarning, match="may reach modulus 2"),
        ckks.intervals((-1, 1)),
    ):
        np.exp(y)  # an interval is not a promise
    with pytest.raises(errors.ParameterError, match="'sgrt'"), ckks.intervals(sgrt=(0.5, 2)):
        pass


# ------------------------------------------------------------------- what is known of intervals


def test_what_is_stated_follows_the_numbers_or_is_forgotten(encrypted: dict) -> None:
    p, x, w = encrypted["p"], encrypted["x"], encrypted["w"]
    kept = {
        "p": (0.25, 2), "-p": (-2, -0.25), "p + 1": (1.25, 3), "3 - p": (1, 2.75),
        "p * 2": (0.5, 4), "p * -0.5": (-1, -0.125), "p * p": (0.0625, 4), "p + p": (0.5, 4),
        "p * (p - 1)": (-1.5, 2), "p[1:3]": (0.25, 2),
        "p.roll(1)": (0.25, 2), "p.rotate(1)": (0, 2), "p.reshape(2, 2)": (0.25, 2),
        "p.drop_to(3)": (0.25, 2), "p.realize()": (0.25, 2), "p.within(0.5, 9)": (0.5, 2),
        "ckks.stack([p, p + 1])": (0.25, 3), "ckks.unstack(ckks.stack([p, p]))[0]": (0.25, 2),
        "(p - 1) ** 2": (0, 1), "p.conj()": (0.25, 2), "ckks.pad(p, 6)": (0, 2),
        "p[1:].rotate(-2)": (0, 2), "p[1:].mask()": (0.25, 2),
    }  # fmt: skip
    for code, (low, high) in kept.items():
        span = eval(code, {"p": p, "ckks": ckks}).span
        assert (span.low, span.high) == (low, high), code
    for lost in (p + x, p + w, p * w, p * 1j, p + 1j, p.sum(), p.mask(w),
                 ckks.concat([p, p]), p.tile(2), ckks.stack([p, x]), p[1:].rotate(1)):  # fmt: skip
        assert lost.span is None
    full = ckks.context(params=p.params).encrypt(np.linspace(0.5, 1, p.slots)).within(0.5, 1)
    assert full.rotate(3).span == Span(0.5, 1.0)
    assert p.within(None).span is None and p.within(None).estimate == p.estimate
    assert p.within(1).span == p.span and p.within(1).estimate.message_bound == 1


def test_bytes_hold_what_was_stated_and_no_numbers_in_the_clear(encrypted: dict) -> None:
    p, x = encrypted["p"], encrypted["x"]
    assert ckks.Ciphertext.from_bytes((-p * p).to_bytes()).span == Span(-4.0, -0.0625)
    assert pickle.loads(pickle.dumps(p)).span == Span(0.25, 2.0)
    assert pickle.loads(pickle.dumps(p + 1.5)).span is None and (p + 1.5).span is not None
    assert b"span" not in x.to_bytes()  # as before there were any


@pytest.mark.parametrize("bad", ([2.0, 1.0], [0.0], [0, 1], ["0", "1"], [0.0, 1e30], None))
def test_an_interval_in_bytes_is_checked(encrypted: dict, bad: Any, monkeypatch) -> None:
    from ren.schemes.ckks.encoding import serialization

    header = serialization._slots_header
    monkeypatch.setattr(
        serialization, "_slots_header", lambda *args: {**header(*args), "span": bad}
    )
    data = encrypted["x"].to_bytes()
    with pytest.raises(errors.SerializationError, match=r"interval of the numbers|not a list"):
        ckks.Ciphertext.from_bytes(data)


@pytest.mark.long
def test_capture_and_traces_take_what_is_stated(ctx: ckks.Context) -> None:
    values = np.array([1.5, 0.5, 0.25, 1.0])
    x = ctx.encrypt(values).within(0.25, 2)

    def f(v: Any) -> Any:
        return (1 / (v + 1)) if isinstance(v, np.ndarray) else f_of(v)

    def f_of(v: Any) -> Any:
        with ckks.intervals(precision=8):
            return 1 / (v + 1)

    want, jitted, traced = f(values), ren.jit(f), jax.jit(f)
    both = ckks.stack([x, x])
    for got in (f(x), jitted(x), jitted(x), traced(x), jax.vmap(f)(both)):
        off = np.abs(got.decrypt() - want).max()
        assert off < got.estimate.error_bound < 2.0**-7 and got.level == 1
    assert jitted.cache_info().plans == 1
    other = ctx.encrypt(values).within(0.25, 1.75)
    assert jitted(other).span != jitted(x).span and jitted.cache_info().plans == 2
    with ckks.intervals(inverse=(1.25, 3)):  # a plan of its own, and a trace
        assert jitted(x).level == traced(x).level == 1
    assert jitted.cache_info().plans == 3
    with pytest.raises(errors.OperandError, match="no interval is known here"):
        traced(ctx.encrypt(values))


@pytest.mark.long
def test_numbers_that_are_known_later_need_an_interval(deep: ckks.Context) -> None:
    """Of ren.jit and of JAX; plaintexts have a bound."""
    values, x = np.array([0.5, -0.5]), deep.encrypt([0.5, -0.5], level=7)
    f, p = ren.jit(lambda v, k: v > k), deep.encode([0.25, 0.25])
    with ckks.intervals(precision=4):
        with pytest.raises(errors.OperandError, match="no interval is known here"):
            f(x, 0.25)
        with ckks.intervals((-1, 1)):
            made = [f(x, 0.25), x > p, jax.jit(lambda v, k: v > k)(x, 0.25)]
        made.append(x > p)  # the bound of the plaintext
    for got in made:
        assert np.abs(got.decrypt() - (values > 0.25)).max() < 2.0**-4


@pytest.mark.long
def test_a_carry_keeps_its_interval_or_forgets_it(ctx: ckks.Context) -> None:
    x = ctx.encrypt([0.5, -0.5]).within(-1, 1)
    steps = jnp.array([0.25, 0.125])
    kept, _ = jax.lax.scan(lambda c, k: ((c + k).within(-1, 1), None), x, steps)
    lost, _ = jax.lax.scan(lambda c, k: (c + k, None), x.within(None), steps)
    assert kept.span == Span(-1.0, 1.0) and lost.span is None
    for got in (kept, lost):
        assert np.abs(got.decrypt() - [0.875, -0.125]).max() < got.estimate.error_bound < 1e-5


def test_a_bound_beyond_that_of_the_capture_is_reported(ctx: ckks.Context) -> None:
    f = ren.jit(lambda v: np.exp(v))
    with ckks.intervals(precision=8):
        assert np.abs(f(ctx.encrypt([0.5])).decrypt() - np.exp([0.5])).max() < 2.0**-8
        with pytest.warns(errors.MessageBoundWarning, match="may reach modulus 4"):
            wide = f(ctx.encrypt([3.0]))
    assert np.isinf(wide.estimate.error_bound)


def test_within_warns_of_an_overflow_as_before(ctx: ckks.Context) -> None:
    x = ctx.encrypt([1.0], level=1).within(0.5, 1)
    with pytest.warns(errors.MessageBoundWarning, match="beyond"):
        y = x * 2**40 * 2**15
    assert y.span == Span(2.0**54, 2.0**55, is_public=False)
    assert x.estimate.error_bound >= ctx.encrypt([1.0]).estimate.error_bound * 0.99


def test_conditions_in_the_clear_are_true_where_they_are_not_zero(encrypted) -> None:
    """Also where a captured or traced function gets them: NumPy's truth, not a factor."""
    x, y, condition = encrypted["x"], encrypted["y"], np.array([2.0, 0.0, -0.5, 0.0])
    wanted = np.where(condition, [0.5, 1.0, -0.75, 0.25], [1.5, 0.5, 0.25, 1.0])
    chosen = lambda c, x, y: np.where(c, x, y)  # noqa: E731
    for function in (chosen, ren.jit(chosen), jax.jit(chosen)):
        np.testing.assert_allclose(function(condition, x, y).decrypt(), wanted, atol=1e-5)


@pytest.mark.long
def test_numbers_of_each_call_divide_and_are_divided(encrypted) -> None:
    """Under ren.jit: k / ct is computed; what takes the value of k says so."""
    p = encrypted["p"]
    inverses = ren.jit(lambda v, k: k / v)
    for k in (3, 0.5):
        np.testing.assert_allclose(inverses(p, k).decrypt() * p.decrypt(), k, atol=1e-4)
    for needs in (
        lambda v, k: v % k, lambda v, k: v**k, lambda v, k: k**v, lambda v, k: v.within(k, 9)
    ):  # fmt: skip
        with pytest.raises(errors.TracedValueError, match=r"static_argnames='k'"):
            ren.jit(needs)(p, 2.5)


@pytest.mark.long
@pytest.mark.parametrize("mask", ([True, False, False, True], "g"))
def test_any_and_all_of_math_take_a_mask(encrypted, mask) -> None:
    g, truth = encrypted["g"], np.array([True, True, False, False])
    where = truth if mask == "g" else np.array(mask)
    for name in ("any", "all"):
        for ct, clear in ((g, truth), (~g, ~truth)):
            got = getattr(ckks.math, name)(ct, where=g if mask == "g" else mask)
            assert got.decrypt() == getattr(np, name)(clear, where=where)
            assert got.dtype == bool and got.estimate.error_bound < 1e-3


@pytest.mark.parametrize("gap", [1, 3.5, 0.0, -1.0])
def test_a_gap_that_reaches_the_divisor_is_named(ctx, gap) -> None:
    x = ctx.encrypt([1.0, 2.0]).within(0, 4)
    for function in (np.floor, np.ceil, lambda v: v % 1, lambda v: v // 1):
        with (
            ckks.intervals(gap=gap),
            pytest.raises(errors.ParameterError, match=r"gap=.*\s.*divisor"),
        ):
            function(x)


@pytest.mark.parametrize(
    "line",
    [
        lambda x: [[1, 2, 3], [4, 5]] @ x,
        lambda x: x @ [[1, 2], [3, 4], [5]],
        lambda x: x * [[1, 2], [3]],
        lambda x: x - [np.zeros(2), np.zeros(3)],
        lambda x: x.dot(([1, 2], [3])),
    ],
)
def test_rows_of_several_lengths_are_named(encrypted, line) -> None:
    with pytest.raises(errors.ParameterError, match=r"Rows of [12] and of [23] numbers"):
        line(encrypted["x"])


@pytest.mark.parametrize("values", [[[1, 2], [3]], [[[1], [2, 3]], [[1], [2, 3]]]])
def test_ragged_values_are_not_encrypted(ctx, values) -> None:
    for encode in (ctx.encrypt, ctx.encode, lambda m: ckks.linear(m, ctx)):
        with pytest.raises(errors.ParameterError, match="rows have one length"):
            encode(values)
