"""A lowered graph into a plan: its kernels, copies and views in order of execution."""

from __future__ import annotations

from collections.abc import Sequence

from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.core.op import Kind
from ren.lowering.plan.plan import (
    CopyUnit,
    Input,
    KernelUnit,
    Plan,
    Unit,
    ViewUnit,
    with_last_uses,
)
from ren.lowering.program.kernel import kernel_of


def schedule(sink: Node, leaves: Sequence[Node] | None = None) -> Plan:
    """The plan of a SINK that has been through the pipeline.

    Args:
        sink: what runs.
        leaves: its inputs in order; None for that of the graph.

    Units stand in depth-first order from the first root on, so that values die early.
    """
    order = toposort(sink)[:-1]
    inputs = leaves or [node for node in order if node.op.kind is Kind.LEAF]
    value = {node: i for i, node in enumerate(inputs)}
    reserved: dict[int, int] = {}
    units: list[Unit] = []
    count = len(inputs)
    for node in order:
        if node.op is ops.KERNEL:
            outs = tuple(range(count, count + len(node.arg.places)))
            reserved.update(zip(node.arg.places, outs, strict=True))
            ins = tuple(value[s] for s in node.src)
            units.append(KernelUnit(kernel_of(node.arg.body), ins, outs))
            count += len(outs)
        elif node.op is ops.AFTER:
            value[node] = reserved[node.src[0].arg.index]
        elif node.op is ops.COPY or node.op is ops.BUFFER_VIEW:
            value[node], ins = count, (value[node.src[0]],)
            units.append(_moved(node, ins, (count,)))
            count += 1
    outputs = tuple(value[root] for root in sink.src)
    return Plan(
        inputs=tuple(Input(node.arg, node.spec) for node in inputs),
        units=with_last_uses(units, outputs),
        outputs=outputs,
        output_specs=tuple(root.spec for root in sink.src),
    )


def _moved(node: Node, ins: tuple[int, ...], outs: tuple[int, ...]) -> Unit:
    if node.op is ops.COPY:
        return CopyUnit(node.arg.device, ins, outs)
    return ViewUnit(node.spec, node.arg.start, node.arg.length, ins, outs)
