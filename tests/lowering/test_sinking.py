"""Transforms sink through sums where that saves some, and values stay bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.core import make, toposort
from ren.core import op as ops
from ren.lowering.passes.pipeline import PIPELINE

RING = RingSpec(16, (97, 193))


def poly(seed: int, domain: Domain = Domain.COEFF) -> Poly:
    rng = np.random.default_rng(seed)
    limbs = rng.integers(0, 97, (2, 16)).astype(np.uint32)
    return Poly.from_limbs(limbs, RING, domain)


def transforms(*polys: Poly) -> list[int]:
    """How many limbs are transformed, before pass 4 and after it."""
    graph, counts = make(ops.SINK, [p.node for p in polys]), []
    for step in PIPELINE:
        if step.name == "reduce_transforms":
            counts.append(count(graph))
        graph = step.run(graph)
        if step.name == "reduce_transforms":
            return [*counts, count(graph)]
    raise AssertionError("no pass 4")


def count(graph) -> int:
    return sum(n.work.limb_ntts for n in toposort(graph))


def test_transforms_of_operands_become_one_of_the_sum():
    a, b, c = poly(0), poly(1), poly(2, Domain.NTT)
    assert transforms(a.ntt() + b.ntt()) == [4, 2]
    assert transforms((a.ntt() - b.ntt() * 3) + c) == [4, 2]
    assert transforms((c * c).intt() + (c * poly(3, Domain.NTT)).intt()) == [4, 2]
    assert transforms(-a.ntt() + (b.ntt() + c)) == [4, 2]


def test_a_transform_that_is_undone_at_once_is_not_made():
    a, c = poly(0), poly(2, Domain.NTT)
    assert transforms((a + c).intt()) == [4, 2]
    assert transforms((a * 3 - c - 1).intt()) == [4, 2]
    assert transforms((c.intt() + a).ntt() + c) == [4, 2]
    x = (a * 3 - c - 1).intt()
    host, other = a.to("python"), c.to("python")
    assert np.array_equal(np.asarray(x.limbs), (host * 3 - other.intt().realize() - 1).limbs)


def test_what_another_reads_stays():
    a, b = poly(0), poly(1)
    x, y = a.ntt(), b.ntt()
    assert transforms(x + y, x * y) == [4, 4]
    assert transforms(x + y, x) == [4, 4]


def test_values_are_the_same():
    a, b, c = poly(0), poly(1), poly(2, Domain.NTT)
    x = (a.ntt() - b.ntt() * 3) + c - 5
    plain = (a.to("python").ntt().realize() - b.to("python").ntt().realize() * 3) + c.to("python")
    assert np.array_equal(np.asarray(x.limbs), (plain - 5).limbs)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: (x.ntt() + k).intt(),
        lambda x, k: (k - x.ntt()).intt(),
        lambda x, k: (-(x.ntt() * k - k) + 1).intt(),
        lambda x, k: (x.intt() - k * (k + 1)).ntt(),
    ],
)
@pytest.mark.parametrize("domain", Domain)
def test_numbers_known_at_each_call_go_through(f: Callable[..., Poly], domain: Domain):
    x = poly(0, domain)
    step = ren.jit(f)
    for k in (3, -5):
        assert step(x, k).tolist() == f(x.to("python"), k).tolist()
