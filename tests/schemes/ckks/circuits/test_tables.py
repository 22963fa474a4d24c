"""Tables in each packing against NumPy: shapes, sums along an axis, rows and columns."""

from __future__ import annotations

import itertools
import re

import jax
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import ren
from ren.schemes import ckks

BAR = 2.0**-19
PACKS = ["columns", "flat"]
# In one block of 64 slots, and in several.
SHAPES = [("flat", s) for s in ((20, 3), (60, 3), (16, 8), (5, 30), (2, 64))]
SHAPES += [("columns", s) for s in ((9, 3), (100, 2))]


@pytest.fixture(scope="module")
def ctx64() -> ckks.Context:
    """n = 2^8, depth 4, 64 slots, repeated; insecure."""
    params = ckks.Parameters.for_depth(4, n=1 << 8, security=None)
    return ckks.context(params=params, slots=64)


@pytest.fixture(scope="module")
def ctx8() -> ckks.Context:
    """n = 2^8, depth 4, 8 slots, repeated; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(4, n=1 << 8, security=None), slots=8)


def table(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng([*shape, seed]).uniform(-1, 1, shape)


def check(x: ckks.Ciphertext, want, levels: tuple[int, ...] | None = None) -> None:
    got = x.decrypt()
    assert got.shape == x.shape == np.shape(want)
    assert np.abs(got - want).max() < BAR
    assert np.abs(got - want).max() <= x.estimate.error_bound
    assert levels is None or x.level in levels


def count(x: ckks.Ciphertext) -> int:
    return int(np.prod(x.polys[0].shape[:-2], dtype=int))


def test_the_default_takes_the_fewest_ciphertexts_and_the_repr_says_which(ctx64):
    values = table((20, 3))
    made = {p: ctx64.encrypt(values, pack=p) for p in (None, "flat", "columns", "rows")}
    assert [count(x) for x in made.values()] == [1, 1, 3, 20]
    for x in made.values():
        check(x, values, (4,))
    shown = [repr(x).partition(", level")[0] for x in made.values()]
    flat = "Ciphertext(20 x 3 flat in 1 ciphertext"
    several = ["Ciphertext(20 x 3 by columns in 3 ciphertexts"]
    assert shown == [flat, flat, *several, "Ciphertext(20 x 3 by rows in 20 ciphertexts"]
    assert "20 x 3 by columns in 3 ciphertexts" in made["columns"]._repr_html_()
    assert repr(ctx64.encrypt(values[0])).startswith("Ciphertext(level")
    long = ctx64.encrypt(table((60, 3)))
    assert count(long) == 3 and "60 x 3 flat in 3 ciphertexts" in repr(long)


@pytest.mark.long
@pytest.mark.parametrize("rows", [9, 64, 100])
def test_a_number_for_each_vector_meets_vectors_of_any_length(ctx64, rows):
    values = table((rows, 3))
    columns, first = (ctx64.encrypt(v, pack="columns") for v in (values, values[:1]))
    for keepdims in (False, True):
        mean = columns.mean(axis=0, keepdims=keepdims)
        check(columns - mean, values - values.mean(axis=0, keepdims=keepdims))
    for f in (np.subtract, np.multiply):
        check(f(columns, first), f(values, values[:1]))
        check(f(first, columns), f(values[:1], values))
    batch = np.stack([values.T, 2 * values.T])
    x, one = (ctx64.encrypt(v, pack="rows") for v in (batch, batch[..., :1]))
    check(x * one, batch * batch[..., :1])
    check(one + x[0], batch[..., :1] + batch[0])
    check(ctx64.encrypt(values[:, 0]) * one, values[:, 0] * batch[..., :1])


def test_a_data_frame_needs_no_library():
    class Frame:
        """A table as pandas has it, as far as it is asked for."""

        def __init__(self, values):
            self._values = values

        def to_numpy(self):
            return self._values

    ctx = ckks.context(depth=1, n=1 << 8, security=None)
    values = table((9, 2))
    for pack in (None, "rows", "columns"):
        assert np.abs(ctx.encrypt(Frame(values), pack=pack).decrypt() - values).max() < BAR
    for column in (np.array([True, False]), np.array([1, 2]), np.ones(2, np.float32)):
        assert ctx.encrypt(Frame(column)).dtype == column.dtype
    with pytest.raises(ckks.ParameterError, match="dtype object"):
        ctx.encrypt(Frame(np.array([["a", 1.0]], object)))


def test_an_image_keeps_its_shape_into_a_convolution(ctx64):
    image, kernel = table((7, 8)), table((3, 3))
    windows = sliding_window_view(image, (3, 3))
    check(ckks.conv2d(ctx64.encrypt(image), kernel), np.einsum("ijab,ab->ij", windows, kernel))
    channels = table((2, 4, 5))
    check(ctx64.encrypt(channels)[1], channels[1], (4,))
    with pytest.raises(ckks.ParameterError, match="pack='flat'"):
        ckks.conv2d(ctx64.encrypt(image, pack="columns"), kernel)


@pytest.mark.long
@pytest.mark.parametrize(("pack", "shape"), SHAPES, ids=str)
def test_sums_and_means_along_each_axis(ctx64, pack, shape):
    a = table(shape)
    x = ctx64.encrypt(a, pack=pack)
    for keepdims in (False, True):
        check(x.sum(keepdims=keepdims), a.sum(keepdims=keepdims), (4,))
        check(x.mean(keepdims=keepdims), a.mean(keepdims=keepdims), (3,))
        for axis in (0, -1):
            check(x.sum(axis, keepdims=keepdims), a.sum(axis, keepdims=keepdims), (3, 4))
            check(x.mean(axis, keepdims=keepdims), a.mean(axis, keepdims=keepdims), (3,))
    is_free = pack == "columns" or shape[0] * shape[1] <= 64 or 64 % shape[1] == 0
    assert x.sum(axis=0).level == 3 + is_free
    assert x.sum(axis=1).level == 3 + (pack == "columns")
    check(x - x.mean(axis=0), a - a.mean(axis=0))
    if pack == "columns":
        check(x - x.mean(axis=1, keepdims=True), a - a.mean(axis=1, keepdims=True))
        check(x - x.mean(keepdims=True), a - a.mean())


@pytest.mark.parametrize("width", [5, 6, 7, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("rows", [4, 7])
def test_rows_that_take_more_than_half_of_the_slots(ctx8, rows, width):
    """A block begins anywhere in a row: its numbers may lie in three rows."""
    a = table((rows, width))
    x = ctx8.encrypt(a)
    check(x.sum(axis=0), a.sum(axis=0))
    check(x - x.mean(axis=0, keepdims=True), a - a.mean(axis=0))
    check(x.var(axis=0), a.var(axis=0))


@pytest.mark.long
@pytest.mark.parametrize("rows", range(1, 8))
def test_every_width_of_a_table_packed_flat(ctx8, rows):
    """Up to two rows of slots and one number more."""
    for width in range(1, 2 * 8 + 2):
        a, w = table((rows, width)), table((rows,), width)
        x = ctx8.encrypt(a)
        check(x.sum(axis=0), a.sum(axis=0))
        check(x.sum(axis=1), a.sum(axis=1))
        check(x.dot(w, axis=0), w @ a)
        check(x[rows - 1], a[rows - 1])
    a = table((2, rows, 5))
    check(ctx8.encrypt(a).sum(axis=1), a.sum(axis=1))
    check(ctx8.encrypt(a).sum(axis=0), a.sum(axis=0))


@pytest.mark.parametrize("pack", [*PACKS, "rows"])
def test_arrays_and_tables_broadcast_as_in_numpy(ctx64, pack):
    a, b = table((6, 3)), table((6, 3), 1)
    x, y = ctx64.encrypt(a, pack=pack), ctx64.encrypt(b, pack=pack)
    check(x * y - 2.0 * x + 0.5, a * b - 2 * a + 0.5, (3,))
    for w in (b, b[0], b[:, :1], b[:1], b[0, 0], b[0].tolist()):
        check(x * w + w, a * w + w, (3,))
    check(x + ctx64.encode(b), a + b, (4,))  # of another packing: it is encoded again
    check(x * ctx64.encode(b, pack=pack), a * b, (3,))
    with pytest.raises(ckks.ParameterError, match="broadcast as in NumPy"):
        x + b[:, 0]
    other = "flat" if pack == "columns" else "columns"
    with pytest.raises(ckks.ParameterError, match="pack='columns'"):
        x + ctx64.encrypt(b, pack=other)


@pytest.mark.parametrize("pack", PACKS)
def test_products_with_vectors_and_matrices(ctx64, pack):
    a, u, w = table((12, 4)), table((12,)), table((4, 2))
    x = ctx64.encrypt(a, pack=pack)
    check(x.dot(w[:, 0]), a @ w[:, 0], (3,))
    check(x @ w[:, 0], a @ w[:, 0], (3,))
    check(x @ w, a @ w, (3,))
    check(x.dot(u, axis=0), u @ a, (3,))
    check(u @ x, u @ a, (3,))
    check(np.stack([u, -u]) @ x, np.stack([u, -u]) @ a, (3,))
    if pack == "columns":
        check(x.dot(ctx64.encrypt(u), axis=0), u @ a, (3,))
        check(x.dot(x.sum(axis=0)), a @ a.sum(0), (3,))
        check(x * ctx64.encrypt(w[:, :1].T, pack=pack), a * w[:, 0])


@pytest.mark.parametrize(("pack", "shape"), SHAPES, ids=str)
def test_rows_are_indexed_as_in_numpy(ctx64, pack, shape):
    a = table(shape)
    x = ctx64.encrypt(a, pack=pack)
    for index in (0, -1, shape[0] // 2, slice(1, None), slice(0, 2), slice(-2, None)):
        check(x[index], a[index], (3, 4))
    if pack == "columns":
        for index in (0, -1, slice(1, None), slice(None, None, 2)):
            check(x[:, index], a[:, index], (4,))
            check(x[..., index], a[..., index], (4,))
        check(x[1:, 0], a[1:, 0], (3, 4))
    for bad in (shape[0], None, (0, 0, 0), slice(5, 5)):
        with pytest.raises((ckks.ParameterError, ren.errors.OperandError)):
            x[bad]


def test_rows_of_a_batch(ctx64):
    a = table((4, 7))
    x = ctx64.encrypt(a, pack="rows")
    check(x.sum(), a.sum(-1), (4,))  # of each vector
    check(x.sum(axis=0, keepdims=True), a.sum(0, keepdims=True), (4,))
    check(x.mean(axis=0), a.mean(0), (3,))
    check(x.dot(a[:, 0], axis=0), a.T @ a[:, 0], (3,))
    check(x[1], a[1], (4,))
    check(x[1:3], a[1:3], (4,))


@pytest.mark.long
def test_columns_survive_bytes_jit_vmap_and_stack(ctx64):
    a, w = table((9, 3)), table((3,))
    x = ctx64.encrypt(a, pack="columns")
    back = ckks.Ciphertext.from_bytes((x + w).to_bytes())
    check(back, a + w)
    f = ren.jit(lambda x, w: (x * w).mean(axis=0) - w)
    for _ in range(2):
        check(f(x, w), (a * w).mean(0) - w)
    rows = ren.jit(lambda x: x @ np.ones(3))
    for size in (9, 5):
        check(rows(ctx64.encrypt(a[:size], pack="columns")), a[:size].sum(1))
    check(jax.tree.map(lambda leaf: leaf, x), a)
    for column, want in zip(ckks.unstack(x), a.T, strict=True):
        check(column, want)
    both = ckks.stack([x, 2 * x])
    check(both, np.stack([a, 2 * a]))
    each = np.stack([a, 2 * a])
    check(both.sum(), each.sum((1, 2)))  # of each table
    check(both.mean(keepdims=True), each.mean((1, 2), keepdims=True))
    check(both.var(), each.var((1, 2)))
    check(both.sum(axis=0), 3 * a)
    check(both.sum(axis=1), np.stack([a, 2 * a]).sum(1))
    check(both.sum(axis=2), np.stack([a, 2 * a]).sum(2))
    for pack in PACKS:
        added = ren.jit(lambda x, values, pack=pack: x + ctx64.encrypt(values, pack=pack))
        check(added(ctx64.encrypt(a, pack=pack), a), 2 * a)


@pytest.mark.long
def test_a_plan_knows_the_packing():
    def means(x: ckks.Ciphertext) -> ckks.Ciphertext:
        return (x * x).mean(axis=0)

    a = table((20, 3))
    for pack in PACKS:
        plan = ren.plan(means, ckks.spec((20, 3), pack=pack), n=1 << 8, security=None)
        ctx = ckks.context(plan)
        assert plan.depth == 2
        check(means(ctx.encrypt(a, pack=pack)), (a * a).mean(0))


@pytest.mark.long
def test_sums_of_vectors_with_zeros_behind_take_no_level(ctx64):
    a = table((9,))
    flat = ckks.context(depth=0, n=1 << 8, security=None)
    x = flat.encrypt(a)
    for made, want in (
        (x, a), (x + 1, a + 1), (3 * x, 3 * a), (-x, -a), (x - a, 0 * a), (x.conj(), a),
        (ckks.pad(x, 12), a), (ckks.concat([x, x]), np.tile(a, 2)),
        (ckks.Ciphertext.from_bytes(x.to_bytes()), a), (flat.encrypt(table((150,))), table((150,))),
    ):  # fmt: skip
        check(made.sum(), want.sum(), (0,))
    with pytest.raises(ckks.DepthError, match="may hold leftovers"):
        x[2:].sum()
    one = ckks.context(depth=1, n=1 << 8, security=None)
    x = one.encrypt(a)
    for w in (a, x, x + 1, one.encode(a), x[:9], one.encrypt(a[1:]).tile(1)):
        if getattr(w, "shape", (9,)) == (9,):
            check(x.dot(w), a @ (w.decrypt() if hasattr(w, "decrypt") else a), (0,))
    check(x[1:].dot(one.encrypt(a[1:])), a[1:] @ a[1:], (0,))


def test_dot_of_tables_packed_flat_is_a_matrix_product(ctx64):
    square, other, wide = table((3, 3)), table((3, 3), 1), table((6, 4))
    x, y, z = (ctx64.encrypt(m, pack="flat") for m in (square, other, wide))
    v = table((3,))
    check(x.dot(y), square @ other)
    check(ctx64.encrypt(v).dot(x), v @ square)
    check(x.dot(ctx64.encrypt(v)), square @ v)
    with pytest.raises(ckks.ParameterError, match="square"):
        z.dot(z)
    with pytest.raises(ckks.ParameterError, match="matrix product") as info:
        x.dot(ctx64.encode(other))
    assert "ct @ matrix" in info.value.do


def test_numbers_that_fill_the_slots_each_are_not_rotated(ctx64):
    """For a table by columns or rows a rotation would leave them where they are."""
    values, w = table((3, 3)), table((3,), 1)
    rows, columns = (ctx64.encrypt(values, pack=p) for p in ("rows", "columns"))
    cases = [
        (columns.sum(axis=0), values.sum(0)), (columns[0], values[0]), (rows @ w, values @ w),
        (rows.sum(axis=1), values.sum(1)), (columns.mean(axis=0), values.mean(0)),
    ]  # fmt: skip
    for x, clear in cases:
        check(x, clear)
        for move in (x.rotate, x.roll):
            with pytest.raises(ckks.ParameterError, match=r"fill the slots|no axis") as info:
                move(1)
            assert "ckks.unstack(ct)" in info.value.do
        parts = ckks.unstack(x)
        check(ckks.stack(parts[1:] + parts[:1]), np.roll(clear, -1))
        check(ckks.stack(parts[-1:] + parts[:-1]), np.roll(clear, 1))
    check(ctx64.encrypt(values, pack="flat").sum(axis=0).roll(1), np.roll(values.sum(0), 1))


def test_a_mask_of_a_table_by_its_columns_says_along_which_axis(ctx64):
    values, m = table((3, 3)), np.array([1.0, 0.0, 0.5])
    x = ctx64.encrypt(values, pack="columns")
    check(x.mask(m[:, None]), values * m[:, None])
    check(x * m, values * m)
    check(ctx64.encrypt(values, pack="rows").mask(m), values * m)
    for wrong in (m, m[None], np.ones((3, 3))):
        with pytest.raises(ckks.ParameterError, match="by its columns") as info:
            x.mask(wrong)
    assert "reshape(-1, 1)" in info.value.do


@pytest.mark.parametrize("shape", [(3, 3), (6, 4), (4, 6)])
def test_a_table_times_the_weights_of_a_linear_model(ctx64, shape):
    """For as many rows as columns too, the weights are one for each column."""
    values, w = table(shape), table(shape[1:], 1)
    x = ctx64.encrypt(values, pack="columns")
    weights = ckks.stack([ctx64.encrypt(float(v)) for v in w])
    check(x @ weights, values @ w)


@pytest.mark.parametrize("shape", [-1, 12, (3, 4), (2, 6), (4, 3), (4, -1), (4, 3, 1), (1, 12)])
@pytest.mark.parametrize("pack", ["flat", "rows", "columns"])
def test_a_reshape_is_that_of_numpy_or_raises(ctx64, pack, shape):
    """By the method and by NumPy's function. A batch of vectors keeps its axes."""
    values = table((4, 3))
    x, reshaped = ctx64.encrypt(values, pack=pack), values.reshape(shape)
    if pack == "flat" or (pack == "rows" and reshaped.ndim > 1 and len(reshaped) == 4):
        check(np.reshape(x, shape), reshaped)
        check(x.reshape(shape), reshaped)
        return
    for call in (lambda: np.reshape(x, shape), lambda: x.reshape(shape)):
        with pytest.raises(ren.RenError, match=r"ckks\.unstack\(ct\)"):
            call()
    if pack == "rows":
        check(ckks.concat(ckks.unstack(x)).reshape(shape), reshaped)


