"""Types that numbers decrypt to: stated, promoted by arithmetic, kept in bytes and pytrees."""

from __future__ import annotations

import pickle
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import ren
from ren.core.errors import (
    LoopError,
    OperandError,
    ParameterError,
    PrecisionError,
    SerializationError,
)
from ren.schemes import ckks
from ren.schemes.ckks.encoding.ciphertext_data import DTYPES
from tests.schemes.ckks.frames import header_of, with_header

V, W = np.array([1, -2, 3, 4], np.int8), np.array([5, 6, -7, 8], np.int32)
F, B = np.array([0.5, 1.0, -2.0, 3.0], np.float32), np.array([True, False, True, True])
Z = np.array([1j, 2, 3 - 1j, 0.5], np.complex64)
CLEAR = {"v": V, "w": W, "f": F, "b": B, "z": Z, "np": np, "ckks": ckks}

# Expressions, and the type that comes out.
PROMOTED = """
v | int8
v + v | int64
v - w | int64
w * v | int64
-v | int64
3 * v - 1 | int64
1 - v | int64
v * V | int64
V + v | int64
v + [1, 2, 3, 4] | int64
v * np.uint8(7) | int64
v ** 2 | int64
v.sum() | int64
b.sum() | int64
b * v | int64
b | bool
-b | int64
1 - b | int64
v * 0.5 | float64
v + 1.0 | float64
v * 1.0 | float64
v + F | float32
v / 2 | float64
v / W | float64
f / F | float32
v / F | float32
f / np.float64(2) | float64
v + f | float32
f * 2.5 + 1 | float32
f - np.float64(1) | float64
f + 1j | complex64
z * z - 2 | complex64
z * f | complex64
z.real | float32
z.imag | float32
z.conj() | complex64
v.mean() | float64
f.mean() | float32
f.var() | float32
v.dot(V) | int64
f.dot(f) | float32
V @ v | int64
linear(np.diag(V)) @ v | int64
linear(np.diag(V)) @ f | float32
linear(np.diag(F)) @ v | float32
linear([[1, 2, 3, 4]] * 2) @ v | int64
linear(np.eye(4)) @ v | float64
linear(np.diag(V)) @ u | float64
linear(np.diag(Z)) @ f | complex64
linear(np.diag(V), paired=True) @ (linear(np.diag(W)) @ v) | int64
ckks.convolution(V, (4,), ctx) @ v | int64
v.reshape(2, 2) @ np.eye(2, dtype=np.float32) | float32
F.reshape(2, 2) @ f.reshape(2, 2) | float32
v.cumsum() | int64
v.tile(2) | int8
b.any() | bool
b.all(where=B) | bool
F - v | float32
v + u | float64
u * v | float64
v[1:] | int8
v.rotate(1)[:3] | int8
v.roll(1) | int8
v.reshape(2, 2) | int8
(v * w).drop_to(0) | int64
v.within(-4, 4) | int8
ckks.stack([v, v])[1] | int8
ckks.stack([v, w]) | int32
ckks.stack([v, w, f]) | float64
ckks.stack([b, v]) | int8
ckks.concat([v, v]) | int8
ckks.concat([v, w]) | int32
ckks.concat([f, z]) | complex64
ckks.concat([b, b]) | bool
ckks.concat([v, u]) | float64
ckks.where(b, v, w) | int32
ckks.where(g, v, w) | int32
ckks.where(g, v, 5) | int8
ckks.where(g, V, f) | float32
ckks.where(g, b, True) | bool
ckks.where(g, V, W) | int64
ckks.where(g, 1, 0) | int64
ckks.where(c, 1, 0) | float64
ckks.where(c, v, 0) | int8
ckks.where(g, v, u) | float64
np.where(B, f, z) | complex64
v.mask(B) | int8
f.mask(B) | float32
v.mask([2, 0, 1, 0]) | int64
v.mask([0.5, 0, 1, 0]) | float64
v.mask() | int8
v.sum(where=B) | int64
ckks.math.exp(f, (-4, 4), degree=3) | float32
ckks.math.max(f, v, (-8, 8), degree=3) | float32
ckks.math.max(v, w, (-8, 8), degree=3) | float64
ckks.math.min(f, 1, (-8, 8), degree=3) | float32
ckks.math.abs(f, (-4, 4), degree=3) | float32
ckks.math.sign(f, (-4, 4), degree=3) | float32
ckks.math.sign(v, (-4, 4), degree=3) | float64
ckks.math.greater(v, w, (-8, 8), degree=3) | float64
ckks.poly(f, [0.5, 0, 1]) | float64
~b | bool
b & b | bool
ckks.math.logical_or(b, B) | bool
b ^ True | bool
~t | int64
b & c | float64
ckks.math.exp(v, (-4, 4), degree=3) | float64
"""


