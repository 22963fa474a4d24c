"""Capture: a function of polynomials, run once on placeholders, becomes a plan that replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ren.capturing import capture_serial, capturing
from ren.core import op as ops
from ren.core.args import BufferArg
from ren.core.errors import JitError
from ren.core.node import Node, buffer, make, placeholder, toposort
from ren.core.op import Kind
from ren.core.rewrite import rewrite
from ren.lowering.devices import claim_of
from ren.lowering.execute import plan_of, run_plan
from ren.lowering.plan import Plan
from ren.poly import Poly
from ren.realization import realize_nodes, resolved
from ren.structure import Structure, take_apart

Source = Callable[[Sequence[Any]], Any]


@attrs.frozen(eq=False, repr=False)
class Captured:
    """A captured program: its plan, where each input comes from, how the result is put together.

    Attributes:
        plan: what runs.
        sources: for each input of the plan, a function from the call's arrays to its array:
            an argument, a closed-over buffer that this object holds, or a fresh random draw.
        outputs: for each polynomial of the result its root among the plan's outputs, or the
            constant that it is.
        result: the structure of the result.
    """

    plan: Plan
    sources: tuple[Source, ...]
    outputs: tuple[int | Poly, ...]
    result: Structure

    def replay(self, arrays: Sequence[Any]) -> Any:
        """The function's result on new limb arrays, one for each polynomial argument."""
        made = run_plan(self.plan, [source(arrays) for source in self.sources])
        return self.result.rebuild(iter([self._output(o, made) for o in self.outputs]))

    def _output(self, output: int | Poly, made: tuple[Any, ...]) -> Poly:
        if isinstance(output, Poly):
            return output
        spec = self.plan.output_specs[output]
        return Poly.from_node(buffer(made[output], spec.ring, spec.domain))

    def __repr__(self) -> str:
        return repr(self.plan)


def capture(function: Callable[..., Any], name: str, arguments: Structure) -> Captured:
    """Runs `function` on placeholders for the polynomials of `arguments` and plans the result.

    Raises:
        JitError: the result holds no polynomial.
    """
    inputs = [_placeholder_for(p) for p in arguments.polys]
    with capturing():
        args, kwargs = arguments.rebuild(iter(inputs))
        result = take_apart(function(*args, **kwargs))
        if not result.polys:
            raise JitError(
                f"The function {name} under ren.jit returned no polynomial.",
                "What is captured is the program of the polynomials returned.",
                "Return a Poly or something that holds one; call it without ren.jit otherwise.",
            )
        roots = list(dict.fromkeys(p.node for p in result.polys if not p.is_constant))
        plan = plan_of(_with_closed_over_realized(make(ops.SINK, roots)))
    position = {root: i for i, root in enumerate(roots)}
    outputs = tuple(p if p.is_constant else position[p.node] for p in result.polys)
    return Captured(plan, _sources(plan, inputs), outputs, attrs.evolve(result, polys=[]))


def _placeholder_for(p: Poly) -> Poly:
    if p.is_constant:
        return p
    node = p.node
    return Poly.from_node(placeholder(node.spec, claim_of(node.arg.array)))


def _sources(plan: Plan, inputs: list[Poly]) -> tuple[Source, ...]:
    position = {p.node.arg: i for i, p in enumerate(inputs)}

    def source(arg: Any) -> Source:
        if isinstance(arg, BufferArg):
            return lambda arrays, held=arg.array: held
        if arg.draw is not None:
            return lambda arrays, draw=arg.draw: draw()
        return lambda arrays, i=position[arg]: arrays[i]

    return tuple(source(i.arg) for i in plan.inputs)


def _with_closed_over_realized(sink: Node) -> Node:
    """`sink` reading buffers where it read lazy polynomials made before the capture.

    They are computed once, here; what the function itself computes stays in the plan.
    """
    sink = resolved(sink)
    order = toposort(sink)
    depends: dict[Node, bool] = {}
    for node in order:
        here = node.op is ops.PLACEHOLDER or node.serial > capture_serial()
        depends[node] = here or any(depends[s] for s in node.src)
    lazy = [
        s
        for node in order
        for s in node.src
        if depends[node] and not depends[s] and s.op.kind not in (Kind.LEAF, Kind.CONSTANT)
    ]
    lazy = list(dict.fromkeys(lazy))
    return rewrite(sink, {}, dict(zip(lazy, realize_nodes(lazy), strict=True)))
