"""Matrices times encrypted vectors: values, levels, rotation keys and ModDowns."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import reduce
from typing import Any

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import strategies as st

import ren
from ren.core.errors import TracedValueError
from ren.poly.batching import item
from ren.schemes import ckks
from ren.schemes.ckks.arithmetic.automatic import add, multiply_plain
from ren.schemes.ckks.circuits import linear, linear_map
from ren.schemes.ckks.encoding.ciphertext_data import with_fields
from ren.schemes.ckks.encoding.plaintext import encode
from tests.properties.cases import EXAMPLES
from tests.schemes.ckks.frames import header_of, with_header, without

BAR = 2.0**-19


@pytest.fixture(scope="module")
def ctx4() -> ckks.Context:
    """n = 2^10, depth 4; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(4, n=1 << 10, security=None))


@pytest.fixture(scope="module")
def ctx64(ctx4: ckks.Context) -> ckks.Context:
    """The same with 64 slots, repeated."""
    return ckks.context(params=ctx4.params, slots=64)


def error(x: ckks.Ciphertext, want) -> float:
    got = x.decrypt()
    assert got.shape == np.shape(want) and got.dtype == np.asarray(want).dtype
    return float(np.abs(got - want).max())


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).uniform(-1, 1, shape)


@pytest.mark.once
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (16, 16), (2, 100), (40, 4)])
def test_any_shape_on_slots_that_are_not_clean(ctx4, shape):
    matrix, values = drawn(*shape), drawn(shape[1])
    x = ctx4.encrypt(values) + 0.5  # the padding is no longer zero
    y = matrix @ x
    assert y.level == x.level - 1
    assert error(y, matrix @ (values + 0.5)) < BAR


@pytest.mark.parametrize(
    ("shape", "is_lower"),
    [
        ((9, 9), False),
        ((9, 9), True),
        ((3, 175), False),
        ((1250, 7), False),
        ((20, 625), True),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (((3, 175), True), ((1250, 7), True), ((20, 625), False))
        ),
    ],
)
def test_a_map_equals_the_sum_of_its_products_bit_for_bit(ctx4, monkeypatch, shape, is_lower):
    """Parts of two diagonals; a band, one giant step, whose ModDowns are one."""
    monkeypatch.setattr(linear, "_PART", 0)
    monkeypatch.setattr(linear, "_LEAST", 2)

    def summed(factors: linear_map.Factors, *terms: ckks.Ciphertext) -> ckks.Ciphertext:
        products = [
            multiply_plain(x, with_fields(p, wide=item(p.wide, i, 0), noise=p.noise[i]))
            for p, indices, met in factors.parts(terms)
            for i, x in zip(indices, met, strict=True)
        ]
        return reduce(add, products)

    matrix = drawn(*shape)
    for m in (matrix, np.triu(np.tril(matrix, 1), -1)):
        x = ctx4.encrypt(drawn(shape[1]))
        found = ckks.linear(m, ctx4, level=2 if is_lower else None)
        assert len(found.plaintexts) > 1
        made = ren.realize(found @ x)
        with monkeypatch.context() as patch:
            patch.setattr(linear_map, "sum_of_products", summed)
            expected = ren.realize(found @ x)
        assert all(map(ren.equal, made.polys, expected.polys))
        assert np.allclose(made.noise, expected.noise, rtol=1e-5, atol=0)
        assert ren.equal(ren.jit(found.__matmul__)(x).polys[0], made.polys[0])


def test_a_matrix_of_all_slots(ctx64):
    matrix, values = drawn(64, 64), drawn(64)
    x = ctx64.encrypt(values)
    assert error(matrix @ x, matrix @ values) < BAR
    assert error(x @ matrix, values @ matrix) < BAR
    assert error(matrix[:10] @ x, matrix[:10] @ values) < BAR


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
def test_sparse_arrays_and_entries_are_matrices(ctx4):
    rows, columns, values = [0, 1, 1, 3, 1], [0, 5, 5, 2, 0], [1.0, 2, 3, 4, 0]
    sparse = scipy.sparse.coo_array((values, (rows, columns)), shape=(4, 6))
    x = np.arange(6.0) / 6
    ct, want = ctx4.encrypt(x), sparse.toarray() @ x
    for matrix in (sparse, sparse.tocsr(), (rows, columns, values, (4, 6))):
        encoded = ckks.linear(matrix, ctx4)
        assert encoded.shape == (4, 6) and len(encoded.places) == 3
        np.testing.assert_allclose((encoded @ ct).decrypt(), want, atol=1e-6)
    np.testing.assert_allclose((ct @ sparse.T).decrypt(), want, atol=1e-6)


