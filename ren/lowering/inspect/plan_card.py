"""Plan in a notebook: its numbers and its picture."""

from __future__ import annotations

from ren.core import html
from ren.core.text_table import size
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.inspect.plan_diagram import plan_diagram
from ren.lowering.inspect.svg import svg
from ren.lowering.plan.cost import cost_of
from ren.lowering.plan.plan import Plan


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