@pytest.fixture(scope="module")
def encrypted(ctx):
    names = {name: ckks.typed(ctx.encrypt(CLEAR[name]), CLEAR[name].dtype) for name in "vwfbz"}
    numbers = {"u": ctx.encrypt([1.0, 2.0, 3.0, 4.0]), "g": ctx.encrypt(B)}
    truth = {"c": ctx.encrypt(B.astype(float)), "t": ctx.encrypt(B.astype(int))}
    truth = {name: x.within(0, 1) for name, x in truth.items()}
    arrays = {"V": V, "W": W, "F": F, "B": B, "Z": Z, "linear": partial(ckks.linear, context=ctx)}
    arrays["ctx"] = ctx
    return {**CLEAR, **names, **numbers, **truth, **arrays}


@pytest.fixture(scope="module")
def of_arrays(ctx, encrypted):
    """The same without a statement: encrypted arrays."""
    return {**encrypted, **{name: ctx.encrypt(CLEAR[name]) for name in "vwfbz"}}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("row", PROMOTED.strip().splitlines())
def test_arithmetic_promotes_types_or_forgets_them(encrypted, of_arrays, row) -> None:
    code, dtype = (part.strip() for part in row.split(" | "))
    for names in (encrypted, of_arrays):
        result = eval(code, names)
        got, plain = result.decrypt(), result.decrypt(result.default_dtype)
        assert result.dtype == got.dtype == np.dtype(dtype)
        assert plain.dtype == (np.complex128 if got.dtype.kind == "c" else np.float64)
        np.testing.assert_allclose(got, plain, atol=1e-3)
        if got.dtype.kind in "bui":
            np.testing.assert_array_equal(got, np.rint(plain))
    given = {name: x for name, x in of_arrays.items() if isinstance(x, ckks.Ciphertext)}
    assert ren.jit(lambda given: eval(code, {**of_arrays, **given}))(given).dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_type_comes_out(ctx, interpreted, dtype) -> None:
    values = np.array([1, 0, 1]).astype(dtype)
    x = ctx.encrypt(values)
    for got in (x.decrypt(dtype), ctx.decrypt(x, dtype=dtype), ckks.typed(x, dtype).decrypt()):
        assert got.dtype == values.dtype and got.shape == (3,)
        np.testing.assert_allclose(got, values, atol=1e-6)
    for array in (values, jnp.asarray(values), values[0]):  # JAX has 32 bits
        kept = ctx.encrypt(array)
        same = pickle.loads(pickle.dumps(kept))
        assert kept.decrypt().dtype == kept.dtype == same.dtype == array.dtype
        np.testing.assert_allclose(same.decrypt(), array, atol=1e-6)
        assert ckks.typed(kept, None).dtype == kept.default_dtype
    untyped = ctx.encrypt(values.tolist())
    assert untyped.decrypt().dtype == untyped.dtype == untyped.default_dtype
    number = ctx.encrypt(1.0).decrypt(dtype)
    assert number.dtype == values.dtype and number.shape == ()


