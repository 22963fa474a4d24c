"""Programs far deeper than Python's stack: 20,000 operations that no rule folds."""

from __future__ import annotations

import pytest

from ren.poly import Poly
from ren.ring import RingSpec
from tests import oracle

ROUNDS = 6667  # three operations each


@pytest.mark.parametrize("device", [None, "python"])
def test_a_chain_of_twenty_thousand_operations(device: str | None) -> None:
    ring = RingSpec(n=8, moduli=(17, 97))
    start, factor, other = (
        [1, 2, 3, 4, 5, 6, 7, 8],
        [3, 1, 4, 1, 5, 9, 2, 6],
        [2, 7, 1, 8, 2, 8, 1, 8],
    )
    x, a, b = (Poly(c, ring, device=device) for c in (start, factor, other))
    expected, addend = start, other
    for _ in range(ROUNDS):
        x = x * a + b
        b = b - x
        expected = oracle.add(oracle.mul(expected, factor, ring.q), addend, ring.q)
        addend = oracle.sub(addend, expected, ring.q)
    assert str(x.node).count("\n") >= 3 * ROUNDS - 2
    assert x.tolist() == expected
