"""Plan: frozen; what to run, in what order, and which values die when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import attrs

from ren.core import op as ops
from ren.core.errors import VerificationError
from ren.core.node import Node, toposort
from ren.core.op import Kind
from ren.core.ring import start_in, width
from ren.core.spec import Spec
from ren.core.text_table import counted
from ren.lowering.program.graph import Program, kernel_of
from ren.lowering.program.steps import CopyUnit, Input, KernelUnit, Unit, ViewUnit, with_last_uses

__all__ = ["CopyUnit", "KernelUnit", "Plan", "Schedule", "Source", "Unit", "ViewUnit", "schedule"]


@attrs.frozen(eq=False)
class Source:
    """A program after the passes of algebra, before it is divided into kernels.

    Attributes:
        sink: the SINK of its roots.
        leaves: the leaves under it, in topological order.
        inputs: its leaves in order, as inputs.
        claims: for each root the devices that it demands, as `claim_of` tells them.
    """

    sink: Node
    leaves: tuple[Node, ...]
    inputs: tuple[Input, ...]
    claims: tuple[Any, ...]


@attrs.frozen(eq=False)
class Schedule:
    """Order of a plan.

    Attributes:
        units: kernels and copies in execution order.
        outputs: the values of the roots, in the order of the roots.
    """

    units: tuple[Unit, ...]
    outputs: tuple[int, ...]


@attrs.frozen(eq=False)
class Plan:
    """A scheduled program: inputs are values 0, 1, ...; units make the others, in order.

    Attributes:
        inputs: the arrays read, in slot order.
        output_specs: the types of the roots.
        scheduled: makes its schedule, once. Native calls need none, and it takes most of the time
            of planning.
        source: the program that it is the plan of; None for a plan that was put together by hand.
    """

    inputs: tuple[Input, ...]
    output_specs: tuple[Spec, ...]
    scheduled: Callable[[], Schedule]
    source: Source | None = None

    @property
    def units(self) -> tuple[Unit, ...]:
        """Kernels and copies in execution order."""
        return self.scheduled().units

    @property
    def outputs(self) -> tuple[int, ...]:
        """The values of the roots, in the order of the roots."""
        return self.scheduled().outputs

    @property
    def programs(self) -> tuple[Program, ...]:
        """The distinct kernel programs, in order of first use: what has to be compiled."""
        kernels = (u.kernel.program for u in self.units if isinstance(u, KernelUnit))
        return tuple(dict.fromkeys(kernels))

    def __repr__(self) -> str:
        return (
            f"<Plan: {counted(self.inputs, 'input')}, {counted(self.units, 'unit')}, "
            f"{counted(self.programs, 'distinct kernel')}, {counted(self.outputs, 'output')}>"
        )


def schedule(sink: Node, leaves: Sequence[Node] | None = None) -> Plan:
    """The plan of a SINK that has been through the pipeline.

    `leaves` are its inputs in order; None for that of the graph. Units stand in depth-first order
    from the first root on, so that values die early.
    """
    order = toposort(sink)[:-1]
    inputs = leaves or [node for node in order if node.op.kind is Kind.LEAF]
    value = {node: i for i, node in enumerate(inputs)}
    reserved: dict[int, int] = {}
    units: list[Unit] = []
    count = len(inputs)
    for node in order:
        if node.op is ops.SCALAR and node not in value:  # a pass took it apart
            whole, start = _whole_of(node, inputs)
            spec, ins = node.spec, (value[whole],)
            units.append(ViewUnit(spec, start, spec.ring.limbs, ins, (count,)))
            value[node] = count
            count += 1
        elif node.op is ops.KERNEL:
            outs = tuple(range(count, count + len(node.arg.places)))
            reserved.update(zip(node.arg.places, outs, strict=True))
            ins = tuple(value[s] for s in node.src)
            units.append(KernelUnit(kernel_of(node.arg.body), ins, outs))
            count += len(outs)
        elif node.op is ops.AFTER:
            value[node] = reserved[node.src[0].arg.index]
        elif node.op is ops.COPY or node.op is ops.BUFFER_VIEW:
            ins, outs, arg = (value[node.src[0]],), (count,), node.arg
            units.append(
                CopyUnit(arg.device, ins, outs)
                if node.op is ops.COPY
                else ViewUnit(node.spec, arg.start, arg.length, ins, outs)
            )
            value[node] = count
            count += 1
    outputs = tuple(value[root] for root in sink.src)
    made = Schedule(with_last_uses(units, outputs), outputs)
    return Plan(
        inputs=tuple(Input(node.arg, node.spec) for node in inputs),
        output_specs=tuple(root.spec for root in sink.src),
        scheduled=lambda: made,
    )


def _whole_of(part: Node, inputs: Sequence[Node]) -> tuple[Node, int]:
    """The input that a SCALAR is some limbs of, side by side, and the first of these."""
    for node in inputs:
        if node.op is ops.SCALAR and node.arg.serial == part.arg.serial:
            own = node.spec.ring.moduli
            if (start := start_in(part.spec.ring.moduli, own)) is not None:
                return node, sum(map(width, own[:start]))
    raise VerificationError(f"The number {part.arg} is no part of an input of the plan.")


def with_schedule(plan: Plan, scheduled: Callable[[], Schedule]) -> Plan:
    """The plan with another schedule, which is made when it is asked for."""
    return attrs.evolve(plan, scheduled=cache(scheduled))
