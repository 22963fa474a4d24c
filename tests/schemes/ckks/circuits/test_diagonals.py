"""Splits of rotations, in the clear: every split computes the product, and the counts are least."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ren.core.errors import ParameterError
from ren.schemes.slots import diagonals
from ren.schemes.slots.diagonals import (
    Placement,
    Split,
    best_placement,
    folded,
    replicated,
    split,
    square,
)
from ren.schemes.slots.entries import Entries


def drawn(m: int, k: int) -> np.ndarray:
    return np.random.default_rng([m, k]).normal(size=(m, k))


def computed(p: Placement, x: np.ndarray) -> np.ndarray:
    """The product of a vector that is cut into blocks; noise beyond it where that may be."""
    count = -(-len(x) // p.slots)
    beyond = np.random.default_rng(0).normal(size=count * p.slots - len(x)) * (p.copies == 1)
    blocks = np.concatenate([x, beyond]).reshape(count, p.slots)
    if p.copies > 1:
        assert count == 1 and p.copies * abs(p.period) <= p.slots
        blocks = sum(np.roll(blocks, i * p.period, -1) for i in range(p.copies))
    y = np.zeros((p.rows, p.slots))
    shifts = list(range(len(p.tiles)))
    vectors = np.concatenate([p.vectors(i, shifts[i : i + 3]) for i in range(0, len(shifts), 3)])
    for (row, column, d), shifted, shift in zip(p.tiles, vectors, shifts, strict=True):
        v = np.roll(shifted, -shift)
        y[row] += v * np.roll(blocks[column], -d)
    for step in p.folds:
        y = y + np.roll(y, -step, -1)
    return y.ravel()


SHAPES = [(1, 1), (3, 5), (5, 3), (16, 16), (32, 32), (1, 32), (32, 1), (4, 32), (5, 30), (2, 20)]
LONG = [(33, 5), (5, 33), (1, 100), (100, 1), (64, 96), (70, 70), (33, 33), (32, 64), (31, 65)]
PRIMES = [(2, 3), (3, 2), (7, 7), (11, 11), (13, 2), (17, 13), (29, 3), (31, 2), (97, 11), (11, 97)]


@pytest.mark.parametrize("shape", SHAPES + LONG + PRIMES)
def test_every_way_around_computes_the_product(shape):
    matrix, slots = drawn(*shape), 32
    x = np.random.default_rng(1).normal(size=shape[1])
    entries, (m, k) = Entries.of(matrix), shape
    ways = [square(entries, slots), best_placement(entries, slots, None, True)[0]]
    for count, around in ((m, folded), (k, replicated)):
        power = 1 << (count - 1).bit_length()
        if count <= slots:
            made = around(entries, slots, power)
            assert made is not None and len(made.tiles) <= power * max(1, -(-max(shape) // slots))
            ways += [made, around(entries, slots, count) or made]
    ways += filter(None, [replicated(entries, slots, max(shape), is_before=True)])
    for way in ways:
        assert np.allclose(computed(way, x)[:m], matrix @ x)


@pytest.mark.parametrize(
    ("shape", "count", "rotations", "keys"),
    [
        ((1000, 32), 32, 16, 15),
        ((784, 10), 10, 12, 11),
        ((128, 128), 128, 23, 23),
        ((16, 16), 16, 7, 7),
        ((500, 500), 500, 47, 47),
        ((4096, 32), 32, 17, 17),
        ((1000, 1), 1, 10, 10),
        ((10, 784), 10, 12, 12),
        ((1, 784), 1, 10, 10),
        ((128, 784), 128, 25, 25),
        ((2, 2), 3, 2, 2),
        ((1, 1), 1, 0, 0),
    ],
)
def test_the_diagonals_rotations_and_keys_of_each_shape(shape, count, rotations, keys):
    placement, s = best_placement(Entries.of(drawn(*shape)), 4096, None, True)
    assert (len(placement.tiles), s.rotations, len(s.keys)) == (count, rotations, keys)


def test_a_vector_with_leftovers_is_not_replicated():
    entries = Entries.of(drawn(100, 7))
    placement, s = best_placement(entries, 256)
    assert placement.copies == s.copies == 1 and len(placement.tiles) == 106
    for keys in (2, 3, 5, 8):
        placement, s = best_placement(entries, 256, keys, True)
        assert len(s.keys) <= keys
    with pytest.raises(ParameterError, match="rotation keys at least"):
        best_placement(entries, 256, 0, True)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (5, 2)])
def test_a_matrix_beside_others_is_a_kronecker_product(shape):
    matrix = drawn(*shape)
    for made, want in (
        (Entries.of(matrix).on_columns(3), np.kron(matrix, np.eye(3))),
        (Entries.of(matrix).on_rows(3), np.kron(np.eye(3), matrix)),
        (Entries.of(matrix).transposed, matrix.T),
    ):
        dense = np.zeros(made.shape)
        dense[made.rows, made.columns] = made.values
        assert np.array_equal(dense, want)


@pytest.mark.parametrize(
    ("steps", "rotations"),
    [
        (range(64), 14),
        (range(-63, 64), 22),
        (range(16), 6),
        ([0], 0),
        ([5], 1),
        ([-1, 0, 1], 2),
        (range(0, 640, 10), 14),
        ([0, 1, 100, 101], 2),
        ([700 * c + d for c in range(-3, 3) for d in (-29, -28, -27, -1, 0, 1, 27, 28, 29)], 13),
    ],
)
def test_the_rotations_of_a_split(steps, rotations):
    assert split(steps).rotations == rotations


@given(st.integers(-60, 60), st.integers(1, 120), st.sets(st.integers(0, 119), max_size=12))
def test_no_other_split_takes_much_less_time(low, count, holes):
    """Among all strides and first babies. A baby, which shares its ModUp, is half a rotation."""
    steps = {low + i for i in range(count) if i not in holes} or {low}

    def time(stride: int, first: int) -> float:
        babies = {(d - first) % stride + first for d in steps}
        giants = {d - (d - first) % stride - first for d in steps}
        return sum(b != 0 for b in babies) / 2 + sum(g != 0 for g in giants)

    least = min(time(stride, -k) for stride in range(1, 40) for k in range(stride))
    assert split(steps).cost(len(steps)) <= 1.1 * (least + 0.04 * len(steps)) + 1


def test_maps_share_rotation_keys():
    shapes = [(128, 784), (128, 128), (100, 128), (120, 120)]
    found = [best_placement(Entries.of(drawn(*s)), 1024, None, True)[1].keys for s in shapes]
    assert found[1] <= found[0]  # the copy before the vector is one of the folds too
    assert all(len(keys & found[0]) >= 12 for keys in found)


def reached(s: Split) -> set[int]:
    """The steps that babies and giants make."""
    return {giant + baby for giant in s.giants for baby in s.babies}


@pytest.mark.parametrize("keys", [1, 2, 3, 5, 14, None])
def test_a_key_budget_is_kept(keys):
    steps = range(64)
    s = split(steps, keys)
    assert set(steps) <= reached(s)
    assert keys is None or len(s.keys) <= keys
    assert s.rotations >= 14
    if keys == 5:
        assert s.is_chained and s.rotations < 63
    if keys == 14:
        assert s.rotations == 14
    with pytest.raises(ParameterError, match="takes 1 rotation keys at least"):
        split(steps, 0)


def test_the_blocks_of_a_vector_share_a_split():
    s = split(range(64), blocks=(1, 4))
    assert s.rotations == 4 * 7 + 7 and len(s.keys) == 14  # as long as 4 * 3 + 15, with 18 keys
    s = split(range(64), blocks=(3, 1))
    assert s.rotations == 15 + 3 * 3
    assert split(range(64), 2, blocks=(2, 2)).rotations <= 2 * (7 + 7)


def best(matrix: np.ndarray, slots: int):
    placement, s = best_placement(Entries.of(matrix), slots)
    return sorted(placement.tiles), s


def test_a_wide_matrix_folds():
    places, s = best(drawn(10, 1000), 2048)
    assert len(places) == 10 and s.folds == (640, 320, 160, 80, 40, 20, 10)
    assert s.rotations == 5 + 7
    places, s = best(drawn(10, 1000), 512)
    assert len(places) == 2 * 16 and s.folds == (256, 128, 64, 32, 16)


def test_structure_is_recognised():
    matrix = np.triu(np.tril(drawn(500, 500), 2), -1)
    places, s = best(matrix, 1024)
    assert [step for _, _, step in places] == [-1, 0, 1, 2] and s.rotations == 2
    places, s = best(matrix, 128)  # each block has its band, and what reaches over its ends
    assert {step for _, _, step in places} == {-1, 0, 1, 2} and len(places) == 4 * 4 + 2 * 3 + 3
    taps = [0, 1, 7, 8, 14, 15]
    toeplitz = sum(np.eye(500, k=k) * (k + 1) for k in taps)
    places, s = best(toeplitz, 1024)
    assert [step for _, _, step in places] == taps and s.rotations == 3
    circulant = drawn(1, 128)[0][(np.arange(128) - np.arange(128)[:, None]) % 128]
    assert len(best(circulant, 128)[0]) == 128
    assert best(np.zeros((3, 3)), 8)[0] == [(0, 0, 0)]
    assert best(np.zeros((20, 3)), 8)[0] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]


@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 40))
def test_entries_in_parts_give_the_same_diagonals(m, k, size):
    matrix = np.where(np.random.default_rng([m, k]).random((m, k)) < 0.5, drawn(m, k), 0)
    entries = Entries.of(matrix)
    ways = (square, lambda e, s: folded(e, s, m), lambda e, s: replicated(e, s, k))
    for way in ways:
        if (whole := way(entries, 32)) is None:
            continue
        with mock.patch.object(diagonals, "_PART", size):
            made = way(entries, 32)
            shifts = list(range(len(whole.tiles)))
            assert made is not None and made.tiles == whole.tiles and made.split() == whole.split()
            assert np.array_equal(made.vectors(0, shifts), whole.vectors(0, shifts))
            assert made.largest_row(made.folds) == pytest.approx(whole.largest_row(whole.folds))