MAPPED = {
    "product": (lambda x, y: x * 2, lambda x, y: x * 2),
    "slice": (lambda x, y: x[:4], lambda x, y: x[:4]),
    "difference": (lambda x, y: y - x, lambda x, y: y - x),
    "centred": (lambda x, y: y - x.mean(), lambda x, y: y - x.mean()),
    "steps": (lambda x, y: x[1:] - x[:-1], lambda x, y: np.diff(x)),
    "convolution": (lambda x, y: ckks.conv1d(x, [-1.0, 1.0]), lambda x, y: np.diff(x)),
    "matrix": (lambda x, y: np.eye(4)[:3] @ x, lambda x, y: x[:3]),
    "padded": (lambda x, y: ckks.pad(x, 5), lambda x, y: np.append(x, 0)),
    "number": (lambda x, y: x.sum(), lambda x, y: x.sum()),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MAPPED)
def test_a_function_of_one_column_is_mapped_to_a_batch(ctx64, name):
    """The rule of `jax.vmap` with out_axes=0, whatever the function does."""
    f, clear = MAPPED[name]
    values, v = table((4, 4)), table((4,))
    x, y = ctx64.encrypt(values, pack="columns"), ctx64.encrypt(v)
    ctx64.rotation_keys([1, 2, 3, -1, -2, -3, 4, 8, 16, 32])
    want = np.stack([clear(column, v) for column in values.T])
    mapped = jax.vmap(lambda x: f(x, y))
    for run in (mapped, ren.jit(mapped), lambda x: jax.lax.map(lambda x: f(x, y), x)):
        made = run(x)
        assert made.shape == want.shape
        check(made, want)


