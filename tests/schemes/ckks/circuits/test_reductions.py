"""Sums, slices, masks, tiles and parts against NumPy, on slots full and not full."""

from __future__ import annotations

import numpy as np
import pytest

import ren
from ren.schemes import ckks

BAR = 2.0**-19


def check(x: ckks.Ciphertext, want, level: int) -> None:
    got = x.decrypt()
    assert got.shape == np.shape(want) and got.dtype == np.asarray(want).dtype
    assert np.abs(got - want).max() < BAR
    assert x.level == level


def drawn(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([count, seed]).uniform(-1, 1, count)


@pytest.fixture(params=[10, 64])
def data(request, ctx64):
    """Ten numbers in 64 slots, of which the others are not zero; and 64 that fill them."""
    values = drawn(request.param)
    return values + 0.5, ctx64.encrypt(values) + 0.5


@pytest.mark.slow
def test_sums_stand_in_every_slot(ctx64, data):
    values, x = data
    check(x.sum(), values.sum(), 4)  # what stands beyond the length is 0.5, and is taken off
    check(x.mean(), values.mean(), 3)
    check(x - x.mean(), values - values.mean(), 3)
    w = drawn(len(values), 1)
    y = ctx64.encrypt(w) + 0.25
    check(x.dot(w), values @ w, 3)
    check(x.dot(ctx64.encode(w)), values @ w, 3)
    check(x.dot(y), values @ (w + 0.25), 3)
    check(w @ x, values @ w, 3)
    check(x * x.dot(w), values * (values @ w), 2)
    check(x.dot(1j * w), values @ (1j * w), 3)


@pytest.mark.parametrize(("length", "level"), [(1, 4), (5, 4), (32, 4), (40, 3), (64, 3)])
def test_cumsum_takes_a_level_where_no_zeros_stand_beyond(ctx64, length, level):
    values = drawn(length)
    x = ctx64.encrypt(values)
    check(x.cumsum(), values.cumsum(), level)


def test_sums_over_blocks(ctx64):
    values = drawn(128)
    total = ctx64.encrypt(values).sum()
    check(total, values.sum(), 4)
    assert total.estimate.message_bound <= 128


@pytest.mark.slow
def test_blocks_that_are_not_full(ctx64):
    values, w = drawn(70) + 0.5, drawn(70, 1)
    x = ctx64.encrypt(values - 0.5) + 0.5
    check(x.sum(), values.sum(), 4)
    check(x.mean(), values.mean(), 3)
    check(x.dot(w), values @ w, 3)
    check(x.cumsum(), values.cumsum(), 2)


def test_cumsum_in_stages(ctx4):
    values = drawn(150)
    x = ctx4.encrypt(values) + 0.5
    check(x.cumsum(), (values + 0.5).cumsum(), 4)
    filled = drawn(ctx4.slots)
    check(ctx4.encrypt(filled).cumsum(), filled.cumsum(), 2)


def test_slices(data):
    values, x = data
    for part in (slice(2, 7), slice(None, 3), slice(-4, None), slice(None), slice(3, 4)):
        check(x[part], values[part], 4)
    check(x[1:9][2:5], values[3:6], 4)
    check(x[..., 2:7], values[2:7], 4)
    for bad in (3, slice(0, 5, 2), slice(5, 5), (0, 1), (..., 3), None):
        with pytest.raises(ckks.ParameterError):
            x[bad]


def test_slices_of_batches(ctx64):
    rows = np.stack([drawn(20), drawn(20, 1)])
    x = ctx64.encrypt(rows, pack="rows")
    check(x[..., 3:9], rows[..., 3:9], 4)
    check(x[1:], rows[1:], 4)
    check(x[-1], rows[-1], 4)
    check(ckks.unstack(x)[1], rows[1], 4)
    for bad in (slice(3, 9), 2, -3):
        with pytest.raises(ckks.ParameterError, match=r"shape \(2, 20\)"):
            x[bad]


@pytest.mark.parametrize("jitted", [False, True])
def test_slices_of_blocks(ctx64, jitted):
    values = drawn(2 * 64 + 9)
    x = ctx64.encrypt(values)
    parts = ((0, 137), (0, 100), (0, 20), (64, 137), (64, 128), (70, 90), (130, 137))
    for part in (slice(start, stop) for start, stop in parts):
        made = ren.jit(lambda x, part=part: x[part])(x) if jitted else x[part]
        check(made, values[part], 4)
    for start, stop in ((5, 100), (60, 70), (1, 137), (100, 137)):
        check(x[start:stop], values[start:stop], 3)
    with pytest.raises(ckks.DepthError, match="across the blocks"):
        x.drop_to(0)[5:100]
    with pytest.raises(ckks.ParameterError, match="choose more slots"):
        x.tile(2)


def test_slices_of_blocks_keep_their_type(ctx64):
    values = np.arange(137)
    x = ctx64.encrypt(values)
    check(x[5:100], values[5:100], 3)
    check(x[64:130], values[64:130], 4)


def test_masks_tiles_and_concatenation(ctx64, data):
    values, x = data
    m = np.arange(len(values)) % 2
    check(x.mask(m), values * m, 3)
    check(x.mask(), values, 4)
    check(ckks.pad(x[:5], 9) + np.ones(9), np.pad(values[:5], (0, 4)) + 1, 3)
    y = x[:5]
    for count in (1, 2, 3, 5, 12):
        check(y.tile(count), np.tile(values[:5], count), 3 if count > 1 else 4)
        check(y.mask().tile(count), np.tile(values[:5], count), 3)
    check(ckks.concat([y, x[2:4], y]), np.concatenate([values[:5], values[2:4], values[:5]]), 3)
    check(ckks.concat([y]), values[:5], 4)
    with pytest.raises(ckks.ParameterError, match="64 slots"):
        y.tile(13)
    with pytest.raises(ckks.ParameterError, match="At least one"):
        ckks.concat([])
    with pytest.raises(ckks.ParameterError, match="65 numbers"):
        ckks.concat([y] * 13)
    with pytest.raises(ckks.ParameterError, match="one factor for each"):
        x.mask([1, 0])


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
def test_real_and_imaginary_parts(ctx64):
    z = drawn(20) + 1j * drawn(20, 1)
    x = ctx64.encrypt(z)
    check(x.real, z.real, 3)
    check(x.imag, z.imag, 3)
    check(x.real + 1j * x.imag, z, 3)
    y = ctx64.encrypt(z.real)
    assert y.real is y
    check(y.imag, np.zeros(20), 4)


def test_scalars_are_their_own_sums(ctx64):
    x = ctx64.encrypt(0.75)
    assert x.sum() is x and x.mean() is x and x.cumsum() is x
    with pytest.raises(ckks.ParameterError, match="scalar"):
        x.tile(2)
    with pytest.raises(ckks.ParameterError, match="scalar"):
        x.dot([1.0])


@pytest.mark.slow
def test_any_and_all(ctx4):
    owner = ckks.context(params=ctx4.params, slots=16)
    for bits in ([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 1, 1]):
        x = owner.encrypt(np.array(bits, float))
        check(ckks.math.all(x), np.float64(all(bits)), 1)
        check(ckks.math.any(x), np.float64(any(bits)), 1)
    full = owner.encrypt(np.ones(16))
    check(ckks.math.all(full), np.float64(1), 0)


@pytest.mark.slow
def test_in_a_captured_function_for_each_length(ctx64):
    f = ren.jit(lambda x: (x - x.mean()).cumsum()[1:3].sum())
    for length in (4, 4, 7):
        values = drawn(length, 3)
        want = (values - values.mean()).cumsum()[1:3].sum()
        assert abs(f(ctx64.encrypt(values)).decrypt() - want) < BAR
    assert f.cache_info()[:3] == (1, 2, 2)


def test_a_vector_on_the_left_of_a_batch_is_no_product_of_its_vectors(ctx64):
    rows, v = np.eye(3), np.array([1.0, 2.0, 3.0])
    x, batch = ctx64.encrypt(v), ctx64.encrypt(rows, pack="rows")
    with pytest.raises(ckks.ParameterError, match=r"batch\.dot\(vector\)"):
        x.dot(batch)
    assert np.allclose(batch.dot(x).decrypt(), rows @ v, atol=1e-6)
