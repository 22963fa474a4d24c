"""Sums of constant multiples of the parts of a batch become products with a matrix."""

import numpy as np
import pytest

import ren
from ren import Poly, RingSpec

N, PARTS = 8, 12
RING = RingSpec(N, (97, 193))


def batch(seed: int = 0) -> tuple[Poly, list[list[int]]]:
    rows = np.random.default_rng(seed).integers(0, RING.q, (PARTS, N)).tolist()
    return Poly(rows, RING), rows


def weights(count: int, seed: int = 1) -> list[list[int]]:
    drawn = np.random.default_rng(seed).integers(2, 90, (count, PARTS))
    return (drawn * np.where(drawn % 3, 1, -1)).tolist()


def summed(p: Poly, rows: list[list[int]]) -> list[Poly]:
    return [sum((w * p[i] for i, w in enumerate(row)), 0 * p[0]) for row in rows]


def wanted(rows: list[list[int]], values: list[list[int]]) -> list[list[int]]:
    """By integers of Python."""
    return [[sum(w * v[k] for w, v in zip(row, values, strict=True)) % RING.q for k in range(N)]
            for row in rows]  # fmt: skip


def count_of(f, *args: Poly) -> int:
    return ren.stages(f, *args)["mix_sums"].count("= MIX")


@pytest.mark.parametrize(("rows", "mixes"), [(1, 0), (2, 1), (5, 1), (70, 2)])
def test_sums_over_one_batch_are_products_with_a_matrix(rows, mixes):
    (p, values), w = batch(), weights(rows)
    assert count_of(lambda p: summed(p, w), p) == mixes  # one row reads each part once anyway
    for y, want in zip(ren.jit(lambda p: summed(p, w))(p), wanted(w, values), strict=True):
        assert y.tolist() == want


def test_differences_other_terms_and_units():
    (p, values), (q, others) = batch(), batch(3)
    w = weights(3)

    def f(p: Poly, q: Poly) -> list[Poly]:
        total = summed(p, w)
        units = [sum((p[i] for i in range(PARTS)), q[0] * k) for k in (2, 3)]
        return [q[0] - total[0], -(total[1] - p[2] + q[1] * q[2]), total[2] * 5 + q[3], *units]

    # The three sums of products are mixed; those of the parts as they are stay sums.
    shown = ren.stages(f, p, q)["mix_sums"]
    assert shown.count("= MIX") == 1 and shown.count("batch=(3,)") >= 1
    results = ren.jit(f)(p, q)
    totals = wanted(w, values)
    square = (q[1] * q[2]).tolist()
    ones = [sum(v[k] for v in values) for k in range(N)]
    for y, want in zip(
        results,
        [
            [others[0][k] - totals[0][k] for k in range(N)],
            [-(totals[1][k] - values[2][k] + square[k]) for k in range(N)],
            [5 * totals[2][k] + others[3][k] for k in range(N)],
            *([ones[k] + others[0][k] * c for k in range(N)] for c in (2, 3)),
        ],
        strict=True,
    ):
        assert y.tolist() == [v % RING.q for v in want]


def test_sums_of_few_parts_and_sums_that_others_read_stay():
    (p, values), w = batch(), weights(2)
    few = [row[:4] for row in w]
    assert count_of(lambda p: [sum((c * p[i] for i, c in enumerate(r)), p[5]) for r in few], p) == 0

    def prefixes(p: Poly) -> list[Poly]:
        sums = [w[0][0] * p[0]]
        for i in range(1, PARTS):
            sums.append(sums[-1] + w[0][i] * p[i])
        return sums

    assert count_of(prefixes, p) == 0
    for i, y in enumerate(ren.jit(prefixes)(p)):
        assert y.tolist() == wanted([w[0][: i + 1]], values[: i + 1])[0]


@pytest.mark.parametrize("device", ["python", None])
def test_the_sums_by_each_backend(device):
    (p, values), w = batch(), weights(4)
    f = (
        ren.jit(lambda p: summed(p, w), device=device)
        if device
        else ren.jit(lambda p: summed(p, w))
    )
    assert [y.tolist() for y in f(p)] == wanted(w, values)