def test_a_scan_over_columns_carries_a_vector(ctx64):
    values = table((6, 4))
    x = ctx64.encrypt(values, pack="columns")
    for start, first in ((ctx64.encrypt(np.zeros(6)), 0), (x[:, 0], values[:, :1])):
        last, all_of_them = jax.lax.scan(lambda c, x: (c + x, c + x), start, x)
        check(all_of_them, (values.cumsum(1) + first).T)
        check(last, (values.cumsum(1) + first)[:, -1])


def test_rows_of_a_square_length_are_no_matrices(ctx64):
    rows = ctx64.encrypt(np.eye(4), pack="rows")
    with pytest.raises(ckks.ParameterError, match="a batch of vectors"):
        ckks.matmul(rows, rows)
    each = rows.reshape(4, 2, 2)
    check(ckks.matmul(each, each), np.stack([m @ m for m in np.eye(4).reshape(4, 2, 2)]))


def test_what_to_write_for_rows_of_a_table_by_its_columns(ctx64):
    values = table((6, 4))
    x = ctx64.encrypt(values, pack="columns")
    with pytest.raises(ckks.ParameterError, match=re.escape("(np.arange(6) == [[i], [j]]) @ m")):
        x[[0, 2]]
    check(np.eye(6)[[0, 2]] @ x, values[[0, 2]])
    with pytest.raises(ckks.ParameterError, match=re.escape("m @ np.eye(4)[:, [i, j]]")):
        x[:, [0, 2]]
    for index, told in ((None, "ckks.stack([m]) for m[None]"), ((slice(None), None), "Leave None")):
        with pytest.raises(ckks.ParameterError, match=re.escape(told)):
            x[index]
    square = ctx64.encrypt(np.eye(4), pack="columns")
    with pytest.raises(ckks.ParameterError, match="symmetric"):
        square @ (square @ np.ones(4))
    check((square @ np.ones(4)) @ square, np.ones(4))
    times = ren.jit(lambda x, w: x @ w)
    for w in (table((4, 2)), table((4, 2)) * 2):  # an argument of a plan
        check(times(x, w), values @ w)
    assert len(times.plans) == 1
    check(ren.jit(lambda x, w: x @ w.T)(x, w.T), values @ w)


