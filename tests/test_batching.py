"""Steps of programs along the last batch axis: side by side, and one of several."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import DomainError, RingMismatchError
from ren.poly import Poly
from ren.poly.batching import item, stacked
from ren.ring import RingSpec

RING = RingSpec(n=8, moduli=(17, 97))


def drawn(*batch: int, device: str | None = None) -> Poly:
    values = np.random.default_rng(batch).integers(0, 17 * 97, (*batch, 8))
    return Poly(values, RING, device=device)


@pytest.mark.parametrize("device", [None, "python"])
def test_items_of_what_stands_side_by_side(device):
    a, b, c = (drawn(*batch, device=device) for batch in ((2,), (2,), ()))
    both = stacked([a, b.ntt(), c], -1)  # c stands beside each of the batch
    assert both.shape == (2, 3, 2, 8)
    assert both.tolist() == [
        [x, y, c.tolist()] for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert item(both, 1).tolist() == b.tolist()
    assert item(item(both, 2), 0).tolist() == c.tolist()


@pytest.mark.long
def test_under_jit_and_vmap():
    x = drawn(3, 2)

    def swapped(x):
        return stacked([item(x, 1) * item(x, 0), item(x, 0) - 1], -1)

    pairs = zip(item(x, 0).tolist(), item(x, 1).tolist(), strict=True)
    pairs = [(Poly(a, RING), Poly(b, RING)) for a, b in pairs]
    want = [[(a * b).tolist(), (a - 1).tolist()] for a, b in pairs]
    jitted = ren.jit(swapped)
    for made in (swapped(x), jitted(x), jitted(x), jax.jit(swapped)(x), jax.vmap(swapped)(x)):
        assert made.tolist() == want
    assert jitted.cache_info().hits == 1


def test_what_has_no_such_place():
    for poly, index in ((drawn(), 0), (drawn(2), 2), (drawn(2), -1)):
        with pytest.raises(DomainError, match="of the last one"):
            item(poly, index)
    with pytest.raises(DomainError, match="no polynomials"):
        stacked([], -1)
    with pytest.raises(RingMismatchError, match="two rings"):
        stacked([drawn(), Poly([1], RingSpec(n=8, moduli=(17,)))], -1)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("domain", ["intt", "ntt"])
def test_a_power_of_any_exponent_keeps_the_batch(batch, domain):
    p = getattr(Poly(np.zeros((*batch, 8), int) + 2, RING), domain)()
    for exponent in range(3):
        want = np.broadcast_to(Poly([2] * 8, RING).__pow__(exponent).tolist(), (*batch, 8))
        for power in (p**exponent, ren.jit(lambda p, e=exponent: p**e)(p)):
            assert power.shape[:-2] == batch
            assert np.array_equal(np.reshape(power.tolist(), (*batch, 8)), want)
