"""Plans as diagrams: units as boxes, the values that pass between them as arrows with bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ren.core.spec import Spec, Work
from ren.core.text_table import size
from ren.lowering.inspect.diagram import Box, Diagram, Edge, clipped, describe_work, role_of, totals
from ren.lowering.plan.cost import unit_cost
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import Input, Unit, nbytes, value_specs


def plan_diagram(plan: Plan) -> Diagram:
    """Inputs, units in execution order, results; values are named as in `explain`."""
    specs = value_specs(plan.inputs, plan.units)
    boxes = [_input_box(k, given) for k, given in enumerate(plan.inputs)]
    source = {k: k for k in range(len(boxes))}  # the box that makes a value
    edges: list[Edge] = []
    for unit in plan.units:
        edges += [_edge(source, v, len(boxes), specs) for v in unit.ins]
        source.update(dict.fromkeys(unit.outs, len(boxes)))
        boxes.append(_unit_box(unit, specs))
    units = boxes[len(plan.inputs) :]
    for k, v in enumerate(plan.outputs):
        edges.append(_edge(source, v, len(boxes), specs))
        boxes.append(_result_box(k, specs[v]))
    return Diagram(tuple(boxes), tuple(edges), f"Plan: {totals(units, 'unit')}")


def _edge(source: dict[int, int], value: int, target: int, specs: Sequence[Spec]) -> Edge:
    return Edge(source[value], target, f"%{value} {size(nbytes(specs[value]))}")


def _input_box(k: int, given: Input) -> Box:
    what = "held" if given.is_held else "input"
    return Box(
        op=what,
        title=f"{what} %{k}",
        type=_extent(given.spec),
        lines=(_extent(given.spec),),
        role=role_of(given.spec),
        hint=f"%{k}, {'held by the plan' if given.is_held else 'bound at each call'}",
        is_leaf=True,
    )


def _unit_box(unit: Unit, specs: Sequence[Spec]) -> Box:
    cost, spec = unit_cost(unit, specs), specs[unit.outs[0]]
    work = Work(cost.limb_ntts, cost.multiply_adds)
    reads, makes = (" ".join(f"%{v}" for v in values) for values in (unit.ins, unit.outs))
    return Box(
        op=unit.name,
        title=clipped(unit.name),
        type=_extent(spec),
        lines=tuple(line for line in (_extent(spec), describe_work(work)) if line),
        role=role_of(spec),
        work=work,
        degree=spec.ring.n,
        hint=f"{unit.name}: reads {reads or 'nothing'}, makes {makes}",
    )


def _result_box(k: int, spec: Spec) -> Box:
    return Box(
        op="result",
        title=f"result {k}",
        type=_extent(spec),
        role=role_of(spec),
        is_leaf=True,
        is_result=True,
    )


def _extent(spec: Spec) -> str:
    """The axes of a limb array: 3 x 8192."""
    return " x ".join(map(str, spec.shape))