@pytest.mark.parametrize(
    "entries",
    [
        ([0], [0, 1], [1.0], (2, 2)),
        ([5], [0], [1.0], (2, 2)),
        ([0], [-1], [1.0], (2, 2)),
        ([0.5], [0], [1.0], (2, 2)),
        ([0], [0], [1.0], (2,)),
        ([0], [0], ["a"], (2, 2)),
        ([], [], [], (2, 2)),
    ],
)
def test_entries_that_are_no_matrix_are_refused(ctx4, entries):
    with pytest.raises(ckks.ParameterError):
        ckks.linear(entries, ctx4)


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")  # of the zeros
def test_structured_and_complex_matrices(ctx4):
    values, z = drawn(30), drawn(30) + 1j * drawn(30, 1)[:, 0]
    x = ctx4.encrypt(values)
    banded = np.triu(np.tril(drawn(30, 30), 1), -1)
    toeplitz = drawn(59)[np.arange(30)[:, None] - np.arange(30) + 29]
    for matrix in (banded, toeplitz, np.diag(drawn(30)), np.eye(30), np.zeros((4, 30))):
        assert error(matrix @ x, matrix @ values) < BAR
    assert error(toeplitz * 1j @ x, toeplitz * 1j @ values) < BAR
    assert error(toeplitz @ ctx4.encrypt(z), toeplitz @ z) < BAR
    assert error([[1, 2, 3]] @ x[:3], np.array([[1, 2, 3]]) @ values[:3]) < BAR


def test_a_server_needs_fourteen_keys_for_a_matrix_of_64(ctx4, ctx64):
    matrix, values = drawn(64, 64), drawn(64)
    for owner, keys in ((ctx64, None), (ctx4, 14)):
        owner = ckks.context(params=owner.params)
        encoded = ckks.linear(matrix, owner, keys=keys)
        assert len(encoded.rotations) <= 14
        owner.rotation_keys(encoded.rotations)
        x = owner.encrypt(values)
        with owner.server():
            y = encoded @ x
        assert error(y, matrix @ values) < BAR


@pytest.mark.once
@pytest.mark.parametrize("keys", [3, 4, 6])
def test_few_keys(ctx4, keys):
    matrix, values = drawn(12, 12), drawn(12)
    encoded = ckks.linear(matrix, ctx4, keys=keys)
    assert len(encoded.rotations) <= keys
    assert error(encoded @ ctx4.encrypt(values), matrix @ values) < BAR


def test_one_mod_up_for_the_babies_and_one_pair_of_mod_downs_for_the_giants(ctx64):
    matrix, x = drawn(64, 64), ctx64.encrypt(drawn(64))
    encoded = ckks.linear(matrix, ctx64)
    shown = ren.stages(lambda x: encoded @ x, x)
    # What each of 7 giants rotates is divided by P once, and then their sum: not 64 + 7 times.
    assert shown["sink_mod_down"].count("= MODDOWN") == 2 * (7 + 1)
    p = ctx64.params
    high, low = (
        sum(not set(p.ring(level).moduli).isdisjoint(digit) for digit in p.digits)
        for level in (x.level, x.level - 1)
    )
    assert shown["sink_mod_down"].count("= MODUP") == high + 7 * low


@pytest.mark.slow
def test_lower_levels_and_reuse(ctx4):
    matrix, values = drawn(6, 6), drawn(6)
    with ctx4:
        encoded = ckks.linear(matrix, level=2)
    assert encoded.level == 2 and repr(encoded).startswith("LinearMap(6 x 6, 6 diagonals at level")
    x = ctx4.encrypt(values)
    for level, after in ((4, 1), (2, 1), (1, 0)):
        y = encoded @ x.drop_to(level)
        assert y.level == after and error(y, matrix @ values) < BAR
    twice = encoded @ (encoded @ x)
    assert error(twice, matrix @ (matrix @ values)) < BAR


@pytest.mark.long
@pytest.mark.once
def test_batches_are_multiplied_where_numpy_means_the_same(ctx4):
    matrix, rows = drawn(3, 3), drawn(3, 3)
    batch = ctx4.encrypt(rows, pack="rows")
    for left in (matrix, rows[0], matrix[:2]):  # a sum over the batch axis
        assert error(left @ batch, left @ rows) < BAR
        assert error(ren.jit(lambda x, left=left: left @ x)(batch), left @ rows) < BAR
    for product in (
        lambda: batch @ batch,
        lambda: ctx4.encrypt(rows[0]) @ batch,
        lambda: ren.jit(lambda x: x @ x)(batch),
        lambda: batch.dot(batch),
    ):
        with pytest.raises(ckks.ParameterError, match=r"Write (.|\n)*x\.dot\(y\)"):
            product()
    with pytest.raises(ckks.ParameterError, match="each of the 2 places"):
        drawn(5) @ ctx4.encrypt(drawn(2, 5), pack="rows")
    assert error(batch @ rows[0], rows @ rows[0]) < BAR
    assert error(batch @ matrix.T, rows @ matrix.T) < BAR
    assert error(ckks.linear(matrix, ctx4) @ batch, rows @ matrix.T) < BAR
    assert error(jax.vmap(lambda x: matrix @ x)(batch), rows @ matrix.T) < BAR


