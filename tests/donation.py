"""A call that gives arguments away, made of plans: what `ren.jit` with donate_argnames does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ren import Poly
from ren.core import make
from ren.core import op as ops
from ren.core.node import buffer, placeholder
from ren.core.spec import BufferArg
from ren.lowering.devices.devices import claim_of
from ren.lowering.devices.donation import check_not_donated, mark, may_donate
from ren.lowering.plan.memory import donating
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.planning import plan_of
from ren.lowering.runtime.runner import run_plan
from ren.poly.poly import from_node, realize_polys
from ren.poly.realization import capturing, resolved


def planned(function: Callable[..., Poly], polys: Sequence[Poly]) -> tuple[Plan, list[Any]]:
    """The plan of `function` and its inputs: indices into `polys`, or arrays that it holds."""
    symbols = [from_node(placeholder(p.node.spec, claim_of(p.limbs))) for p in polys]
    with capturing():
        root = function(*symbols).node
    plan = plan_of(resolved(make(ops.SINK, [root])))
    position = {s.node.arg: i for i, s in enumerate(symbols)}
    return plan, [i.arg.array if i.is_held else position[i.arg] for i in plan.inputs]


def call(function: Callable[..., Poly], *args: Poly, donate: Sequence[int] = (0,)) -> Poly:
    """`function(*args)`; the arguments at `donate` are given away."""
    polys = realize_polys(args)
    arrays = [p.limbs for p in polys]
    plan, sources = planned(function, polys)
    inputs = [arrays[s] if isinstance(s, int) else s for s in sources]
    check_not_donated(*inputs)
    given = [v for v, s in enumerate(sources) if isinstance(s, int) and s in donate]
    chosen = donating(plan, given) if may_donate(inputs, given) else plan
    (result,) = mark([arrays[i] for i in donate], run_plan(chosen, inputs))
    (spec,) = plan.output_specs
    return from_node(buffer(result, spec.ring, spec.domain))


def address(p: Poly) -> int:
    return p.limbs.unsafe_buffer_pointer()


def held(plan: Plan) -> list[Any]:
    return [i.arg.array for i in plan.inputs if isinstance(i.arg, BufferArg)]
