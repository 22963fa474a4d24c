"""Stacks of ciphertexts and vectors longer than the slots: shapes, operators, refusals."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import ren
from ren.core.errors import OperandError
from ren.schemes import ckks

BAR = 2.0**-20


def error(values, want) -> float:
    assert np.shape(values) == np.shape(want)
    return float(np.abs(values - want).max())


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(5).uniform(-1, 1, (3, 7))


@pytest.fixture(scope="module")
def long(ctx):
    return np.random.default_rng(6).uniform(-1, 1, 2 * ctx.slots + 100)


def test_unstacking_undoes_stacking(ctx, rows):
    given = [ctx.encrypt(row) for row in rows]
    stacked = ckks.stack(given)
    assert error(stacked.decrypt(), rows) < BAR and stacked.level == given[0].level
    for x, row in zip(ckks.unstack(stacked), rows, strict=True):
        assert error(x.decrypt(), row) < BAR
    twice = ckks.stack([stacked, stacked])
    assert error(twice.decrypt(), np.stack([rows, rows])) < BAR
    assert error(ckks.unstack(twice)[1].decrypt(), rows) < BAR


def test_stacks_meet_at_the_lowest_level_and_joined_type(ctx, rows):
    a, b = ctx.encrypt(rows[0], level=2), ctx.encrypt(1j * rows[1], level=1)
    stacked = ckks.stack([a, b])
    assert stacked.level == 1 and stacked.seed is None
    assert error(stacked.decrypt(), np.stack([rows[0] + 0j, 1j * rows[1]])) < BAR
    scalars = ckks.stack([ctx.encrypt(0.5), ctx.encrypt(2)])
    assert error(scalars.decrypt(), [0.5, 2]) < BAR


def test_requests_are_mapped_with_the_keys_shared(ctx, rows):
    ctx.rotation_keys([1])

    def serve(x, y):
        return x.rotate(1) * 0.5 + y

    xs, ys = (ckks.stack([ctx.encrypt(row) for row in part]) for part in (rows, rows[::-1]))
    shifted = np.concatenate([rows[:, 1:], np.zeros((3, 1))], axis=1)
    want = shifted / 2 + rows[::-1]
    assert error(jax.vmap(serve)(xs, ys).decrypt(), want) < BAR
    in_jax = jax.jit(lambda xs: ckks.stack(ckks.unstack(xs)[::-1]) + 1)
    assert error(in_jax(xs).decrypt(), rows[::-1] + 1) < BAR


@pytest.mark.slow
def test_stacks_under_transformations(ctx, rows):
    def f(x, y):
        both = ckks.stack([x * 0.5, x.drop_to(2)])
        low, high = ckks.unstack(both + ckks.stack([y, y]))
        return ckks.stack([high, low, high - low])

    a, b, c = rows
    want = np.stack([a + b, a / 2 + b, a / 2])
    x, y, z = (ctx.encrypt(row) for row in rows)
    jitted = ren.jit(f)
    for made in (f(x, y), jitted(x, y), jitted(x, y)):
        assert error(made.decrypt(), want) < BAR
        np.testing.assert_allclose(made.noise, f(x, y).noise, rtol=1e-5)
    assert jitted.cache_info()[:2] == (1, 1)
    with pytest.raises(ckks.ParameterError, match="one shape"):
        ren.jit(lambda x, y: ckks.stack([x, y]))(x, ctx.encrypt([1.0]))
    pairs = jax.vmap(f)(ckks.stack([x, x]), ckks.stack([y, z]))
    assert error(pairs.decrypt()[0], want) < BAR
    assert error(ckks.unstack(ckks.unstack(pairs)[1])[1].decrypt(), a / 2 + c) < BAR
    last, seen = lax.scan(
        lambda carry, row: (ckks.stack(ckks.unstack(carry)[::-1]) + row, carry),
        ckks.stack([x, y]), ckks.stack([x, y, z]),
    )  # fmt: skip
    total = a + b + c
    assert error(last.decrypt(), np.stack([b + total, a + total])) < BAR
    assert error(seen.decrypt()[1], np.stack([b + a, a + a])) < BAR


def test_what_cannot_be_stacked(ctx, small_params, rows):
    x = ctx.encrypt(rows[0])
    with pytest.raises(ckks.ParameterError, match="at least one"):
        ckks.stack([])
    with pytest.raises(OperandError, match="ndarray"):
        ckks.stack([x, rows[0]])
    for other in (ctx.encrypt([1.0]), ctx.encrypt(rows, pack="rows"), ctx.encrypt(1.0)):
        with pytest.raises(ckks.ParameterError, match="one shape"):
            ckks.stack([x, other])
    with pytest.raises(ckks.ContextError, match="two contexts"):
        ckks.stack([x, ckks.context(params=small_params).encrypt(rows[0])])
    with pytest.raises(ckks.ParameterError, match="one vector"):
        ckks.unstack(x)


def test_long_vectors_come_back_whole(ctx, long):
    for values in (long, 1j * long, np.stack([long, -long]), np.arange(2 * ctx.slots) // 4):
        x = ctx.encrypt(values, pack="rows")
        assert x.polys[0].shape[-3] == -(-values.shape[-1] // ctx.slots)
        got = x.decrypt()
        assert got.dtype == values.dtype
        assert error(got, values) < BAR


def test_operators_work_block_by_block(ctx, long):
    x, y, p = ctx.encrypt(long), ctx.encrypt(long[::-1].copy()), ctx.encode(long)
    z = x * y + x * long + p - 0.5 + ctx.encrypt(0.25) + [1.0] + x.conj()
    want = long * long[::-1] + long * long + 2 * long + 0.75
    assert error(z.decrypt(), want) < BAR
    jitted = ren.jit(lambda x, a: x + a)
    for values in (long, -long):
        assert error(jitted(ctx.encrypt(values), long).decrypt(), values + long) < BAR
    both = ctx.encrypt(np.stack([long, -long]), pack="rows")
    assert error(jax.vmap(lambda x: x + x)(both).decrypt(), np.stack([2 * long, -2 * long])) < BAR
    assert error(ckks.unstack(ckks.stack([x, y]))[0].decrypt(), long) < BAR


def test_plans_tell_blocks_from_batches(ctx, long):
    jitted = ren.jit(lambda x: x + 1)
    batch = np.ones((3, 5))
    assert error(jitted(ctx.encrypt(long)).decrypt(), long + 1) < BAR
    assert error(jitted(ctx.encrypt(batch, pack="rows")).decrypt(), batch + 1) < BAR


@pytest.mark.parametrize("steps", [1, -513, 1100, 0])
def test_vectors_in_blocks_are_rotated_over_all_of_them(ctx, long, steps):
    whole = np.zeros(3 * 512)
    whole[: len(long)] = long
    x = ckks.typed(ctx.encrypt(long).within(-9, 9), np.float32)
    batch = ctx.encrypt(np.stack([long, -long]), pack="rows")
    rotated, rolled = np.roll(whole, -steps)[: len(long)], np.roll(long, steps)
    for move, want in ((lambda x: x.rotate(steps), rotated), (lambda x: x.roll(steps, -1), rolled)):
        for y in (move(x), ren.jit(move)(x)):
            assert error(y.decrypt(), want) < BAR and y.shape == x.shape
            assert (y.dtype, y.span) == (np.float32, x.span)
            assert y.level == x.level - (steps != 0)
        assert error(move(batch).decrypt(), np.stack([want, -want])) < BAR
        if steps == 1:
            assert error(jax.vmap(move)(batch).decrypt(), np.stack([want, -want])) < BAR
    assert error(np.roll(x, steps).decrypt(), rolled) < BAR
    assert error((x.rotate(steps) + 1).sum().decrypt(), rotated.sum() + len(long)) < 2000 * BAR


def test_what_blocks_cannot_do(ctx, long):
    x = ctx.encrypt(long)
    for move in (lambda: x.rotate(1), lambda: x.roll(1), lambda: ckks.strided_sum(x, 2)):
        with ckks.manual(), pytest.raises(ckks.ParameterError, match="cut into 3 blocks of 512"):
            move()
    for other in (ctx.encrypt([1.0, 2.0]), ctx.encode([1.0, 2.0]), [1.0, 2.0]):
        with pytest.raises(ckks.ParameterError, match="broadcast as in NumPy"):
            x + other


def test_one_number_broadcasts_over_blocks(ctx, long):
    x, one = ctx.encrypt(long), ctx.encrypt([0.5])
    for made in (x * one, one * x, one * long, x * ctx.encode([0.5]), x * [0.5]):
        assert error(made.decrypt(), long / 2) < BAR


def test_compressed_replies(ctx, rows):
    x = ctx.encrypt(rows[0])
    reply = (x * 0.5).compress()
    assert reply.level == 0 and reply.nbytes < x.nbytes
    assert error(reply.decrypt(), rows[0] / 2) < BAR
    assert reply.compress() is reply


def test_one_number_meets_a_vector_in_blocks_by_rotations(ctx, long):
    one = ctx.encrypt([0.5])
    for made, want in (
        (one * ctx.encrypt(long), 0.5 * long),
        (ctx.encrypt(long) - one, long - 0.5),
    ):
        assert error(made.decrypt(), want) < BAR
    assert (ctx.encrypt(long) + one).level == one.level  # no matrix of zeros and ones


@pytest.mark.parametrize("axis", [1, -3, -4])
def test_only_the_first_axis_of_a_batch_is_mapped_over(ctx, axis):
    """Their leaves have different axes behind it: with equal sizes another would be wrong."""
    values = np.linspace(-1, 1, 12).reshape(2, 2, 3)
    x, p = ctx.encrypt(values, pack="rows"), ctx.encode(values, pack="rows")
    for given in (x, p):
        with pytest.raises(ckks.ParameterError, match="over the first alone"):
            jax.vmap(lambda v: x[0] * v, in_axes=axis)(given)
        with pytest.raises(ckks.ParameterError, match="over the first alone"):
            jax.vmap(lambda w, v: w * v, in_axes=(0, axis))(x, given)
    with pytest.raises(ckks.ParameterError, match="over the first alone"):
        jax.vmap(lambda v: 2 * v, out_axes=axis)(x)
    both = jax.vmap(jax.vmap(lambda v, w: v * w))(x, p)
    assert np.abs(both.decrypt() - values**2).max() <= both.estimate.error_bound


def test_axes_are_trees_of_the_structure_of_ciphertexts(ctx):
    """As libraries on top of JAX call vmap: one axis for each leaf."""

    def axes(value, axis):
        return jax.tree.map(lambda _: axis, value)

    values = np.linspace(-1, 1, 6).reshape(2, 3)
    x, p = ctx.encrypt(values, pack="rows"), ctx.encode(values, pack="rows")
    given = ({"x": axes(x, 0)}, axes(x[0], None), axes(p, 0))
    made = jax.vmap(lambda d, w, p: d["x"] * p + w, in_axes=given)({"x": x}, x[0], p)
    assert error(made.decrypt(), values**2 + values[0]) < BAR
    doubled = jax.vmap(lambda v: 2 * v, out_axes=axes(x, 0))(x)
    assert error(doubled.decrypt(), 2 * values) < BAR
    leaves, tree = jax.tree.flatten(x)
    mixed = jax.tree.unflatten(tree, [0] + [None] * (len(leaves) - 1))
    for wrong in (axes(x, 1), mixed):
        with pytest.raises(ckks.ParameterError, match="over the first alone"):
            jax.vmap(lambda v: 2 * v, in_axes=(wrong,))(x)