@pytest.mark.slow
def test_under_jit_and_vmap(ctx4):
    matrix, values = drawn(6, 6), drawn(2, 6)
    encoded = ckks.linear(matrix, ctx4)
    f = ren.jit(lambda a, x: a @ x + 1.0)
    for v in values:
        assert error(f(encoded, ctx4.encrypt(v)), matrix @ v + 1) < BAR
    assert f.cache_info().hits == 1
    closed = ren.jit(lambda x: matrix @ x)
    assert error(closed(ctx4.encrypt(values[0])), matrix @ values[0]) < BAR
    mapped = jax.vmap(lambda x: encoded @ x)(ctx4.encrypt(values, pack="rows"))
    assert error(mapped, values @ matrix.T) < BAR


FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "wide": lambda m, x: m[:3] @ x,
    "square": lambda m, x: m @ x,
    "tall": lambda m, x: m.T[:, :6] @ x,
    "on the right": lambda m, x: x @ m.T,
    "computed": lambda m, x: (2 * m - m[::-1] * 0.5) @ x,
    "of matrices": lambda m, x: (m.T[:6, :6] @ m) @ x,
    "twice": lambda m, x: m[:, :6] @ (m[:6] @ x),
}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("form", FORMS)
def test_a_matrix_among_the_arguments_is_an_input_of_the_plan(ctx4, form):
    """The plan does not depend on its numbers, nor on which of them are zero."""
    f, values = ren.jit(FORMS[form]), drawn(6)
    matrix = drawn(6, 6) if form != "tall" else drawn(6, 9)
    x = ctx4.encrypt(values)
    for m in (matrix, np.triu(matrix), 0.3 * matrix[::-1], np.zeros_like(matrix)):
        assert error(f(m, x), FORMS[form](m, values)) < BAR
    assert f.cache_info()[:3] == (3, 1, 1)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool, np.complex128])
def test_matrices_of_other_types_are_arguments_too(ctx4, dtype):
    f, values = ren.jit(lambda layer, x: layer["w"][0] @ x), drawn(5)
    first, second = (10 * drawn(4, 5, 1)[..., 0]).astype(dtype), np.eye(4, 5, dtype=dtype)
    for m in (first, second, jnp.asarray(second)):
        want = np.asarray(m) @ values
        assert np.abs(f({"w": [m]}, ctx4.encrypt(values)).decrypt() - want).max() < BAR
    assert f.cache_info().hits == 1  # an array of NumPy and one of JAX have a plan each


@pytest.mark.usefixtures("interpreted")
def test_lists_of_rows_are_matrices_among_the_arguments(ctx4):
    values = drawn(3)
    f, g = ren.jit(lambda m, x: m @ x), ren.jit(lambda m, x: x @ m)
    for m in ([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0], [2.0, 0.0, 0.5]]):
        assert error(f(m, ctx4.encrypt(values)), np.array(m) @ values) < BAR
        assert error(f([np.array(row) for row in m], ctx4.encrypt(values)), m @ values) < BAR
        assert error(g(np.transpose(m).tolist(), ctx4.encrypt(values)), m @ values) < BAR
    assert f.cache_info()[:2] == (2, 2)  # numbers and arrays have a plan each
    assert g.cache_info()[:2] == (1, 1)


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_tables_and_blocks_meet_matrices_that_are_arguments(ctx4):
    matrix, table, long = drawn(4, 6), drawn(6, 2), drawn(700)
    flat, columns = ctx4.encrypt(table), ctx4.encrypt(table, pack="columns")
    rows = ctx4.encrypt(table.T, pack="rows")
    for f, x, want in (
        (lambda m, t: m @ t, flat, lambda m: m @ table),
        (lambda m, t: m @ t, columns, lambda m: m @ table),
        (lambda m, t: t @ m.T, rows, lambda m: table.T @ m.T),
        (lambda m, t: m[0] @ t, flat, lambda m: m[0] @ table),
        (lambda m, t: t @ m[0, :2], flat, lambda m: table @ m[0, :2]),
    ):
        g = ren.jit(f)
        for m in (matrix, np.tril(matrix)):
            assert error(g(m, x), want(m)) < BAR
        assert g.cache_info().misses == 1
    g, wide = ren.jit(lambda m, v: m @ v), drawn(2, 700) / 20
    for m in (wide, wide[::-1]):
        assert error(g(m, ctx4.encrypt(long)), m @ long) < BAR


@pytest.mark.usefixtures("interpreted")
def test_maps_are_encoded_of_arguments_inside_of_a_function(ctx4):
    values = drawn(6)
    for how in ({}, {"paired": True}, {"outputs": [4, 0, 2]}):
        f = ren.jit(lambda m, x, how=how: ckks.linear(m, ctx4, **how) @ x)
        for m in (drawn(3, 6), np.eye(3, 6)):
            want = m @ values
            if "outputs" in how:
                want = np.array([want[1], 0, want[2], 0, want[0]])
            assert error(f(m, ctx4.encrypt(values)), want) < BAR
        assert f.cache_info().misses == 1


