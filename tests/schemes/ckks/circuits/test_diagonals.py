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


def drawn(m: int, k: int) -> np.ndarray:
    return np.random.default_rng([m, k]).normal(size=(m, k))


def computed(diagonals, folds, x: np.ndarray) -> np.ndarray:
    y = sum(v * np.roll(x, -d) for d, v in diagonals.items())
    for step in folds:
        y = y + np.roll(y, -step)
    return y


SHAPES = [(1, 1), (3, 5), (5, 3), (16, 16), (32, 32), (1, 32), (32, 1), (4, 32), (5, 30), (2, 20)]


@pytest.mark.parametrize("shape", SHAPES)
def test_diagonals_compute_the_product_whatever_lies_beyond(shape):
    matrix, slots = drawn(*shape), 32
    x = np.random.default_rng(0).normal(size=slots)
    want = matrix @ x[: shape[1]]
    got = computed(square_diagonals(matrix, slots), (), x)
    assert np.allclose(got[: shape[0]], want)
    got = computed(*folded_diagonals(matrix, slots), x)
    assert np.allclose(got[: shape[0]], want)


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


def test_a_wide_matrix_folds():
    diagonals, s = best_diagonals(drawn(10, 1000), 2048, None)
    assert len(diagonals) == 16 and s.folds == (512, 256, 128, 64, 32, 16)
    assert s.rotations == 6 + 6


def test_a_banded_matrix_has_its_band():
    matrix = np.triu(np.tril(drawn(500, 500), 2), -1)
    assert sorted(square_diagonals(matrix, 1024)) == [-1, 0, 1, 2]
    assert sorted(square_diagonals(np.zeros((3, 3)), 8)) == [0]