def test_an_encrypted_vector_times_a_table_by_its_columns(ctx64):
    """The gradient of a regression: one number for each row, and a sum for each column."""
    values, v = table((9, 5)), table((9,))
    x, w = ctx64.encrypt(values, pack="columns"), ctx64.encrypt(v)
    for f in (lambda w, x: w @ x, np.matmul, np.dot, lambda w, x: w.dot(x)):
        for result in (f(w, x), ren.jit(f)(w, x)):
            assert result.shape == (5,)
            check(result, v @ values)
    with pytest.raises(ckks.ParameterError, match=re.escape("Write x.dot(w, axis=0)")):
        x.dot(w)
    check(x.dot(w, axis=0), v @ values)
    with pytest.raises(ckks.ParameterError, match="one number for each of the 9 places"):
        w[:8] @ x


def test_a_row_of_a_table_by_its_columns_multiplies_as_a_vector(ctx64):
    values, matrix, w = table((9, 5)), table((5, 3)), table((5,))
    x = ctx64.encrypt(values, pack="columns")
    row, want = x[2], values[2]
    whole = np.arange(10).reshape(5, 2)
    for result, expected in (
        (row @ matrix, want @ matrix), (matrix.T @ row, want @ matrix),
        (row.dot(matrix), want @ matrix), (np.matmul(row, matrix), want @ matrix),
        (row @ whole, want @ whole), (row @ w, want @ w),
        (w @ row, want @ w), (row.dot(list(w)), want @ w), (row @ x[3], want @ values[3]),
        (row @ (w * 1j), want @ (w * 1j)), (ren.jit(lambda x, w: x[2] @ w)(x, w), want @ w),
        (jax.jit(lambda row, w: row @ w)(row, w), want @ w),
        (ren.jit(lambda x, w: x @ w)(x, w), values @ w),
    ):  # fmt: skip
        assert result.shape == expected.shape
        check(result, expected)
    assert (row @ whole).level == row.level  # whole numbers take no level
    for wrong in (w[:3], 2.0, ctx64.encrypt(w), ctx64.encode(w), np.ones((2, 5, 2))):
        with pytest.raises(ckks.ParameterError, match=r"shapes? \(5,\)|x \* number"):
            row.dot(wrong)


