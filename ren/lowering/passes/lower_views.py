"""Pass 10: quotient views: a run of limbs of an array is a BUFFER_VIEW and costs nothing."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.op import Kind
from ren.core.rewrite import Table, rewrite, with_sources
from ren.core.ring import contiguous_run
from ren.core.spec import BufferViewArg


def lower_views(sink: Node) -> Node:
    """`sink` whose roots that are views of arrays are BUFFER_VIEWs; other views stay in loads."""
    return rewrite(sink, RULES)


def _root_views(node: Node) -> Node:
    return with_sources(node, tuple([_buffer_view(s) for s in node.src]))


def _buffer_view(node: Node) -> Node:
    if node.op is not ops.VIEW or node.src[0].op.kind not in (
        Kind.LEAF,
        Kind.MEMORY,
        Kind.BOUNDARY,
    ):
        return node
    run = contiguous_run(node.spec.ring.moduli, node.src[0].spec.ring.moduli)
    if run is None:
        return node
    return make(ops.BUFFER_VIEW, node.src, BufferViewArg(node.spec.ring, *run))


RULES: Table = {"SINK": (_root_views,)}