def test_the_ends_of_integer_types(ctx, interpreted) -> None:
    for dtype in (np.int8, np.uint8, np.int16, np.uint16):
        ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max])
        np.testing.assert_array_equal(ctx.encrypt(ends).decrypt(dtype), ends)
        for beyond in (ends[0] - 1, ends[1] + 1):
            with pytest.raises(PrecisionError, match=rf"1 of 2 .*\s.* {ends[0]} to {ends[1]}"):
                ctx.encrypt([beyond, 0]).decrypt(dtype)
    with pytest.raises(PrecisionError, match="bool holds integers from 0 to 1"):
        ctx.encrypt([2.0]).decrypt(bool)
    assert ctx.encrypt([0.501, 1.499, -2.4]).decrypt(int).tolist() == [1, 1, -2]


def test_an_error_of_a_half_or_more_raises(ctx, interpreted) -> None:
    x = ctx.encrypt([1.0, 2.0])
    rough = (x.within(2.0**20) * x.within(2.0**20)).within(8) * 2**29
    assert rough.estimate.error_bound >= 0.5 and rough.decrypt().dtype == np.float64
    for integers in (lambda: rough.decrypt(int), lambda: ckks.typed(rough, np.int64).decrypt()):
        with pytest.raises(PrecisionError, match=r"(?s)as estimated.*below 1/2.*np\.rint"):
            integers()
    assert ckks.typed(rough, np.int64).decrypt(dtype=float).dtype == np.float64
    kept = ctx.encrypt(np.array([1, 2]))
    kept = (kept.within(2.0**20) * kept.within(2.0**20)).within(8) * 2**29
    with pytest.raises(PrecisionError, match=r"(?s)as estimated.*below 1/2.*np\.rint"):
        kept.decrypt()
    assert kept.decrypt(dtype=float).dtype == np.float64
    assert ckks.typed(rough, np.float32).decrypt().dtype == np.float32


def test_types_that_cannot_be(ctx, interpreted) -> None:
    x, z = ctx.encrypt([1.0]), ctx.encrypt([1j])
    for wrong in (object, "M8[s]", "no type", jnp.bfloat16, x, ctx.encrypt([1], level=1)):
        with pytest.raises(ParameterError, match="Write one of bool, int8"):
            x.decrypt(dtype=wrong)
        with pytest.raises(ParameterError, match=r"ckks\.typed\(\)"):
            ckks.typed(x, wrong)
    for real in (float, int, np.float32):
        with pytest.raises(OperandError, match=r"x\.real"):
            z.decrypt(dtype=real)
    with pytest.raises(OperandError, match="got a list"):
        ckks.typed([1.0], int)
    assert ckks.typed(ckks.typed(x, int), None).dtype == np.float64


def test_it_travels(encrypted) -> None:
    """Through bytes, pickle, pytrees, ren.jit, jax.jit, jax.vmap and loops."""
    v, w = encrypted["v"], encrypted["w"]
    for same in (
        ckks.Ciphertext.from_bytes(v.to_bytes()), pickle.loads(pickle.dumps(v)),
        jax.tree.map(lambda leaf: leaf, v),
    ):  # fmt: skip
        assert same.decrypt().dtype == np.int8 and np.array_equal(same.decrypt(), V)
    assert "int8" in repr(v) and "int8" not in repr(ckks.typed(v, None))
    product = lambda x, y: ckks.typed(x * y * 1.0, np.int32)  # noqa: E731
    for function in (product, ren.jit(product), jax.jit(product)):
        for _ in range(2):
            got = function(v, w).decrypt()
            assert got.dtype == np.int32 and np.array_equal(got, V * W)
    assert (
        jax.vmap(lambda x: x * 2)(ckks.stack([v, v])).decrypt().tolist() == [(2 * V).tolist()] * 2
    )
    whole = ckks.typed(v, np.int64)
    looped = ren.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x))
    assert looped(whole).decrypt().tolist() == (4 * V.astype(int)).tolist()
    with pytest.raises(LoopError, match=r"(?s)int8 and int64.*ckks\.typed"):
        looped(v)