@pytest.mark.long
def test_a_server_with_the_keys_of_a_plan_takes_any_matrix_of_that_shape(ctx4):
    f, values = ren.jit(lambda m, x: m @ x), drawn(8)
    banded = np.eye(8) + np.eye(8, k=1)
    plan = ren.plan(f, banded, ckks.spec(8), n=1 << 10, security=None)
    assert plan.rotations == ren.plan(f, drawn(8, 8), ckks.spec(8)).rotations
    assert ren.plan(lambda m, x: m @ x, banded, ckks.spec(8)).rotations == (1,)
    owner = ckks.context(params=plan.params)
    owner.rotation_keys(plan.rotations)
    server = owner.server()
    for m in (banded, drawn(8, 8)):
        x = ckks.Ciphertext.from_bytes(owner.encrypt(values).to_bytes())
        with server:
            y = f(m, x)
        assert np.abs(owner.decrypt(y) - m @ values).max() < BAR


def test_a_function_that_asks_for_the_numbers_of_a_matrix_names_static_arguments(ctx4):
    for f in (ren.jit(lambda m, x: abs(m) @ x), ren.jit(lambda m, x: np.linalg.inv(m) @ x)):
        with pytest.raises(TracedValueError, match=r"static_argnames='m'"):
            f(drawn(6, 6), ctx4.encrypt(drawn(6)))


def test_entries_that_are_too_large_for_a_plan_are_captured_anew(ctx4):
    f, values = ren.jit(lambda m, x: m @ x), np.full(2, 2.0**-12)
    for size in (1.0, 2.0**12):
        m = size * np.array([[1.0, 2.0], [0.0, 1.0]])
        assert np.allclose(f(m, ctx4.encrypt(values)).decrypt(), m @ values, rtol=1e-4)


def band(m: int, k: int, low: int, high: int) -> np.ndarray:
    return np.triu(np.tril(drawn(m, k), high), low)


