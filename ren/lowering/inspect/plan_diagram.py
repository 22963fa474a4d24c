"""Plans as diagrams: units as boxes, the values that pass between them as arrows with bytes.

And as cards of notebooks, which hold such a diagram.
"""

from __future__ import annotations

from collections.abc import Sequence

from ren.core import html
from ren.core.spec import Spec, Work
from ren.core.text_table import size
from ren.lowering.inspect.diagram import Box, Diagram, Edge, clipped, describe_work, role_of, totals
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.inspect.svg import svg
from ren.lowering.plan.cost import cost_of, unit_cost
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import Input, Unit, nbytes, value_specs


def plan_diagram(plan: Plan) -> Diagram:
    """Inputs, units in execution order, results; values are named as in `explain`."""
    specs = value_specs(plan.inputs, plan.units)
    boxes = [_input_box(k, source) for k, source in enumerate(plan.inputs)]
    source = {k: k for k in range(len(boxes))}  # the box that makes a value
    edges: list[Edge] = []
    for unit in plan.units:
        edges += [_edge(source, v, len(boxes), specs) for v in unit.ins]
        source.update(dict.fromkeys(unit.outs, len(boxes)))
        boxes.append(_unit_box(unit, specs))
    units = boxes[len(plan.inputs) :]
    for k, v in enumerate(plan.outputs):
        edges.append(_edge(source, v, len(boxes), specs))
        shape, role = extent(specs[v]), role_of(specs[v])
        boxes.append(Box("result", f"result {k}", shape, role=role, is_leaf=True, is_result=True))
    return Diagram(tuple(boxes), tuple(edges), f"Plan: {totals(units, 'unit')}")


def plan_card(plan: Plan) -> str:
    """A plan as HTML: inputs, units, outputs, work and peak memory, and its diagram."""
    cost, held = cost_of(plan), memory_of(plan)
    rows = [
        ("inputs", f"{len(plan.inputs)}, {size(held.input_bytes)}"),
        ("units", f"{len(plan.units)}, of {len(plan.programs)} distinct kernels"),
        ("outputs", f"{len(plan.outputs)}, {size(held.output_bytes)}"),
        ("work", f"{cost.limb_ntts:,} limb-NTTs, {cost.multiply_adds:,} multiply-adds"),
        ("peak memory", f"{size(held.peak_bytes)} beside the inputs"),
    ]
    drawn = html.picture(svg(plan_diagram(plan)))
    more = html.note("explain() lists the units, .cost and .memory the numbers.")
    return html.card("Plan", html.facts(rows), drawn, more)


def extent(spec: Spec) -> str:
    """The axes of a limb array: 3 x 8192."""
    return " x ".join(map(str, spec.shape))


def _edge(source: dict[int, int], value: int, target: int, specs: Sequence[Spec]) -> Edge:
    return Edge(source[value], target, f"%{value} {size(nbytes(specs[value]))}")


def _input_box(k: int, source: Input) -> Box:
    what, when = ("held", "held by the plan") if source.is_held else ("input", "bound at each call")
    if source.key is not None:
        what, when = "key", f"{source.key}, read at each call"
    shape = extent(source.spec)
    return Box(
        op=what,
        title=f"{what} %{k}",
        type=shape,
        lines=(shape,),
        role=role_of(source.spec),
        hint=f"%{k}, {when}",
        is_leaf=True,
    )


def _unit_box(unit: Unit, specs: Sequence[Spec]) -> Box:
    cost, spec = unit_cost(unit, specs), specs[unit.outs[0]]
    work, shape = Work(cost.limb_ntts, cost.multiply_adds), extent(spec)
    reads, makes = (" ".join(f"%{v}" for v in values) for values in (unit.ins, unit.outs))
    return Box(
        op=unit.name,
        title=clipped(unit.name),
        type=shape,
        lines=tuple(line for line in (shape, describe_work(work)) if line),
        role=role_of(spec),
        work=work,
        degree=spec.ring.n,
        hint=f"{unit.name}: reads {reads or 'nothing'}, makes {makes}",
    )
