"""Tables and Montgomery forms against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from ren.lowering.backends.reference import arithmetic as exact
from ren.lowering.kernels import tables
from tests.lowering.kernels.residues import R, all_residues, basis, montgomery, plain

MODULI = basis(16, 6)


@pytest.mark.parametrize("value", [0, 1, -1, 2**32, -(3**80)])
def test_constants(value: int) -> None:
    stored = tables.montgomery_constant(value, MODULI)
    assert stored.dtype == np.uint32
    assert stored.tolist() == [[value * R % q] for q in MODULI]
    assert tables.plain_constant(value, MODULI).tolist() == [[value % q] for q in MODULI]


@pytest.mark.parametrize("count", [1, 2, 64])
def test_powers(count: int) -> None:
    bases = [3, 5, 7, 11, 13, 2]
    expected = [[pow(b, i, q) for i in range(count)] for b, q in zip(bases, MODULI, strict=True)]
    assert tables.powers(bases, count, MODULI).tolist() == expected


def test_shoup_companions() -> None:
    values = all_residues(MODULI, 16)[2].astype(np.uint64)
    w, companions = tables.shoup(values, MODULI)
    assert (w == values).all()
    assert companions.tolist() == [
        [int(v) * R // q for v in row] for row, q in zip(values, MODULI, strict=True)
    ]


def test_tables_are_shared_and_read_only() -> None:
    q, _ = tables.modulus(MODULI)
    assert tables.modulus(MODULI)[0] is q
    with pytest.raises(ValueError, match="read-only"):
        q[0] = 1


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int8, object])
def test_to_montgomery_takes_any_integers(kind: type) -> None:
    values = np.array([[0, 1, 2, 100, 127]], kind)
    if kind is not np.uint64:
        values = np.concatenate([values, -values - 1], axis=1)
    if kind is object:
        values = np.concatenate([values, values * 10**60], axis=1)
    stored = exact.to_montgomery(values, MODULI)
    assert stored.dtype == np.uint32
    assert stored.tolist() == [montgomery(values[0].tolist(), q) for q in MODULI]
    assert exact.from_montgomery(stored, MODULI).tolist() == [
        [int(v) % q for v in values[0]] for q in MODULI
    ]


def test_from_montgomery() -> None:
    x = all_residues(MODULI, 16)
    for row, expected in zip(exact.from_montgomery(x, MODULI), x, strict=True):
        assert row.tolist() == [plain(r, q) for r, q in zip(expected, MODULI, strict=True)]
