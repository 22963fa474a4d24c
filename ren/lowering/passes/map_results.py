"""Pass 7: the realization map: for each root, in which buffer its value will be."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.errors import VerificationError
from ren.core.node import Node, make
from ren.core.op import Kind
from ren.core.spec import NoArg, SinkArg


def map_results(sink: Node) -> Node:
    """`sink` whose argument names the place of each root: what the caller's nodes become."""
    if not isinstance(sink.arg, NoArg):
        return sink
    return make(ops.SINK, sink.src, SinkArg(tuple(_place(root) for root in sink.src)))


def _place(root: Node) -> str:
    if root.op is ops.VIEW:
        return f"{_place(root.src[0])}[part]"
    if root.op is ops.AFTER:
        return f"reserved {root.src[0].arg.index}"
    if root.op is ops.COPY:
        return f"copy of {_place(root.src[0])}"
    if root.op.kind is Kind.LEAF:
        return "an input"
    raise VerificationError(f"The root {root!r} is in no buffer.")