def test_two_matrices_of_which_none_is_in_the_clear(ctx64):
    values, matrix = table((6, 5)), table((5, 4))
    packs = ("rows", "columns", "flat")
    for left, right in itertools.product(packs, packs):
        x, y = ctx64.encrypt(values, pack=left), ctx64.encrypt(matrix, pack=right)
        said = "Both are square" if left == right == "flat" else r"x\.dot\(y\)"
        with pytest.raises(ckks.ParameterError, match=said):
            x @ y
    column = ctx64.encrypt(matrix[:, 1])
    check(ctx64.encrypt(values, pack="rows").dot(column), values @ matrix[:, 1])


def test_a_flat_array_of_more_axes_times_a_matrix(ctx64):
    values, matrix = table((2, 3, 4)), table((4, 2))
    x = ctx64.encrypt(values)
    for result in (x @ matrix, ren.jit(lambda x: x @ matrix)(x)):
        assert result.shape == (2, 3, 2)
        check(result, values @ matrix)


def test_flat_arrays_of_three_axes_compute_as_those_of_two(ctx64):
    a, b, w = table((2, 3, 4)), table((3, 4)), np.linspace(-1, 1, 4)
    x, y = ctx64.encrypt(a), ctx64.encrypt(b)
    for result, want in (
        (x @ w, a @ w), (x.dot(w), a @ w), (np.dot(x, w), a @ w),
        (x - x.mean(axis=0), a - a.mean(0)), (x - x.mean(axis=0, keepdims=True), a - a.mean(0)),
        (x.var(axis=0), a.var(0)), (x.var(axis=1), a.var(1)), (x.var(axis=-1), a.var(-1)),
        (x + y, a + b), (x * ctx64.encrypt(b[None]), a * b), (x + y[0], a + b[0]),
        (x.mask(a > 0), a * (a > 0)), (x.mask((a > 0).ravel()), a * (a > 0)),
    ):  # fmt: skip
        assert result.shape == want.shape
        check(result, want)
    one = ctx64.encrypt(b[None])
    for result in (one + one[0], one[0] + one, one + one.sum(axis=0)):
        assert result.shape == (1, 3, 4)
        check(result, 2 * b[None])


