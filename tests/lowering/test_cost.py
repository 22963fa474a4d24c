"""Costs: counted by hand on small plans, additive, printed."""

from __future__ import annotations

import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.lowering.plan.cost import Cost, cost_of
from tests import oracle
from tests.lowering.plans import RING, plan, poly

LIMB = 4 * RING.n
WHOLE = RING.limbs * LIMB


def test_a_transform_is_one_limb_ntt_a_limb():
    cost = cost_of(plan(poly().ntt()))
    assert cost == Cost(
        kernels=1, limb_ntts=RING.limbs, multiply_adds=0, bytes_read=WHOLE, bytes_written=WHOLE
    )


def test_batch_axes_multiply_the_work():
    one, many = cost_of(plan(poly().ntt())), cost_of(plan(poly(batch=(3,)).ntt()))
    assert many.limb_ntts == 3 * one.limb_ntts
    assert many.bytes_read == 3 * one.bytes_read
    assert many.kernels == one.kernels


def test_elementwise_work_reads_each_input_once():
    x, y = poly(1, domain=Domain.NTT), poly(2, domain=Domain.NTT)
    cost = cost_of(plan((x * y + x) * 3))
    assert cost == Cost(1, 0, 2 * RING.limbs * RING.n, 2 * WHOLE, WHOLE)


@pytest.mark.parametrize("count", [2, 5])
def test_rotations_of_coefficients_share_a_transform(count):
    """NTT(s(x)) is s(NTT(x)); one rotation alone is transformed as it is."""
    x, y = poly(1), poly(2)
    total = sum((x.rotate(k) * y.automorphism(2 * k + 3) for k in range(count)), x * y)
    assert cost_of(plan(total)).limb_ntts == 2 * RING.limbs
    a, b, q = x.tolist(), y.tolist(), RING.q
    expected = oracle.mul(a, b, q)
    for k in range(count):
        left = oracle.automorphism(a, pow(5, k, 2 * RING.n), q)
        right = oracle.automorphism(b, 2 * k + 3, q)
        expected = oracle.add(expected, oracle.mul(left, right, q), q)
    assert total.tolist() == expected


def test_a_view_reads_the_limbs_that_it_shows():
    x = poly(1, domain=Domain.NTT)
    y = poly(2, RING.with_moduli(RING.moduli[1:3]), Domain.NTT)
    assert cost_of(plan(x.to_ring(y.ring) + y)).bytes_read == 4 * LIMB
    assert cost_of(plan(x.to_ring(y.ring) * y + x.to_ring(y.ring))).bytes_read == 4 * LIMB


def test_a_copy_moves_bytes_and_is_no_kernel():
    assert cost_of(plan(poly().to("python"))) == Cost(0, 0, 0, WHOLE, WHOLE)


def test_a_product_of_coefficients_takes_three_transforms():
    assert cost_of(plan((poly(1) * poly(2)).intt())).limb_ntts == 3 * RING.limbs


def test_a_base_conversion_is_a_matrix_product():
    base = RING.with_moduli(RING.moduli[:3])
    up = cost_of(plan(poly(1, base).mod_up(base.moduli, RING).ntt()))
    without = cost_of(plan(poly(1, RING).ntt()))
    # Three source limbs are scaled once and multiplied into one target limb.
    assert up.multiply_adds - without.multiply_adds == 3 * (1 + 1) * RING.n


def test_the_cost_of_a_plan_is_the_sum_of_its_parts():
    x, y = poly(1), poly(2, RingSpec(16, RING.moduli[:2]), Domain.NTT)
    assert cost_of(plan(x.ntt() * 2, y * y)) == cost_of(plan(x.ntt() * 2)) + cost_of(plan(y * y))
    assert Cost() + Cost(1, 2, 3, 4, 5) == Cost(1, 2, 3, 4, 5)


def test_a_captured_plan_tells_its_cost():
    step = ren.jit(lambda x, y: (x + y) * (x - 1))
    step(poly(1), poly(2))
    (captured,) = step.plans
    assert captured.cost == cost_of(captured.plan)
    assert captured.cost.limb_ntts == 2 * RING.limbs


def test_eight_rotations_share_their_transforms():
    x: Poly = poly(1)
    apart = sum((cost_of(plan(x.ntt().rotate(k))) for k in range(1, 9)), Cost())
    together = cost_of(plan(*(x.ntt().rotate(k) for k in range(1, 9))))
    assert apart.limb_ntts == 8 * together.limb_ntts


@pytest.mark.parametrize("line", ["kernels", "limb-NTTs", "multiply-adds", "bytes read"])
def test_a_cost_prints_each_count(line):
    assert line in str(cost_of(plan(poly().ntt())))