@pytest.mark.parametrize(
    "matrix", [band(150, 130, -1, 1), drawn(2, 130), 1j * band(70, 64, 0, 1)], ids=np.shape
)
def test_matrices_beyond_the_slots(ctx64, matrix):
    values = drawn(matrix.shape[1])
    x = ctx64.encrypt(values)
    y = matrix @ x
    assert y.level == x.level - 1 and y.layout.blocks == -(-len(matrix) // 64)
    largest = np.abs(matrix).sum(1).max()
    assert largest <= y.estimate.message_bound <= 2 * largest  # a power of two
    assert error(y, matrix @ values) < min(BAR, y.estimate.error_bound)


def test_a_plan_of_a_matrix_knows_its_rotations(ctx64):
    matrix = band(600, 700, -1, 2)
    small = ckks.context(params=ckks.Parameters.for_depth(1, n=1 << 10, security=None))
    plan = ren.plan(lambda x: matrix @ x, ckks.spec(700), n=1 << 10, security=None)
    assert plan.depth == 1 and not plan.needs_products
    assert list(plan.rotations) == ckks.linear(matrix, small).rotations == [-1, 2]
    matrix = drawn(40, 40)
    free = ckks.linear(matrix, ctx64)
    for keys in (3, 6, 9):
        some = ckks.linear(matrix, ctx64, keys=keys)
        assert len(some.rotations) <= keys < len(free.rotations)
        assert some.split.rotations >= free.split.rotations
    x = ctx64.encrypt(drawn(40))
    with pytest.raises(ckks.ParameterError, match=r"keys=1\.(.|\n)*2 rotation keys at least"):
        ckks.linear(matrix, ctx64, keys=1, leftovers=True)
    with ctx64.server(rotations=[]), pytest.raises(ckks.MissingKeyError, match="rotation by"):
        free @ x


TALL = [(1, 1), (7, 7), (32, 32), (33, 33), (40, 3), (61, 2), (64, 1), (60, 8)]
IN_ALL_WAYS = ((7, 7), (60, 8), (200, 5), (3, 61))
RARER = [pytest.param(s, marks=pytest.mark.slow) for s in ((20, 1), (13, 13), (130, 1))]


@pytest.mark.long
@pytest.mark.once
@pytest.mark.parametrize("shape", [*TALL, (200, 5), (3, 61), (5, 200), *RARER])
def test_tall_and_square_matrices_replicate_their_vector(ctx64, shape):
    matrix, rows = drawn(*shape), drawn(2, shape[1])
    x, encoded = ctx64.encrypt(rows[0]), ckks.linear(matrix, ctx64)
    m, k = shape
    tiles = -(-m // 64) * -(-k // 64)
    assert len(encoded.places) <= tiles * (1 << (min(m, k) - 1).bit_length())
    batch = ctx64.encrypt(rows, pack="rows")
    wanted: list[tuple[Callable[[], Any], np.ndarray]] = [
        (lambda: encoded @ x, matrix @ rows[0]),
        # A number beyond the length: a sum.
        (lambda: matrix @ (x + 0.5), matrix @ (rows[0] + 0.5)),
        (lambda: encoded @ batch, rows @ matrix.T),
    ]
    if shape in IN_ALL_WAYS:
        wanted += [
            (lambda: matrix @ x, matrix @ rows[0]),
            (lambda: x @ matrix.T, matrix @ rows[0]),
            (lambda: encoded @ (x + 0.5), matrix @ (rows[0] + 0.5)),
            (lambda: jax.vmap(lambda x: encoded @ x)(batch), rows @ matrix.T),
        ]
    for multiplied, want in wanted:
        y = multiplied()
        assert y.level == x.level - 1
        assert error(y, want) < min(BAR, np.max(y.estimate.error_bound))


@pytest.mark.once
def test_leftovers_are_cleared_before_a_vector_is_replicated(ctx4):
    matrix, values = drawn(9, 9), drawn(12)
    x, part = ctx4.encrypt(values), values[2:11]
    replicating, plain = (ckks.linear(matrix, ctx4, leftovers=flag) for flag in (False, True))
    assert len(replicating.places) == 9 and len(plain.places) == 17
    for y, levels in ((replicating @ x[2:11], 2), (plain @ x[2:11], 1), (matrix @ x[2:11], 1)):
        assert y.level == 4 - levels and error(y, matrix @ part) < BAR
        assert y.layout.tail.is_zero
    low = x.drop_to(1)
    assert error(plain @ low[:9], matrix @ values[:9]) < BAR
    with pytest.raises(ckks.DepthError, match=r"takes two levels(.|\n)*leftovers=True"):
        replicating @ low[2:11]
    with pytest.raises(ckks.DepthError, match="takes 1 level"):
        replicating @ x[2:11].drop_to(0)


def test_a_server_and_a_plan_have_the_keys_of_a_tall_matrix(ctx4):
    matrix, values = drawn(50, 7), drawn(7)
    owner = ckks.context(params=ctx4.params)
    encoded, x = ckks.linear(matrix, owner), owner.encrypt(values)
    assert len(encoded.rotations) == len(encoded.split.keys) <= 7
    plan = ren.plan(lambda x: matrix @ x, ckks.spec(7), n=1 << 10, security=None)
    assert plan.depth == 1 and list(plan.rotations) == encoded.rotations
    with owner.server(rotations=encoded.rotations):
        results = encoded @ x, matrix @ x, ren.jit(lambda m, x: m @ x)(encoded, x)
    for y in results:
        assert error(y, matrix @ values) < BAR


@pytest.mark.slow
def test_long_vectors_under_jit_vmap_and_in_batches(ctx64):
    matrix, values = band(130, 70, -1, 1), drawn(2, 70)
    encoded, x = ckks.linear(matrix, ctx64), ctx64.encrypt(values, pack="rows")
    f = ren.jit(lambda a, x: a @ x)
    largest = np.abs(matrix).sum(1).max()
    for v in values:
        y = f(encoded, ctx64.encrypt(v))
        assert error(y, matrix @ v) < BAR
        assert largest <= y.estimate.message_bound <= 2 * largest  # powers of two
    assert f.cache_info().hits == 1
    want = values @ matrix.T
    assert error(encoded @ x, want) < BAR
    assert error(jax.vmap(lambda x: encoded @ x)(x), want) < BAR
    assert error(jax.jit(lambda a, x: a @ x)(encoded, x), want) < BAR


def test_matrices_of_numbers_by_their_shape(ctx64):
    left, middle, right = drawn(2, 3), drawn(3, 4), drawn(4, 1)
    x = ctx64.encrypt(middle.ravel()).reshape(3, 4)
    assert error(x, middle) < BAR and error(x.reshape(-1), middle.ravel()) < BAR
    assert error(x.reshape((2, -1)), middle.reshape(2, 6)) < BAR
    assert error(left @ x, left @ middle) < BAR
    y = x @ right
    assert error(y, middle @ right) < BAR
    assert error(ckks.Ciphertext.from_bytes((y * 2).to_bytes()), 2 * middle @ right) < BAR
    column = drawn(3, 1)
    assert error((x + column) * drawn(4) - middle, (middle + column) * drawn(4) - middle) < BAR
    jitted = ren.jit(lambda x, c: x * c)
    assert error(jitted(x, column), middle * column) < BAR
    assert error(x.reshape(-1) + np.arange(12.0), middle.ravel() + np.arange(12.0)) < BAR
    with pytest.raises(ckks.ParameterError, match=r"shapes \(3, 4\) and \(12,\)"):
        x + np.arange(12.0)
    for bad in (lambda: right @ x, lambda: x @ left, lambda: left @ x.reshape(3, 2, 2)):
        with pytest.raises(ckks.ParameterError, match=r"ct\.reshape\(-1\)"):
            bad()
    for shape in ((7, 7), (), (-1, 7), ("a",)):
        with pytest.raises(ckks.ParameterError, match="12 numbers was to have"):
            x.reshape(*shape)


def test_what_does_not_fit_is_refused(ctx4):
    x = ctx4.encrypt(drawn(5))
    with pytest.raises(ckks.ParameterError, match="takes a vector of 4 numbers"):
        drawn(4, 4) @ x
    for bad in (np.zeros((2, 5, 5)), np.zeros((0, 5)), np.array([["a"]])):
        with pytest.raises(ckks.ParameterError, match="matrix"):
            bad @ x
    with pytest.raises(ckks.ParameterError, match="met a ciphertext of others"):
        ckks.linear(np.eye(5), ckks.context(params=ctx4.params, slots=64)) @ x
    with pytest.raises(ckks.ContextError, match="none is active"):
        ckks.linear(np.eye(2))
    with pytest.raises(ckks.DepthError, match="with a matrix takes 1 level"):
        np.eye(5) @ x.drop_to(0)


def test_a_line_that_is_repeated_encodes_its_matrix_once(ctx4, monkeypatch):
    """By content: a matrix that changes in place, another level and `ren.jit` encode their own."""
    encoded, kept = [], linear.KeptMaps(1 << 24)
    monkeypatch.setattr(linear, "_KEPT", kept)
    monkeypatch.setattr(linear, "encode", lambda *a, **k: (encoded.append(a), encode(*a, **k))[1])
    matrix, values = drawn(6, 6), drawn(6)
    x = ctx4.encrypt(values)
    results = [(matrix @ x).realize() for _ in range(4)]
    count = len(encoded) // 2  # the first line keeps nothing, the second what it encodes
    assert len(encoded) == 2 * count == 2 and kept.nbytes > 0
    assert all(error(y, matrix @ values) < BAR for y in results)
    assert len({np.asarray(p.limbs).tobytes() for y in results for p in y.polys}) == 2
    matrix[2, 3] += 1
    assert error(matrix @ x, matrix @ values) < BAR and len(encoded) == 3 * count
    lower = x.drop_to(x.level - 1)
    assert error(matrix @ lower, matrix @ values) < BAR and len(encoded) == 4 * count
    before = kept.nbytes
    assert error(ren.jit(lambda x: matrix @ x)(x), matrix @ values) < BAR
    assert len(encoded) > 4 * count and kept.nbytes == before


def test_kept_maps_are_bounded(ctx4, monkeypatch):
    one = ckks.linear(drawn(6, 6), ctx4)
    size = sum(p.nbytes for p in one.plaintexts)
    kept = linear.KeptMaps(3 * size, most_seen=5)
    for key in [*range(9), *range(9)]:
        for _ in range(2):
            assert kept.found(key, lambda: one) is one
        assert kept.nbytes <= 3 * size
    assert kept.found(8, lambda: pytest.fail("it is kept")) is one
    made = []
    assert linear.KeptMaps(size - 1).found(0, lambda: made.append(1) or one) is one
    small = linear.KeptMaps(size - 1)
    for _ in range(3):
        small.found(0, lambda: made.append(1) or one)
    assert len(made) == 4 and small.nbytes == 0


def test_columns_and_rows_stand_in_the_slots_that_are_told(ctx4):
    draw = np.random.default_rng(5)
    inputs, outputs = draw.permutation(90)[:12], draw.permutation(70)[:9]
    matrix, values = drawn(9, 12), drawn(int(inputs.max()) + 1)
    found = ckks.linear(matrix, ctx4, inputs=inputs, outputs=outputs, leftovers=True)
    want = np.zeros(int(outputs.max()) + 1)
    want[outputs] = matrix @ values[inputs]
    assert error(found @ ctx4.encrypt(values), want) < BAR
    behind = ckks.linear(matrix.T, ctx4, level=3, inputs=outputs, leftovers=True)
    assert error(behind @ (found @ ctx4.encrypt(values)), matrix.T @ want[outputs]) < BAR


def test_rows_of_a_wide_map_may_be_told_too(ctx4):
    outputs = np.array([6, 0, 3])
    matrix, values = drawn(3, 200), drawn(200)
    want = np.zeros(7)
    want[outputs] = matrix @ values
    y = ckks.linear(matrix, ctx4, outputs=outputs) @ ctx4.encrypt(values)
    assert error(y, want) < BAR


@pytest.mark.long
def test_a_convolution_into_one_grid_has_few_diagonals(ctx4):
    kernels, image = drawn(4, 1, 3, 3), drawn(1, 12, 12)
    channel, row, column = np.indices((4, 6, 6))
    grid = (2 * row + channel // 2) * 12 + 2 * column + channel % 2
    shape, how = (1, 12, 12), {"stride": 2, "padding": "same"}
    plain = ckks.convolution(kernels, shape, ctx4, **how)
    found = ckks.convolution(kernels, shape, ctx4, outputs=grid.ravel(), **how)
    assert len(found.places) == 16 < len(plain.places) / 4
    want = (plain @ ctx4.encrypt(image)).decrypt().ravel()
    y = found @ ctx4.encrypt(image)
    assert y.shape == (144,)
    assert np.abs(y.decrypt()[grid.ravel()] - want).max() < BAR


@pytest.fixture(scope="module")
def ctx26() -> ckks.Context:
    """n = 2^10, depth 4, a scale of 2^26; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(4, 26, n=1 << 10, security=None))


@pytest.mark.long
@pytest.mark.parametrize(
    ("bits", "largest", "share"),
    [
        (40, 1.0, 0.4),
        (26, 1.9, 0.2),
        *(
            pytest.param(*given, marks=pytest.mark.once)
            for given in (
                (40, 1.0, 1.0),
                (40, 1.0, 0.8),
                (26, 2.1, 0.4),
            )
        ),
    ],
)
def test_diagonals_kept_as_coefficients_give_the_same_bits(
    request, monkeypatch, bits, largest, share
):
    monkeypatch.setattr(linear, "_PART", 1)
    ctx4 = request.getfixturevalue("ctx4" if bits == 40 else "ctx26")
    matrix, values = drawn(20, 20), drawn(2, 20)
    matrix[3, 3] = largest  # below 2 at a scale of 2^26 the coefficients take 4 bytes
    whole = ckks.linear(matrix, ctx4)
    memory = int(whole.nbytes * share)
    found = ckks.linear(matrix, ctx4, memory=memory)
    assert found.nbytes <= memory and (found.nbytes < whole.nbytes) == (share < 1)
    kept = {p.wide.ring.limbs for p in found.plaintexts} - {whole.plaintexts[0].wide.ring.limbs}
    assert kept == (set() if share == 1 else {1 if bits == 26 and largest < 2 else 2})
    x = ctx4.encrypt(values, pack="rows")
    want = ren.realize(whole @ x)
    made = (
        ren.realize(found @ x),
        ren.jit(lambda m, x: m @ x)(found, x),
        jax.vmap(found.__matmul__)(x),
    )
    for y in made:
        assert all(map(ren.equal, y.polys, want.polys))
    again = pickle.loads(pickle.dumps(found))
    assert all(map(ren.equal, ren.realize(again @ x).polys, want.polys))
    assert again.nbytes == found.nbytes
    low = x.drop_to(2)
    y, want = ren.realize(found @ low), ren.realize(whole @ low)
    assert all(map(ren.equal, y.polys, want.polys))


@pytest.mark.parametrize(
    ("low", "high", "keys", "is_wide"),
    [
        (-40, 40, None, False),  # baby steps are read by several sums
        (-1, 1, None, True),  # one giant step: each is read by one
        (0, 12, 2, False),  # walked: a rotation reads them too
    ],
)
def test_diagonals_have_the_special_primes_where_sums_are_divided(
    ctx4, monkeypatch, low, high, keys, is_wide
):
    """The same bits as with these primes; bytes without that field are of maps with them."""
    matrix, values = np.triu(np.tril(drawn(60, 60), high), low), drawn(60)
    found = ckks.linear(matrix, ctx4, keys=keys, leftovers=True)
    with monkeypatch.context() as patch:
        patch.setattr(linear.Split, "saves_by_sums", lambda *_: True)
        wide = ckks.linear(matrix, ctx4, keys=keys, leftovers=True)
    limbs, specials = ctx4.params.ring(4).limbs, len(ctx4.params.specials)
    assert found.split.is_wide == is_wide and found.split.is_walked == (keys == 2)
    assert {p.wide.ring.limbs for p in found.plaintexts} == {limbs + specials * is_wide}
    assert found.nbytes * (limbs + specials) == wide.nbytes * (limbs + specials * is_wide)
    x = ctx4.encrypt(values)
    want = ren.realize(wide @ x)
    old = ckks.LinearMap.from_bytes(without(wide.to_bytes(), "is_wide"))
    assert old.split == wide.split and old.split.is_wide
    least = ckks.linear(matrix, ctx4, keys=keys, leftovers=True, memory=found.nbytes // 2)
    for m in (found, ckks.LinearMap.from_bytes(found.to_bytes()), old, least):
        assert all(map(ren.equal, ren.realize(m @ x).polys, want.polys))
    assert error(want, matrix @ values) < BAR


@pytest.mark.long
@pytest.mark.once
@hypothesis.settings(max_examples=EXAMPLES if EXAMPLES >= 500 else 12)
@hypothesis.given(st.data())
def test_maps_from_bytes_give_the_same_bits(ctx4, data):
    m, k = (data.draw(st.integers(1, 90)) for _ in range(2))
    level = data.draw(st.integers(1, ctx4.params.depth))
    keys, share = data.draw(st.sampled_from([None, 12])), data.draw(st.sampled_from([1.0, 0.6]))
    matrix = drawn(m, k) * (1j if data.draw(st.booleans()) else 1.0)
    given = {"level": level, "keys": keys, "leftovers": data.draw(st.booleans())}
    made = ckks.linear(matrix, ctx4, **given)
    made = ckks.linear(matrix, ctx4, memory=int(made.nbytes * share), **given)
    found = ckks.LinearMap.from_bytes(made.to_bytes())
    x = ctx4.encrypt(drawn(k)).drop_to(level)
    y, want = ren.realize(found @ x), ren.realize(made @ x)
    assert all(map(ren.equal, y.polys, want.polys)) and y.layout == want.layout
    assert repr(y.estimate) == repr(want.estimate)
    assert (found.split, found.nbytes, found.shape) == (made.split, made.nbytes, (m, k))
    assert error(y, matrix @ x.decrypt()) < BAR


def test_a_server_loads_a_map_from_a_file_and_encodes_nothing(ctx4, tmp_path, monkeypatch):
    made = ckks.convolution(drawn(2, 1, 3, 3), (1, 8, 8), ctx4, padding="same")
    x = ctx4.encrypt(drawn(1, 8, 8))
    want = ren.realize(made @ x)
    made.save(tmp_path / "map")
    assert (tmp_path / "map").read_bytes() == made.to_bytes()
    monkeypatch.setattr(linear, "encode", lambda *_, **__: pytest.fail("it was encoded"))
    found = ckks.LinearMap.load(tmp_path / "map")
    y = ren.jit(lambda m, x: m @ x)(found, x)
    assert y.shape == (2, 8, 8) and all(map(ren.equal, y.polys, want.polys))


@pytest.mark.parametrize(("name", "form"), [("ctx4", 0), ("ctx26", 2)])
def test_coefficients_in_bytes_keep_to_their_bits(request, name, form):
    ctx = request.getfixturevalue(name)
    whole = ckks.linear(drawn(5, 5), ctx)
    data = ckks.linear(drawn(5, 5), ctx, memory=whole.nbytes // 2).to_bytes()
    ((count, bits, found),) = header_of(data)["batches"]
    assert found == form and ckks.LinearMap.from_bytes(data).nbytes < whole.nbytes
    with pytest.raises(ckks.SerializationError, match="a coefficient is out of range"):
        ckks.LinearMap.from_bytes(with_header(data, batches=[[count, 8, form]]))
    with pytest.raises(ckks.SerializationError):
        ckks.LinearMap.from_bytes(with_header(data, batches=[[count, bits, 2 - form]]))


def test_maps_of_other_parameters_and_damaged_ones_are_refused(ctx4, ctx64):
    data = ckks.linear(drawn(5, 3), ctx4).to_bytes()
    with pytest.raises(ckks.ParameterError, match="met a ciphertext of others"):
        ckks.LinearMap.from_bytes(data) @ ctx64.encrypt(drawn(3))
    header = header_of(data)
    others = {"params": {**header["params"], "sigma": 4.0}}
    wrong = [
        others, {"level": 99}, {"map": [5, 0]}, {"map": [9000, 3]}, {"stride": 0},
        {"stride": 1 << 30}, {"first": 1}, {"unit": 7}, {"folds": [3, 1]}, {"copies": 1 << 20},
        {"batches": []}, {"batches": [[1, 1, 1]]}, {"shape": [2, 2]}, {"is_walked": 2},
        {"batches": [[header["batches"][0][0], 1, 0]]},
    ]  # fmt: skip
    for changes in wrong:
        with pytest.raises(ckks.SerializationError, match="not a linear map"):
            ckks.LinearMap.from_bytes(with_header(data, **changes))
    for damaged in (data[:-1], data[:99], data[:900] + b"!" + data[901:], ctx4.params.to_bytes()):
        with pytest.raises(ckks.SerializationError, match="not a linear map"):
            ckks.LinearMap.from_bytes(damaged)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"inputs": [0, 1, 1]}, "the slot 1 more than once"),
        ({"outputs": [4, 4]}, "the slot 4 more than once"),
        ({"outputs": [0, 512]}, "slots from 0 to 512"),
        ({"inputs": [-1, 0, 1]}, "slots from -1 to 1"),
        ({"inputs": [0, 1]}, "shape (2,)"),
        ({"inputs": [0.0, 1.0, 2.0]}, "dtype float64"),
        ({"memory": 1000}, "memory=1000 bytes"),
    ],
)
def test_bad_slots_and_budgets_are_told_before_anything_is_encoded(ctx4, monkeypatch, given, said):
    def encoded(*_: object, **__: object) -> None:
        raise AssertionError("a diagonal was encoded")

    monkeypatch.setattr(linear, "encode", encoded)
    with pytest.raises(ckks.ParameterError) as raised:
        ckks.linear(drawn(2, 3), ctx4, **given)
    assert said in str(raised.value)