def test_a_batch_of_numbers_has_no_axis_of_its_own(ctx64):
    numbers = ckks.stack([ctx64.encrypt(v) for v in (1.0, 0.0, 1.0)]).within(0, 1)
    for call in ("cumsum()", "any()", "all()", "var()", "mean()", "sum()"):
        with pytest.raises(ckks.ParameterError, match=r"a batch of shape \(3,\), of one number"):
            getattr(numbers, call[:-2])()
    with pytest.raises(ckks.ParameterError, match="of one number"):
        numbers.roll(1)
    sums = list(itertools.accumulate(ckks.unstack(numbers)))  # as the message says
    check(ckks.stack(sums), np.cumsum([1.0, 0.0, 1.0]))
    check(numbers.var(axis=-1), np.var([1.0, 0.0, 1.0]))


def test_rotations_across_blocks_take_steps_of_any_size(ctx64):
    values = np.linspace(-1, 1, 3 * ctx64.slots - 5)
    x = ctx64.encrypt(values)
    for steps in (10**20, -(10**20)):
        check(x.roll(steps), np.roll(values, steps % len(values)))


BROADCAST = [(2, 9), (9,), (3, 1), (2, 8), (8,), (16, 2), (1, 2), (1, 9), (9, 1), (2,), (1,), ()]
FEW = [((2, 9), (9,)), ((3, 1), (9,)), ((16, 2), (2,)), ((3, 1), (3, 9)), ((1, 9), (9, 1))]


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def packings(x: np.ndarray, is_encrypted: bool = True) -> list[str]:
    packs = ["flat", "rows", "columns"] if x.ndim == 2 else ["flat"]
    return packs if is_encrypted else [*packs, "encoded", "clear"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(a, b, marks=() if (a, b) in FEW else pytest.mark.long)
        for a, b in [*itertools.product(BROADCAST, BROADCAST), ((3, 1), (3, 9))]
        if broadcasts(a, b)
    ],
    ids=str,
)
def test_every_pair_of_packings_broadcasts_as_numpy_or_raises(ctx8, a, b):
    """There are eight slots, so that operands are cut into different numbers of blocks.

    Values, shapes, errors, and the bounds that choices between them get.
    """
    x, y = table(a), 1000 * table(b, 1)
    yes, no = ctx8.encrypt(True), ctx8.encrypt(False)
    for pack, other in itertools.product(packings(x), packings(y, False)):
        left = ctx8.encrypt(x, pack=pack) if x.ndim == 2 else ctx8.encrypt(x)
        if other in ("encoded", "clear"):
            right = ctx8.encode(y) if other == "encoded" else y
        else:
            right = ctx8.encrypt(y, pack=other) if y.ndim == 2 else ctx8.encrypt(y)
        for f, want in (
            (lambda x, y: x + y, x + y),
            (lambda x, y: y - x, y - x),
            (lambda x, y: x * y, x * y),
            (lambda x, y: ckks.where(yes, x, y), np.broadcast_arrays(x, y)[0]),
            (lambda x, y: ckks.where(no, x, y), np.broadcast_arrays(x, y)[1]),
            (lambda x, y: ckks.where(yes, y, x), np.broadcast_arrays(x, y)[1]),
        ):
            try:
                made = f(left, right)
            except ckks.ParameterError:  # batches do not move to slots
                continue
            got = made.decrypt()
            assert got.shape == made.shape == want.shape, (pack, other)
            assert np.abs(got - want).max() <= made.estimate.error_bound, (pack, other)
            assert np.abs(want).max() <= made.estimate.message_bound, (pack, other)


