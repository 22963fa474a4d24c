"""The models of time: each count costs, and memory costs where a native call reads it."""

from __future__ import annotations

import pytest

import ren
from ren import Domain, RingSpec
from ren.lowering.plan.cost import (
    NATIVE_BYTES_PER_SECOND,
    NATIVE_SECONDS_PER_BUTTERFLY,
    NATIVE_SECONDS_PER_CALL,
    NATIVE_SECONDS_PER_MULTIPLY_ADD,
    Cost,
    estimated_seconds,
    native_seconds,
    unit_costs,
)
from ren.lowering.plan.plan import Plan
from ren.schemes import ckks
from tests.lowering.plans import RING, plan, poly

WHOLE = 4 * RING.limbs * RING.n
LIMB = WHOLE // RING.limbs


def test_the_model_grows_with_each_count():
    base = estimated_seconds(Cost(1, 1, 1, 1, 1), 1 << 14)
    assert estimated_seconds(Cost(1, 2, 1, 1, 1), 1 << 14) > base
    assert estimated_seconds(Cost(1, 1, 10**6, 1, 1), 1 << 14) > base
    assert estimated_seconds(Cost(1, 1, 1, 10**6, 1), 1 << 14) > base
    # 16 limbs of 2^14 take about a millisecond on the machine of the model.
    assert 0.5e-3 < estimated_seconds(Cost(1, 16), 1 << 14) < 2e-3


def moved(p: Plan, multiply_adds: int = 0, limb_ntts: int = 0) -> float:
    """The bytes that the estimate of a native call has to and from memory."""
    butterflies = limb_ntts * RING.n // 2 * (RING.n.bit_length() - 1)
    work = butterflies * NATIVE_SECONDS_PER_BUTTERFLY
    work += multiply_adds * NATIVE_SECONDS_PER_MULTIPLY_ADD
    return (native_seconds(p) - NATIVE_SECONDS_PER_CALL - work) * NATIVE_BYTES_PER_SECOND


def test_what_stays_in_the_cache_is_not_moved():
    p = plan((poly(1) + poly(2)).ntt() - 1)
    assert len(p.units) > 1
    assert moved(p, limb_ntts=RING.limbs) == pytest.approx(2 * WHOLE + 2 * WHOLE)


def test_an_input_is_read_once_and_only_its_limbs():
    part = RingSpec(RING.n, RING.moduli[1:3])
    x = poly(1, domain=Domain.NTT)
    once = plan(x.to_ring(part) + 1)
    assert moved(once) == pytest.approx(2 * LIMB + 2 * 2 * LIMB)
    both = plan(x.intt(), x + 1)
    assert moved(both, limb_ntts=RING.limbs) == pytest.approx(WHOLE + 2 * 2 * WHOLE)


def test_conversions_are_written_and_read_by_other_phases():
    base = RingSpec(RING.n, RING.moduli[:2])
    p = plan(poly(1, base).mod_up(base.moduli, RING).ntt())
    plain = plan(poly(1).ntt())
    assert native_seconds(p) > native_seconds(plain)


def test_rotations_that_share_digits_take_less_than_as_many_alone():
    ctx = ckks.context(depth=2)
    ctx.rotation_keys(range(1, 5))
    x = ctx.encrypt([1.0])
    one = ren.jit(lambda x: x.rotate(1))
    four = ren.jit(lambda x: [x.rotate(i) for i in range(1, 5)])
    one(x), four(x)
    alone, together = one.plans[0].plan, four.plans[0].plan
    by_units = lambda plan: sum(estimated_seconds(*unit) for unit in unit_costs(plan))  # noqa: E731
    for seconds in (native_seconds, by_units):
        assert 4 * seconds(alone) > seconds(together) > seconds(alone)
