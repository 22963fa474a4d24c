"""Values that are read in parts: no JOIN that is only taken apart, parts that die by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from ren import Domain, Poly, RingSpec
from ren.core import op as ops
from ren.core import toposort
from ren.lowering.plan.plan import KernelUnit, Plan
from ren.lowering.runtime.runner import interpret_plan, run_plan
from tests.lowering.plans import arrays, plan, poly
from tests.rings import primes

MODULI = primes(16)[-6:]
WIDE = RingSpec(16, MODULI)
BASE = WIDE.with_moduli(MODULI[:4])


def switched(digits: int) -> list[Poly]:
    """Key switching of one polynomial with two keys a digit: both halves."""
    c, size = poly(1, BASE, Domain.NTT), 4 // digits
    lifted = [c.mod_up(MODULI[size * j : size * (j + 1)], WIDE) for j in range(digits)]
    halves = []
    for half in (0, 1):
        keys = [poly(10 * half + j, WIDE, Domain.NTT) for j in range(digits)]
        terms = [x * key for x, key in zip(lifted, keys, strict=True)]
        halves.append(sum(terms[1:], terms[0]).mod_down(BASE))
    return halves


def joins(p: Plan) -> tuple[int, int]:
    """How many JOINs kernels read through, and how many they store."""
    bodies = [u.kernel.body for u in p.units if isinstance(u, KernelUnit)]
    made = sum(node.op is ops.JOIN for body in bodies for node in toposort(body))
    stored = sum(store.src[1].op is ops.JOIN for body in bodies for store in body.src)
    return made - stored, stored


def limbs_stored(p: Plan) -> list[list[int]]:
    kernels = [u.kernel.body for u in p.units if isinstance(u, KernelUnit)]
    return [[store.spec.ring.limbs for store in body.src] for body in kernels]


@pytest.mark.parametrize(("digits", "left"), [(1, 0), (2, 4)])
def test_a_join_is_made_only_where_a_part_spans_its_sources(digits, left):
    p = plan(*switched(digits))
    assert joins(p) == (left, 0)
    for got, want in zip(run_plan(p, arrays(p)), interpret_plan(p, arrays(p)), strict=True):
        assert np.array_equal(got, want)


def test_the_product_with_a_key_waits_for_the_sum_that_reads_it():
    p = plan(*switched(1))
    stored = [limbs for kernel in limbs_stored(p) for limbs in kernel]
    # c in coefficients; the lifted limbs, twice; for each half the product over the special primes,
    # its coefficients, what is lifted from them, twice, and the result.
    assert stored == [4, 2, 2, *2 * [2, 2, 4, 4, 4]]


def test_a_product_read_in_parts_is_stored_in_parts():
    x = poly(1, BASE, Domain.NTT)
    first, *_ = limbs_stored(plan((x * x).rescale(MODULI[:3])))
    assert sorted(first) == [1, 3]


def test_a_product_that_may_overwrite_a_dead_value_stays_whole():
    x, y = (poly(seed, BASE) for seed in (1, 2))
    p = plan((x * y).rescale(MODULI[:3]))
    assert [4] in limbs_stored(p)[2:]
    assert any(u.donate for u in p.units if isinstance(u, KernelUnit) and u.name == "MUL")


def test_readers_of_overlapping_limbs_share_the_whole():
    x = poly(1, BASE, Domain.NTT)
    square = x * x
    low, high = (square.to_ring(BASE.with_moduli(part)) for part in (MODULI[:3], MODULI[1:4]))
    p = plan(low.intt(), high.intt())
    assert limbs_stored(p)[0] == [4]