@pytest.mark.parametrize("pack", ["rows", "columns"])
def test_one_number_of_each_vector_meets_more_numbers_than_slots(ctx8, pack):
    a, w = table((2, 18)), table((2, 18), 1)
    mean = a.mean(axis=1, keepdims=True)
    if pack == "columns":
        a, w, mean = a.T, w.T, mean.T
    m = ctx8.encrypt(a, pack=pack).mean(axis=0 if pack == "columns" else -1, keepdims=True)
    check(m, mean)
    check(m * w, mean * w)
    check(w - m, w - mean)
    check(ren.jit(lambda m, w: m * w)(m, w), mean * w)
    check(ckks.where(w > 0, m, 0.0), np.where(w > 0, mean, 0.0))
    if pack == "rows":
        check((m * w)[..., 7:12], (mean * w)[:, 7:12])
        check(m * ctx8.encode(w[0]), mean * w[0])


def test_a_choice_among_columns_has_the_bound_of_each(ctx8):
    """There are as many columns as blocks: their bounds are not those of the blocks."""
    table_, numbers = ctx8.encrypt(np.full((16, 2), 0.01), pack="columns"), (1.0, 3000.0)
    y = ckks.stack([ctx8.encrypt(v) for v in numbers])
    for f in (lambda t: ckks.where(t, table_, y), ren.jit(lambda t: ckks.where(t, table_, y))):
        chosen = f(ctx8.encrypt(False))
        for i, value in enumerate(numbers):
            part = chosen[0:8, i]
            assert value <= part.estimate.message_bound <= 2 * value


@pytest.mark.parametrize("step", [*range(-9, 10)])
def test_strided_sums_take_all_different_slots(ctx8, step):
    v = table((8,))
    x, different = ctx8.encrypt(v), len({i * step % 8 for i in range(8)})
    for terms in (1, 2, different - 1, different):
        if 1 <= terms <= different:
            want = sum(np.roll(v, -i * step) for i in range(terms))
            check(ckks.strided_sum(x, terms, step), want)
    with pytest.raises(ckks.ParameterError, match=f"from 1 to {different} at this step"):
        ckks.strided_sum(x, different + 1, step)
