"""Diagrams of plans: inputs, units in order, results, and the bytes that pass between them."""

from __future__ import annotations

import re

import ren
from ren.lowering.inspect.markup import dot, mermaid
from ren.lowering.inspect.plan_diagram import plan_card, plan_diagram
from ren.lowering.inspect.svg import MOST_BOXES
from ren.lowering.plan.cost import cost_of
from ren.poly import Poly
from ren.ring import RingSpec

RING = RingSpec(16, (97, 193, 257))
BYTES = 4 * 3 * 16


def plan_of(function, *args):
    jitted = ren.jit(function)
    jitted(*args)
    return jitted.plans[0].plan


def test_units_stand_between_inputs_and_results():
    x, held = Poly([1], RING), Poly([2], RING).realize()
    plan = plan_of(lambda x: ((x + held).ntt(), x), x)
    diagram = plan_diagram(plan)
    ops = [box.op for box in diagram.boxes]
    assert sorted(ops[:2]) == ["held", "input"]
    assert ops[2:-2] == [unit.name for unit in plan.units]
    assert ops[-2:] == ["result", "result"]
    assert [b.role for b in diagram.boxes[-2:]] == ["ntt", "coeff"]
    assert [b.is_result for b in diagram.boxes] == [False] * (len(ops) - 2) + [True] * 2
    transform = next(b for b in diagram.boxes if b.op == "NTT")
    assert transform.lines == ("3 x 16", "3 limb-NTTs")


def test_arrows_carry_the_bytes_of_their_value():
    x = Poly([1], RING)
    plan = plan_of(lambda x: x * x.rotate(1), x)
    diagram = plan_diagram(plan)
    uses = sum(len(unit.ins) for unit in plan.units) + len(plan.outputs)
    assert len(diagram.edges) == uses
    assert all(re.fullmatch(rf"%\d+ {BYTES} B", edge.label) for edge in diagram.edges)
    assert all(edge.source < edge.target for edge in diagram.edges)
    assert f"{len(plan.units)} units, {cost_of(plan).limb_ntts} limb-NTTs" in diagram.caption


def test_a_value_read_twice_is_named_once_in_the_picture():
    x = Poly([1], RING).ntt().realize()
    plan = plan_of(lambda x: (x.intt(), x.rotate(1)), x)
    assert plan_card(plan).count(">%0 192 B<") == 1
    assert mermaid(plan_diagram(plan)).count('|"%0 192 B"|') == 2
    assert dot(plan_diagram(plan)).count('[label="%0 192 B"]') == 2


def test_a_long_plan_is_summarized():
    def long(x):
        for _ in range(MOST_BOXES):
            x = (x + 1).contiguous()
        return x

    plan = plan_of(long, Poly([1], RING))
    assert "Summarized" in plan_card(plan)