@pytest.mark.long
def test_arrays_of_all_types_share_a_plan(ctx) -> None:
    """Their types are computed at each call; the first call has none."""
    truth = ctx.encrypt([True, False])
    function = lambda x, y: (  # noqa: E731
        x + x, (x * y)[1:], ckks.stack([x, y]), x * 0.5, x.mean(), ckks.concat([x, y]),
        ckks.where(truth, x, y), ckks.where(truth, x, 1), x.mask([True, False]), x.dot([1, 2]),
    )  # fmt: skip
    jitted = ren.jit(function)
    arrays = [[1, 2], np.array([1, 2], np.int8), np.float32([1, 2]), [1.5, 2.5], np.array([3, 4])]
    rows = [ctx.encrypt(values) for values in arrays]
    for x in rows:
        for y in rows:
            for got, want in zip(jitted(x, y), function(x, y), strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got.decrypt(), want.decrypt(), atol=1e-3)
    assert jitted.cache_info()[:2] == (24, 1)


CHOICES = {
    "where": lambda g, x, y: ckks.where(g, x, y),
    "concat": lambda g, x, y: ckks.concat([x, y]),
    "stack": lambda g, x, y: ckks.stack([x, y]),
}


@pytest.fixture(scope="module")
def choices(ctx):
    """From a choice and two types to its results, eager and by a plan."""
    truth, numbers = ctx.encrypt(B[:3]), {"list": ctx.encrypt([1.0, 0.0, 1.0])}
    numbers |= {dtype: ctx.encrypt(np.array([1, 0, 1]).astype(dtype)) for dtype in DTYPES}
    jitted = {name: ren.jit(function) for name, function in CHOICES.items()}

    def results(name, a, b):
        given = truth, numbers[a], numbers[b]
        return CHOICES[name](*given), jitted[name](*given)

    return results


@given(st.sampled_from([*CHOICES]), *[st.sampled_from([*DTYPES, "list"])] * 2)
@settings(max_examples=200, deadline=None)
def test_choices_have_the_type_that_numpy_gives_them(choices, name, a, b) -> None:
    """Where, concat and stack of any two types, eager and by a plan."""
    want = np.result_type(*(np.float64 if dtype == "list" else dtype for dtype in (a, b)))
    for got in choices(name, a, b):
        assert got.dtype == want


def test_transformations_of_jax_lose_the_types_of_arrays(ctx) -> None:
    """A type would be a part of their programs, and of the carries of their loops."""
    x = ctx.encrypt(V)
    thrice = lambda c: lax.fori_loop(0, 2, lambda i, y: y + c, c)  # noqa: E731
    for function in (thrice, ren.jit(thrice), jax.jit(thrice)):
        got = function(x).decrypt()
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, 3 * V.astype(int), atol=1e-4)
    beside = ren.jit(lambda c: (thrice(c), c + c, c.rotate(1), thrice(c) + c))
    for array, total in ((V, np.int64), (F, np.float32)):
        types = [r.decrypt().dtype for r in beside(ctx.encrypt(array))]
        assert types == [np.float64, total, array.dtype, np.float64]
    batch = jax.vmap(lambda c: c * 2)(ckks.stack([x, x]))
    assert batch.decrypt().dtype == np.float64
    assert jax.tree.map(lambda leaf: leaf, x).decrypt().dtype == np.float64


