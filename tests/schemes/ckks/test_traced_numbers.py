"""Numbers and arrays that JAX traces, in sums, products and quotients of ciphertexts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren.core.errors import TracedValueError
from ren.lowering.kernels import embedding
from ren.schemes import ckks
from ren.schemes.ckks.encoding import encoder

V = np.array([1.5, 0.5, -0.5, 1.0])
W = np.array([0.5, -1.0, 2.0, 0.25])
LONG = np.linspace(-1, 1, 25)  # of two blocks


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    """n = 2^8, depth 2, 16 slots, repeated; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(2, n=256, security=None), slots=16)


@pytest.fixture(scope="module")
def x(ctx: ckks.Context) -> ckks.Ciphertext:
    return ctx.encrypt(V)


def check(got: ckks.Ciphertext, want: Any, level: int | None = None) -> None:
    """Numbers within the tracked error, and the level."""
    bound = got.estimate.error_bound
    assert bound < 1e-6 and (level is None or got.level == level)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.decrypt(), want, rtol=0, atol=bound)


OPERATIONS = {  # with the levels that each takes of a float, and of an integer
    "k * c": (lambda c, k: k * c, 1, 0),
    "k - c": (lambda c, k: k - c, 0, 0),
    "c - k": (lambda c, k: c - k, 0, 0),
    "c / k": (lambda c, k: c / k, 1, 1),
    "k * (c * c) + c": (lambda c, k: k * (c * c) + c, 2, 1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_numbers_are_encoded_inside_the_program(x: ckks.Ciphertext, name: str) -> None:
    f, of_float, of_integer = OPERATIONS[name]
    g = jax.jit(f)
    for k in (2.5, -0.375):  # one trace
        check(g(x, k), f(V, k), x.level - of_float)
    check(g(x, -7), f(V, -7.0), x.level - of_integer)
    check(g(x, W), f(V, W), x.level - of_float)


@pytest.mark.long
def test_types_of_numbers(x: ckks.Ciphertext) -> None:
    f = jax.jit(lambda c, k: (c * k, c - k))
    for k in (np.uint8(3), True, 0.5 - 2j, np.float16(0.5), W + 1j, np.arange(4)):
        want = np.asarray(k).astype(complex if np.iscomplexobj(k) else float)
        product, difference = f(x, k)
        check(product, V * want)
        check(difference, V - want)


@pytest.mark.parametrize(
    ("values", "other"),
    [
        (LONG[:16], 2.5),
        (0.5, 2.5),
        (0.5, W),
        (np.stack([V, W]), 2.5),
        (np.stack([V, W]), W),
        (np.stack([V, W]), np.array([[2.0], [-3.0]])),
        (V + 1j, W),
        (LONG, 2.5),
        (LONG, np.arange(25.0) / 8),
    ],
)
def test_shapes_broadcast_as_in_numpy(ctx: ckks.Context, values: Any, other: Any) -> None:
    y = ctx.encrypt(values)
    got = jax.jit(lambda c, k: (c * k, k - c))(y, other)
    for result, want in zip(got, (values * other, other - values), strict=True):
        check(result, want)


def test_a_row_broadcasts_over_a_matrix(ctx: ckks.Context) -> None:
    matrix = ctx.encrypt(V).reshape(2, 2)
    check(jax.jit(lambda c, k: c + k)(matrix, W[:2]), V.reshape(2, 2) + W[:2])


@pytest.mark.long
def test_loops_carry_one_type(ctx: ckks.Context, x: ckks.Ciphertext) -> None:
    steps, rows = jnp.arange(5.0), jnp.asarray(np.stack([V, W]))
    for y, values in ((x, V), (ctx.encrypt(LONG[:16]), LONG[:16]), (ctx.encrypt(0.5), 0.5)):
        check(jax.lax.scan(lambda c, v: (c + v, None), y, steps)[0], values + 10)
        check(jax.lax.fori_loop(0, 3, lambda i, c: c - i, y), values - 3)
    check(jax.lax.scan(lambda c, v: (c + v, None), x, rows)[0], V + V + W)
    factors = jnp.array([2, 3, -1])
    check(jax.lax.scan(lambda c, v: (c * v, None), x, factors)[0], V * -6, x.level)
    check(jax.lax.cond(True, lambda c, k: c + k, lambda c, k: c - k, x, 2.0), V + 2)


@pytest.mark.long
def test_vmap_maps_numbers_beside_ciphertexts(ctx: ckks.Context, x: ckks.Ciphertext) -> None:
    rows = np.stack([V, W])
    batch, two = ctx.encrypt(rows, pack="rows"), jnp.array([2.0, -3.0])
    column = np.array([[2.0], [-3.0]])
    check(jax.vmap(lambda c, k: c * k)(batch, two), rows * column)
    check(jax.vmap(lambda c, k: c + k)(batch, jnp.asarray(rows)), rows + rows)
    check(jax.jit(jax.vmap(lambda c, k: c / k, in_axes=(None, 0)))(x, two), V / column)
    many = jnp.array([[2.0, 3.0], [4.0, -5.0]])
    sums = jax.vmap(lambda c, ks: jax.lax.scan(lambda d, k: (d + k, None), c, ks)[0])
    check(jax.jit(sums)(batch, many), rows + np.array([[5.0], [-1.0]]))
    twice = jax.vmap(jax.vmap(lambda c, k: c + k, in_axes=(None, 0)), in_axes=(None, 0))
    check(jax.jit(twice)(x, many), V + np.asarray(many)[..., None])


def test_lists_of_traced_numbers_are_arrays(x: ckks.Ciphertext) -> None:
    check(jax.jit(lambda c, k, m: c * [k, m, k, 1.0])(x, 2.0, 4.0), V * [2, 4, 2, 1])
    check(jax.jit(lambda c, k, m: c / [k, m, k, 1.0])(x, 2.0, 4.0), V / [2, 4, 2, 1])
    with pytest.raises(TracedValueError, match="Pass the array as a constant"):
        jax.jit(lambda c, k: c.mask([k, k, k, 1.0]))(x, 2.0)


@pytest.mark.long
def test_plaintexts_and_dot_products(ctx: ckks.Context, x: ckks.Ciphertext) -> None:
    check(jax.jit(lambda c, k: c * ctx.encode(k) + ctx.encode(k, bound=2.0))(x, W), V * W + W)
    rows = np.stack([V, W])
    for pack in ("flat", "rows", "columns"):
        f = jax.jit(lambda c, k, pack=pack: c * ctx.encode(k, pack=pack))
        check(f(ctx.encrypt(rows, pack=pack), rows), rows * rows)
    ctx.rotation_keys([1 << i for i in range(4)])
    for product in jax.jit(lambda c, k: (c.dot(k), c @ k))(x, W):
        check(product, V @ W)


def test_a_jitted_function_of_ren_is_inlined(x: ckks.Ciphertext) -> None:
    f = ren.jit(lambda c, k: c / k + k)
    check(f(x, 2.5), V / 2.5 + 2.5)
    check(f(x, 4.0), V / 4 + 4)
    check(f(x, W), V / W + W)
    assert f.cache_info().plans == 2
    with pytest.raises(ckks.ParameterError, match="by zero"):
        f(x, 0.0)


def test_numbers_keep_float64_where_jax_does(x: ckks.Ciphertext) -> None:
    with jax.enable_x64(True):
        check(jax.jit(lambda c, k: c * k)(x, 0.1), V * 0.1)
    check(jax.jit(lambda c, k: c * k)(x, 0.1), V * np.float64(np.float32(0.1)))


@pytest.mark.parametrize(
    ("f", "k"),
    [
        (lambda c, k: c / k, 0.0),
        (lambda c, k: c + k, 1e30),
        (lambda c, k: c * k, float("nan")),
        (lambda c, k: c * k, float("inf")),
        (lambda c, k: c * k, np.full(4, 1e38)),
    ],
)
def test_what_does_not_fit_makes_the_error_unknown(x: ckks.Ciphertext, f: Any, k: Any) -> None:
    y = jax.jit(f)(x, k)
    assert np.isinf(y.estimate.error_bound)
    with pytest.warns(ckks.MessageBoundWarning, match="the error of these numbers is unknown"):
        y.decrypt()


def test_a_stated_bound_is_kept_to(ctx: ckks.Context, x: ckks.Ciphertext) -> None:
    f = jax.jit(lambda c, k: c + ctx.encode(k, bound=2.0))
    assert f(x, W).estimate.message_bound <= 4.0
    assert np.isinf(f(x, 2 * W).estimate.message_bound)


def test_what_needs_the_value_raises(x: ckks.Ciphertext) -> None:
    with pytest.raises(TracedValueError, match=r"Pass the array as a constant"):
        jax.jit(lambda c, k: k @ c)(x, np.eye(4))
    with pytest.raises(TracedValueError, match="static_argnums"):
        jax.jit(lambda c, k: c**k)(x, 2)
    with pytest.raises(TracedValueError, match=r"jax\.lax\.switch"):
        jax.jit(lambda c, k: c.rotate(k))(x, 2)
    with ckks.manual(), pytest.raises(TracedValueError):
        jax.jit(lambda c, k: c * k)(x, 2.0)
    with pytest.raises(ckks.DepthError, match="takes 1 level"):
        jax.jit(lambda c, k: c * k)(x.drop_to(0), 2.0)
    with pytest.raises(ckks.ParameterError, match=r"shapes \(4,\) and \(3,\)"):
        jax.jit(lambda c, k: c * k)(x, np.ones(3))


@pytest.mark.parametrize("scale", [2.0**40, 8.0])  # the second with offsets before the rounding
@pytest.mark.parametrize("slots", [8, 64, 512])
def test_traced_coefficients_are_those_of_the_host(slots: int, scale: float) -> None:
    n = 1024
    rng = np.random.default_rng(slots)
    values = rng.uniform(-1, 1, (2, slots - 3)) + 1j * rng.uniform(-1, 1, (2, slots - 3))
    tables = encoder.transform_tables(slots, scale)
    with jax.enable_x64(True):
        f = jax.jit(lambda z: embedding.coefficients(embedding.as_floats(z), *tables, n))
        got = np.asarray(f(values))
    want = encoder.encode(values, n, slots, int(scale))
    assert np.abs(got - want).max() <= 1  # two transforms in float64 round alike but for the last


def test_residues_of_traced_integers_are_exact() -> None:
    moduli = (1073643521, 1032193)
    numbers = [0, 1, -1, 3 * 2**40, -(2**62), 2**62 + 2**40, -12345678901, 2**39 - 1]
    large = [2.0**100, -(2.0**90 + 2.0**50), 2.0**63, -1.0]
    for given, dtype in ((numbers, np.int64), (large, np.float64), ([5, -7], np.int32)):
        with jax.enable_x64(True):
            limbs = np.asarray(
                jax.jit(lambda c: embedding.residues(c, moduli))(np.array(given, dtype))
            )
        for row, q in zip(limbs, moduli, strict=True):
            assert row.tolist() == [int(c) * 2**32 % q for c in given]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: (x * k).decrypt().sum(),
        lambda x, k: (x + k).decrypt().sum(),
        lambda x, k: (x / k).decrypt().sum(),
        lambda x, k: jax.jit(lambda k: x * jnp.full(3, k))(k).polys[0].limbs.sum().astype(float),
    ],
)
def test_derivatives_with_respect_to_numbers_that_meet_ciphertexts_are_refused(f):
    """Their rounding would make them zero."""
    x = ckks.context(2, n=1 << 10, security=None).encrypt([1.0, 2.0, 3.0])
    for derivative in (jax.grad, jax.value_and_grad, jax.jacfwd):
        with pytest.raises(ren.errors.TracedValueError, match="differentiates with respect to"):
            derivative(lambda k: f(x, k))(3.0)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.float64, np.complex128])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, ren.jit])
def test_arrays_of_numpy_are_mapped_over(ctx, dtype, wrap):
    """NumPy's 64-bit arrays pass for 32 bits inside `jax.vmap`."""
    batch, k = ckks.stack([ctx.encrypt(V), ctx.encrypt(W)]), np.array([1, 2]).astype(dtype)
    clear = np.stack([V, W])
    for function, want in (
        (lambda x, k: x * k, clear * k[:, None]),
        (lambda x, k: x + k, clear + k[:, None]),
        (lambda x, k: x / k, clear / k[:, None]),
    ):
        found = jax.vmap(wrap(function))(batch, k).decrypt()
        assert np.allclose(found, want, atol=2.0**-15)


def test_integers_that_jax_would_cut_are_refused(ctx):
    batch = ckks.stack([ctx.encrypt(V), ctx.encrypt(W)])
    with pytest.raises(ren.errors.OperandError, match="cuts to int32"):
        jax.vmap(lambda x, k: x * k)(batch, np.array([1 << 40, 1]))
