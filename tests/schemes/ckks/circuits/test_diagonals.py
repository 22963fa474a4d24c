"""Splits of rotations, in the clear: every split computes the product, and the counts are least."""

from __future__ import annotations

import numpy as np
import pytest

from ren.core.errors import ParameterError
from ren.schemes.ckks.circuits.diagonals import (
    Split,
    best_diagonals,
    folded_diagonals,
    split,
    square_diagonals,
)
from ren.schemes.ckks.circuits.entries import Entries


def drawn(m: int, k: int) -> np.ndarray:
    return np.random.default_rng([m, k]).normal(size=(m, k))


def computed(diagonals, folds, x: np.ndarray, slots: int) -> np.ndarray:
    """The product of a vector that is cut into blocks, of which the last is filled with noise."""
    count = -(-len(x) // slots)
    junk = np.random.default_rng(0).normal(size=count * slots - len(x))
    blocks = np.concatenate([x, junk]).reshape(count, slots)
    rows = max(row for row, _, _ in diagonals) + 1
    y = np.zeros((rows, slots))
    for (row, column, d), v in diagonals.items():
        y[row] += v * np.roll(blocks[column], -d)
    for step in folds:
        y = y + np.roll(y, -step, -1)
    return y.ravel()


SHAPES = [(1, 1), (3, 5), (5, 3), (16, 16), (32, 32), (1, 32), (32, 1), (4, 32), (5, 30), (2, 20)]
LONG = [(33, 5), (5, 33), (1, 100), (100, 1), (64, 96), (70, 70), (33, 33), (32, 64), (31, 65)]


@pytest.mark.parametrize("shape", SHAPES + LONG)
def test_diagonals_compute_the_product_whatever_lies_beyond(shape):
    matrix, slots = drawn(*shape), 32
    x = np.random.default_rng(1).normal(size=shape[1])
    entries = Entries.of(matrix)
    got = computed(square_diagonals(entries, slots), (), x, slots)
    assert np.allclose(got[: shape[0]], matrix @ x)
    if shape[0] <= slots:
        got = computed(*folded_diagonals(entries, slots), x, slots)
        assert np.allclose(got[: shape[0]], matrix @ x)


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
        (range(-63, 64), 21),
        (range(16), 6),
        ([0], 0),
        ([5], 1),
        ([-1, 0, 1], 2),
        (range(0, 640, 10), 14),
        ([0, 1, 100, 101], 2),
        ([700 * c + d for c in range(-3, 3) for d in (-29, -28, -27, -1, 0, 1, 27, 28, 29)], 13),
    ],
)
def test_the_fewest_rotations(steps, rotations):
    assert split(steps).rotations == rotations


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
    assert s.rotations == 4 * 3 + 15 and len(s.keys) == 18
    s = split(range(64), blocks=(3, 1))
    assert s.rotations == 15 + 3 * 3
    assert split(range(64), 2, blocks=(2, 2)).rotations <= 2 * (7 + 7)


def best(matrix: np.ndarray, slots: int):
    diagonals, s = best_diagonals(Entries.of(matrix), slots, None)
    return sorted(diagonals), s


def test_a_wide_matrix_folds():
    places, s = best(drawn(10, 1000), 2048)
    assert len(places) == 16 and s.folds == (512, 256, 128, 64, 32, 16)
    assert s.rotations == 6 + 6
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