@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
def test_integers_from_60_bits_on_are_given_as_floats() -> None:
    params = ckks.Parameters.for_depth(1, 60, security=None, n=1 << 10, integer_bits=60)
    values = np.array([2**61, 2**60])
    x = ckks.context(params=params).encrypt(values).within(2.0**62)
    with pytest.raises(
        PrecisionError, match=r"from 2\^60 on have none.\nWrite x.decrypt\(dtype=fl"
    ):
        x.decrypt()
    np.testing.assert_allclose(x.decrypt(dtype=float), values, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
def test_integers_that_may_have_wrapped_around_raise() -> None:
    ctx = ckks.context(params=ckks.Parameters.for_depth(2, n=1 << 8, security=None))
    x = ctx.encrypt(np.array([1000, -1000]), level=1)
    y = x * x  # 10^6, beyond 2^9
    assert np.isinf(y.estimate.error_bound) and y.estimate.message_bound >= 10**6
    assert "may wrap around: error unknown" in str(y.estimate)
    assert "wrap around" in y.estimate._repr_html_() and "bits" not in repr(y)
    with pytest.raises(PrecisionError, match="may have wrapped around"):
        y.decrypt()
    assert y.decrypt(float).shape == (2,)
    small = ctx.encrypt(np.array([7, -2])).within(1000)  # a bound that is far off, and a true one
    square = small * small * np.int64(1)
    assert (small * small).within(50).decrypt().tolist() == [49, 4]
    assert square.within(50).estimate.error_bound < 0.5


def test_a_type_in_bytes_is_checked(encrypted, of_arrays) -> None:
    data, untyped = encrypted["v"].to_bytes(), encrypted["u"].to_bytes()
    array = of_arrays["v"].to_bytes()
    assert header_of(data)["dtype"] == header_of(array)["array"] == "int8"
    assert not {"dtype", "array"} & {*header_of(untyped)}
    for wrong in ("object", "int7", 3, ["int8"], ""):
        for changed in (with_header(data, dtype=wrong), with_header(array, array=wrong)):
            with pytest.raises(SerializationError, match="the type of the numbers is"):
                ckks.Ciphertext.from_bytes(changed)
    with pytest.raises(SerializationError, match="the type of the numbers is"):
        ckks.Ciphertext.from_bytes(with_header(encrypted["z"].to_bytes(), dtype="float32"))


@pytest.mark.parametrize(("matrix", "name"), [(W * np.eye(4, dtype=int), "int64"), (F, "float32")])
def test_the_type_of_a_map_stays_in_bytes_and_pytrees(ctx, of_arrays, matrix, name) -> None:
    made = ckks.linear(np.diag(matrix) if matrix.ndim == 1 else matrix, ctx)
    data = made.to_bytes()
    assert header_of(data)["number_type"] == name
    copies = [ckks.LinearMap.from_bytes(data), pickle.loads(pickle.dumps(made))]
    for m in (*copies, jax.tree.map(lambda leaf: leaf, made)):
        assert (m @ of_arrays["v"]).dtype == ren.jit(lambda m, x: m @ x)(m, of_arrays["v"]).dtype
        assert (m @ of_arrays["v"]).dtype == (matrix[:1] * V[:1]).dtype
    for wrong in ("object", "float128", 3, ["int8"]):
        with pytest.raises(SerializationError, match="the type of its numbers"):
            ckks.LinearMap.from_bytes(with_header(data, number_type=wrong))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex64", "bool"])
def test_types_outlive_the_clearing_of_leftovers(ctx, dtype) -> None:
    """Cleared by a product with a mask behind a slice, by a sum behind a number."""
    values = np.array([1, 0, 1, 1, 0]).astype(dtype)
    x, cut = ctx.encrypt(values), ctx.encrypt(values)[1:4]
    moved = [cut.rotate(1), cut.mask(), ckks.pad(cut, 5)]
    wants = [np.array([1, 1, 0]), values[1:4], np.array([0, 1, 1, 0, 0])]
    if dtype == "bool":
        moved += [(~x).rotate(2), (~x).rotate(2) & x, ~ckks.pad(~x, 7)]
        wants += [~np.roll(values, -2) & [1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 1, 1]]
        wants[-2] = wants[-3] & values
    for got, want in zip(moved, wants, strict=True):
        assert got.decrypt().dtype == dtype
        np.testing.assert_allclose(got.decrypt().astype(complex), want, atol=1e-5)
    shifted = (x + np.ones((), dtype)).rotate(1).decrypt()
    assert shifted.dtype == (x + np.ones((), dtype)).decrypt().dtype


def test_complex_coefficients_make_complex_numbers(ctx) -> None:
    """Also where their imaginary parts are zero, as with `numpy.polynomial`."""
    x = ctx.encrypt([1.0, 2.0])
    c = np.array([1, 2, 0.5])
    rows = np.stack([c, c + 1])
    for chosen in (c, rows):
        for function in (ckks.poly, ckks.chebyshev):
            y, z = function(x / 2, chosen), function(x / 2, chosen.astype(complex))
            assert (y.dtype, z.dtype) == (np.float64, np.complex128)
            assert np.abs(y.decrypt() - z.decrypt()).max() < 1e-6
            assert z.decrypt().dtype == np.complex128
