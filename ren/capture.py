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
from ren.lowering.cost import Cost
from ren.lowering.devices import PYTHON, claim_of
from ren.lowering.execute import plan_of
from ren.lowering.memory import MemoryReport
from ren.lowering.plan import Plan
from ren.lowering.tiers import UNITS, Runner, runner
from ren.lowering.trace import Trace
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
        run: the plan as a function of its inputs, in the tier that was asked for.
    """

    plan: Plan
    sources: tuple[Source, ...]
    outputs: tuple[int | Poly, ...]
    result: Structure
    run: Runner

    def replay(self, arrays: Sequence[Any]) -> Any:
        """The function's result on new limb arrays, one for each polynomial argument."""
        made = self.run([source(arrays) for source in self.sources])
        return self.result.rebuild(iter([self._output(o, made) for o in self.outputs]))

    @property
    def cost(self) -> Cost:
        """Kernels, limb-NTTs, multiply-adds and bytes of one replay."""
        return self.plan.cost

    @property
    def memory(self) -> MemoryReport:
        """What one replay holds in memory, planned."""
        return self.plan.memory

    def explain(self, trace: Trace | None = None) -> str:
        """The plan as a table; see `Plan.explain`."""
        return self.plan.explain(trace)

    def to_mermaid(self) -> str:
        """The plan as a Mermaid flowchart."""
        return self.plan.to_mermaid()

    def to_dot(self) -> str:
        """The plan in the DOT language of Graphviz."""
        return self.plan.to_dot()

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()

    def _output(self, output: int | Poly, made: tuple[Any, ...]) -> Poly:
        if isinstance(output, Poly):
            return output
        spec = self.plan.output_specs[output]
        return Poly.from_node(buffer(made[output], spec.ring, spec.domain))

    def __repr__(self) -> str:
        return repr(self.plan)


@attrs.frozen(eq=False, repr=False)
class Recording:
    """What a function does to its polynomials: the program, before any pass; nothing has run.

    Attributes:
        sink: the SINK of `roots`.
        inputs: the placeholder of each polynomial argument, or the constant that it is.
        closed_over: lazy nodes made before, which the program reads.
        roots: the distinct results that are not constants.
        result: the result taken apart.
    """

    sink: Node
    inputs: list[Poly]
    closed_over: list[Node]
    roots: list[Node]
    result: Structure


def record(function: Callable[..., Any], name: str, arguments: Structure) -> Recording:
    """Runs `function` on placeholders for the polynomials of `arguments`.

    Raises:
        JitError: the result holds no polynomial.
    """
    inputs = [_placeholder_for(p) for p in arguments.polys]
    with capturing():
        args, kwargs = arguments.rebuild(iter(inputs))
        result = take_apart(function(*args, **kwargs))
        if not result.polys:
            raise JitError(
                f"The captured function {name} returned no polynomial.",
                "What is captured is the program of the polynomials returned.",
                "Return a Poly or something that holds one; call it without ren.jit otherwise.",
            )
        roots = list(dict.fromkeys(p.node for p in result.polys if not p.is_constant))
        sink = resolved(make(ops.SINK, roots))
        return Recording(sink, inputs, _closed_over(sink), roots, result)


def capture(
    function: Callable[..., Any],
    name: str,
    arguments: Structure,
    show_graph: bool = False,
    tier: str = UNITS,
) -> Captured:
    """Runs `function` on placeholders for the polynomials of `arguments` and plans the result.

    Closed-over lazy polynomials are computed once, here; what the function itself computes stays
    in the plan. `show_graph` prints the program; `tier` is how the plan will run.

    Raises:
        JitError: the result holds no polynomial.
    """
    made = record(function, name, arguments)
    if show_graph:
        print(f"{name} captured:\n{made.sink}")
    known = dict(zip(made.closed_over, realize_nodes(made.closed_over), strict=True))
    plan = plan_of(rewrite(made.sink, {}, known))
    position = {root: i for i, root in enumerate(made.roots)}
    outputs = tuple(p if p.is_constant else position[p.node] for p in made.result.polys)
    result = attrs.evolve(made.result, polys=[])
    return Captured(plan, _sources(plan, made.inputs), outputs, result, runner(plan, tier))


def _placeholder_for(p: Poly) -> Poly:
    if p.is_constant:
        return p
    node = p.node
    if node.op is ops.BUFFER:
        return Poly.from_node(placeholder(node.spec, claim_of(node.arg.array)))
    return Poly.from_node(placeholder(node.spec, PYTHON if p.device == PYTHON else None))


def _sources(plan: Plan, inputs: list[Poly]) -> tuple[Source, ...]:
    position = {p.node.arg: i for i, p in enumerate(inputs)}

    def source(arg: Any) -> Source:
        if isinstance(arg, BufferArg):
            return lambda arrays, held=arg.array: held
        if arg.draw is not None:
            return lambda arrays, draw=arg.draw: draw()
        return lambda arrays, i=position[arg]: arrays[i]

    return tuple(source(i.arg) for i in plan.inputs)


def _closed_over(sink: Node) -> list[Node]:
    """The lazy nodes made before the current capture that its program reads, outermost only."""
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
    return list(dict.fromkeys(lazy))
