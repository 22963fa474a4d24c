"""Scheduling: what becomes one kernel, what is shared, what dies when."""

from __future__ import annotations

import numpy as np

from ren import Domain, Poly, RingSpec
from ren.core import make
from ren.core import op as ops
from ren.lowering.passes.materialize import NODE_BUDGET
from ren.lowering.plan.plan import CopyUnit, KernelUnit, Plan, ViewUnit
from ren.lowering.runtime.planning import plan_of

RING = RingSpec(8, (17, 97))
OTHER = RingSpec(8, (113, 193))


NO_WORK = {"SLOT", "STORE", "GIDX", "INDEX", "LOAD", "FILL", "DELTA", "CONTIGUOUS"}


def poly(domain: Domain = Domain.COEFF, ring: RingSpec = RING) -> Poly:
    return Poly.from_limbs(np.zeros((ring.limbs, ring.n), np.uint32), ring, domain)


def plan(*polys: Poly) -> Plan:
    return plan_of(make(ops.SINK, [p.node for p in polys]))


def kernels(p: Plan) -> list[set[str]]:
    return [
        {i.op for i in u.kernel.program.instrs} - NO_WORK
        for u in p.units
        if isinstance(u, KernelUnit)
    ]


def test_elementwise_work_between_transforms_is_one_kernel():
    a, b, c = poly(Domain.NTT), poly(Domain.NTT), poly(Domain.NTT)
    assert kernels(plan((a + b) * (a - 1) * c + b)) == [{"ADD", "SUB", "MUL"}]


def test_transforms_are_kernels_of_their_own():
    a, b = poly(), poly()
    expected = [{"ADD"}, {"NTT"}, {"SUB"}, {"NTT"}, {"MUL"}]
    assert kernels(plan((a + b) * (a - 1))) == expected


def test_two_roots_share_what_they_share():
    a, b = poly(), poly()
    product = a * b
    together = plan(product + 1, product - 1)
    assert sum(k == {"NTT"} for k in kernels(together)) == 2
    assert len(together.outputs) == 2


def test_a_view_that_feeds_elementwise_work_costs_no_kernel():
    a, b = poly(Domain.NTT), poly(Domain.NTT, RING.with_moduli((97,)))
    assert kernels(plan(a.to_ring(b.ring) + b)) == [{"ADD"}]


def test_a_rotation_that_feeds_elementwise_work_is_in_the_index_of_its_load():
    a, b = poly(Domain.NTT), poly(Domain.NTT, RING.with_moduli((97,)))
    assert kernels(plan(a.to_ring(b.ring).rotate(3) + b)) == [{"ADD"}]
    assert kernels(plan((a + 1).rotate(3) * a)) == [{"ADD"}, {"MUL"}]
    coefficients = poly()
    assert kernels(plan(coefficients.rotate(3) + coefficients)) == [{"FLIP", "ADD"}]


def test_a_view_alone_has_no_kernel():
    p = plan(poly().to_ring(RING.with_moduli((97,))))
    assert [type(u) for u in p.units] == [ViewUnit]
    reordered = plan(poly().to_ring(RING.with_moduli((97, 17))))
    assert [type(u) for u in reordered.units] == [KernelUnit]


def test_limbs_without_a_reader_are_not_made():
    """A rotated value and its view: the view is rotated, in the index of one load."""
    wide = RingSpec(8, (17, 97, 113))
    part = wide.with_moduli((97,))
    for domain in Domain:
        a, b = poly(domain, wide), poly(domain, wide)
        for program in (a.rotate(3), a + b.rotate(1), (a - b).automorphism(15) * 3):
            units = plan(program.to_ring(part)).units
            kernel_units = [unit for unit in units if isinstance(unit, KernelUnit)]
            assert [u.kernel.program.instrs[-1].limbs for u in kernel_units] == [1] * len(units)
        assert len(plan(a.rotate(3).to_ring(part)).units) == 1
        assert len(plan(a.rotate(3), a.rotate(3).to_ring(part)).units) == 2  # the whole is read too


def test_a_view_of_what_was_rotated_has_the_integers_of_it():
    wide = RingSpec(8, (17, 97, 113))
    x = Poly([3, -1, 4, -1, 5, -9, 2, 6], wide)
    moved = (x * x).rotate(1)
    want = [c % 97 for c in moved.tolist()]
    assert (x * x).rotate(1).to_ring(wide.with_moduli((97,))).tolist() == want


def test_kernels_are_shared_between_moduli_and_constants():
    first = plan(poly(ring=RING) * 3 + 1)
    second = plan(poly(ring=OTHER) * 5 + 2)
    assert first.programs == second.programs


def test_kernels_differ_where_the_code_does():
    a, b = poly(), poly(Domain.NTT)
    assert plan(a + 1).programs != plan(b + 1).programs
    assert plan(a.rotate(1)).programs == plan(a.rotate(2)).programs


def test_a_long_chain_is_cut_into_equal_kernels():
    x, a, b = poly(Domain.NTT), poly(Domain.NTT), poly(Domain.NTT)
    for _ in range(NODE_BUDGET * 5 // 3):
        x = x * a + b
        b = b - x
    p = plan(x, b)
    assert 3 <= len(p.units) <= 12
    assert len(p.programs) <= 3


def test_every_value_is_dropped_after_its_last_use():
    a, b = poly(), poly()
    p = plan((a * b + 1) * (a - b))
    dropped = [v for u in p.units for v in u.drops]
    made = {v for u in p.units for v in u.outs} | set(range(len(p.inputs)))
    assert len(dropped) == len(set(dropped))
    assert set(dropped) == made - set(p.outputs)


def test_units_come_after_what_they_read():
    a, b = poly(), poly(Domain.NTT)
    x = (a * b).rescale((97,)) * a.to_ring(RingSpec(8, (97,)))
    p = plan(x, a.rotate(1) + b)
    known = set(range(len(p.inputs)))
    for unit in p.units:
        assert set(unit.ins) <= known
        known |= set(unit.outs)


def test_contiguous_is_a_boundary_and_a_copy_a_unit():
    a, b = poly(Domain.NTT), poly(Domain.NTT)
    assert len(kernels(plan((a + b).contiguous() * b))) == 2
    assert len(kernels(plan((a + b).contiguous()))) == 1
    moved = plan((a + b).to("python"))
    assert [type(u) for u in moved.units] == [KernelUnit, CopyUnit]
